/* SPDX-License-Identifier: MIT
 * Interpreter rules of scaled dot-product attention and its gradients, one query row at a time.
 *
 * With scores s = scale q k^T + mask, lse = log sum exp s, p = exp(s - lse) and z what dropout
 * multiplies by (1 without): o = (p z) v; dv = (p z)^T do; dp = (do v^T) z; ds = p (dp - sum of do o
 * over a row), since this sum equals that of dp p; dq = scale ds k; dk = scale ds^T q. A query that
 * sees no key gives 0. Batches of queries may share keys and values, whose gradients are sums over those batches. */
#include "ir/eval_rules.h"
#include "ir/sdpa.h"
#include "ir/support/alloc.h"

#include <math.h>

typedef struct attention {
    const double *q, *k, *mask; /* mask may be NULL */
    const tcc_type *q_type, *k_type;
    int64_t batches, T, S, D; /* queries, keys, width of both */
    double scale;
    bool causal;
    const tcc_positions *at; /* of rows in the whole graph; NULL: this is it */
    int64_t seen;            /* of the query at hand: keys s < seen */
    bool by_zero;            /* what a query does not see is multiplied by 0, not left out */
    double *row;             /* S scores, then probabilities */
    double *z;               /* S factors of dropout, in the same memory */
    const tcc_value *key;    /* NULL: no dropout */
    double p;
    int64_t id;
    const tcc_attention_error *error; /* NULL: none */
    double *part;                     /* of a gradient by keys that batches share: one batch's; NULL: they share none */
} attention;

static tcc_status begin(attention *a, const tcc_node *n, const tcc_value *const *in, tcc_diag *diag) {
    const tcc_type *type = &in[0]->type;
    *a = (attention){
        .q = in[0]->f, .k = in[1]->f, .q_type = type, .k_type = &in[1]->type, .batches = 1, .at = n->positions};
    if (tcc_sdpa_mask(n)) a->mask = in[tcc_op_get_info(n->op)->least]->f;
    if (tcc_sdpa_draws(n)) a->key = in[n->n_operands - 1];
    a->p = n->attrs->sdpa.p, a->id = n->attrs->sdpa.id;
    a->T = type->dims[type->rank - 2], a->D = type->dims[type->rank - 1];
    a->S = in[1]->type.dims[type->rank - 2];
    for (int i = 0; i < type->rank - 2; i++) a->batches *= type->dims[i];
    a->scale = n->attrs->sdpa.scale, a->causal = n->attrs->sdpa.causal;
    a->row = tcc__malloc(2 * (size_t)a->S * sizeof *a->row);
    if (!a->row) return tcc_enomem(diag);
    a->z = a->row + a->S;
    for (int64_t s = 0; s < a->S; s++) a->z[s] = 1;
    return TCC_OK;
}

/* The first key of those that a batch of queries sees. */
static int64_t first_key(const attention *a, int64_t batch) {
    int64_t at = 0, step = a->S;
    for (int d = a->q_type->rank - 2; d-- > 0; batch /= a->q_type->dims[d]) {
        if (a->k_type->dims[d] != 1) at += batch % a->q_type->dims[d] * step;
        step *= a->k_type->dims[d];
    }
    return at;
}

/* Where rows lie in the whole graph. */
static int64_t query_of(const attention *a, int64_t t) { return a->at ? a->at->queries[t] : t; }
static int64_t key_of(const attention *a, int64_t s) { return a->at ? a->at->keys[s] : s; }
static int64_t batch_of(const attention *a, int64_t batch) { return a->at ? a->at->batches[batch] : batch; }
static int64_t all_queries(const attention *a) { return a->at ? a->at->all_queries : a->T; }
static int64_t all_keys(const attention *a) { return a->at ? a->at->all_keys : a->S; }

/* Keys that query t of each batch may see. */
static int64_t seen(const attention *a, int64_t t) {
    const int64_t limit = a->causal ? query_of(a, t) + all_keys(a) - all_queries(a) + 1 : all_keys(a);
    int64_t count = a->S;
    while (count > 0 && key_of(a, count - 1) >= limit) count--;
    return count;
}

