/* SPDX-License-Identifier: MIT
 * How each op moves the samples of a batch. */
#include "passes/micro_axis.h"

#include "ir/sdpa.h"

static const tcc_axis none = {TCC_AXIS_NONE, 0}, summed = {TCC_AXIS_SUMMED, 0}, mixed = {TCC_AXIS_MIXED, 0};

static tcc_axis at(int64_t dim, tcc_axis like) { return (tcc_axis){(int)dim, like.outer}; }

static bool is_pointwise(const tcc_node *n) {
    switch (n->op) {
    case TCC_OP_RELU:
    case TCC_OP_LEAKY_RELU:
    case TCC_OP_GELU:
    case TCC_OP_SILU:
    case TCC_OP_SOFTPLUS:
    case TCC_OP_STOP_GRADIENT: return true;
    default: return tcc_op_get_info(n->op)->fusion == TCC_FUSION_POINT && n->n_operands > 0 && !tcc_op_draws(n->op);
    }
}

/* -- Shape -- */

static int64_t product(const tcc_type *t, int from, int to) {
    int64_t p = 1;
    for (int d = from; d < to; d++) p *= t->dims[d];
    return p;
}

/* Rows x of `from` as those of `to`, the same elements in row-major order: a block of them lies within one dim. */
static tcc_axis regrouped(const tcc_type *from, const tcc_type *to, tcc_axis x) {
    const int64_t block = from->dims[x.dim] / x.outer * product(from, x.dim + 1, from->rank);
    for (int d = 0; d < to->rank; d++) {
        const int64_t behind = product(to, d + 1, to->rank), all = behind * to->dims[d];
        if (behind >= block && block > 1) continue;
        if (block % behind || all % block) return mixed;
        return (tcc_axis){d, all / block};
    }
    return mixed;
}

/* The result's dim of dim d of an operand of which the ascending `axes` vanish. */
static int without(const tcc_dims *axes, int d) {
    int before = 0;
    for (int i = 0; i < axes->count; i++) before += axes->v[i] < d;
    return d - before;
}

static int with(const tcc_dims *axes, int d) {
    for (int i = 0; i < axes->count; i++) d += axes->v[i] <= d;
    return d;
}

static bool pads(const tcc_attrs_pad *p, int d) { return p->lo.v[d] || p->hi.v[d] || p->interior.v[d]; }

static tcc_axis broadcast_result(const tcc_node *n, tcc_axis x) {
    const int64_t to = n->attrs->broadcast.dims.v[x.dim];
    return n->operands[0]->type.dims[x.dim] == n->type.dims[to] ? at(to, x) : mixed;
}

static tcc_axis broadcast_operand(const tcc_node *n, tcc_axis y) {
    const int i = tcc_dims_find(&n->attrs->broadcast.dims, y.dim);
    if (i < 0) return none;
    return n->operands[0]->type.dims[i] == n->type.dims[y.dim] ? at(i, y) : none;
}

/* A slice of whole blocks has fewer of them. */
static tcc_axis slice_result(const tcc_node *n, tcc_axis x) {
    const int64_t extent = n->operands[0]->type.dims[x.dim], block = extent / x.outer;
    const tcc_attrs_slice *s = &n->attrs->slice;
    const int64_t start = s->start.v[x.dim], limit = s->limit.v[x.dim];
    if (s->stride.v[x.dim] != 1 || start % block || limit % block) return mixed;
    return (tcc_axis){x.dim, (limit - start) / block};
}

static tcc_axis slice_operand(const tcc_node *n, tcc_axis y) {
    const int64_t extent = n->operands[0]->type.dims[y.dim], block = n->type.dims[y.dim] / y.outer;
    const tcc_axis x = {y.dim, extent / block};
    return extent % block == 0 && tcc_axis_equal(slice_result(n, x), y) ? x : mixed;
}

/* Operands that all have rows along the axis have blocks one behind the other. */
static tcc_axis concat_result(const tcc_node *n, tcc_axis x, int k) {
    const int d = x.dim;
    if (n->attrs->axis.axis != d) return x;
    const int64_t block = n->operands[k]->type.dims[d] / x.outer;
    return n->type.dims[d] % block ? mixed : (tcc_axis){d, n->type.dims[d] / block};
}

static tcc_axis concat_operand(const tcc_node *n, tcc_axis y, int k) {
    const int d = y.dim;
    if (n->attrs->axis.axis != d) return y;
    const int64_t block = n->type.dims[d] / y.outer, extent = n->operands[k]->type.dims[d];
    return extent % block ? mixed : (tcc_axis){d, extent / block};
}

/* -- Indexing -- */

