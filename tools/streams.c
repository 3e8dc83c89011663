/* SPDX-License-Identifier: MIT
 * Standard streams. */
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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

int streams_close(const char *program, int status) {
    errno = 0;
    const bool flushed = !fflush(stdout);
    if ((flushed && !ferror(stdout)) || status) return status;
    fprintf(stderr, "%s: standard output: %s\n", program, errno ? strerror(errno) : "not all could be written");
    return 1;
}
