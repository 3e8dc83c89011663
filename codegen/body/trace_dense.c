/* SPDX-License-Identifier: MIT
 * Sums, contractions and attention as plain loops at each point of the result: the definition itself. Element
 * types and forms without a schedule of their own run this way. */
#include "codegen/body/trace.h"

#include "ir/sdpa.h"

/* A loop of a fold, as a form; extents of 1 need none. */
static tcc_affine fold_loop(tcc_body *b, int64_t extent, uint64_t *loops) {
    if (extent == 1) return tcc_affine_constant(0);
    int var = tcc_body_loop(b, extent);
    *loops |= UINT64_C(1) << var;
    return tcc_affine_var(b, var);
}

static const tcc_expr *product_sum(tcc_body *b, const tcc_node *n, const tcc_expr *x, const tcc_expr *y,
                                   uint64_t loops) {
    return tcc_expr_fold_products(b, n->type.dtype, x, y, loops);
}

/* The coordinates of an operand: batch dims have those of the result's point `c`, contracted ones those of the loops,
 * the others c's next. */
static void place(tcc_affine *at, int rank, const tcc_dims *batch, const tcc_dims *contract, const tcc_affine *c,
                  const tcc_affine *loops, int *next) {
    for (int i = 0; i < rank; i++) {
        const int b = tcc_dims_find(batch, i), k = tcc_dims_find(contract, i);
        at[i] = b >= 0 ? c[b] : k >= 0 ? loops[k] : c[(*next)++];
    }
}

static const tcc_expr *trace_dot(tcc_body *b, const tcc_node *n, const tcc_affine *c) {
    const tcc_attrs_dot *dot = &n->attrs->dot;
    const tcc_node *a = n->operands[0], *w = n->operands[1];
    tcc_affine at_a[TCC_MAX_RANK], at_w[TCC_MAX_RANK], inner[TCC_MAX_RANK];
    uint64_t loops = 0;
    for (int i = 0; i < dot->contract_a.count; i++) inner[i] = fold_loop(b, a->type.dims[dot->contract_a.v[i]], &loops);
    int next = dot->batch_a.count;
    place(at_a, a->type.rank, &dot->batch_a, &dot->contract_a, c, inner, &next);
    place(at_w, w->type.rank, &dot->batch_b, &dot->contract_b, c, inner, &next);
    return product_sum(b, n, tcc_body_trace(b, a, at_a), tcc_body_trace(b, w, at_w), loops);
}

typedef struct conv_shape {
    int spatial;        /* number of spatial dims */
    int first, channel; /* of an image: its first spatial dim, and that of channels */
} conv_shape;

static conv_shape shape_of(const tcc_node *n) {
    const bool last = n->attrs->conv.channels_last;
    return (conv_shape){.spatial = n->type.rank - 2, .first = last ? 1 : 2, .channel = last ? n->type.rank - 1 : 1};
}

/* Coordinates of an image or a kernel from its parts. */
static void image_at(const conv_shape *s, tcc_affine batch, tcc_affine channel, const tcc_affine *spatial,
                     tcc_affine *out) {
    out[0] = batch;
    out[s->channel] = channel;
    for (int i = 0; i < s->spatial; i++) out[s->first + i] = spatial[i];
}

/* Traces x with each spatial coordinate required to be within its extent: outside, the padding, it is 0. */
static const tcc_expr *trace_within(tcc_body *b, const tcc_node *x, const tcc_affine *at, const tcc_expr *inside) {
    const tcc_expr *outer = b->guard;
    b->guard = tcc_expr_and(b, outer, inside);
    const tcc_expr *value = tcc_body_trace(b, x, at);
    b->guard = outer;
    if (!value || !inside || (value->kind == TCC_EXPR_LOAD && value->n_operands)) return value;
    const tcc_expr *operands[] = {inside, value, tcc_expr_number(b, x->type.dtype, 0)};
    return tcc_expr_point(b, TCC_OP_SELECT, x->type.dtype, operands, 3);
}

