/* SPDX-License-Identifier: MIT
 * Convenience builders over tcc_ir_build. */
#include "ir/build.h"
#include "ir/builder.h"

#include <string.h>

static tcc_node *build(tcc_graph *g, tcc_op op, tcc_node *const *operands, int n_operands, const tcc_attrs *attrs,
                       const tcc_type *type) {
    return tcc_ir_build(g, op, operands, n_operands, attrs, type, tcc__ir_get_loc(g));
}

/* An op on nothing: the error was reported where the operand failed. */
static tcc_node *poisoned(tcc_graph *g) {
    tcc__ir_fail(g);
    return NULL;
}

tcc_node *tcc_ir_unary(tcc_graph *g, tcc_op op, tcc_node *x) { return build(g, op, &x, 1, NULL, NULL); }

tcc_node *tcc_ir_binary(tcc_graph *g, tcc_op op, tcc_node *a, tcc_node *b) {
    return build(g, op, (tcc_node *[]){a, b}, 2, NULL, NULL);
}

tcc_node *tcc_ir_binary_c(tcc_graph *g, tcc_op op, tcc_node *x, double c) {
    return tcc_ir_binary(g, op, x, tcc_ir_splat_like(g, x, c));
}

tcc_node *tcc_ir_select(tcc_graph *g, tcc_node *c, tcc_node *a, tcc_node *b) {
    return build(g, TCC_OP_SELECT, (tcc_node *[]){c, a, b}, 3, NULL, NULL);
}

tcc_node *tcc_ir_cast(tcc_graph *g, tcc_node *x, tcc_dtype dtype) {
    if (!x) return poisoned(g);
    if (x->type.dtype == dtype) return x;
    tcc_type type = x->type;
    type.dtype = dtype;
    return build(g, TCC_OP_CAST, &x, 1, NULL, &type);
}

tcc_node *tcc_ir_widen(tcc_graph *g, tcc_node *x) {
    const bool narrow = x && tcc_dtype_is_narrow(x->type.dtype);
    return narrow ? tcc_ir_cast(g, x, TCC_F32) : x;
}

tcc_node *tcc_ir_splat(tcc_graph *g, const tcc_type *type, double value) {
    tcc_attrs attrs = {.constant.values = {1, &value}};
    return build(g, TCC_OP_CONSTANT, NULL, 0, &attrs, type);
}

tcc_node *tcc_ir_splat_like(tcc_graph *g, const tcc_node *like, double value) {
    return like ? tcc_ir_splat(g, &like->type, value) : poisoned(g);
}

tcc_node *tcc_ir_iota(tcc_graph *g, const tcc_type *type, int axis) {
    tcc_attrs attrs = {.axis.axis = axis};
    return build(g, TCC_OP_IOTA, NULL, 0, &attrs, type);
}

static tcc_type with_dims(tcc_dtype dtype, int rank, const int64_t *dims) {
    tcc_type type = {.dtype = dtype, .rank = rank}; /* a rank out of range is reported by inference */
    if (rank > 0 && rank <= TCC_MAX_RANK) memcpy(type.dims, dims, sizeof type.dims[0] * (size_t)rank);
    return type;
}

tcc_node *tcc_ir_reshape(tcc_graph *g, tcc_node *x, int rank, const int64_t *dims) {
    if (!x) return poisoned(g);
    tcc_type type = with_dims(x->type.dtype, rank, dims);
    return tcc_type_equal(&x->type, &type) ? x : build(g, TCC_OP_RESHAPE, &x, 1, NULL, &type);
}

tcc_node *tcc_ir_transpose(tcc_graph *g, tcc_node *x, const int *perm) {
    if (!x) return poisoned(g);
    tcc_attrs attrs = {.perm.perm.count = x->type.rank};
    bool moves = false;
    for (int i = 0; i < x->type.rank; i++) moves |= (attrs.perm.perm.v[i] = perm[i]) != i;
    return moves ? build(g, TCC_OP_TRANSPOSE, &x, 1, &attrs, NULL) : x;
}

tcc_node *tcc_ir_broadcast(tcc_graph *g, tcc_node *x, int rank, const int64_t *result_dims, const int *dims) {
    if (!x) return poisoned(g);
    tcc_type type = with_dims(x->type.dtype, rank, result_dims);
    tcc_attrs attrs = {.broadcast.dims.count = x->type.rank};
    for (int i = 0; i < x->type.rank; i++) attrs.broadcast.dims.v[i] = dims[i];
    return tcc_type_equal(&x->type, &type) ? x : build(g, TCC_OP_BROADCAST, &x, 1, &attrs, &type);
}

tcc_node *tcc_ir_broadcast_like(tcc_graph *g, tcc_node *x, const tcc_node *like) {
    if (!x || !like) return poisoned(g);
    int dims[TCC_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++)
        dims[i] = i + like->type.rank - x->type.rank; /* negative, if x has more: reported */
    return tcc_ir_broadcast(g, x, like->type.rank, like->type.dims, dims);
}

