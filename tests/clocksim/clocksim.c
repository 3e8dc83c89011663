/* SPDX-License-Identifier: MIT
 * Preloaded into a program, it puts the program's clock forward by as many seconds as the file "clock" in its folder
 * says. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t id, struct timespec *t);
    char text[32] = "";
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    const int failed = real(id, t), file = failed || id != CLOCK_MONOTONIC ? -1 : open("clock", O_RDONLY | O_CLOEXEC);
    if (file < 0) return failed;
    if (read(file, text, sizeof text - 1) > 0) t->tv_sec += atol(text);
    close(file);
    return 0;
}