static const tcc_expr *trace_conv(tcc_body *b, const tcc_node *n, const tcc_affine *c) {
    const tcc_attrs_conv *conv = &n->attrs->conv;
    const tcc_node *x = n->operands[0], *w = n->operands[1];
    const conv_shape s = shape_of(n);
    const int first = s.first, channel = s.channel;
    uint64_t loops = 0;
    tcc_affine at_x[TCC_MAX_RANK], at_w[TCC_MAX_RANK], in[3], k[3];
    int64_t split[] = {conv->groups, n->type.dims[channel] / conv->groups};
    tcc_affine both[2];
    tcc_affine_split(b, c[channel], 2, split, both);
    int64_t in_per_group = x->type.dims[channel] / conv->groups;
    tcc_affine ci = fold_loop(b, in_per_group, &loops);
    const tcc_expr *inside = NULL;
    for (int i = 0; i < s.spatial; i++) {
        k[i] = fold_loop(b, w->type.dims[first + i], &loops);
        in[i] = tcc_affine_add(b, tcc_affine_scale(b, c[first + i], conv->stride.v[i]),
                               tcc_affine_scale(b, k[i], conv->dilation.v[i]));
        in[i] = tcc_affine_add_constant(in[i], -conv->pad_lo.v[i]);
        inside = tcc_expr_and(b, inside, tcc_expr_within(b, in[i], x->type.dims[first + i]));
    }
    image_at(&s, c[0], tcc_affine_add(b, tcc_affine_scale(b, both[0], in_per_group), ci), in, at_x);
    image_at(&s, c[channel], ci, k, at_w);
    return product_sum(b, n, trace_within(b, x, at_x, inside), tcc_body_trace(b, w, at_w), loops);
}

/* dx at i is the sum over k of dy at (i + pad - k dilation) / stride, where that is whole and within dy. */
static const tcc_expr *trace_conv_grad_input(tcc_body *b, const tcc_node *n, const tcc_affine *c) {
    const tcc_attrs_conv *conv = &n->attrs->conv;
    const tcc_node *dy = n->operands[0], *w = n->operands[1];
    const conv_shape s = shape_of(n);
    const int first = s.first, channel = s.channel;
    int64_t in_per_group = n->type.dims[channel] / conv->groups, out_per_group = dy->type.dims[channel] / conv->groups;
    uint64_t loops = 0;
    tcc_affine both[2], at_dy[TCC_MAX_RANK], at_w[TCC_MAX_RANK], out[3], k[3];
    int64_t split[] = {conv->groups, in_per_group};
    tcc_affine_split(b, c[channel], 2, split, both);
    tcc_affine co = tcc_affine_add(b, tcc_affine_scale(b, both[0], out_per_group), fold_loop(b, out_per_group, &loops));
    const tcc_expr *inside = NULL;
    for (int i = 0; i < s.spatial; i++) {
        int64_t stride = conv->stride.v[i], extent = dy->type.dims[first + i];
        k[i] = fold_loop(b, w->type.dims[first + i], &loops);
        tcc_affine at = tcc_affine_add(b, tcc_affine_add_constant(c[first + i], conv->pad_lo.v[i]),
                                       tcc_affine_scale(b, k[i], -conv->dilation.v[i]));
        inside = tcc_expr_and(b, inside, tcc_expr_within(b, at, (extent - 1) * stride + 1));
        if (stride == 1) {
            out[i] = at;
            continue;
        }
        const tcc_expr *index = tcc_expr_index(b, at, TCC_I32);
        const tcc_expr *q = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_DIV, .dtype = TCC_I32, .integer = stride},
                                          &index, 1);
        const tcc_expr *r = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_MOD, .dtype = TCC_I32, .integer = stride},
                                          &index, 1);
        const tcc_expr *whole[] = {r, tcc_expr_integer(b, TCC_I32, 0)};
        if (!q || !r || !whole[1]) return NULL;
        inside = tcc_expr_and(b, inside, tcc_expr_point(b, TCC_OP_EQ, TCC_BOOL, whole, 2));
        out[i] = tcc_affine_var(b, tcc_body_value_var(b, q, 0, extent - 1));
    }
    image_at(&s, c[0], co, out, at_dy);
    image_at(&s, co, both[1], k, at_w);
    return product_sum(b, n, trace_within(b, dy, at_dy, inside), tcc_body_trace(b, w, at_w), loops);
}