static tcc_axis take_result(const tcc_node *n, int k, tcc_axis x) {
    const int64_t axis = n->attrs->axis.axis;
    if (k == 1) return at(axis + x.dim, x);
    if (x.dim == axis) return mixed;
    return at(x.dim < axis ? x.dim : x.dim + n->operands[1]->type.rank - 1, x);
}

/* Of dim d of x[:axis] + i + x[axis+1:], with i of that rank. */
static tcc_axis take_operand(int64_t axis, int rank, int k, tcc_axis y) {
    const bool of_index = y.dim >= axis && y.dim < axis + rank;
    if (k == 1) return of_index ? at(y.dim - axis, y) : none;
    return of_index ? none : at(y.dim < axis ? y.dim : y.dim - rank + 1, y);
}

/* base, i, u */
static tcc_axis scatter_result(const tcc_node *n, int k, tcc_axis x) {
    const int64_t axis = n->attrs->axis.axis;
    const int rank = n->operands[1]->type.rank;
    if (k == 0) return x.dim == axis ? mixed : x;
    if (k == 1) return summed;
    const tcc_axis base = take_operand(axis, rank, 0, x);
    return base.dim == TCC_AXIS_NONE ? summed : base;
}

static tcc_axis scatter_operand(const tcc_node *n, int k, tcc_axis y) {
    const int64_t axis = n->attrs->axis.axis;
    if (k == 0) return y;
    if (k == 1 || y.dim == axis) return none;
    return at(y.dim < axis ? y.dim : y.dim + n->operands[1]->type.rank - 1, y);
}

static tcc_axis scatter_summed(const tcc_node *n, int k, tcc_axis x, int j) {
    const int64_t axis = n->attrs->axis.axis;
    if (j == 0) return none;
    const int64_t index = k == 1 ? x.dim : x.dim - axis;
    return at(j == 1 ? index : axis + index, x);
}

/* -- Contractions -- */

static const tcc_dims *batch_of(const tcc_node *n, int k) {
    return k ? &n->attrs->dot.batch_b : &n->attrs->dot.batch_a;
}
static const tcc_dims *contracted_of(const tcc_node *n, int k) {
    return k ? &n->attrs->dot.contract_b : &n->attrs->dot.contract_a;
}

static int free_dims(const tcc_node *n, int k) {
    return n->operands[k]->type.rank - batch_of(n, k)->count - contracted_of(n, k)->count;
}

/* The result's dim of dim d of operand k. */
static int dot_dim(const tcc_node *n, int k, int d) {
    const int i = tcc_dims_find(batch_of(n, k), d);
    if (i >= 0) return i;
    if (tcc_dims_has(contracted_of(n, k), d)) return TCC_AXIS_SUMMED;
    int dim = batch_of(n, k)->count + (k ? free_dims(n, 0) : 0);
    for (int e = 0; e < d; e++) dim += !tcc_dims_has(batch_of(n, k), e) && !tcc_dims_has(contracted_of(n, k), e);
    return dim;
}

static tcc_axis dot_operand(const tcc_node *n, int k, tcc_axis y) {
    for (int d = 0; d < n->operands[k]->type.rank; d++)
        if (dot_dim(n, k, d) == y.dim) return at(d, y);
    return none;
}

static tcc_axis dot_summed(const tcc_node *n, int k, tcc_axis x, int j) {
    if (j == k) return x;
    const int i = tcc_dims_find(contracted_of(n, k), x.dim);
    return i >= 0 ? at(contracted_of(n, j)->v[i], x) : mixed;
}

/* -- What has its samples in dim 0: images, and what is normalized for itself -- */

/* Operands that are not images. */
static bool is_weight(const tcc_node *n, int k) {
    switch (n->op) {
    case TCC_OP_CONV:
    case TCC_OP_CONV_GRAD_INPUT:
    case TCC_OP_GROUP_NORM: return k >= 1;
    default: return false;
    }
}

static tcc_axis first_dim(const tcc_node *n, int k, tcc_axis x) {
    if (is_weight(n, k)) return mixed;
    if (n->op == TCC_OP_CONV_GRAD_WEIGHT) return x.dim == 0 ? summed : mixed;
    return x.dim == 0 ? x : mixed;
}

/* -- Norms -- */

/* x, and behind it weights and statistics; of a gradient dy, x. */
static bool is_image_of_norm(const tcc_node *n, int k) {
    switch (n->op) {
    case TCC_OP_BATCH_NORM_GRAD_X:
    case TCC_OP_BATCH_NORM_GRAD_WEIGHT:
    case TCC_OP_BATCH_NORM_GRAD_BIAS: return k < 2;
    default: return k == 0;
    }
}

