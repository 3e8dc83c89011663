/* SPDX-License-Identifier: MIT
 * Definitions of the normalization layers. */
#include "ir/build.h"
#include "ir/collective.h"
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
    tcc_ir_normal normal = {.centred = x};
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

/* -- A batch on several ranks -- */

static tcc_node *exchange(tcc_graph *g, const tcc_node *n, tcc_op op, tcc_node *x) {
    return tcc_ir_collective_once(g, op, x, TCC_REDUCTION_SUM, n->attrs->norm.ranks);
}

/* How many values of x a channel has on this rank, f32[1]. */
static tcc_node *local_count(tcc_graph *g, const tcc_node *n, const tcc_node *like) {
    const tcc_type type = {like->type.dtype, 1, {1}}, *x = &n->operands[0]->type;
    return tcc_ir_splat(g, &type, (double)tcc_type_numel(x) / (double)x->dims[n->attrs->norm.axis]);
}

/* Two vectors of channels and a number, one behind the other, as they travel. */
static tcc_node *pack(tcc_graph *g, tcc_node *a, tcc_node *b, tcc_node *number) {
    const tcc_attrs first_axis = {.axis = {0}};
    tcc_node *parts[] = {a, b, number};
    return a && b && number ? tcc_ir_build(g, TCC_OP_CONCAT, parts, 3, &first_axis, NULL, a->loc) : NULL;
}

/* A number, [1] or [ranks, 1], for each channel. */
static tcc_node *for_channels(tcc_graph *g, tcc_node *number, const tcc_node *like) {
    return number && like ? tcc_ir_broadcast_like(g, number, like) : NULL;
}

/* Mean and M2 of a channel, and the number of its values. */
typedef struct statistics {
    tcc_node *mean, *m2, *count;
} statistics;

/* Of all ranks, from the mean and M2 of each of them (Chan et al. 1983). */
static statistics merge_ranks(tcc_graph *g, const tcc_node *n, tcc_node *mean, tcc_node *m2) {
    const tcc_dims ranks = {1, {0}};
    statistics all = {0};
    if (!mean || !m2) return all;
    const int64_t channels = mean->type.dims[0], row[] = {1, 2 * channels + 1};
    tcc_node *own = tcc_ir_reshape(g, pack(g, mean, m2, local_count(g, n, mean)), 2, row);
    tcc_node *rows = exchange(g, n, TCC_OP_ALL_GATHER, own);
    tcc_node *means = tcc_ir_part(g, rows, 0, channels), *m2s = tcc_ir_part(g, rows, channels, 2 * channels);
    tcc_node *counts = for_channels(g, tcc_ir_part(g, rows, 2 * channels, 2 * channels + 1), means);
    all.count = tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, counts, &ranks);
    tcc_node *sums = tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, tcc_ir_binary(g, TCC_OP_MUL, means, counts), &ranks);
    all.mean = tcc_ir_binary(g, TCC_OP_DIV, sums, all.count);
    tcc_node *off = tcc_ir_binary(g, TCC_OP_SUB, means, back(g, all.mean, means, &ranks));
    tcc_node *between = tcc_ir_binary(g, TCC_OP_MUL, counts, tcc_ir_binary(g, TCC_OP_MUL, off, off));
    all.m2 = tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, tcc_ir_binary(g, TCC_OP_ADD, m2s, between), &ranks);
    return all;
}

/* -- Batch norm: computed in the type of the scales -- */

/* Of x, which is not yet in the type of the statistics where that is narrow. */
static tcc_ir_moments batch_moments(tcc_graph *g, const tcc_node *n, tcc_node *x, const tcc_dims *axes) {
    if (!n->attrs->norm.ranks) return get_moments(g, x, axes);
    const statistics all = merge_ranks(g, n, mean_of(g, x, axes), tcc_ir_reduce(g, TCC_OP_REDUCE_M2, x, axes));
    return (tcc_ir_moments){.mean = all.mean,
                            .centred = tcc_ir_binary(g, TCC_OP_SUB, x, back(g, all.mean, x, axes)),
                            .variance = tcc_ir_binary(g, TCC_OP_DIV, all.m2, all.count)};
}

TCC_DEFINITION(BATCH_NORM) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    tcc_node *x = n->n_operands > 1 ? tcc_ir_cast(g, in[0], in[1]->type.dtype) : in[0];
    const tcc_ir_moments m = batch_moments(g, n, x, &axes);
    tcc_node *value = scale_by(g, m.centred, m.variance, &axes, n->attrs->norm.eps).value;
    return tcc_ir_cast(g, scale_and_shift(g, n, in, value), in[0]->type.dtype);
}

/* x in the type of statistic n, f32 at least. */
static tcc_node *observed(tcc_graph *g, const tcc_node *n, tcc_node *x) {
    const tcc_dtype dtype = n->type.dtype;
    return tcc_ir_cast(g, x, tcc_dtype_is_narrow(dtype) ? TCC_F32 : dtype);
}

TCC_DEFINITION(BATCH_NORM_MEAN) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    return batch_moments(g, n, observed(g, n, in[0]), &axes).mean;
}

