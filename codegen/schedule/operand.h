/* SPDX-License-Identifier: MIT
 * Operands of dense schedules (contractions, attention): their layout in memory, and copies of those whose layout a
 * kernel cannot read well. */
#ifndef TCC_CODEGEN_SCHEDULE_OPERAND_H
#define TCC_CODEGEN_SCHEDULE_OPERAND_H

#include "codegen/schedule/lowering.h"

/* What sums of elements of a float type are: f64 of f64, else f32. */
tcc_dtype tcc_operand_sum_type(tcc_dtype dtype);
/* Row-major strides in elements, one a dim. */
void tcc_operand_dense(const tcc_type *type, int64_t *strides);
/* Adds a launch that evaluates `n` as `dtype` into a new temporary: dense, with dims in the order `perm` (NULL: as they
 * are) and lo[d] zeros before and hi[d] after dim d of n (NULL: none). */
tcc_status tcc_operand_copy(tcc_lowering *l, const tcc_node *n, tcc_dtype dtype, const int *perm, const int64_t *lo,
                            const int64_t *hi, int *temporary);
/* An expression that is a plain load of `dtype` at an index map over loops: its buffer as a launch's. */
bool tcc_operand_in_place(const tcc_body *b, const tcc_expr *x, tcc_dtype dtype, tcc_plan_buffer *out);

#endif
