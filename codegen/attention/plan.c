/* SPDX-License-Identifier: MIT
 * Attention on the host: the plan of both kernels, and the memory of their operands. */
#include "codegen/attention/bf16.h"
#include "ir/support/integers.h"

enum {
    FORWARD_KEYS =
        512, /* most keys in a block: scores of a tile stay in the first-level cache, packed keys in the second */
    BACKWARD_KEYS = 256,
    FORWARD_QUERIES = 128,
    BACKWARD_QUERIES = 64,
    BACKWARD_AT_ONCE = 256, /* most queries in one block: two scores of each pair of a block stay in the second level */
    BF16_KEYS = 256,
    BF16_QUERIES = 256,
    PAIR_ROWS = 8,    /* of a tile of vectors of pairs */
    LINE_FLOATS = 16, /* of a cache line */
    FEW_ITEMS = 16,   /* below this many (batch, head)s the forward kernel also splits queries */
    /* With fewer of them packing bf16 by pairs costs more than its products save. */
    LEAST_BF16_ROWS = 8,
    LEAST_BF16_WIDTH = 16,
};

static int64_t batches(const tcc_attention *a) {
    int64_t n = 1;
    for (int i = 0; i < a->n_batch; i++) n *= a->batch[i];
    return n;
}

/* Keys in a block: at most `most`, and the last block has a whole tile of rows. */
static int64_t choose_key_block(int64_t S, int64_t most, int rows) {
    if (S <= most) return S;
    int64_t n = most;
    while (S % n && S % n < rows && n > most / 2) n -= 16;
    return n;
}

tcc_region tcc_attention_region(const tcc_attention *a, tcc_attention_role role, int64_t offset, int64_t bytes) {
    const bool by_key = role == TCC_ATTENTION_K || role == TCC_ATTENTION_V || role == TCC_ATTENTION_DK ||
                        role == TCC_ATTENTION_DV;
    const bool of_v = role == TCC_ATTENTION_V || role == TCC_ATTENTION_O || role == TCC_ATTENTION_DO ||
                      role == TCC_ATTENTION_DV;
    const bool rows_only = role == TCC_ATTENTION_LSE || role == TCC_ATTENTION_DELTA || role == TCC_ATTENTION_RNG;
    tcc_region_dim dims[TCC_ATTENTION_MAX_BATCH + 2];
    int n = 0;
    const bool is_sum = role == TCC_ATTENTION_DK || role == TCC_ATTENTION_DV; /* over dims without a stride */
    for (int i = 0; i < a->n_batch && role != TCC_ATTENTION_RNG; i++)
        if (!is_sum || a->operands[role].batch[i])
            dims[n++] = (tcc_region_dim){a->batch[i], a->operands[role].batch[i] * bytes};
    dims[n++] = (tcc_region_dim){role == TCC_ATTENTION_RNG ? 2 : by_key ? a->S : a->T, a->operands[role].row * bytes};
    if (!rows_only) dims[n++] = (tcc_region_dim){role == TCC_ATTENTION_MASK ? a->S : of_v ? a->E : a->D, bytes};
    return tcc_region_of(offset * bytes, bytes, dims, n);
}

int64_t tcc_attention_slots(const tcc_attention_plan *p) { return tcc_round_up(p->query_block, p->rows) + p->rows; }

/* -- How products are made -- */

static double rate_of(const tcc_hardware *hw, int64_t k_at_once) {
    switch (k_at_once) {
    case TCC_CONTRACT_FMA: return hw->fma_f32;
    case TCC_CONTRACT_PAIRS: return hw->fma_bf16_pairs;
    case TCC_CONTRACT_TILES: return hw->fma_bf16_pairs > 0 ? hw->fma_bf16_tiles : 0; /* the former's rounding too */
    default: return 0;
    }
}

