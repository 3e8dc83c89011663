/* SPDX-License-Identifier: MIT
 * Losses and functions of the public API (function_cases.def) as graphs with their gradients. */
#ifndef TCC_TESTS_HARNESS_FUNCTION_CASES_H
#define TCC_TESTS_HARNESS_FUNCTION_CASES_H

#include "ir/eval.h"

#include <stdbool.h>

int function_case_count(void);
const char *function_case_name(int i);
/* Whether its operands are tame: differences tell its gradients. */
bool function_case_is_smooth(int i);
/* Whether an input of its graph may hold any numbers. */
bool function_case_takes_any(int i, const tcc_node *input);
/* Whether it is a call of one function of the library. */
bool function_case_is_one_call(int i);
/* Whether it is made of gradients. */
bool function_case_is_slope(int i);
/* Whether it has parameters of its own. */
bool function_case_is_layer(int i);

/* The function with floats of `dtype`: output "y", and if it is of floats "loss", the sum of y times an input "r". */
tcc_graph *function_case_graph(int i, tcc_dtype dtype);
/* The same with the gradients "grad.x0", ... of what has some. */
tcc_graph *function_case_gradients(const tcc_graph *g);
/* The operands, in the order of the graph's inputs; free_values of compiled.h frees them. */
tcc_value *function_case_inputs(int i, const tcc_graph *g);

#endif
