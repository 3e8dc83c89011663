/* SPDX-License-Identifier: MIT
 * Definitions of gradients that are ops of their own: those of max pooling and of attention. The ops are what runs;
 * these are differentiated where a second derivative is asked for. */
#include "ir/build.h"
#include "ir/decompose.h"
#include "ir/decompose_rules.h"
#include "ir/sdpa.h"

#include <math.h>

/* -- Max pooling -- */

/* How a window's elements lie in x: a window slides over the padded image. */
typedef struct windows {
    const tcc_attrs_pool *pool;
    const tcc_type *x, *y;
    int first; /* spatial dim of x */
    int64_t lo[TCC_MAX_RANK], hi[TCC_MAX_RANK], none[TCC_MAX_RANK];
    int64_t extent[TCC_MAX_RANK], stride[TCC_MAX_RANK]; /* of the padded image */
} windows;

static windows find_windows(const tcc_node *n, const tcc_type *x, const tcc_type *y) {
    windows w = {.pool = &n->attrs->pool, .x = x, .y = y, .first = n->attrs->pool.channels_last ? 1 : 2};
    for (int d = 0; d < x->rank; d++) w.extent[d] = x->dims[d], w.stride[d] = 1;
    for (int i = 0; i < w.pool->window.count; i++) {
        const int d = w.first + i;
        w.lo[d] = w.pool->pad_lo.v[i], w.hi[d] = w.pool->pad_hi.v[i], w.stride[d] = w.pool->stride.v[i];
        w.extent[d] += w.lo[d] + w.hi[d];
    }
    return w;
}

/* Element `number` of each window: where the first one lies in the padded image, and the place behind the last. */
static void find_element(const windows *w, int64_t number, int64_t *start, int64_t *limit) {
    for (int d = 0; d < w->x->rank; d++) start[d] = 0;
    for (int i = w->pool->window.count - 1; i >= 0; i--) {
        start[w->first + i] = number % w->pool->window.v[i];
        number /= w->pool->window.v[i];
    }
    for (int d = 0; d < w->x->rank; d++) limit[d] = start[d] + (w->y->dims[d] - 1) * w->stride[d] + 1;
}

/* The values of the windows, spread over the padded image, zeros elsewhere. */
static tcc_node *spread(tcc_graph *g, const windows *w, tcc_node *values, const int64_t *start, const int64_t *limit) {
    int64_t behind[TCC_MAX_RANK] = {0}, between[TCC_MAX_RANK] = {0};
    for (int d = 0; d < w->x->rank; d++) behind[d] = w->extent[d] - limit[d], between[d] = w->stride[d] - 1;
    return tcc_ir_pad(g, values, 0, start, behind, between);
}

/* in: place, dy. */
TCC_DEFINITION(MAX_POOL_GRAD) {
    tcc_node *place = in[0], *dy = in[1], *sum = NULL;
    const windows w = find_windows(n, &n->type, &dy->type);
    tcc_node *zero = tcc_ir_splat_like(g, dy, 0);
    int64_t elements = 1, start[TCC_MAX_RANK], limit[TCC_MAX_RANK];
    for (int i = 0; i < w.pool->window.count; i++) elements *= w.pool->window.v[i];
    for (int64_t e = 0; e < elements; e++) {
        find_element(&w, e, start, limit);
        tcc_node *here = tcc_ir_binary(g, TCC_OP_EQ, place, tcc_ir_splat_like(g, place, (double)e));
        tcc_node *given = spread(g, &w, tcc_ir_select(g, here, dy, zero), start, limit);
        sum = sum ? tcc_ir_binary(g, TCC_OP_ADD, sum, given) : given;
    }
    int64_t end[TCC_MAX_RANK], each[TCC_MAX_RANK];
    for (int d = 0; d < n->type.rank; d++) end[d] = w.lo[d] + n->type.dims[d], each[d] = 1;
    return tcc_ir_slice(g, sum, w.lo, end, each);
}

/* -- Attention -- */

