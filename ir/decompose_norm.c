/* SPDX-License-Identifier: MIT
 * Definitions of the normalization layers. */
#include "ir/build.h"
#include "ir/decompose.h"
#include "ir/decompose_rules.h"

static tcc_node *back(tcc_graph *g, tcc_node *reduced, const tcc_node *like, const tcc_dims *axes) {
    if (!reduced || !like) return NULL;
    return tcc_ir_unreduce(g, reduced, like->type.rank, like->type.dims, axes);
}

static tcc_node *mean_of(tcc_graph *g, tcc_node *x, const tcc_dims *axes) {
    return tcc_ir_reduce(g, TCC_OP_REDUCE_MEAN, x, axes);
}

static tcc_node *variance_of(tcc_graph *g, tcc_node *x, const tcc_dims *axes) {
    tcc_node *m2 = tcc_ir_reduce(g, TCC_OP_REDUCE_M2, x, axes);
    double share = m2 ? (double)tcc_type_numel(&m2->type) / (double)tcc_type_numel(&x->type) : 1;
    return tcc_ir_binary_c(g, TCC_OP_MUL, m2, share);
}

static tcc_ir_moments get_moments(tcc_graph *g, tcc_node *x, const tcc_dims *axes) {
    tcc_ir_moments m;
    m.mean = mean_of(g, x, axes);
    m.centred = tcc_ir_binary(g, TCC_OP_SUB, x, back(g, m.mean, x, axes));
    m.variance = variance_of(g, x, axes);
    return m;
}

/* 1 / sqrt(square + eps) */
static tcc_node *scale_of(tcc_graph *g, tcc_node *square, double eps) {
    return tcc_ir_unary(g, TCC_OP_RSQRT, tcc_ir_binary_c(g, TCC_OP_ADD, square, eps));
}

/* x / sqrt(square + eps) */
static tcc_ir_normal scale_by(tcc_graph *g, tcc_node *x, tcc_node *square, const tcc_dims *axes, double eps) {
    tcc_ir_normal normal;
    normal.scale = scale_of(g, square, eps);
    normal.value = tcc_ir_binary(g, TCC_OP_MUL, x, back(g, normal.scale, x, axes));
    return normal;
}

tcc_ir_normal tcc_ir_get_normal(tcc_graph *g, tcc_node *x, const tcc_dims *axes, double eps) {
    tcc_ir_moments m = get_moments(g, x, axes);
    return scale_by(g, m.centred, m.variance, axes, eps);
}

tcc_ir_normal tcc_ir_get_rms_normal(tcc_graph *g, tcc_node *x, const tcc_dims *axes, double eps) {
    return scale_by(g, x, tcc_ir_mean(g, tcc_ir_binary(g, TCC_OP_MUL, x, x), axes), axes, eps);
}

tcc_dims tcc_ir_norm_axes(const tcc_node *n) {
    int rank = n->operands[0]->type.rank, axis = (int)n->attrs->norm.axis;
    if (n->op == TCC_OP_LAYER_NORM || n->op == TCC_OP_RMS_NORM) return tcc_ir_axes_from(axis, rank);
    tcc_dims axes = {0};
    for (int d = 0; d < rank; d++)
        if (d != axis) axes.v[axes.count++] = d;
    return axes;
}

tcc_node *tcc_ir_norm_weight(tcc_graph *g, const tcc_node *n, tcc_node *weight) {
    if (!weight) return NULL;
    int dims[TCC_MAX_RANK];
    for (int i = 0; i < weight->type.rank; i++) dims[i] = (int)n->attrs->norm.axis + i;
    return tcc_ir_broadcast(g, weight, n->type.rank, n->type.dims, dims);
}

/* Operands from `first` on are weight and bias, as far as they are there. */
static tcc_node *scale_and_shift(tcc_graph *g, const tcc_node *n, tcc_node *const *in, tcc_node *x) {
    if (n->n_operands > 1) x = tcc_ir_binary(g, TCC_OP_MUL, x, tcc_ir_norm_weight(g, n, in[1]));
    if (n->n_operands > 2) x = tcc_ir_binary(g, TCC_OP_ADD, x, tcc_ir_norm_weight(g, n, in[2]));
    return x;
}

TCC_DEFINITION(LAYER_NORM) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    return scale_and_shift(g, n, in, tcc_ir_get_normal(g, in[0], &axes, n->attrs->norm.eps).value);
}

TCC_DEFINITION(RMS_NORM) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    return scale_and_shift(g, n, in, tcc_ir_get_rms_normal(g, in[0], &axes, n->attrs->norm.eps).value);
}

/* -- Batch norm: computed in the type of the scales -- */

TCC_DEFINITION(BATCH_NORM) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    tcc_node *x = n->n_operands > 1 ? tcc_ir_cast(g, in[0], in[1]->type.dtype) : in[0];
    tcc_node *value = tcc_ir_get_normal(g, x, &axes, n->attrs->norm.eps).value;
    return tcc_ir_cast(g, scale_and_shift(g, n, in, value), in[0]->type.dtype);
}