static tcc_contract_multiply fastest(const tcc_hardware *hw, const tcc_attention *a) {
    tcc_contract_multiply best = TCC_CONTRACT_FMA;
    if (tcc_min_i64(a->T, a->S) < LEAST_BF16_ROWS || tcc_min_i64(a->D, a->E) < LEAST_BF16_WIDTH) return best;
    if (rate_of(hw, TCC_CONTRACT_PAIRS) > rate_of(hw, best)) best = TCC_CONTRACT_PAIRS;
    return rate_of(hw, TCC_CONTRACT_TILES) > rate_of(hw, best) ? TCC_CONTRACT_TILES : best;
}

/* There is a choice of instructions for bf16 alone. */
static tcc_status plan_multiply(const tcc_llvm_target *target, tcc_params *params, tcc_attention_plan *p) {
    int k_at_once = TCC_CONTRACT_FMA;
    if (p->a.dtype == TCC_BF16) {
        const int best = k_at_once = (int)fastest(&target->hw, &p->a);
        const tcc_param_range range = tcc_param_powers(TCC_CONTRACT_FMA, TCC_CONTRACT_TILES);
        TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_K_AT_ONCE, range, &k_at_once));
        if (rate_of(&target->hw, k_at_once) <= 0)
            return tcc_params_refuse(params, TCC_PARAM_K_AT_ONCE, k_at_once, "%d on this target", best);
    }
    p->multiply = (tcc_contract_multiply)k_at_once;
    return TCC_OK;
}

/* -- f32 -- */

/* Rows of the register tile, and keys of a block: the last one has a whole tile of them. */
static tcc_status plan_keys(const tcc_llvm_target *target, tcc_params *params, tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    const tcc_param_range rows = tcc_param_between(
        1, tcc_min_i64(target->registers >= 32 ? 8 : 4, tcc_min_i64(a->T, a->backward ? a->S : a->T)));
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
    p->key_stride = tcc_round_up(p->key_block, panel);
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
    if (a->S <= p->rows) p->query_block = tcc_round_up(p->query_block, p->rows); /* tiles may be of fewer rows then */
    p->query_block = tcc_min_i64(p->query_block, a->T);
    const tcc_param_range queries = {.least = p->rows, .most = a->T, .multiple = p->rows, .also = a->T};
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_QUERIES, queries, &p->query_block));
    if (!a->backward) blocks = (a->T + p->query_block - 1) / p->query_block;
    p->items = heads * blocks;
    return TCC_OK;
}

static int64_t floats_of_f32(const tcc_llvm_target *target, const tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    int64_t floats, tile_rows = tcc_attention_slots(p);
    if (a->backward) {
        floats = (p->d_padded + p->e_padded) * p->key_stride;   /* k and v transposed */
        floats += 2 * tile_rows * p->key_stride;                /* probabilities and gradients of scores */
        floats += tcc_round_up(a->T, 16);                       /* rows of do times o */
        floats += p->key_stride * p->d_padded;                  /* k, if its width needs padding */
        floats += p->query_block * (p->d_padded + p->e_padded); /* q and do, likewise */
        if (a->dtype != TCC_F32)                                /* sums of narrow gradients */
            floats += a->T * p->d_padded + p->key_block * (p->d_padded + p->e_padded);
    } else {
        floats = p->d_padded * p->key_stride + p->rows * p->key_stride;
        floats += tile_rows * (p->e_padded + 2) + p->rows; /* running sums, maxima, denominators; rescaling */
        floats += p->key_stride * p->e_padded;
    }
    if (a->has[TCC_ATTENTION_RNG]) floats += tcc_attention_draws_floats(target->lanes, p->key_stride);
    return floats + 20 * LINE_FLOATS;
}

/* -- bf16 -- */

