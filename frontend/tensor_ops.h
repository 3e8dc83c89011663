/* SPDX-License-Identifier: MIT
 * What the operations on tensors share. Private to the files that implement them. */
#ifndef TCC_FRONTEND_TENSOR_OPS_H
#define TCC_FRONTEND_TENSOR_OPS_H

#include "trace.h"

#include "traincc/tensor.h"

/* The graph, with the user's line for what is built next. */
tcc_graph *tcc__tensor_begin(tcc_trace *t, tcc_loc at);
const char *tcc__tensor_op_text(tcc_op op);
/* Checks x and turns an axis that may be negative into *out. false: the trace has the error, named by `op`. */
bool tcc__tensor_axis(tcc_tensor x, const char *op, int64_t axis, tcc_loc at, int *out);
/* The same of the axes of a reduction, ascending; none listed means all. `count` may have TCC_KEEP_DIMS in it. */
bool tcc__tensor_axes(tcc_tensor x, const char *op, int count, const int64_t *axes, tcc_loc at, tcc_dims *out);
/* y, reduced from x over such axes: with extents of 1 there if `count` has TCC_KEEP_DIMS. */
tcc_tensor tcc__tensor_kept(tcc_tensor y, tcc_tensor x, int count, const tcc_dims *axes, tcc_loc at);
/* Whether x is of floats; otherwise an error that names the function. */
bool tcc__tensor_takes_floats(const char *name, tcc_tensor x, tcc_loc at);
/* f16 and bf16 as f32: what rounds more than once does so in between. */
tcc_tensor tcc__tensor_widened(tcc_tensor x, tcc_loc at);
/* A scalar of x's element type. */
tcc_tensor tcc__tensor_like(tcc_tensor x, double value, tcc_loc at);
/* The square root of sums of squares, whose gradient at 0 is 0. */
tcc_tensor tcc__tensor_root(tcc_tensor x, tcc_loc at);
/* Brings operands to their common broadcast shape, behind tcc__tensor_begin; false after an error. */
bool tcc__tensor_together(const char *op, tcc_tensor *const *xs, int count, tcc_loc at);
/* An op that reads or writes x at indices along `axis`; what comes behind x is in `others`. */
tcc_tensor tcc__tensor_indexed(tcc_op op, tcc_tensor x, const tcc_tensor *others, int n_others, int axis, tcc_loc at);
/* x with its extents of 1 as those of `to`, which is of its rank, but along `axis`, which may be -1: along all. */
tcc_tensor tcc__tensor_stretched(tcc_tensor x, tcc_tensor to, int axis, tcc_loc at);
/* x in numbers of the reverse order: its negative, or of integers its complement. */
tcc_tensor tcc__tensor_reversed(tcc_tensor x, tcc_loc at);
/* An op of one operand with attributes; `type` is NULL where it is inferred. */
tcc_tensor tcc__tensor_op(tcc_op op, tcc_tensor x, const tcc_attrs *attrs, const tcc_type *type, tcc_loc at);

#endif
