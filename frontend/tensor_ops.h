/* SPDX-License-Identifier: MIT
 * What the operations on tensors share. Private to frontend/tensor*.c. */
#ifndef TCC_FRONTEND_TENSOR_OPS_H
#define TCC_FRONTEND_TENSOR_OPS_H

#include "trace.h"

#include "traincc/tensor.h"

/* The graph, with the user's line for what is built next. */
tcc_graph *tcc__tensor_begin(tcc_trace *t, tcc_loc at);
const char *tcc__tensor_op_text(tcc_op op);
/* Checks x and turns an axis that may be negative into *out. false: the trace has the error, named by `op`. */
bool tcc__tensor_axis(tcc_tensor x, const char *op, int64_t axis, tcc_loc at, int *out);
/* An op of one operand with attributes; `type` is NULL where it is inferred. */
tcc_tensor tcc__tensor_op(tcc_op op, tcc_tensor x, const tcc_attrs *attrs, const tcc_type *type, tcc_loc at);

#endif