/* a of [..,M,K] times b of [..,K,N] or, transposed, [..,N,K]: [..,M,N]. */
static tcc_node *product(tcc_graph *g, tcc_node *a, bool a_transposed, tcc_node *b, bool b_transposed) {
    if (!a || !b) return NULL;
    const int rank = a->type.rank;
    tcc_attrs_dot pairs = {.contract_a = {1, {a_transposed ? rank - 2 : rank - 1}},
                           .contract_b = {1, {b_transposed ? rank - 1 : rank - 2}}};
    for (int d = 0; d < rank - 2; d++) pairs.batch_a.v[d] = pairs.batch_b.v[d] = d;
    pairs.batch_a.count = pairs.batch_b.count = rank - 2;
    return tcc_ir_dot(g, a, b, &pairs);
}

/* x of [..,T] for each key: [..,T,S] as `like`. */
static tcc_node *by_row(tcc_graph *g, tcc_node *x, const tcc_node *like) {
    if (!x || !like) return NULL;
    const tcc_dims last = {1, {like->type.rank - 1}};
    return tcc_ir_unreduce(g, x, like->type.rank, like->type.dims, &last);
}

/* Which keys each query may see: bool, dims of the scores. */
static tcc_node *seen_keys(tcc_graph *g, const tcc_type *scores) {
    tcc_type index = *scores;
    index.dtype = TCC_I32;
    const int rank = scores->rank;
    tcc_node *limit = tcc_ir_binary_c(g, TCC_OP_ADD, tcc_ir_iota(g, &index, rank - 2),
                                      (double)(scores->dims[rank - 1] - scores->dims[rank - 2]));
    return tcc_ir_binary(g, TCC_OP_LE, tcc_ir_iota(g, &index, rank - 1), limit);
}

/* scale q k^T + mask, in f32 at least; -inf where the query may not see the key. */
static tcc_node *scores(tcc_graph *g, const tcc_node *n, tcc_node *q, tcc_node *k, tcc_node *mask) {
    tcc_node *s = tcc_ir_widen(g, product(g, q, false, tcc_sdpa_spread(g, n, k), true));
    s = tcc_ir_binary_c(g, TCC_OP_MUL, s, n->attrs->sdpa.scale);
    if (mask) s = tcc_ir_binary(g, TCC_OP_ADD, s, tcc_ir_widen(g, mask));
    if (!s || !n->attrs->sdpa.causal) return s;
    return tcc_ir_select(g, seen_keys(g, &s->type), s, tcc_ir_splat_like(g, s, -INFINITY));
}

/* in: q, k, mask. Rows whose keys are all hidden give -inf, by way of a maximum that is finite, so that they have no
 * gradient. */
TCC_DEFINITION(SDPA_LSE) {
    tcc_node *s = scores(g, n, in[0], in[1], n->n_operands > 2 ? in[2] : NULL);
    if (!s) return NULL;
    const tcc_dims last = {1, {s->type.rank - 1}};
    tcc_node *largest = tcc_ir_reduce(g, TCC_OP_REDUCE_MAX, s, &last);
    if (!largest) return NULL;
    tcc_node *some = tcc_ir_binary_c(g, TCC_OP_NE, largest, -INFINITY);
    tcc_node *level = tcc_ir_select(g, some, largest, tcc_ir_splat_like(g, largest, 0));
    tcc_node *power = tcc_ir_unary(g, TCC_OP_EXP, tcc_ir_binary(g, TCC_OP_SUB, s, by_row(g, level, s)));
    tcc_node *sum = tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, power, &last);
    sum = tcc_ir_select(g, some, sum, tcc_ir_splat_like(g, largest, 1));
    tcc_node *lse = tcc_ir_binary(g, TCC_OP_ADD, level, tcc_ir_unary(g, TCC_OP_LOG, sum));
    lse = tcc_ir_select(g, some, lse, tcc_ir_splat_like(g, largest, -INFINITY));
    return tcc_ir_cast(g, lse, n->type.dtype);
}

/* What the gradients by q, k and v are made of; the operands are q, k, v, o, lse, do, mask, key. */
typedef struct sdpa_gradient {
    tcc_node *p;  /* exp(scores - lse), [..,T,S]; 0 where the query does not see the key, or sees none */
    tcc_node *pz; /* what p is after dropout */
    tcc_node *ds; /* the gradient by the scores: p (dp - sum of do o over the row), dp = dropout(do v^T) */
} sdpa_gradient;

