/* SPDX-License-Identifier: MIT
 * See the header. */
#include "harness/patience.h"

#include "ir/support/clock.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

double test_seconds(double quiet) {
    const char *patience = getenv("TCC_TEST_PATIENCE");
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    double load = 0, seconds = quiet * (patience ? atof(patience) : 1);
    if (getloadavg(&load, 1) == 1 && cores > 0 && load > (double)cores) seconds *= load / (double)cores;
    return seconds;
}

bool test_wait(bool (*is_so)(void *user), void *user, double quiet) {
    const double end = tcc_clock_seconds() + test_seconds(quiet);
    while (!is_so(user)) {
        if (tcc_clock_seconds() > end) return false;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return true;
}