static tcc_axis batch_norm_result(const tcc_node *n, int k, tcc_axis x) {
    if (!is_image_of_norm(n, k) || x.dim == n->attrs->norm.axis) return mixed;
    const bool as_image = n->op == TCC_OP_BATCH_NORM || n->op == TCC_OP_BATCH_NORM_INFERENCE ||
                          n->op == TCC_OP_BATCH_NORM_GRAD_X;
    return as_image ? x : summed;
}

/* -- Attention: rows are in a dim before those of queries, keys and what each has, and share no keys -- */

static tcc_axis attention(const tcc_node *n, tcc_axis x) {
    return x.dim < n->operands[0]->type.rank - 2 && !tcc_sdpa_shares(n, x.dim) ? x : mixed;
}

static bool is_key(const tcc_node *n, int k) { /* of random draws */
    return n->operands[k]->type.dtype == TCC_I64 && n->operands[k]->type.rank == 1;
}

/* -- All of them -- */

static tcc_axis but_along(int64_t axis, tcc_axis x) { return x.dim == axis ? mixed : x; }

tcc_axis tcc_axis_of_result(const tcc_node *n, int k, tcc_axis x) {
    const tcc_attrs *a = n->attrs;
    int dim;
    if (is_pointwise(n)) return x;
    switch (n->op) {
    case TCC_OP_RESHAPE: return regrouped(&n->operands[0]->type, &n->type, x);
    case TCC_OP_TRANSPOSE: return at(tcc_dims_find(&a->perm.perm, x.dim), x);
    case TCC_OP_BROADCAST: return broadcast_result(n, x);
    case TCC_OP_SLICE: return slice_result(n, x);
    case TCC_OP_PAD: return pads(&a->pad, x.dim) ? mixed : x;
    case TCC_OP_CONCAT: return concat_result(n, x, k);
    case TCC_OP_FLIP: return tcc_dims_has(&a->axes.axes, x.dim) ? mixed : x;
    case TCC_OP_TAKE: return take_result(n, k, x);
    case TCC_OP_SCATTER:
    case TCC_OP_SCATTER_ADD:
    case TCC_OP_SCATTER_MAX: return scatter_result(n, k, x);
    case TCC_OP_SCATTER_ALONG:
    case TCC_OP_SCATTER_ADD_ALONG: return x.dim != a->axis.axis ? x : k ? summed : mixed;
    case TCC_OP_REDUCE_SUM:
    case TCC_OP_REDUCE_MAX:
    case TCC_OP_REDUCE_MIN:
    case TCC_OP_REDUCE_MEAN:
    case TCC_OP_REDUCE_M2: return tcc_dims_has(&a->axes.axes, x.dim) ? summed : at(without(&a->axes.axes, x.dim), x);
    case TCC_OP_PROD: return tcc_dims_has(&a->axes.axes, x.dim) ? mixed : at(without(&a->axes.axes, x.dim), x);
    case TCC_OP_PROD_GRAD:
        return k ? at(with(&a->axes.axes, x.dim), x) : tcc_dims_has(&a->axes.axes, x.dim) ? mixed : x;
    case TCC_OP_ARGMAX: return x.dim == a->axis.axis ? summed : at(x.dim - (x.dim > a->axis.axis), x);
    case TCC_OP_TAKE_ALONG:
    case TCC_OP_SOFTMAX:
    case TCC_OP_LOG_SOFTMAX: return but_along(a->axis.axis, x);
    case TCC_OP_CUMSUM:
    case TCC_OP_CUMMAX:
    case TCC_OP_LINEAR_SCAN: return but_along(a->scan.axis, x);
    case TCC_OP_ARGSORT: return but_along(n->type.rank - 1, x);
    case TCC_OP_DOT: dim = dot_dim(n, k, x.dim); return dim == TCC_AXIS_SUMMED ? summed : at(dim, x);
    case TCC_OP_DROPOUT: return k ? mixed : x;
    case TCC_OP_LAYER_NORM:
    case TCC_OP_RMS_NORM: return k == 0 && x.dim < a->norm.axis ? x : mixed;
    case TCC_OP_BATCH_NORM:
    case TCC_OP_BATCH_NORM_MEAN:
    case TCC_OP_BATCH_NORM_VARIANCE:
    case TCC_OP_BATCH_NORM_SCALE:
    case TCC_OP_BATCH_NORM_GRAD_X:
    case TCC_OP_BATCH_NORM_GRAD_WEIGHT:
    case TCC_OP_BATCH_NORM_GRAD_BIAS:
    case TCC_OP_BATCH_NORM_INFERENCE: return batch_norm_result(n, k, x);
    case TCC_OP_SDPA:
    case TCC_OP_SDPA_LSE:
    case TCC_OP_SDPA_GRAD_Q:
    case TCC_OP_SDPA_GRAD_K:
    case TCC_OP_SDPA_GRAD_V: return attention(n, x);
    default: break;
    }
    const tcc_fusion_class class = tcc_op_get_info(n->op)->fusion;
    const bool images = class == TCC_FUSION_CONTRACT || class == TCC_FUSION_WINDOW || n->op == TCC_OP_GROUP_NORM;
    return images ? first_dim(n, k, x) : mixed;
}