static tcc_node *drop(tcc_graph *g, const tcc_node *n, tcc_node *x, tcc_node *key) {
    return key ? tcc_ir_dropout(g, x, key, n->attrs->sdpa.p, n->attrs->sdpa.id) : x;
}

static sdpa_gradient find_gradient(tcc_graph *g, const tcc_node *n, tcc_node *const *in) {
    sdpa_gradient a = {0};
    tcc_node *mask = tcc_sdpa_mask(n) ? in[6] : NULL, *key = tcc_sdpa_draws(n) ? in[n->n_operands - 1] : NULL;
    tcc_node *s = scores(g, n, in[0], in[1], mask), *lse = tcc_ir_widen(g, in[4]), *dy = tcc_ir_widen(g, in[5]);
    if (!s || !lse || !dy) return a;
    tcc_node *none = tcc_ir_splat_like(g, lse, -INFINITY);
    tcc_node *some = tcc_ir_binary(g, TCC_OP_NE, lse, none);
    lse = tcc_ir_select(g, some, lse, tcc_ir_splat_like(g, lse, 0));
    tcc_node *seen = tcc_ir_binary(g, TCC_OP_AND, tcc_ir_binary_c(g, TCC_OP_NE, s, -INFINITY), by_row(g, some, s));
    tcc_node *zero = tcc_ir_splat_like(g, s, 0);
    tcc_node *exponent = tcc_ir_binary(g, TCC_OP_SUB, tcc_ir_select(g, seen, s, zero), by_row(g, lse, s));
    a.p = tcc_ir_select(g, seen, tcc_ir_unary(g, TCC_OP_EXP, exponent), zero);
    a.pz = drop(g, n, a.p, key);
    const tcc_dims last = {1, {s->type.rank - 1}};
    tcc_node *along = tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, tcc_ir_binary(g, TCC_OP_MUL, dy, tcc_ir_widen(g, in[3])),
                                    &last);
    tcc_node *v = tcc_sdpa_spread(g, n, in[2]), *dp = drop(g, n, product(g, dy, false, tcc_ir_widen(g, v), true), key);
    a.ds = tcc_ir_binary(g, TCC_OP_MUL, a.p, tcc_ir_binary(g, TCC_OP_SUB, dp, by_row(g, along, s)));
    return a;
}

static tcc_node *scaled(tcc_graph *g, const tcc_node *n, tcc_node *x) {
    return tcc_ir_cast(g, tcc_ir_binary_c(g, TCC_OP_MUL, x, n->attrs->sdpa.scale), n->type.dtype);
}

/* The sum over queries that share keys. */
static tcc_node *by_key(tcc_graph *g, const tcc_node *n, tcc_node *x) {
    tcc_dims shared = {0};
    for (int d = 0; d < n->type.rank - 2; d++)
        if (tcc_sdpa_shares(n, d)) shared.v[shared.count++] = d;
    return shared.count ? tcc_ir_reshape(g, tcc_ir_reduce(g, TCC_OP_REDUCE_SUM, x, &shared), n->type.rank, n->type.dims)
                        : x;
}

TCC_DEFINITION(SDPA_GRAD_Q) {
    const sdpa_gradient a = find_gradient(g, n, in);
    tcc_node *k = tcc_sdpa_spread(g, n, in[1]);
    return scaled(g, n, product(g, a.ds, false, tcc_ir_widen(g, k), false));
}

TCC_DEFINITION(SDPA_GRAD_K) {
    const sdpa_gradient a = find_gradient(g, n, in);
    return scaled(g, n, by_key(g, n, product(g, a.ds, true, tcc_ir_widen(g, in[0]), false)));
}

TCC_DEFINITION(SDPA_GRAD_V) {
    const sdpa_gradient a = find_gradient(g, n, in);
    return tcc_ir_cast(g, by_key(g, n, product(g, a.pz, true, tcc_ir_widen(g, in[5]), false)), n->type.dtype);
}
