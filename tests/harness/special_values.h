/* SPDX-License-Identifier: MIT
 * NaN and infinities in the operands of the functions of function_cases.def.
 *
 * NaN in, NaN out: what depends on an element is NaN where the element is. Whether it depends is found by moving the
 * element: a value depends where any step changes it, a gradient where small steps to both sides do (a slope that is
 * constant on each side of a kink need not be NaN). Infinities: what PyTorch gives (golden/make_functions.py). */
#ifndef TCC_TESTS_HARNESS_SPECIAL_VALUES_H
#define TCC_TESTS_HARNESS_SPECIAL_VALUES_H

#include "harness/compiled.h"

/* Of case i, whose graph with gradients `g` is of f64, by the interpreter. */
void special_check_nan(int i, const tcc_graph *g);
/* y with +-INFINITY in operand x`operand`, as a hash of what its elements are; as golden/make_functions.py has it. */
uint32_t special_hash(int i, const tcc_graph *g, int operand, double value);
/* What a program that was compiled for `g` gives is NaN, infinite or finite where the interpreter's is. `c->graph` has
 * g's inputs and outputs in order. */
void special_check_compiled(int i, const tcc_graph *g, compiled *c);

#endif
