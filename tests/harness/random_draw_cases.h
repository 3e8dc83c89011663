/* SPDX-License-Identifier: MIT
 * Public random draws in compiled programs: the same bits as the interpreter's, in every mode, resumed or not. For the
 * CPU and for a CUDA device. */
#ifndef TCC_TESTS_HARNESS_RANDOM_DRAW_CASES_H
#define TCC_TESTS_HARNESS_RANDOM_DRAW_CASES_H

void random_draws_are_the_interpreters(const char *device);
void random_draws_resume(const char *device);

#endif