/* x in the type of statistic n, f32 at least. */
static tcc_node *observed(tcc_graph *g, const tcc_node *n, tcc_node *x) {
    const tcc_dtype dtype = n->type.dtype;
    return tcc_ir_cast(g, x, tcc_dtype_is_narrow(dtype) ? TCC_F32 : dtype);
}

TCC_DEFINITION(BATCH_NORM_MEAN) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    return mean_of(g, observed(g, n, in[0]), &axes);
}

TCC_DEFINITION(BATCH_NORM_VARIANCE) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    return variance_of(g, observed(g, n, in[0]), &axes);
}

TCC_DEFINITION(BATCH_NORM_SCALE) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    return scale_of(g, variance_of(g, observed(g, n, in[0]), &axes), n->attrs->norm.eps);
}

/* Operands of the gradients. */
enum { DY, X, MEAN, SCALE, WEIGHT };

/* (x - mean) scale */
static tcc_node *normal_of(tcc_graph *g, tcc_node *const *in, const tcc_dims *axes) {
    tcc_node *x = tcc_ir_cast(g, in[X], in[MEAN]->type.dtype);
    tcc_node *centred = tcc_ir_binary(g, TCC_OP_SUB, x, back(g, in[MEAN], x, axes));
    return tcc_ir_binary(g, TCC_OP_MUL, centred, back(g, in[SCALE], x, axes));
}

/* With n = (x - mean) scale:
 *   dx = weight scale (dy - mean dy - n mean(n dy)),   dweight = sum n dy,   dbias = sum dy.
 * The weight is constant over the axes and leaves the means: both of them are then the sums that the other two
 * gradients need. */
TCC_DEFINITION(BATCH_NORM_GRAD_X) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    tcc_node *dy = tcc_ir_cast(g, in[DY], in[MEAN]->type.dtype), *normal = normal_of(g, in, &axes);
    tcc_node *product = tcc_ir_binary(g, TCC_OP_MUL, dy, normal);
    tcc_node *scale = n->n_operands > WEIGHT ? tcc_ir_binary(g, TCC_OP_MUL, in[SCALE], in[WEIGHT]) : in[SCALE];
    tcc_node *along = back(g, tcc_ir_mean(g, product, &axes), dy, &axes);
    tcc_node *mean = back(g, tcc_ir_mean(g, dy, &axes), dy, &axes);
    tcc_node *dx = tcc_ir_binary(g, TCC_OP_SUB, dy, mean);
    dx = tcc_ir_binary(g, TCC_OP_SUB, dx, tcc_ir_binary(g, TCC_OP_MUL, normal, along));
    return tcc_ir_cast(g, tcc_ir_binary(g, TCC_OP_MUL, dx, back(g, scale, dy, &axes)), in[X]->type.dtype);
}

TCC_DEFINITION(BATCH_NORM_GRAD_WEIGHT) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    tcc_node *dy = tcc_ir_cast(g, in[DY], in[MEAN]->type.dtype);
    return tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, tcc_ir_binary(g, TCC_OP_MUL, dy, normal_of(g, in, &axes)), &axes);
}

TCC_DEFINITION(BATCH_NORM_GRAD_BIAS) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    return tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, tcc_ir_cast(g, in[DY], in[MEAN]->type.dtype), &axes);
}

/* The channels become [groups, channels a group]; all but the batch (dim 0) and the groups is
 * reduced. */
TCC_DEFINITION(GROUP_NORM) {
    const tcc_type *type = &in[0]->type;
    int axis = (int)n->attrs->norm.axis, rank = 0;
    int64_t dims[TCC_MAX_RANK + 1];
    tcc_dims axes = {0};
    if (type->rank == TCC_MAX_RANK) {
        tcc_error(g->diag, TCC_EUNSUPPORTED, n->loc, "group_norm: rank %d has no room for the dim of the groups",
                  type->rank);
        return NULL;
    }
    for (int d = 0; d < type->rank; d++) {
        if (d == axis) dims[rank++] = n->attrs->norm.groups;
        if (d > 0) axes.v[axes.count++] = rank;
        dims[rank++] = d == axis ? type->dims[d] / n->attrs->norm.groups : type->dims[d];
    }
    tcc_node *x = tcc_ir_reshape(g, in[0], rank, dims);
    x = tcc_ir_get_normal(g, x, &axes, n->attrs->norm.eps).value;
    return scale_and_shift(g, n, in, tcc_ir_reshape(g, x, type->rank, type->dims));
}

/* The work a channel is done on vectors of C elements. */
TCC_DEFINITION(BATCH_NORM_INFERENCE) {
    tcc_node *inverse = tcc_ir_unary(g, TCC_OP_RSQRT, tcc_ir_binary_c(g, TCC_OP_ADD, in[4], n->attrs->norm.eps));
    tcc_node *scale = tcc_ir_binary(g, TCC_OP_MUL, in[1], inverse);
    tcc_node *x = tcc_ir_binary(g, TCC_OP_SUB, in[0], tcc_ir_norm_weight(g, n, in[3]));
    x = tcc_ir_binary(g, TCC_OP_MUL, x, tcc_ir_norm_weight(g, n, scale));
    return tcc_ir_binary(g, TCC_OP_ADD, x, tcc_ir_norm_weight(g, n, in[2]));
}
