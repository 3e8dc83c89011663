/* SPDX-License-Identifier: MIT
 * A small function of parameters for every op that has a derivative, and for its variants. */
#ifndef TCC_TESTS_HARNESS_GRADIENT_CASES_H
#define TCC_TESTS_HARNESS_GRADIENT_CASES_H

#include "ir/eval.h"

/* The graph's output `loss` is a scalar; float inputs are parameters; `inputs` are values for them, which may be
 * changed and put back. */
typedef void gradient_check(const tcc_graph *g, tcc_value *inputs);

/* All cases with parameters of a float type, as a group of tests; the number that failed. */
int gradient_cases_run(tcc_dtype dtype, gradient_check *check);
/* A test: every op that has a derivative is in some case. */
void gradient_cases_cover(void **state);

#endif
