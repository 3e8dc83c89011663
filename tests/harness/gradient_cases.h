/* SPDX-License-Identifier: MIT
 * A small function of parameters for every op that has a derivative, and for its variants. */
#ifndef TCC_TESTS_HARNESS_GRADIENT_CASES_H
#define TCC_TESTS_HARNESS_GRADIENT_CASES_H

#include "ir/eval.h"

/* The graph's output `loss` is a scalar; float inputs are parameters; `inputs` are values for them, which may be
 * changed and put back. */
typedef void gradient_check(const tcc_graph *g, tcc_value *inputs);

/* What the loss is made of: the op's result, or its gradients by the parameters. */
typedef enum gradient_order { FIRST_ORDER, SECOND_ORDER } gradient_order;

/* All cases with parameters of a float type, as a group of tests; the number that failed. */
int gradient_cases_run(tcc_dtype dtype, gradient_order order, gradient_check *check);
/* A test: every op that has a derivative is in some case of second order. */
void gradient_cases_cover(void **state);

#endif