tcc_node *tcc_ir_unreduce(tcc_graph *g, tcc_node *x, int rank, const int64_t *dims, const tcc_dims *axes) {
    int kept[TCC_MAX_RANK] = {0}, count = 0;
    for (int d = 0; d < rank && count < TCC_MAX_RANK; d++)
        if (!tcc_dims_has(axes, d)) kept[count++] = d;
    return tcc_ir_broadcast(g, x, rank, dims, kept);
}

static void set_dims(tcc_dims *to, const tcc_node *x, const int64_t *from) {
    to->count = x->type.rank;
    memcpy(to->v, from, sizeof to->v[0] * (size_t)to->count);
}

tcc_node *tcc_ir_slice(tcc_graph *g, tcc_node *x, const int64_t *start, const int64_t *limit, const int64_t *stride) {
    if (!x) return poisoned(g);
    tcc_attrs attrs = {0};
    set_dims(&attrs.slice.start, x, start);
    set_dims(&attrs.slice.limit, x, limit);
    set_dims(&attrs.slice.stride, x, stride);
    return build(g, TCC_OP_SLICE, &x, 1, &attrs, NULL);
}

tcc_node *tcc_ir_part(tcc_graph *g, tcc_node *x, int64_t begin, int64_t end) {
    const int last = x ? x->type.rank - 1 : 0;
    if (!x || (begin == 0 && end == x->type.dims[last])) return x;
    int64_t start[TCC_MAX_RANK] = {0}, limit[TCC_MAX_RANK], stride[TCC_MAX_RANK];
    for (int d = 0; d <= last; d++) limit[d] = x->type.dims[d], stride[d] = 1;
    start[last] = begin, limit[last] = end;
    return tcc_ir_slice(g, x, start, limit, stride);
}

tcc_node *tcc_ir_pad(tcc_graph *g, tcc_node *x, double value, const int64_t *lo, const int64_t *hi,
                     const int64_t *interior) {
    if (!x) return poisoned(g);
    tcc_attrs attrs = {.pad.value = value};
    set_dims(&attrs.pad.lo, x, lo);
    set_dims(&attrs.pad.hi, x, hi);
    set_dims(&attrs.pad.interior, x, interior);
    return build(g, TCC_OP_PAD, &x, 1, &attrs, NULL);
}

tcc_node *tcc_ir_reduce(tcc_graph *g, tcc_op op, tcc_node *x, const tcc_dims *axes) {
    tcc_attrs attrs = {.axes.axes = *axes};
    return axes->count ? build(g, op, &x, 1, &attrs, NULL) : x;
}

tcc_node *tcc_ir_mean(tcc_graph *g, tcc_node *x, const tcc_dims *axes) {
    tcc_node *sum = tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, tcc_ir_widen(g, x), axes); /* f16 cannot hold many */
    if (!sum) return NULL;                                                         /* else the axes are in range */
    int64_t count = 1;
    for (int i = 0; i < axes->count; i++) count *= x->type.dims[axes->v[i]];
    return tcc_ir_cast(g, count == 1 ? sum : tcc_ir_binary_c(g, TCC_OP_MUL, sum, 1.0 / (double)count), x->type.dtype);
}

tcc_node *tcc_ir_dot(tcc_graph *g, tcc_node *a, tcc_node *b, const tcc_attrs_dot *attrs) {
    tcc_attrs all = {.dot = *attrs};
    return build(g, TCC_OP_DOT, (tcc_node *[]){a, b}, 2, &all, NULL);
}

/* Which elements dropout keeps, with probability 1 - p: bool, dims of `like`. */
static tcc_node *dropout_keep(tcc_graph *g, const tcc_node *like, tcc_node *key, double p, int64_t id) {
    if (!like) return NULL;
    tcc_type type = like->type;
    type.dtype = TCC_F32;
    tcc_attrs attrs = {.rng = {.id = id}};
    return tcc_ir_binary_c(g, TCC_OP_GE, build(g, TCC_OP_RNG_UNIFORM, &key, 1, &attrs, &type), p);
}

tcc_node *tcc_ir_dropout(tcc_graph *g, tcc_node *x, tcc_node *key, double p, int64_t id) {
    tcc_node *keep = dropout_keep(g, x, key, p, id);
    tcc_node *scaled = tcc_ir_binary_c(g, TCC_OP_MUL, x, 1 / (1 - p));
    return tcc_ir_select(g, keep, scaled, tcc_ir_splat_like(g, x, 0));
}

tcc_dims tcc_ir_axes_from(int first, int rank) {
    tcc_dims axes = {0};
    for (int d = first; d < rank; d++) axes.v[axes.count++] = d;
    return axes;
}
