/* SPDX-License-Identifier: MIT
 * Windows as folds at each point of the result: pooling, adaptive pooling, resizing, and their gradients. All are in
 * gather form: a gradient reads the windows that contain its point, so that no two work items add to one element.
 *
 * All but max pooling are separable: for each position along a dim, a table has the positions that it reads and their
 * weights. A table that turns out regular vanishes into the index arithmetic. */
#include "codegen/body/trace.h"

#include <math.h>

/* Position p of a dim reads first[p] .. first[p] + count[p] - 1 with weights[k * n + p]. */
typedef struct reach {
    int64_t n, most;
    int32_t *first, *count;
    double *weights;
    int32_t *places; /* [most, n], what is read one by one, in tables that were filled up; NULL */
} reach;

static reach new_reach(tcc_body *b, int64_t n, int64_t most) {
    reach r = {n,
               most,
               TCC_ARENA_ARRAY(b->arena, int32_t, n),
               TCC_ARENA_ARRAY(b->arena, int32_t, n),
               TCC_ARENA_ARRAY(b->arena, double, n *most),
               NULL};
    if ((!r.first || !r.count || !r.weights) && b->status == TCC_OK) b->status = tcc_enomem(b->diag);
    return r;
}

enum { TAPS = 4 }; /* of the largest window whose weights differ */