static const tcc_expr *trace_conv_grad_weight(tcc_body *b, const tcc_node *n, const tcc_affine *c) {
    const tcc_attrs_conv *conv = &n->attrs->conv;
    const tcc_node *x = n->operands[0], *dy = n->operands[1];
    const conv_shape s = shape_of(n);
    const int first = s.first, channel = s.channel;
    int64_t out_per_group = n->type.dims[0] / conv->groups, in_per_group = n->type.dims[channel];
    uint64_t loops = 0;
    tcc_affine both[2], at_x[TCC_MAX_RANK], at_dy[TCC_MAX_RANK], in[3], out[3];
    int64_t split[] = {conv->groups, out_per_group};
    tcc_affine_split(b, c[0], 2, split, both);
    tcc_affine batch = fold_loop(b, x->type.dims[0], &loops);
    const tcc_expr *inside = NULL;
    for (int i = 0; i < s.spatial; i++) {
        out[i] = fold_loop(b, dy->type.dims[first + i], &loops);
        in[i] = tcc_affine_add(b, tcc_affine_scale(b, out[i], conv->stride.v[i]),
                               tcc_affine_scale(b, c[first + i], conv->dilation.v[i]));
        in[i] = tcc_affine_add_constant(in[i], -conv->pad_lo.v[i]);
        inside = tcc_expr_and(b, inside, tcc_expr_within(b, in[i], x->type.dims[first + i]));
    }
    image_at(&s, batch, tcc_affine_add(b, tcc_affine_scale(b, both[0], in_per_group), c[channel]), in, at_x);
    image_at(&s, batch, c[0], out, at_dy);
    return product_sum(b, n, trace_within(b, x, at_x, inside), tcc_body_trace(b, dy, at_dy), loops);
}

/* --- Attention. Leading dims are shared; t, s, d count queries, keys, features. */

static const tcc_expr *binary(tcc_body *b, tcc_op op, tcc_dtype dtype, const tcc_expr *x, const tcc_expr *y) {
    const tcc_expr *operands[] = {x, y};
    return tcc_expr_point(b, op, dtype, operands, 2);
}

static const tcc_expr *trace_matrix(tcc_body *b, const tcc_node *n, const tcc_affine *lead, tcc_affine row,
                                    tcc_affine column) {
    tcc_affine at[TCC_MAX_RANK];
    for (int i = 0; i < n->type.rank - 2; i++) at[i] = n->type.dims[i] == 1 ? tcc_affine_constant(0) : lead[i];
    at[n->type.rank - 2] = row;
    at[n->type.rank - 1] = column;
    return tcc_body_trace(b, n, at);
}

/* scale q . k + mask, and -inf where the key is not seen. */
static const tcc_expr *score(tcc_body *b, const tcc_attrs_sdpa *a, const tcc_node *q, const tcc_node *k,
                             const tcc_node *mask, const tcc_affine *lead, tcc_affine t, tcc_affine s) {
    uint64_t loops = 0;
    tcc_dtype dtype = q->type.dtype;
    int64_t queries = q->type.dims[q->type.rank - 2], keys = k->type.dims[k->type.rank - 2];
    tcc_affine d = fold_loop(b, q->type.dims[q->type.rank - 1], &loops);
    const tcc_expr *x = binary(b, TCC_OP_MUL, dtype, trace_matrix(b, q, lead, t, d), trace_matrix(b, k, lead, s, d));
    x = tcc_expr_fold(b, TCC_OP_REDUCE_SUM, dtype, x, loops);
    x = binary(b, TCC_OP_MUL, dtype, x, tcc_expr_number(b, dtype, a->scale));
    if (mask) x = binary(b, TCC_OP_ADD, dtype, x, trace_matrix(b, mask, lead, t, s));
    if (a->causal) { /* 0 <= t + S - T - s */
        tcc_affine ahead = tcc_affine_add_constant(tcc_affine_add(b, t, tcc_affine_scale(b, s, -1)), keys - queries);
        const tcc_expr *seen = tcc_expr_within(b, ahead, queries + keys);
        const tcc_expr *operands[] = {seen, x, tcc_expr_number(b, dtype, -__builtin_inf())};
        if (seen) x = tcc_expr_point(b, TCC_OP_SELECT, dtype, operands, 3);
    }
    return x;
}

static const tcc_expr *unary(tcc_body *b, tcc_op op, const tcc_expr *x, tcc_dtype dtype) {
    return tcc_expr_point(b, op, dtype, &x, 1);
}

/* At least the lowest finite number, so that a row that sees no key subtracts -inf from nothing. */
static const tcc_expr *not_infinite(tcc_body *b, const tcc_expr *x, tcc_dtype dtype) {
    return binary(b, TCC_OP_MAX, dtype, x, tcc_expr_number(b, dtype, -0x1p127));
}

