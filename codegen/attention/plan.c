/* SPDX-License-Identifier: MIT
 * Attention on the host: the plan of both kernels, and which memory an operand is. */
#include "codegen/attention/internal.h"

enum {
    FORWARD_KEYS =
        512, /* most keys in a block: scores of a tile stay in the first-level cache, packed keys in the second */
    BACKWARD_KEYS = 256,
    FORWARD_QUERIES = 128,
    BACKWARD_QUERIES = 64,
    BACKWARD_AT_ONCE = 256, /* most queries in one block: two scores of each pair of a block stay in the second level */
    LINE_FLOATS = 16,       /* of a cache line */
    FEW_ITEMS = 16,         /* below this many (batch, head)s the forward kernel also splits queries */
};

static int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t batches(const tcc_attention *a) {
    int64_t n = 1;
    for (int i = 0; i < a->n_batch; i++) n *= a->batch[i];
    return n;
}

/* Keys in a block: at most `most`, and the last block has a whole tile of rows. */
static int64_t choose_key_block(int64_t S, int64_t most, int rows) {
    if (S <= most) return S;
    for (int64_t n = most; n > most / 2; n -= 16)
        if (S % n == 0 || S % n >= rows) return n;
    return most;
}

tcc_region tcc_attention_region(const tcc_attention *a, tcc_attention_role role, int64_t offset, int64_t bytes) {
    const bool by_key = role == TCC_ATTENTION_K || role == TCC_ATTENTION_V || role == TCC_ATTENTION_DK ||
                        role == TCC_ATTENTION_DV;
    const bool of_v = role == TCC_ATTENTION_V || role == TCC_ATTENTION_O || role == TCC_ATTENTION_DO ||
                      role == TCC_ATTENTION_DV;
    const bool rows_only = role == TCC_ATTENTION_LSE || role == TCC_ATTENTION_DELTA || role == TCC_ATTENTION_RNG;
    tcc_region_dim dims[TCC_ATTENTION_MAX_BATCH + 2];
    int n = 0;
    for (int i = 0; i < a->n_batch && role != TCC_ATTENTION_RNG; i++)
        dims[n++] = (tcc_region_dim){a->batch[i], a->operands[role].batch[i] * bytes};
    dims[n++] = (tcc_region_dim){role == TCC_ATTENTION_RNG ? 2 : by_key ? a->S : a->T, a->operands[role].row * bytes};
    if (!rows_only) dims[n++] = (tcc_region_dim){role == TCC_ATTENTION_MASK ? a->S : of_v ? a->E : a->D, bytes};
    return tcc_region_of(offset * bytes, bytes, dims, n);
}

int64_t tcc_attention_slots(const tcc_attention_plan *p) { return round_up(p->query_block, p->rows) + p->rows; }

/* Rows of the register tile, and keys of a block: the last one has a whole tile of them. */
static tcc_status plan_keys(const tcc_llvm_target *target, tcc_params *params, tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    const tcc_param_range rows =
        tcc_param_between(1, min64(target->registers >= 32 ? 8 : 4, min64(a->T, a->backward ? a->S : a->T)));
    p->rows = (int)rows.most;
    TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_ROWS, rows, &p->rows));
    p->key_block = choose_key_block(a->S, a->backward ? BACKWARD_KEYS : FORWARD_KEYS, p->rows);
    const tcc_param_range keys = {.least = LINE_FLOATS, .most = a->S, .multiple = LINE_FLOATS, .also = a->S};
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_KEYS, keys, &p->key_block));
    const int64_t rest = a->S % p->key_block;
    if (rest && rest < p->rows)
        return tcc_params_refuse(params, TCC_PARAM_KEYS, p->key_block, "one that leaves 0 or at least %d of %lld",
                                 p->rows, (long long)a->S);
    const int64_t panel = 2 * target->lanes;
    p->key_stride = round_up(p->key_block, panel);
    if (p->key_stride / LINE_FLOATS % 2 == 0) p->key_stride += LINE_FLOATS; /* columns meet all sets of a cache */
    return TCC_OK;
}

/* Queries of a block: whole tiles, unless a block has all of them. */
static tcc_status plan_queries(tcc_params *params, tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    const int64_t heads = batches(a);
    int64_t blocks = 1;
    p->query_block = !a->backward ? FORWARD_QUERIES : a->T <= BACKWARD_AT_ONCE ? BACKWARD_AT_ONCE : BACKWARD_QUERIES;
    if (!a->backward && heads >= FEW_ITEMS && a->T <= 4 * FORWARD_QUERIES) p->query_block = a->T;
    if (a->S <= p->rows) p->query_block = round_up(p->query_block, p->rows); /* tiles may be of fewer rows then */
    p->query_block = min64(p->query_block, a->T);
    const tcc_param_range queries = {.least = p->rows, .most = a->T, .multiple = p->rows, .also = a->T};
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_QUERIES, queries, &p->query_block));
    if (!a->backward) blocks = (a->T + p->query_block - 1) / p->query_block;
    p->items = heads * blocks;
    return TCC_OK;
}

