/* SPDX-License-Identifier: MIT
 * What the parts of verification share. Private to compile_verify.c and compile_group.c. */
#ifndef TCC_FRONTEND_COMPILE_VERIFY_H
#define TCC_FRONTEND_COMPILE_VERIFY_H

#include "compile.h"

#include "ir/eval.h"

/* Frees the first `count` values and the array; NULL is allowed. */
void tcc__values_free(tcc_value *values, int count);
/* The largest magnitude in a value of floats. */
double tcc__value_largest(const tcc_value *v);
/* The largest difference of two values of floats, relative to the reference's largest entry or to `floor` if that is
 * larger. NaN counts as an infinite difference unless both are NaN. */
double tcc__value_difference(const tcc_value *reference, const tcc_value *got, double floor);

/* Compiles each group of a planned graph by itself, runs it on the values that the interpreter gives it, and compares
 * what it stores: `*group` is the first that is wrong, with a graph of it alone in `*alone` (owned by the caller); -1
 * and NULL if none is. `inputs` in the order of g->inputs. */
tcc_status tcc__find_wrong_group(tcc_model *m, const tcc_graph *g, const tcc_value *inputs, double tolerance,
                                 int *group, tcc_graph **alone);

#endif