/* Keys' kernel with a = -3/4, at distance d. */
static double keys(double d) {
    const double a = -0.75;
    d = fabs(d);
    if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* The border is repeated: taps outside add their weights to those of the border. */
static void cubic_window(int64_t in, double source, int64_t *first, int64_t *count, double weight[TAPS]) {
    const int64_t below = (int64_t)floor(source);
    *first = below > 1 ? below - 1 : 0;
    for (int k = 0; k < TAPS; k++) weight[k] = 0;
    for (int64_t tap = below - 1; tap <= below + 2; tap++) {
        const int64_t place = tap < 0 ? 0 : tap < in ? tap : in - 1;
        *count = place - *first + 1;
        weight[place - *first] += keys(source - (double)tap);
    }
}

static void window_of(const tcc_node *n, int64_t in, int64_t out, int64_t o, int64_t *first, int64_t *count,
                      double weight[TAPS]) {
    bool corners = n->attrs->resize.align_corners;
    for (int k = 0; k < TAPS; k++) weight[k] = 1;
    *count = 1;
    switch (n->op) {
    case TCC_OP_ADAPTIVE_AVG_POOL:
    case TCC_OP_ADAPTIVE_AVG_POOL_GRAD:
        *first = o * in / out;
        *count = ((o + 1) * in + out - 1) / out - *first;
        for (int k = 0; k < TAPS; k++) weight[k] = 1 / (double)*count;
        return;
    case TCC_OP_RESIZE_NEAREST:
    case TCC_OP_RESIZE_NEAREST_GRAD:
        *first = !corners ? o * in / out : out == 1 ? 0 : (2 * o * (in - 1) + out - 1) / (2 * (out - 1));
        return;
    default: {
        *first = o;
        if (in == out) return;
        double source = ((double)o + 0.5) * (double)in / (double)out - 0.5;
        if (corners) source = out == 1 ? 0 : (double)(o * (in - 1)) / (double)(out - 1);
        if (n->op == TCC_OP_RESIZE_BICUBIC || n->op == TCC_OP_RESIZE_BICUBIC_GRAD) {
            cubic_window(in, source, first, count, weight);
            return;
        }
        source = fmax(source, 0);
        *first = (int64_t)source;
        if (*first >= in - 1) {
            *first = in - 1;
            return;
        }
        *count = 2;
        weight[1] = source - (double)*first;
        weight[0] = 1 - weight[1];
    }
    }
}

/* The table of a resizing op from large side `in` to result side `out`, or of its gradient, which is the transpose. */
static reach resize_reach(tcc_body *b, const tcc_node *n, int64_t in, int64_t out, bool backward) {
    int64_t most = 1, first, count;
    double weight[TAPS];
    if (!backward) {
        for (int64_t o = 0; o < out; o++) {
            window_of(n, in, out, o, &first, &count, weight);
            if (count > most) most = count;
        }
        reach r = new_reach(b, out, most);
        for (int64_t o = 0; b->status == TCC_OK && o < out; o++) {
            window_of(n, in, out, o, &first, &count, weight);
            r.first[o] = (int32_t)first;
            r.count[o] = (int32_t)count;
            for (int64_t k = 0; k < count; k++) r.weights[k * out + o] = weight[k < TAPS ? k : 0];
        }
        return r;
    }
    int32_t *readers = TCC_ARENA_ARRAY(b->arena, int32_t, in);
    if (!readers) {
        b->status = tcc_enomem(b->diag);
        return (reach){0};
    }
    for (int64_t o = 0; o < out; o++) {
        window_of(n, in, out, o, &first, &count, weight);
        for (int64_t k = 0; k < count; k++)
            if (++readers[first + k] > most) most = readers[first + k];
    }
    reach r = new_reach(b, in, most);
    for (int64_t o = 0; b->status == TCC_OK && o < out;
         o++) { /* windows move one way: the readers of a position are neighbours */
        window_of(n, in, out, o, &first, &count, weight);
        for (int64_t k = 0; k < count; k++) {
            int64_t i = first + k;
            if (r.count[i] == 0) r.first[i] = (int32_t)o;
            r.weights[r.count[i]++ * in + i] = weight[k < TAPS ? k : 0];
        }
    }
    return r;
}

/* So that all positions read `most` others, and none asks how many: the last one's weight is divided among equal
 * readings of it. What is infinite stays so, as it would not with weights of 0. Nothing is done where a position reads
 * no other. */
static void fill_up(tcc_body *b, reach *r) {
    bool all = b->status == TCC_OK, full = true;
    for (int64_t i = 0; all && i < r->n; i++) {
        all = r->count[i] > 0;
        full = full && r->count[i] == r->most;
    }
    if (!all || full) return;
    r->places = TCC_ARENA_ARRAY(b->arena, int32_t, r->n * r->most);
    if (!r->places) {
        b->status = tcc_enomem(b->diag);
        return;
    }
    for (int64_t i = 0; i < r->n; i++) {
        const int64_t last = r->count[i] - 1;
        const double weight = r->weights[last * r->n + i] / (double)(r->most - last);
        for (int64_t k = 0; k < r->most; k++) {
            r->places[k * r->n + i] = r->first[i] + (int32_t)(k < last ? k : last);
            if (k >= last) r->weights[k * r->n + i] = weight;
        }
        r->count[i] = (int32_t)r->most;
    }
}

static tcc_affine fold_loop(tcc_body *b, int64_t extent, uint64_t *loops) {
    if (extent == 1) return tcc_affine_constant(0);
    int var = tcc_body_loop(b, extent);
    *loops |= UINT64_C(1) << var;
    return tcc_affine_var(b, var);
}

static const tcc_expr *binary(tcc_body *b, tcc_op op, tcc_dtype dtype, const tcc_expr *x, const tcc_expr *y) {
    const tcc_expr *operands[] = {x, y};
    return tcc_expr_point(b, op, dtype, operands, 2);
}

static const tcc_expr *choose(tcc_body *b, tcc_dtype dtype, const tcc_expr *c, const tcc_expr *x, const tcc_expr *y) {
    const tcc_expr *operands[] = {c, x, y};
    return tcc_expr_point(b, TCC_OP_SELECT, dtype, operands, 3);
}

/* Weights in the element type that the fold computes in. */
static const tcc_expr *weight_table(tcc_body *b, tcc_dtype dtype, const double *weights, int64_t n, tcc_affine at) {
    bool wide = dtype == TCC_F64;
    void *table = tcc_arena_alloc(b->arena, (size_t)n * (wide ? 8 : 4));
    if (!table) {
        b->status = tcc_enomem(b->diag);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++) {
        if (wide) ((double *)table)[i] = weights[i];
        else ((float *)table)[i] = (float)weights[i];
    }
    return tcc_expr_load(b, tcc_body_literal(b, wide ? TCC_F64 : TCC_F32, table, n), at, NULL);
}

/* Maps position p through the table with fold position k: the place read, the guard (NULL: none), the weight (NULL: 1).
 */
static tcc_affine through(tcc_body *b, const reach *r, tcc_affine p, tcc_affine k, int64_t other_extent,
                          tcc_dtype dtype, const tcc_expr **guard, const tcc_expr **weight) {
    *guard = *weight = NULL;
    if (b->status != TCC_OK) return tcc_affine_constant(0);
    bool regular = true, counts_equal = true, weights_equal = true, ones = true;
    int64_t step = r->n > 1 ? r->first[1] - r->first[0] : 0, last = 0;
    for (int64_t i = 0; i < r->n; i++) {
        regular = regular && r->first[i] == r->first[0] + i * step;
        counts_equal = counts_equal && r->count[i] == r->most;
        if (r->first[i] > last) last = r->first[i];
        for (int64_t j = 0; j < r->count[i]; j++) {
            double w = r->weights[j * r->n + i];
            weights_equal = weights_equal && w == r->weights[0];
            ones = ones && w == 1;
        }
    }
    if (!counts_equal) {
        const tcc_expr *count = tcc_expr_load(b, tcc_body_literal(b, TCC_I32, r->count, r->n), p, NULL);
        *guard = binary(b, TCC_OP_LT, TCC_BOOL, tcc_expr_index(b, k, TCC_I32), count);
    }
    if (ones) *weight = NULL;
    else if (weights_equal) *weight = tcc_expr_number(b, dtype, r->weights[0]);
    else
        *weight = weight_table(b, dtype, r->weights, r->n * r->most,
                               tcc_affine_add(b, tcc_affine_scale(b, k, r->n), p));
    if (other_extent == 1) return tcc_affine_constant(0);
    if (r->places) {
        const tcc_affine at = tcc_affine_add(b, tcc_affine_scale(b, k, r->n), p);
        const tcc_expr *place = tcc_expr_load(b, tcc_body_places(b, r->places, r->most, r->n), at, NULL);
        if (!place) return tcc_affine_constant(0);
        return tcc_affine_var(b, tcc_body_value_var(b, place, 0, other_extent - 1));
    }
    if (regular) return tcc_affine_add(b, tcc_affine_add_constant(tcc_affine_scale(b, p, step), r->first[0]), k);
    const tcc_expr *first = tcc_expr_load(b, tcc_body_literal(b, TCC_I32, r->first, r->n), p, NULL);
    if (!first) return tcc_affine_constant(0);
    return tcc_affine_add(b, tcc_affine_var(b, tcc_body_value_var(b, first, 0, last)), k);
}

/* x at a place, 0 where the guard does not hold. */
static const tcc_expr *guarded(tcc_body *b, const tcc_node *x, const tcc_affine *at, const tcc_expr *guard) {
    const tcc_expr *outer = b->guard;
    b->guard = tcc_expr_and(b, outer, guard);
    const tcc_expr *value = tcc_body_trace(b, x, at);
    b->guard = outer;
    if (!value || !guard || (value->kind == TCC_EXPR_LOAD && value->n_operands)) return value;
    return choose(b, x->type.dtype, guard, value, tcc_expr_number(b, x->type.dtype, 0));
}

static const tcc_expr *trace_resize(tcc_body *b, const tcc_node *n, const tcc_affine *c, bool backward) {
    const tcc_node *x = n->operands[0];
    int spatial = n->type.rank - 2, first = n->attrs->resize.channels_last ? 1 : 2;
    tcc_affine at[TCC_MAX_RANK];
    const tcc_expr *inside = NULL, *weight = NULL;
    uint64_t loops = 0;
    for (int i = 0; i < n->type.rank; i++) at[i] = c[i];
    for (int i = first; i < first + spatial; i++) {
        int64_t here = n->type.dims[i], there = x->type.dims[i];
        reach r = backward ? resize_reach(b, n, here, there, true) : resize_reach(b, n, there, here, false);
        if (b->status != TCC_OK) return NULL;
        const tcc_expr *guard, *w;
        tcc_affine k = fold_loop(b, r.most, &loops);
        at[i] = through(b, &r, c[i], k, there, n->type.dtype, &guard, &w);
        inside = tcc_expr_and(b, inside, guard);
        if (w) weight = weight ? binary(b, TCC_OP_MUL, n->type.dtype, weight, w) : w;
    }
    const tcc_expr *value = guarded(b, x, at, inside);
    if (weight) value = binary(b, TCC_OP_MUL, n->type.dtype, value, weight);
    return tcc_expr_fold(b, TCC_OP_REDUCE_SUM, n->type.dtype, value, loops);
}

/* Long windows: sums along one dim within those along the dim before it, each product with one weight. */
static const tcc_expr *trace_cubic(tcc_body *b, const tcc_node *n, const tcc_affine *c, bool backward) {
    const tcc_node *x = n->operands[0];
    const int spatial = n->type.rank - 2, first = n->attrs->resize.channels_last ? 1 : 2;
    tcc_affine at[TCC_MAX_RANK];
    const tcc_expr *inside = NULL, *weight[TCC_MAX_RANK] = {NULL};
    uint64_t loops[TCC_MAX_RANK] = {0};
    for (int i = 0; i < n->type.rank; i++) at[i] = c[i];
    for (int i = first; i < first + spatial; i++) {
        const int64_t here = n->type.dims[i], there = x->type.dims[i];
        reach r = backward ? resize_reach(b, n, here, there, true) : resize_reach(b, n, there, here, false);
        fill_up(b, &r);
        if (b->status != TCC_OK) return NULL;
        const tcc_expr *guard;
        at[i] = through(b, &r, c[i], fold_loop(b, r.most, &loops[i]), there, n->type.dtype, &guard, &weight[i]);
        inside = tcc_expr_and(b, inside, guard);
    }
    const tcc_expr *value = guarded(b, x, at, inside);
    for (int i = first + spatial - 1; i >= first; i--) {
        const tcc_expr *w = weight[i] ? weight[i] : tcc_expr_number(b, n->type.dtype, 1);
        if (loops[i]) value = tcc_expr_fold_products(b, n->type.dtype, value, w, loops[i]);
        else if (weight[i]) value = binary(b, TCC_OP_MUL, n->type.dtype, value, w);
    }
    return value;
}

/* --- Pooling */

/* 1 / (elements of window o that count) along spatial dim d, at form `o`. */
static const tcc_expr *pool_weight(tcc_body *b, const tcc_attrs_pool *pool, int d, int64_t in, int64_t out,
                                   tcc_affine o, tcc_dtype dtype) {
    double *weights = TCC_ARENA_ARRAY(b->arena, double, out);
    if (!weights) {
        b->status = tcc_enomem(b->diag);
        return NULL;
    }
    bool equal = true;
    for (int64_t i = 0; i < out; i++) {
        int64_t first = i * pool->stride.v[d] - pool->pad_lo.v[d], end = first + pool->window.v[d];
        if (first < 0) first = 0;
        if (end > in) end = in;
        weights[i] = 1 / (double)(pool->include_pad ? pool->window.v[d] : end - first);
        equal = equal && weights[i] == weights[0];
    }
    return equal ? tcc_expr_number(b, dtype, weights[0]) : weight_table(b, dtype, weights, out, o);
}

/* An element of the window at c of the first operand, by `loops`; padding is 0, or -inf where a maximum is taken.
 * *weight: of a mean, NULL: not wanted. */
static const tcc_expr *pooled(tcc_body *b, const tcc_node *n, const tcc_affine *c, uint64_t *loops,
                              const tcc_expr **weight) {
    const tcc_attrs_pool *pool = &n->attrs->pool;
    const tcc_node *x = n->operands[0];
    int spatial = n->type.rank - 2, first = pool->channels_last ? 1 : 2;
    tcc_affine at[TCC_MAX_RANK];
    const tcc_expr *inside = NULL;
    for (int i = 0; i < n->type.rank; i++) at[i] = c[i];
    for (int d = 0; d < spatial; d++) {
        int i = first + d;
        tcc_affine start = tcc_affine_add_constant(tcc_affine_scale(b, c[i], pool->stride.v[d]), -pool->pad_lo.v[d]);
        at[i] = tcc_affine_add(b, start, fold_loop(b, pool->window.v[d], loops));
        inside = tcc_expr_and(b, inside, tcc_expr_within(b, at[i], x->type.dims[i]));
        if (!weight) continue;
        const tcc_expr *w = pool_weight(b, pool, d, x->type.dims[i], n->type.dims[i], c[i], x->type.dtype);
        *weight = *weight ? binary(b, TCC_OP_MUL, x->type.dtype, *weight, w) : w;
    }
    const tcc_expr *value = guarded(b, x, at, inside);
    if (weight || !inside) return value;
    return choose(b, x->type.dtype, inside, value, tcc_expr_number(b, x->type.dtype, -INFINITY));
}

static const tcc_expr *trace_max_pool(tcc_body *b, const tcc_node *n, const tcc_affine *c) {
    uint64_t loops = 0;
    const tcc_expr *value = pooled(b, n, c, &loops, NULL);
    return tcc_expr_fold(b, TCC_OP_REDUCE_MAX, n->type.dtype, value, loops);
}

static const tcc_expr *trace_avg_pool(tcc_body *b, const tcc_node *n, const tcc_affine *c) {
    uint64_t loops = 0;
    const tcc_expr *weight = NULL, *value = pooled(b, n, c, &loops, &weight);
    return binary(b, TCC_OP_MUL, n->type.dtype, tcc_expr_fold(b, TCC_OP_REDUCE_SUM, n->type.dtype, value, loops),
                  weight);
}

/* Which windows hold position p of a dim: o = (p + pad) / stride - j for j = 0, 1, ... as far as the window reaches;
 * `within` is p's place in window o. */
static tcc_affine holder(tcc_body *b, const tcc_attrs_pool *pool, int d, int64_t in, int64_t out, tcc_affine p,
                         uint64_t *loops, tcc_affine *within, const tcc_expr **guard) {
    int64_t stride = pool->stride.v[d], window = pool->window.v[d];
    int64_t dims[] = {(in + pool->pad_lo.v[d] + stride - 1) / stride, stride};
    tcc_affine parts[2] = {tcc_affine_add_constant(p, pool->pad_lo.v[d]), tcc_affine_constant(0)};
    if (stride > 1) tcc_affine_split(b, tcc_affine_add_constant(p, pool->pad_lo.v[d]), 2, dims, parts);
    if (stride > 1 && dims[0] == 1) parts[0] = tcc_affine_constant(0);
    tcc_affine j = fold_loop(b, (window + stride - 1) / stride, loops);
    tcc_affine o = tcc_affine_add(b, parts[0], tcc_affine_scale(b, j, -1));
    *within = tcc_affine_add(b, parts[1], tcc_affine_scale(b, j, stride));
    *guard = tcc_expr_and(b, *guard, tcc_expr_within(b, o, out));
    *guard = tcc_expr_and(b, *guard, tcc_expr_within(b, *within, window));
    return o;
}

static const tcc_expr *trace_avg_pool_grad(tcc_body *b, const tcc_node *n, const tcc_affine *c) {
    const tcc_attrs_pool *pool = &n->attrs->pool;
    const tcc_node *dy = n->operands[0];
    int spatial = n->type.rank - 2, first = pool->channels_last ? 1 : 2;
    tcc_affine at[TCC_MAX_RANK], within;
    const tcc_expr *inside = NULL, *weight = NULL;
    uint64_t loops = 0;
    for (int i = 0; i < n->type.rank; i++) at[i] = c[i];
    for (int d = 0; d < spatial; d++) {
        int i = first + d;
        at[i] = holder(b, pool, d, n->type.dims[i], dy->type.dims[i], c[i], &loops, &within, &inside);
    }
    const tcc_expr *value = guarded(b, dy, at, inside), *outer = b->guard;
    b->guard = tcc_expr_and(b, outer, inside);
    for (int d = 0; d < spatial; d++) {
        int i = first + d;
        const tcc_expr *w = pool_weight(b, pool, d, n->type.dims[i], dy->type.dims[i], at[i], n->type.dtype);
        if (w && w->kind == TCC_EXPR_LOAD && inside) w = tcc_expr_load(b, w->buffer, at[i], b->guard);
        weight = weight ? binary(b, TCC_OP_MUL, n->type.dtype, weight, w) : w;
    }
    b->guard = outer;
    return tcc_expr_fold(b, TCC_OP_REDUCE_SUM, n->type.dtype, binary(b, TCC_OP_MUL, n->type.dtype, value, weight),
                         loops);
}

/* The number of the first element of window c that is no padding, in row-major order; NULL: 0 everywhere. */
static const tcc_expr *first_inside(tcc_body *b, const tcc_node *n, const tcc_affine *c) {
    const tcc_attrs_pool *pool = &n->attrs->pool;
    const int spatial = n->type.rank - 2, first = pool->channels_last ? 1 : 2;
    const tcc_expr *number = NULL;
    int64_t stride = 1; /* of the dim in a window */
    for (int d = spatial - 1; d >= 0; stride *= pool->window.v[d], d--) {
        if (!pool->pad_lo.v[d]) continue;
        tcc_affine missing = tcc_affine_add_constant(tcc_affine_scale(b, c[first + d], -pool->stride.v[d]),
                                                     pool->pad_lo.v[d]);
        const tcc_expr *part = binary(b, TCC_OP_MAX, TCC_I32,
                                      tcc_expr_index(b, tcc_affine_scale(b, missing, stride), TCC_I32),
                                      tcc_expr_integer(b, TCC_I32, 0));
        number = number ? binary(b, TCC_OP_ADD, TCC_I32, number, part) : part;
    }
    return number;
}

/* The maxima whose places a node gives, if they are evaluated here, too; else NULL. */
static const tcc_node *maxima_of(const tcc_body *b, const tcc_node *place) {
    for (int i = 0; i < b->n_nodes; i++) {
        const tcc_node *n = b->nodes[i];
        if (n->op == TCC_OP_MAX_POOL && n->operands[0] == place->operands[0] &&
            tcc_attrs_equal(tcc_op_get_info(n->op)->attrs, n->attrs, place->attrs))
            return n;
    }
    return NULL;
}

/* Padding is -inf, which wins nowhere but in front of elements that are all -inf. Maximum and place are folds of one
 * value over the same loops, so that one walk makes both. */
static const tcc_expr *trace_max_pool_place(tcc_body *b, const tcc_node *n, const tcc_affine *c) {
    const tcc_node *maxima = maxima_of(b, n);
    const tcc_expr *max = maxima ? tcc_body_trace(b, maxima, c) : NULL, *first = first_inside(b, n, c), *value = NULL;
    uint64_t loops = 0;
    if (max && max->kind == TCC_EXPR_FOLD) value = max->operands[0], loops = max->fold;
    else value = pooled(b, n, c, &loops, NULL);
    const tcc_expr *place = tcc_expr_fold(b, TCC_OP_ARGMAX, TCC_I32, value, loops);
    return first ? binary(b, TCC_OP_MAX, TCC_I32, place, first) : place;
}

/* Asks each window that holds the point whether its maximum is here. */
static const tcc_expr *trace_max_pool_grad(tcc_body *b, const tcc_node *n, const tcc_affine *c) {
    const tcc_attrs_pool *pool = &n->attrs->pool;
    const tcc_node *place = n->operands[0], *dy = n->operands[1];
    int spatial = n->type.rank - 2, first = pool->channels_last ? 1 : 2;
    tcc_dtype dtype = n->type.dtype;
    tcc_affine at[TCC_MAX_RANK], number = tcc_affine_constant(0);
    const tcc_expr *inside = NULL;
    uint64_t loops = 0;
    for (int i = 0; i < n->type.rank; i++) at[i] = c[i];
    for (int d = 0; d < spatial; d++) {
        int i = first + d;
        tcc_affine within;
        at[i] = holder(b, pool, d, n->type.dims[i], dy->type.dims[i], c[i], &loops, &within, &inside);
        number = tcc_affine_add(b, tcc_affine_scale(b, number, pool->window.v[d]), within);
    }
    const tcc_expr *here = guarded(b, place, at, inside);
    if (here && here->dtype != TCC_I32) here = tcc_expr_point(b, TCC_OP_CAST, TCC_I32, &here, 1);
    here = binary(b, TCC_OP_EQ, TCC_BOOL, here, tcc_expr_index(b, number, TCC_I32));
    here = tcc_expr_and(b, inside, here);
    const tcc_expr *value = choose(b, dtype, here, guarded(b, dy, at, inside), tcc_expr_number(b, dtype, 0));
    return tcc_expr_fold(b, TCC_OP_REDUCE_SUM, dtype, value, loops);
}

const tcc_expr *tcc_body_trace_window(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    switch (n->op) {
    case TCC_OP_MAX_POOL: return trace_max_pool(b, n, coordinates);
    case TCC_OP_MAX_POOL_PLACE: return trace_max_pool_place(b, n, coordinates);
    case TCC_OP_AVG_POOL: return trace_avg_pool(b, n, coordinates);
    case TCC_OP_MAX_POOL_GRAD: return trace_max_pool_grad(b, n, coordinates);
    case TCC_OP_AVG_POOL_GRAD: return trace_avg_pool_grad(b, n, coordinates);
    case TCC_OP_RESIZE_BICUBIC: return trace_cubic(b, n, coordinates, false);
    case TCC_OP_RESIZE_BICUBIC_GRAD: return trace_cubic(b, n, coordinates, true);
    case TCC_OP_ADAPTIVE_AVG_POOL:
    case TCC_OP_RESIZE_NEAREST:
    case TCC_OP_RESIZE_BILINEAR: return trace_resize(b, n, coordinates, false);
    default: return trace_resize(b, n, coordinates, true);
    }
}
