/* SPDX-License-Identifier: MIT */
#include "harness/port.h"
#include "harness/check.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST = 20000, COUNT = 12000, TRIES = 100 }; /* Linux gives out 32768 and more */

static bool is_free(int port) {
    const struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    const bool is = s >= 0 && !bind(s, (const struct sockaddr *)&a, sizeof a);
    if (s >= 0) close(s);
    return is;
}

int test_free_port(void) {
    static unsigned calls;
    for (int i = 0; i < TRIES; i++) {
        const int port = FIRST + (int)(((unsigned)getpid() * 37 + 101 * calls++) % COUNT);
        if (is_free(port)) return port;
    }
    fail_msg("no free port");
    return 0;
}
