/* SPDX-License-Identifier: MIT
 * Random values for graphs' inputs, and the check of gradients by finite differences, all in the
 * interpreter. */
#ifndef TCC_TESTS_HARNESS_GRADCHECK_H
#define TCC_TESTS_HARNESS_GRADCHECK_H

#include "ir/eval.h"

/* A small generator of test data: splitmix64. */
double test_random(uint64_t *state, double lo, double hi);
/* Fills a created value: floats uniform in lo .. hi, integers in lo .. hi - 1, bools as they come.
 */
void test_fill(tcc_value *v, uint64_t *state, double lo, double hi);

typedef struct gradcheck_counts {
    int checked, skipped; /* elements of parameters */
} gradcheck_counts;

/* Runs autodiff on `g`, whose output `loss` is a scalar, and compares each "grad.NAME" at `inputs`
 * (in the order of g->inputs; float values are changed and put back) with differences of the
 * interpreted loss. Fails the test on a mismatch.
 *
 * Differences are of fourth order, (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h, at steps h and h/2.
 * In double precision, with h = 1e-3 and a loss of order 1, truncation and rounding are about
 * 1e-12, so that `tolerance`, relative to 0.01 + the parameter's largest gradient, can be 1e-7 with
 * room for steep functions. (The graph should be float64: constants of definitions, as 1/3 in a
 * mean, are rounded to its type.) Where the two steps disagree by more than a twentieth of it there
 * is a kink or a jump in between (max, relu, rounding): the element is skipped and counted. At most
 * `most` elements of a parameter are tried, evenly spread.
 *
 * Also checks that autodiff left all outputs of `g` alone, and that decomposition changes neither
 * them nor the gradients. */
gradcheck_counts gradcheck(const tcc_graph *g, tcc_value *inputs, double tolerance, int most);

#endif
