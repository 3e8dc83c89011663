/* SPDX-License-Identifier: MIT
 * How long tests wait for what should happen before they call it a failure. What takes so long on a quiet machine takes
 * many times as long under a sanitizer, under valgrind or beside other work, so no test has a limit of its own. */
#ifndef TCC_TESTS_HARNESS_PATIENCE_H
#define TCC_TESTS_HARNESS_PATIENCE_H

#include <stdbool.h>

/* So many seconds of a quiet machine, times TCC_TEST_PATIENCE (tests/CMakeLists.txt) and the load of each core. */
double test_seconds(double quiet);

/* Waits until `is_so` or for test_seconds(quiet), whichever comes first: whether it was so. */
bool test_wait(bool (*is_so)(void *user), void *user, double quiet);

#endif