/* Keys that the query has a factor for. */
static int64_t weighed(const attention *a) { return a->by_zero ? a->S : a->seen; }

/* In sums side by side: one addition after the other would take most of the time that --verify needs. */
static double inner_product(const double *a, const double *b, int64_t count) {
    enum { SUMS = 8 };
    double sums[SUMS] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + SUMS <= count; i += SUMS)
        for (int j = 0; j < SUMS; j++) sums[j] += a[i + j] * b[i + j];
    for (; i < count; i++) sum += a[i] * b[i];
    for (int j = 0; j < SUMS; j++) sum += sums[j];
    return sum;
}

static void add_scaled(double *restrict to, double scale, const double *restrict from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += scale * from[i];
}

/* Begins with query t. */
static void scores(attention *a, int64_t batch, int64_t t) {
    const int64_t query = batch * a->T + t;
    const double *k = a->k + first_key(a, batch) * a->D;
    a->seen = seen(a, t);
    for (int64_t s = 0; s < a->seen; s++) {
        a->row[s] = a->scale * inner_product(a->q + query * a->D, k + s * a->D, a->D);
        if (a->mask) a->row[s] += a->mask[query * a->S + s];
    }
}

static double log_sum_exp(const attention *a) {
    double largest = -INFINITY, sum = 0;
    for (int64_t s = 0; s < a->seen; s++)
        if (a->row[s] > largest || isnan(a->row[s])) largest = a->row[s];
    if (isinf(largest)) return largest;
    for (int64_t s = 0; s < a->seen; s++) sum += exp(a->row[s] - largest);
    return largest + log(sum);
}

/* Factors of dropout, which go by the position of an element in the whole graph: four of a draw. */
static void draw_factors(attention *a, int64_t batch, int64_t t) {
    const double least = tcc_dtype_round(TCC_F32, a->p);
    const int64_t row = (batch_of(a, batch) * all_queries(a) + query_of(a, t)) * all_keys(a);
    int64_t drawn = -1;
    uint32_t words[4];
    for (int64_t s = 0; s < a->seen; s++) {
        const int64_t element = row + key_of(a, s);
        if (element / 4 != drawn) tcc__eval_draw(a->key, a->id, drawn = element / 4, words);
        a->z[s] = (double)(words[element % 4] >> 8) * 0x1p-24 < least ? 0 : 1 / (1 - a->p);
    }
}

/* Also sets the factors of dropout. */
static void probabilities(attention *a, int64_t batch, int64_t t, double lse) {
    for (int64_t s = 0; s < a->seen; s++) a->row[s] = lse == -INFINITY ? 0 : exp(a->row[s] - lse);
    for (int64_t s = a->seen; s < a->S; s++) a->row[s] = 0;
    if (a->key) draw_factors(a, batch, t);
}

/* A factor that the score of query t and key s has made, as it is multiplied. */
static double rounded(const attention *a, int64_t query, int64_t s, double factor) {
    return a->error ? factor * (1 + a->error->of(a->error->user, factor, query * a->S + s)) : factor;
}

static tcc_status forward(const tcc_node *n, const tcc_value *const *in, const tcc_attention_error *error, bool by_zero,
                          tcc_value *out, tcc_diag *diag) {
    attention a;
    TCC_TRY(begin(&a, n, in, diag));
    a.error = error, a.by_zero = by_zero;
    int64_t E = out->type.dims[out->type.rank - 1];
    for (int64_t batch = 0; batch < a.batches; batch++)
        for (int64_t t = 0; t < a.T; t++) {
            scores(&a, batch, t);
            probabilities(&a, batch, t, log_sum_exp(&a));
            const int64_t query = batch * a.T + t;
            const double *v = in[2]->f + first_key(&a, batch) * E;
            for (int64_t s = 0; s < weighed(&a); s++)
                add_scaled(out->f + query * E, rounded(&a, query, s, a.row[s] * a.z[s]), v + s * E, E);
        }
    tcc__free(a.row);
    return TCC_OK;
}

TCC_EVAL_RULE(sdpa) { return forward(n, in, NULL, false, out, diag); }