tcc_status tcc_attention_make_plan(const tcc_llvm_target *target, const tcc_attention *a, tcc_params *params,
                                   tcc_diag *diag, tcc_attention_plan *p) {
    *p = (tcc_attention_plan){.a = *a};
    if (a->T < 1 || a->S < 1 || a->D < 1 || a->E < 1 || a->n_batch > TCC_ATTENTION_MAX_BATCH)
        return TCC_BUG(diag, "attention over %lld queries and %lld keys", (long long)a->T, (long long)a->S);
    static const tcc_attention_role forward[] = {TCC_ATTENTION_Q,    TCC_ATTENTION_K, TCC_ATTENTION_V,
                                                 TCC_ATTENTION_MASK, TCC_ATTENTION_O, TCC_ATTENTION_LSE,
                                                 TCC_ATTENTION_RNG};
    static const tcc_attention_role backward[] = {
        TCC_ATTENTION_Q,    TCC_ATTENTION_K,  TCC_ATTENTION_V,  TCC_ATTENTION_O,  TCC_ATTENTION_LSE, TCC_ATTENTION_DO,
        TCC_ATTENTION_MASK, TCC_ATTENTION_DQ, TCC_ATTENTION_DK, TCC_ATTENTION_DV, TCC_ATTENTION_RNG};
    for (int i = 0; i < TCC_ATTENTION_ROLES; i++) p->buffers[i] = -1;
    const tcc_attention_role *order = a->backward ? backward : forward;
    int n = a->backward ? sizeof backward / sizeof *backward : sizeof forward / sizeof *forward;
    for (int i = 0; i < n; i++)
        if (a->has[order[i]]) p->buffers[order[i]] = p->n_buffers++;

    TCC_TRY(plan_keys(target, params, p));
    TCC_TRY(plan_queries(params, p));
    p->d_padded = round_up(a->D, target->lanes);
    p->e_padded = round_up(a->E, target->lanes);
    const int64_t heads = batches(a);
    int64_t floats, tile_rows = tcc_attention_slots(p);
    if (a->backward) {
        floats = (p->d_padded + p->e_padded) * p->key_stride;   /* k and v transposed */
        floats += 2 * tile_rows * p->key_stride;                /* probabilities and gradients of scores */
        floats += round_up(a->T, 16);                           /* rows of do times o */
        floats += p->key_stride * p->d_padded;                  /* k, if its width needs padding */
        floats += p->query_block * (p->d_padded + p->e_padded); /* q and do, likewise */
    } else {
        floats = p->d_padded * p->key_stride + p->rows * p->key_stride;
        floats += tile_rows * (p->e_padded + 2) + p->rows; /* running sums, maxima, denominators; rescaling */
        floats += p->key_stride * p->e_padded;
    }
    if (a->has[TCC_ATTENTION_RNG]) floats += tcc_attention_draws_floats(target->lanes, p->key_block) + 16;
    p->scratch_bytes = (floats + 16 * 16) * 4;
    double pairs = (double)heads * (double)a->T * (double)a->S * (a->causal ? 0.5 : 1);
    p->flop = pairs * (double)(a->backward ? 6 * a->D + 4 * a->E : 2 * a->D + 2 * a->E);
    p->bytes = 4.0 * (double)heads * (double)((a->T + a->S) * (a->D + a->E)) * (a->backward ? 2 : 1);
    return TCC_OK;
}

void tcc_attention_key(const tcc_attention_plan *p, tcc_strbuf *out) {
    const tcc_attention *a = &p->a;
    tcc_strbuf_printf(out, "attention %s T%lld S%lld D%lld E%lld scale %a%s", a->backward ? "backward" : "forward",
                      (long long)a->T, (long long)a->S, (long long)a->D, (long long)a->E, a->scale,
                      a->causal ? " causal" : "");
    if (a->has[TCC_ATTENTION_RNG]) tcc_strbuf_printf(out, " dropout %a", a->p);
    for (int i = 0; i < a->n_batch; i++) tcc_strbuf_printf(out, " %lld", (long long)a->batch[i]);
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) {
        if (!a->has[r]) continue;
        tcc_strbuf_printf(out, " %d(%lld", r, (long long)a->operands[r].row);
        for (int i = 0; i < a->n_batch; i++) tcc_strbuf_printf(out, ",%lld", (long long)a->operands[r].batch[i]);
        tcc_strbuf_add(out, ")");
    }
}
