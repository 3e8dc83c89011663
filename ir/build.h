/* SPDX-License-Identifier: MIT
 * Convenience builders over tcc_ir_build, for rules that write expressions: decompositions, gradients, tests. They use
 * the location of tcc_ir_set_loc and are NULL-safe. Binary builders broadcast nothing and cast nothing, except where
 * said. */
#ifndef TCC_IR_BUILD_H
#define TCC_IR_BUILD_H

#include "ir/ir.h"

tcc_node *tcc_ir_unary(tcc_graph *g, tcc_op op, tcc_node *x);
tcc_node *tcc_ir_binary(tcc_graph *g, tcc_op op, tcc_node *a, tcc_node *b);
/* x op c, with a splat constant of x's type. */
tcc_node *tcc_ir_binary_c(tcc_graph *g, tcc_op op, tcc_node *x, double c);
tcc_node *tcc_ir_select(tcc_graph *g, tcc_node *c, tcc_node *a, tcc_node *b);
tcc_node *tcc_ir_cast(tcc_graph *g, tcc_node *x, tcc_dtype dtype); /* x itself if it has that type */
tcc_node *tcc_ir_widen(tcc_graph *g, tcc_node *x); /* f16 and bf16 as f32, for sums that they cannot hold */
tcc_node *tcc_ir_splat(tcc_graph *g, const tcc_type *type, double value);
tcc_node *tcc_ir_splat_like(tcc_graph *g, const tcc_node *like, double value);
tcc_node *tcc_ir_iota(tcc_graph *g, const tcc_type *type, int axis);
tcc_node *tcc_ir_reshape(tcc_graph *g, tcc_node *x, int rank, const int64_t *dims);
tcc_node *tcc_ir_transpose(tcc_graph *g, tcc_node *x, const int *perm);
/* Operand dim i becomes result dim dims[i]. */
tcc_node *tcc_ir_broadcast(tcc_graph *g, tcc_node *x, int rank, const int64_t *result_dims, const int *dims);
/* x, whose rank is smaller or whose extents are 1, to `like`'s dims as numpy aligns them (from the right). */
tcc_node *tcc_ir_broadcast_like(tcc_graph *g, tcc_node *x, const tcc_node *like);
/* A value reduced over `axes` put back: broadcast to `dims` with the reduced dims restored. */
tcc_node *tcc_ir_unreduce(tcc_graph *g, tcc_node *x, int rank, const int64_t *dims, const tcc_dims *axes);
tcc_node *tcc_ir_slice(tcc_graph *g, tcc_node *x, const int64_t *start, const int64_t *limit, const int64_t *stride);
/* Elements [begin, end) of the last dim: x itself, if these are all. NULL for NULL. */
tcc_node *tcc_ir_part(tcc_graph *g, tcc_node *x, int64_t begin, int64_t end);
tcc_node *tcc_ir_pad(tcc_graph *g, tcc_node *x, double value, const int64_t *lo, const int64_t *hi,
                     const int64_t *interior);
tcc_node *tcc_ir_reduce(tcc_graph *g, tcc_op op, tcc_node *x, const tcc_dims *axes);
tcc_node *tcc_ir_mean(tcc_graph *g, tcc_node *x, const tcc_dims *axes);
tcc_node *tcc_ir_dot(tcc_graph *g, tcc_node *a, tcc_node *b, const tcc_attrs_dot *attrs);
/* x / (1 - p) where dropout keeps it, with probability 1 - p, else 0; by the key's uniform draw `id`. */
tcc_node *tcc_ir_dropout(tcc_graph *g, tcc_node *x, tcc_node *key, double p, int64_t id);
/* All dims from `first` on, as axes of a reduction. */
tcc_dims tcc_ir_axes_from(int first, int rank);

#endif
