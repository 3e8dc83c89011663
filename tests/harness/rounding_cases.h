/* SPDX-License-Identifier: MIT
 * Graphs of f16 and bf16 whose bits rounding alone decides, for whatever runs a graph: each result is rounded to its
 * type wherever it is computed. */
#ifndef TCC_TESTS_HARNESS_ROUNDING_CASES_H
#define TCC_TESTS_HARNESS_ROUNDING_CASES_H

#include "harness/compiled.h"

/* Chains of arithmetic, with numbers that overflow, that fall below the smallest normal one, and that are none. */
void rounded_chains(graph_check *check);
/* Casts of numbers of each exponent at and beside the borders of rounding, denormals and NaN too. */
void rounded_borders(graph_check *check);
/* Reductions, running sums, windows, products and scattered sums of whole numbers, with work behind them: in f32 these
 * sums are exact in any order, in their own type they are not. */
void rounded_sums(graph_check *check);
/* Functions: the same bits whether nodes run together or each alone. */
void rounded_functions(graph_run *run);

#endif
