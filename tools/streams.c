/* SPDX-License-Identifier: MIT
 * Standard streams. */
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

void streams_open(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* takes the lowest number, fd */
}

bool streams_no_output(void) {
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY;
}

/* The last column stays free: some terminals break the line when it is filled. */
void streams_draw(const char *line) {
    struct winsize size;
    const bool known = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col;
    printf("\r\x1b[K%.*s", known ? size.ws_col - 1 : INT_MAX, line);
    fflush(stdout);
}

int streams_close(const char *program, int status) {
    errno = 0;
    const bool flushed = !fflush(stdout);
    if ((flushed && !ferror(stdout)) || status) return status;
    fprintf(stderr, "%s: standard output: %s\n", program, errno ? strerror(errno) : "not all could be written");
    return 1;
}

bool streams_keep_pipe(char **path) {
    struct stat info;
    char piece[1 << 14];
    if (stat(*path, &info) || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return true;
    FILE *from = fopen(*path, "rb"), *copy = from ? tmpfile() : NULL;
    bool ok = copy != NULL;
    for (size_t n; ok && (n = fread(piece, 1, sizeof piece, from));) ok = fwrite(piece, 1, n, copy) == n;
    ok = ok && !ferror(from) && !fflush(copy);
    if (!ok) fprintf(stderr, "tcc-train: %s: %s\n", *path, strerror(errno));
    if (from) fclose(from);
    return ok && asprintf(path, "/proc/self/fd/%d", fileno(copy)) >= 0;
}