TCC_EVAL_RULE(sdpa_lse) {
    attention a;
    TCC_TRY(begin(&a, n, in, diag));
    for (int64_t batch = 0; batch < a.batches; batch++)
        for (int64_t t = 0; t < a.T; t++) {
            scores(&a, batch, t);
            out->f[batch * a.T + t] = log_sum_exp(&a);
        }
    tcc__free(a.row);
    return TCC_OK;
}

typedef enum by { BY_Q, BY_K, BY_V } by;

/* A batch's part of a gradient, which is rounded by itself, is added to what others have of the same keys. */
static void add_part(attention *a, int64_t batch, double *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        to[i] += rounded(a, batch * a->T, i, a->part[i]);
        a->part[i] = 0;
    }
}

/* Operands: q, k, v, o, lse, do, mask, key. */
static tcc_status gradient(const tcc_node *n, const tcc_value *const *in, by which, const tcc_attention_error *error,
                           bool by_zero, tcc_value *out, tcc_diag *diag) {
    attention a;
    TCC_TRY(begin(&a, n, in, diag));
    a.error = error, a.by_zero = by_zero;
    const int64_t E = in[2]->type.dims[in[2]->type.rank - 1], width = which == BY_V ? E : a.D;
    const bool adds_up = which != BY_Q && tcc_type_numel(&out->type) != a.batches * a.S * width;
    if (adds_up && !(a.part = tcc__calloc((size_t)(a.S * width), sizeof *a.part))) {
        tcc__free(a.row);
        return tcc_enomem(diag);
    }
    for (int64_t batch = 0; batch < a.batches; batch++) {
        const int64_t first = first_key(&a, batch);
        double *by_key = adds_up ? a.part : out->f + first * width;
        for (int64_t t = 0; t < a.T; t++) {
            const int64_t query = batch * a.T + t;
            const double *d_o = in[5]->f + query * E;
            double delta = inner_product(d_o, in[3]->f + query * E, E);
            scores(&a, batch, t);
            probabilities(&a, batch, t, in[4]->f[query]);
            for (int64_t s = 0; s < weighed(&a); s++) {
                const int64_t key = first + s;
                const double p = a.row[s];
                if (which == BY_V) {
                    add_scaled(by_key + s * E, rounded(&a, query, s, p * a.z[s]), d_o, E);
                    continue;
                }
                const double dp = a.z[s] * inner_product(d_o, in[2]->f + key * E, E);
                const double ds = rounded(&a, query, s, a.scale * p * (dp - delta));
                if (which == BY_Q) add_scaled(out->f + query * a.D, ds, a.k + key * a.D, a.D);
                else add_scaled(by_key + s * a.D, ds, a.q + query * a.D, a.D);
            }
        }
        if (adds_up) add_part(&a, batch, out->f + first * width, a.S * width);
    }
    tcc__free(a.part);
    tcc__free(a.row);
    return TCC_OK;
}

TCC_EVAL_RULE(sdpa_grad_q) { return gradient(n, in, BY_Q, NULL, false, out, diag); }
TCC_EVAL_RULE(sdpa_grad_k) { return gradient(n, in, BY_K, NULL, false, out, diag); }
TCC_EVAL_RULE(sdpa_grad_v) { return gradient(n, in, BY_V, NULL, false, out, diag); }

static tcc_status eval(const tcc_node *n, const tcc_value *const *in, const tcc_attention_error *error, bool by_zero,
                       tcc_value *out, tcc_diag *diag) {
    if (n->op == TCC_OP_SDPA) return forward(n, in, error, by_zero, out, diag);
    return gradient(n, in,
                    n->op == TCC_OP_SDPA_GRAD_Q   ? BY_Q
                    : n->op == TCC_OP_SDPA_GRAD_K ? BY_K
                                                  : BY_V,
                    error, by_zero, out, diag);
}

tcc_status tcc__eval_attention(const tcc_node *n, const tcc_value *const *in, const tcc_attention_error *error,
                               tcc_value *out, tcc_diag *diag) {
    return eval(n, in, error, false, out, diag);
}

tcc_status tcc__eval_unseen(const tcc_node *n, const tcc_value *const *in, tcc_value *out, tcc_diag *diag) {
    return eval(n, in, NULL, true, out, diag);
}
