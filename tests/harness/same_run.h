/* SPDX-License-Identifier: MIT
 * Whether two runs left the same. */
#ifndef TCC_TESTS_HARNESS_SAME_RUN_H
#define TCC_TESTS_HARNESS_SAME_RUN_H

/* The file `name` in the folders a and b of the test's folder. */
void same_file(void **state, const char *a, const char *b, const char *name);
/* Their metrics without what depends on the clock. */
void same_metrics(void **state, const char *a, const char *b);

#endif