/* Rows of the tile, keys and queries of blocks: groups of them, unless a block has all. */
static tcc_status plan_bf16(tcc_params *params, tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    const bool tiles = p->multiply == TCC_CONTRACT_TILES;
    const int64_t most = a->backward && a->S > a->T ? a->S : a->T; /* rows of a product */
    p->rows = !tiles ? PAIR_ROWS : most > TCC_EMIT_TILE_ROWS ? 2 * TCC_EMIT_TILE_ROWS : TCC_EMIT_TILE_ROWS;
    const tcc_param_range rows = tiles ? tcc_param_powers(TCC_EMIT_TILE_ROWS, 2 * TCC_EMIT_TILE_ROWS)
                                       : tcc_param_powers(1, PAIR_ROWS);
    TCC_TRY(tcc_params_settle_int(params, TCC_PARAM_ROWS, rows, &p->rows));
    enum { GROUP = TCC_ATTENTION_GROUP };
    p->key_block = tcc_min_i64(a->S, BF16_KEYS);
    const tcc_param_range keys = {.least = GROUP, .most = a->S, .multiple = GROUP, .also = a->S};
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_KEYS, keys, &p->key_block));
    p->key_stride = tcc_round_up(p->key_block, GROUP);
    if (p->key_stride / LINE_FLOATS % 2 == 0) p->key_stride += LINE_FLOATS;
    const int64_t heads = batches(a);
    p->query_block = BF16_QUERIES;
    if (!a->backward && heads < FEW_ITEMS) p->query_block = FORWARD_QUERIES;
    p->query_block = tcc_min_i64(p->query_block, a->T);
    const tcc_param_range queries = {.least = GROUP, .most = a->T, .multiple = GROUP, .also = a->T};
    TCC_TRY(tcc_params_settle(params, TCC_PARAM_QUERIES, queries, &p->query_block));
    p->items = a->backward ? heads : heads * ((a->T + p->query_block - 1) / p->query_block);
    return TCC_OK;
}

static int64_t floats_of_bf16(const tcc_llvm_target *target, const tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    int64_t floats = a->backward ? tcc_attention_bf16_backward_floats(p) : tcc_attention_bf16_forward_floats(p);
    if (a->has[TCC_ATTENTION_RNG]) floats += 2 * tcc_attention_draws_floats(target->lanes, p->key_stride);
    return floats + 2 * LINE_FLOATS;
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

    p->d_padded = tcc_round_up(a->D, target->lanes);
    p->e_padded = tcc_round_up(a->E, target->lanes);
    TCC_TRY(plan_multiply(target, params, p));
    if (p->multiply == TCC_CONTRACT_FMA) {
        TCC_TRY(plan_keys(target, params, p));
        TCC_TRY(plan_queries(params, p));
        p->scratch_bytes = floats_of_f32(target, p) * 4;
    } else {
        TCC_TRY(plan_bf16(params, p));
        p->scratch_bytes = floats_of_bf16(target, p) * 4;
    }
    const int64_t heads = batches(a);
    double pairs = (double)heads * (double)a->T * (double)a->S * (a->causal ? 0.5 : 1);
    p->flop = pairs * (double)(a->backward ? 6 * a->D + 4 * a->E : 2 * a->D + 2 * a->E);
    p->bytes = (double)tcc_dtype_bytes(a->dtype) * (double)heads * (double)((a->T + a->S) * (a->D + a->E)) *
               (a->backward ? 2 : 1);
    return TCC_OK;
}

void tcc_attention_key(const tcc_attention_plan *p, tcc_strbuf *out) {
    const tcc_attention *a = &p->a;
    tcc_strbuf_printf(out, "attention %s %s by %d T%lld S%lld D%lld E%lld scale %a%s",
                      a->backward ? "backward" : "forward", tcc_dtype_text(a->dtype), (int)p->multiply, (long long)a->T,
                      (long long)a->S, (long long)a->D, (long long)a->E, a->scale, a->causal ? " causal" : "");
    if (a->has[TCC_ATTENTION_RNG]) tcc_strbuf_printf(out, " dropout %a", a->p);
    for (int i = 0; i < a->n_batch; i++) tcc_strbuf_printf(out, " %lld", (long long)a->batch[i]);
    for (int r = 0; r < TCC_ATTENTION_ROLES; r++) {
        if (!a->has[r]) continue;
        tcc_strbuf_printf(out, " %d(%lld", r, (long long)a->operands[r].row);
        for (int i = 0; i < a->n_batch; i++) tcc_strbuf_printf(out, ",%lld", (long long)a->operands[r].batch[i]);
        tcc_strbuf_add(out, ")");
    }
}