/* x, a value for query t and key s, with the dropout of the probabilities if the op has it. */
static const tcc_expr *drop(tcc_body *b, const tcc_node *n, const tcc_expr *x, const tcc_affine *lead, tcc_affine t,
                            tcc_affine s) {
    const tcc_node *q = n->operands[0], *k = n->operands[1], *key = tcc_sdpa_key(n);
    if (!key) return x;
    const tcc_attrs_sdpa *a = &n->attrs->sdpa;
    tcc_affine at[TCC_MAX_RANK], zero = tcc_affine_constant(0), one = tcc_affine_constant(1);
    tcc_type scores = q->type;
    const int rank = scores.rank;
    scores.dims[rank - 1] = k->type.dims[rank - 2];
    for (int i = 0; i < rank - 2; i++) at[i] = scores.dims[i] == 1 ? zero : lead[i];
    at[rank - 2] = t, at[rank - 1] = s;
    const tcc_expr *outer = b->guard;
    b->guard = NULL; /* the key can always be read */
    const tcc_expr *draw[] = {tcc_expr_index(b, tcc_affine_linear(b, at, rank, scores.dims), TCC_I64),
                              tcc_body_trace(b, key, &zero), tcc_body_trace(b, key, &one)};
    b->guard = outer;
    const tcc_expr uniform_draw = {
        .kind = TCC_EXPR_POINT, .dtype = TCC_F32, .op = TCC_OP_RNG_UNIFORM, .integer = a->id};
    const tcc_expr *uniform = tcc_expr_make(b, uniform_draw, draw, 3);
    const tcc_expr *kept = binary(b, TCC_OP_MUL, x->dtype, x, tcc_expr_number(b, x->dtype, 1 / (1 - a->p)));
    const tcc_expr *operands[] = {binary(b, TCC_OP_GE, TCC_BOOL, uniform, tcc_expr_number(b, TCC_F32, a->p)), kept,
                                  tcc_expr_number(b, x->dtype, 0)};
    return tcc_expr_point(b, TCC_OP_SELECT, x->dtype, operands, 3);
}

/* The largest score of row t. */
static const tcc_expr *row_maximum(tcc_body *b, const tcc_node *n, const tcc_node *mask, const tcc_affine *lead,
                                   tcc_affine t) {
    const tcc_node *q = n->operands[0], *k = n->operands[1];
    uint64_t loops = 0;
    tcc_affine s = fold_loop(b, k->type.dims[k->type.rank - 2], &loops);
    const tcc_expr *x = score(b, &n->attrs->sdpa, q, k, mask, lead, t, s);
    return not_infinite(b, tcc_expr_fold(b, TCC_OP_REDUCE_MAX, q->type.dtype, x, loops), q->type.dtype);
}