tcc_axis tcc_axis_of_operand(const tcc_node *n, int k, tcc_axis y) {
    const tcc_attrs *a = n->attrs;
    const int norm_axis = tcc_op_get_info(n->op)->attrs == TCC_ATTR_CLASS_norm ? (int)a->norm.axis : 0;
    if (is_pointwise(n)) return y;
    switch (n->op) {
    case TCC_OP_RESHAPE: return regrouped(&n->type, &n->operands[0]->type, y);
    case TCC_OP_TRANSPOSE: return at(a->perm.perm.v[y.dim], y);
    case TCC_OP_BROADCAST: return broadcast_operand(n, y);
    case TCC_OP_SLICE: return slice_operand(n, y);
    case TCC_OP_PAD: return pads(&a->pad, y.dim) ? mixed : y;
    case TCC_OP_CONCAT: return concat_operand(n, y, k);
    case TCC_OP_FLIP: return tcc_dims_has(&a->axes.axes, y.dim) ? mixed : y;
    case TCC_OP_TAKE: return take_operand(a->axis.axis, n->operands[1]->type.rank, k, y);
    case TCC_OP_SCATTER:
    case TCC_OP_SCATTER_ADD:
    case TCC_OP_SCATTER_MAX: return scatter_operand(n, k, y);
    case TCC_OP_SCATTER_ALONG:
    case TCC_OP_SCATTER_ADD_ALONG: return but_along(a->axis.axis, y);
    case TCC_OP_REDUCE_SUM:
    case TCC_OP_REDUCE_MAX:
    case TCC_OP_REDUCE_MIN:
    case TCC_OP_REDUCE_MEAN:
    case TCC_OP_REDUCE_M2:
    case TCC_OP_PROD: return at(with(&a->axes.axes, y.dim), y);
    case TCC_OP_PROD_GRAD:
        return tcc_dims_has(&a->axes.axes, y.dim) ? mixed : k ? at(without(&a->axes.axes, y.dim), y) : y;
    case TCC_OP_ARGMAX: return at(y.dim + (y.dim >= a->axis.axis), y);
    case TCC_OP_TAKE_ALONG:
    case TCC_OP_SOFTMAX:
    case TCC_OP_LOG_SOFTMAX: return but_along(a->axis.axis, y);
    case TCC_OP_CUMSUM:
    case TCC_OP_CUMMAX:
    case TCC_OP_LINEAR_SCAN: return but_along(a->scan.axis, y);
    case TCC_OP_ARGSORT: return but_along(n->type.rank - 1, y);
    case TCC_OP_DOT: return dot_operand(n, k, y);
    case TCC_OP_DROPOUT: return k ? none : y;
    case TCC_OP_LAYER_NORM:
    case TCC_OP_RMS_NORM: return k ? none : y.dim < norm_axis ? y : mixed;
    case TCC_OP_BATCH_NORM:
    case TCC_OP_BATCH_NORM_GRAD_X:
    case TCC_OP_BATCH_NORM_INFERENCE: return is_image_of_norm(n, k) ? y : none;
    case TCC_OP_SDPA:
    case TCC_OP_SDPA_LSE:
    case TCC_OP_SDPA_GRAD_Q:
    case TCC_OP_SDPA_GRAD_K:
    case TCC_OP_SDPA_GRAD_V: return is_key(n, k) ? none : attention(n, y);
    default: break;
    }
    return is_weight(n, k) ? none : y;
}

tcc_axis tcc_axis_summed_with(const tcc_node *n, int k, tcc_axis x, int j) {
    switch (n->op) {
    case TCC_OP_DOT: return dot_summed(n, k, x, j);
    case TCC_OP_SCATTER:
    case TCC_OP_SCATTER_ADD:
    case TCC_OP_SCATTER_MAX: return scatter_summed(n, k, x, j);
    case TCC_OP_SCATTER_ALONG:
    case TCC_OP_SCATTER_ADD_ALONG: return j ? x : none;
    case TCC_OP_BATCH_NORM_MEAN:
    case TCC_OP_BATCH_NORM_VARIANCE:
    case TCC_OP_BATCH_NORM_SCALE:
    case TCC_OP_BATCH_NORM_GRAD_WEIGHT:
    case TCC_OP_BATCH_NORM_GRAD_BIAS: return is_image_of_norm(n, j) ? x : none;
    default: return x; /* one operand, or images and gradients */
    }
}