TCC_DEFINITION(BATCH_NORM_VARIANCE) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    tcc_node *x = observed(g, n, in[0]);
    if (!n->attrs->norm.unbiased) return batch_moments(g, n, x, &axes).variance;
    statistics all = {mean_of(g, x, &axes), tcc_ir_reduce(g, TCC_OP_REDUCE_M2, x, &axes), NULL};
    if (!all.mean) return NULL;
    all.count = for_channels(g, local_count(g, n, all.mean), all.mean);
    if (n->attrs->norm.ranks) all = merge_ranks(g, n, all.mean, all.m2);
    return tcc_ir_binary(g, TCC_OP_DIV, all.m2, tcc_ir_binary_c(g, TCC_OP_SUB, all.count, 1));
}

TCC_DEFINITION(BATCH_NORM_SCALE) {
    tcc_dims axes = tcc_ir_norm_axes(n);
    return scale_of(g, batch_moments(g, n, observed(g, n, in[0]), &axes).variance, n->attrs->norm.eps);
}

/* Operands of the gradients. */
enum { DY, X, MEAN, SCALE, WEIGHT };

/* (x - mean) scale */
static tcc_node *normal_of(tcc_graph *g, tcc_node *const *in, const tcc_dims *axes) {
    tcc_node *x = tcc_ir_cast(g, in[X], in[MEAN]->type.dtype);
    tcc_node *centred = tcc_ir_binary(g, TCC_OP_SUB, x, back(g, in[MEAN], x, axes));
    return tcc_ir_binary(g, TCC_OP_MUL, centred, back(g, in[SCALE], x, axes));
}

/* The means of both over a channel, of all ranks, back at the dims of dy. */
static void get_means(tcc_graph *g, const tcc_node *n, tcc_node *product, tcc_node *dy, const tcc_dims *axes,
                      tcc_node **along, tcc_node **mean) {
    *along = *mean = NULL;
    if (!n->attrs->norm.ranks) {
        *along = back(g, tcc_ir_mean(g, product, axes), dy, axes);
        *mean = back(g, tcc_ir_mean(g, dy, axes), dy, axes);
        return;
    }
    tcc_node *of_product = tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, product, axes);
    tcc_node *sum = tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, dy, axes);
    if (!of_product || !sum) return;
    const int64_t channels = sum->type.dims[0];
    tcc_node *all = exchange(g, n, TCC_OP_ALL_REDUCE, pack(g, of_product, sum, local_count(g, n, sum)));
    tcc_node *count = for_channels(g, tcc_ir_part(g, all, 2 * channels, 2 * channels + 1), sum);
    *along = back(g, tcc_ir_binary(g, TCC_OP_DIV, tcc_ir_part(g, all, 0, channels), count), dy, axes);
    *mean = back(g, tcc_ir_binary(g, TCC_OP_DIV, tcc_ir_part(g, all, channels, 2 * channels), count), dy, axes);
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
    tcc_node *along, *mean;
    get_means(g, n, product, dy, &axes, &along, &mean);
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
tcc_node *tcc_ir_group_rows(tcc_graph *g, const tcc_node *n, tcc_node *x, tcc_dims *axes) {
    const tcc_type *type = &n->type;
    int axis = (int)n->attrs->norm.axis, rank = 0;
    int64_t dims[TCC_MAX_RANK + 1];
    *axes = (tcc_dims){0};
    if (type->rank == TCC_MAX_RANK) {
        tcc_error(g->diag, TCC_EUNSUPPORTED, n->loc, "group_norm: rank %d has no room for the dim of the groups",
                  type->rank);
        return NULL;
    }
    for (int d = 0; d < type->rank; d++) {
        if (d == axis) dims[rank++] = n->attrs->norm.groups;
        if (d > 0) axes->v[axes->count++] = rank;
        dims[rank++] = d == axis ? type->dims[d] / n->attrs->norm.groups : type->dims[d];
    }
    return tcc_ir_reshape(g, x, rank, dims);
}

TCC_DEFINITION(GROUP_NORM) {
    tcc_dims axes;
    tcc_node *x = tcc_ir_group_rows(g, n, in[0], &axes);
    x = tcc_ir_get_normal(g, x, &axes, n->attrs->norm.eps).value;
    return scale_and_shift(g, n, in, tcc_ir_reshape(g, x, n->type.rank, n->type.dims));
}

/* The work a channel is done on vectors of C elements. */
TCC_DEFINITION(BATCH_NORM_INFERENCE) {
    tcc_node *inverse = tcc_ir_unary(g, TCC_OP_RSQRT, tcc_ir_binary_c(g, TCC_OP_ADD, in[4], n->attrs->norm.eps));
    tcc_node *scale = tcc_ir_binary(g, TCC_OP_MUL, in[1], inverse);
    tcc_node *x = tcc_ir_binary(g, TCC_OP_SUB, in[0], tcc_ir_norm_weight(g, n, in[3]));
    x = tcc_ir_binary(g, TCC_OP_MUL, x, tcc_ir_norm_weight(g, n, scale));
    return tcc_ir_binary(g, TCC_OP_ADD, x, tcc_ir_norm_weight(g, n, in[2]));
}