static const tcc_expr *trace_attention(tcc_body *b, const tcc_node *n, const tcc_affine *c) {
    const tcc_node *q = n->operands[0], *k = n->operands[1], *mask = tcc_sdpa_mask(n);
    const tcc_attrs_sdpa *a = &n->attrs->sdpa;
    tcc_dtype dtype = q->type.dtype;
    int lead = q->type.rank - 2;
    int64_t queries = q->type.dims[lead], keys = k->type.dims[lead];
    uint64_t loops = 0;
    if (n->op == TCC_OP_SDPA || n->op == TCC_OP_SDPA_LSE) {
        bool lse = n->op == TCC_OP_SDPA_LSE;
        const tcc_expr *top = row_maximum(b, n, mask, c, c[lead]);
        tcc_affine s = fold_loop(b, keys, &loops);
        const tcc_expr *x = score(b, a, q, k, mask, c, c[lead], s);
        const tcc_expr *weight = unary(b, TCC_OP_EXP, binary(b, TCC_OP_SUB, dtype, x, top), dtype);
        const tcc_expr *sum = tcc_expr_fold(b, TCC_OP_REDUCE_SUM, dtype, weight, loops);
        if (lse) return binary(b, TCC_OP_ADD, dtype, top, unary(b, TCC_OP_LOG, sum, dtype));
        const tcc_expr *value = trace_matrix(b, n->operands[2], c, s, c[lead + 1]);
        value = binary(b, TCC_OP_MUL, dtype, drop(b, n, weight, c, c[lead], s), value);
        value = tcc_expr_fold(b, TCC_OP_REDUCE_SUM, dtype, value, loops);
        /* a row that sees no key gives 0 / 1; else the sum is at least 1 */
        return binary(b, TCC_OP_DIV, dtype, value, binary(b, TCC_OP_MAX, dtype, sum, tcc_expr_number(b, dtype, 1)));
    }
    /* gradients, those by keys summed over queries that share them: p = e^(score - lse), dp = dropout(do . v), ds =
     * p (dp - do . o) */
    const tcc_node *v = n->operands[2], *o = n->operands[3], *lse = n->operands[4], *grad = n->operands[5];
    bool by_query = n->op == TCC_OP_SDPA_GRAD_Q;
    tcc_affine at[TCC_MAX_RANK]; /* of batches of queries; then of one of them */
    for (int i = 0; i < lead; i++)
        at[i] = !by_query && tcc_sdpa_shares(n, i) ? fold_loop(b, q->type.dims[i], &loops) : c[i];
    tcc_affine other = fold_loop(b, by_query ? keys : queries, &loops);
    tcc_affine t = by_query ? c[lead] : other, s = by_query ? other : c[lead];
    at[lead] = t;
    const tcc_expr *x = score(b, a, q, k, mask, at, t, s);
    const tcc_expr *p = unary(
        b, TCC_OP_EXP, binary(b, TCC_OP_SUB, dtype, x, not_infinite(b, tcc_body_trace(b, lse, at), dtype)), dtype);
    if (n->op == TCC_OP_SDPA_GRAD_V) {
        const tcc_expr *dropped = drop(b, n, p, at, t, s);
        return tcc_expr_fold(b, TCC_OP_REDUCE_SUM, dtype,
                             binary(b, TCC_OP_MUL, dtype, dropped, trace_matrix(b, grad, at, t, c[lead + 1])), loops);
    }
    uint64_t inner = 0;
    tcc_affine e = fold_loop(b, v->type.dims[lead + 1], &inner);
    const tcc_expr *do_ = trace_matrix(b, grad, at, t, e);
    const tcc_expr *value = drop(b, n, trace_matrix(b, v, at, s, e), at, t, s);
    const tcc_expr *difference = binary(b, TCC_OP_SUB, dtype, value, trace_matrix(b, o, at, t, e));
    const tcc_expr *dp = tcc_expr_fold(b, TCC_OP_REDUCE_SUM, dtype, binary(b, TCC_OP_MUL, dtype, do_, difference),
                                       inner);
    const tcc_expr *ds = binary(b, TCC_OP_MUL, dtype, binary(b, TCC_OP_MUL, dtype, p, dp),
                                tcc_expr_number(b, dtype, a->scale));
    const tcc_expr *with = by_query ? trace_matrix(b, k, at, s, c[lead + 1]) : trace_matrix(b, q, at, t, c[lead + 1]);
    return tcc_expr_fold(b, TCC_OP_REDUCE_SUM, dtype, binary(b, TCC_OP_MUL, dtype, ds, with), loops);
}

const tcc_expr *tcc_body_trace_dense(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    switch (n->op) {
    case TCC_OP_DOT: return trace_dot(b, n, coordinates);
    case TCC_OP_CONV: return trace_conv(b, n, coordinates);
    case TCC_OP_CONV_GRAD_INPUT: return trace_conv_grad_input(b, n, coordinates);
    case TCC_OP_CONV_GRAD_WEIGHT: return trace_conv_grad_weight(b, n, coordinates);
    default: return trace_attention(b, n, coordinates);
    }
}

/* The sum of an operand beside a dot, where both are plain loops: a loop of its own at each point. Other reductions
 * have groups whose schedule traces them. */
const tcc_expr *tcc_body_trace_sum(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_node *x = n->operands[0];
    tcc_affine mapped[TCC_MAX_RANK] = {{0}};
    uint64_t loops = 0;
    if (n->op != TCC_OP_REDUCE_SUM) {
        b->status = TCC_BUG(b->diag, "no loops of %s", tcc_node_text(n));
        return NULL;
    }
    for (int i = 0, k = 0; i < x->type.rank; i++)
        mapped[i] = tcc_dims_has(&n->attrs->axes.axes, i) ? fold_loop(b, x->type.dims[i], &loops) : coordinates[k++];
    const tcc_expr *value = tcc_body_trace(b, x, mapped);
    return loops && value ? tcc_expr_fold(b, n->op, n->type.dtype, value, loops) : value;
}
