/* SPDX-License-Identifier: MIT
 * A program for runtime tests, small but with all that programs have: several instances, copies, constants, scratch,
 * bindings. */
#ifndef TCC_TESTS_HARNESS_SAMPLE_PROGRAM_H
#define TCC_TESTS_HARNESS_SAMPLE_PROGRAM_H

#include "codegen/program.h"

enum { SAMPLE_N = 5000, SAMPLE_BYTES = SAMPLE_N * 8 };
enum { SAMPLE_X, SAMPLE_W, SAMPLE_Y, SAMPLE_BINDINGS }; /* each i64[SAMPLE_N]; x is read, w and y are written */

tcc_program *sample_program(void);      /* the caller destroys it */
tcc_program *sample_program_cuda(void); /* the same, of two kernels in PTX */
void sample_expected(const int64_t *x, int64_t *y);

#endif
