/* SPDX-License-Identifier: MIT
 * Attention: the plan, what both kernels share, and the forward kernel. */
#include "codegen/attention/internal.h"

#include "codegen/contract/internal.h"
#include "codegen/emit/math.h"

#include <math.h>
#include <string.h>

enum {
    FORWARD_KEYS =
        512, /* most keys in a block: scores of a tile stay in the first-level cache, packed keys in the second */
    BACKWARD_KEYS = 256,
    FORWARD_QUERIES = 128,
    BACKWARD_QUERIES = 64,
    FEW_ITEMS = 16, /* below this many (batch, head)s the forward kernel also splits queries */
};

static int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static LLVMValueRef at(tcc_emitter *e, LLVMValueRef base, LLVMValueRef offset) {
    return tcc_emit_at(e, e->f32, base, offset);
}
static LLVMValueRef i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }

/* --- The plan */

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

tcc_status tcc_attention_make_plan(const tcc_llvm_target *target, const tcc_attention *a, tcc_diag *diag,
                                   tcc_attention_plan *p) {
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

    p->rows = (int)min64(target->registers >= 32 ? 8 : 4, min64(a->T, a->backward ? a->S : a->T));
    p->key_block = choose_key_block(a->S, a->backward ? BACKWARD_KEYS : FORWARD_KEYS, p->rows);
    int64_t panel = 2 * target->lanes;
    p->key_stride = round_up(p->key_block, panel);
    p->d_padded = round_up(a->D, target->lanes);
    p->e_padded = round_up(a->E, target->lanes);
    int64_t heads = batches(a), blocks = 1;
    p->query_block = a->backward ? BACKWARD_QUERIES : FORWARD_QUERIES;
    if (!a->backward && heads >= FEW_ITEMS && a->T <= 4 * FORWARD_QUERIES) p->query_block = a->T;
    p->query_block = min64(p->query_block, a->T);
    if (!a->backward) blocks = (a->T + p->query_block - 1) / p->query_block;
    p->items = heads * blocks;

    int64_t floats, tile_rows = round_up(p->query_block, p->rows) + p->rows;
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

/* --- Shared emission */

void tcc_attention_begin(tcc_emitter *e, tcc_attention_run *r, const tcc_attention_plan *p, const char *symbol) {
    *r = (tcc_attention_run){.p = p};
    tcc_emit_kernel_begin(e, symbol);
    for (int i = 0; i < TCC_ATTENTION_ROLES; i++)
        if (p->buffers[i] >= 0 && i != TCC_ATTENTION_RNG)
            r->base[i] = at(e, tcc_emit_buffer(e, p->buffers[i]), tcc_emit_param(e, p->buffers[i]));
    const int rng = p->buffers[TCC_ATTENTION_RNG];
    if (rng < 0) return;
    LLVMValueRef buffer = tcc_emit_buffer(e, rng), key = tcc_emit_at(e, e->i64, buffer, tcc_emit_param(e, rng));
    r->dropout = tcc_attention_draws_begin(e, key, p->n_buffers);
    r->draws = tcc_attention_scratch(e, r, tcc_attention_draws_floats(e->lanes, p->key_block));
}

void tcc_attention_enter(tcc_emitter *e, tcc_attention_run *r, LLVMValueRef batch) {
    const tcc_attention *a = &r->p->a;
    LLVMValueRef index[TCC_ATTENTION_MAX_BATCH];
    r->batch = batch;
    for (int i = a->n_batch - 1; i >= 0; i--) {
        index[i] = i == 0 ? batch : tcc_emit_rem(e, batch, a->batch[i]);
        if (i > 0) batch = tcc_emit_div(e, batch, a->batch[i]);
    }
    for (int role = 0; role < TCC_ATTENTION_ROLES; role++) {
        if (!r->base[role]) continue;
        LLVMValueRef offset = i64(e, 0);
        for (int i = 0; i < a->n_batch; i++)
            if (a->operands[role].batch[i])
                offset = tcc_emit_add(e, offset, tcc_emit_mul(e, index[i], i64(e, a->operands[role].batch[i])));
        r->begin[role] = at(e, r->base[role], offset);
    }
}

LLVMValueRef tcc_attention_scratch(tcc_emitter *e, tcc_attention_run *r, int64_t floats) {
    LLVMValueRef place = at(e, e->scratch, i64(e, r->scratch_floats));
    r->scratch_floats += round_up(floats, 16);
    return place;
}

LLVMValueRef tcc_attention_seen(tcc_emitter *e, const tcc_attention *a, LLVMValueRef t) {
    if (!a->causal) return i64(e, a->S);
    return tcc_emit_min(e, tcc_emit_add(e, t, i64(e, a->S - a->T + 1)), i64(e, a->S));
}

LLVMValueRef tcc_attention_row(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, LLVMValueRef row) {
    return at(e, r->begin[role], tcc_emit_mul(e, row, i64(e, r->p->a.operands[role].row)));
}

LLVMValueRef tcc_attention_mask(tcc_emitter *e, int64_t width, LLVMValueRef column) {
    return width % e->lanes ? tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, i64(e, width), column)) : NULL;
}

static LLVMValueRef load_lanes(tcc_emitter *e, LLVMValueRef address, LLVMValueRef mask) {
    return mask ? tcc_emit_load_masked(e, e->vf32, address, mask) : tcc_emit_load(e, e->vf32, address, 0);
}

void tcc_attention_pack_transposed(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                                   LLVMValueRef first, LLVMValueRef count, LLVMValueRef to) {
    int64_t stride = r->p->key_stride;
    tcc_emit_loop groups, columns;
    tcc_emit_loop_begin(e, &groups, i64(e, 0), count, e->lanes, NULL, 0);
    LLVMValueRef from = tcc_attention_row(e, r, role, tcc_emit_add(e, first, groups.index));
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, width), e->lanes, NULL, 0);
    LLVMValueRef place = at(e, at(e, to, groups.index), tcc_emit_mul(e, columns.index, i64(e, stride)));
    tcc_emit_transpose(e, at(e, from, columns.index), r->p->a.operands[role].row, tcc_emit_sub(e, count, groups.index),
                       tcc_emit_sub(e, i64(e, width), columns.index), place, stride);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &groups, NULL);
}

void tcc_attention_pack_rows(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                             int64_t padded, LLVMValueRef first, LLVMValueRef count, LLVMValueRef to) {
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, i64(e, 0), count, 1, NULL, 0);
    LLVMValueRef from = tcc_attention_row(e, r, role, tcc_emit_add(e, first, rows.index));
    LLVMValueRef place = at(e, to, tcc_emit_mul(e, rows.index, i64(e, padded)));
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, width), e->lanes, NULL, 0);
    LLVMValueRef value = load_lanes(e, at(e, from, columns.index), tcc_attention_mask(e, width, columns.index));
    tcc_emit_store(e, value, at(e, place, columns.index), e->lanes * 4);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &rows, NULL);
}

int tcc_attention_score_vectors(const tcc_emitter *e) {
    (void)e;
    return 2;
}

int tcc_attention_output_vectors(const tcc_emitter *e, int64_t padded) {
    int64_t vectors = padded / e->lanes;
    int most = e->target->registers >= 32 ? 3 : 2;
    for (int v = most; v > 1; v--)
        if (vectors % v == 0) return v;
    return 1;
}

void tcc_attention_product(tcc_emitter *e, const tcc_attention_run *r, int vectors, LLVMValueRef a, int64_t a_row,
                           int64_t a_k, LLVMValueRef b, int64_t b_k, bool b_aligned, LLVMValueRef count,
                           LLVMValueRef *sums) {
    tcc_tile t = {.rows = r->p->rows, .vectors = vectors, .a_row = a_row, .b_aligned = b_aligned, .n_levels = 1};
    t.levels[0] = (tcc_tile_level){.a = a_k, .b = b_k, .multiple = 1};
    if (!tcc_emit_is_constant(count, &t.levels[0].count)) t.levels[0].runtime = count;
    tcc_tile_emit(e, &t, a, b, sums);
}

void tcc_attention_tile(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                        LLVMValueRef row0, LLVMValueRef packed, LLVMValueRef to) {
    int rows = r->p->rows, vectors = tcc_attention_score_vectors(e);
    LLVMValueRef sums[TCC_EMIT_MAX_CARRY];
    for (int i = 0; i < rows * vectors; i++) sums[i] = tcc_emit_float(e, e->vf32, 0);
    tcc_attention_product(e, r, vectors, tcc_attention_row(e, r, role, row0), r->p->a.operands[role].row, 1, packed,
                          r->p->key_stride, true, i64(e, width), sums);
    to = tcc_emit_anchor(e, to);
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            tcc_emit_store(e, sums[i * vectors + v], at(e, to, i64(e, i * r->p->key_stride + v * e->lanes)),
                           e->lanes * 4);
}

LLVMValueRef tcc_attention_score(tcc_emitter *e, const tcc_attention_run *r, LLVMValueRef product, LLVMValueRef row,
                                 LLVMValueRef key) {
    const tcc_attention *a = &r->p->a;
    LLVMValueRef x = LLVMBuildFMul(e->builder, product, tcc_emit_float(e, e->vf32, a->scale), ""), inside = NULL;
    if (a->causal || a->S % e->lanes)
        inside = tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, tcc_attention_seen(e, a, row), key));
    if (a->has[TCC_ATTENTION_MASK])
        x = LLVMBuildFAdd(e->builder, x,
                          load_lanes(e, at(e, tcc_attention_row(e, r, TCC_ATTENTION_MASK, row), key), inside), "");
    return inside ? tcc_emit_select(e, inside, x, tcc_emit_float(e, e->vf32, -INFINITY)) : x;
}

LLVMValueRef tcc_attention_larger(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return tcc_emit_select(e, tcc_emit_compare(e, LLVMRealOGT, a, b), a, b);
}

LLVMValueRef tcc_attention_shown(tcc_emitter *e, LLVMValueRef x) {
    LLVMValueRef hidden = tcc_emit_compare(e, LLVMRealOEQ, x, tcc_emit_float(e, e->f32, -INFINITY));
    return tcc_emit_select(e, hidden, tcc_emit_float(e, e->f32, 0), x);
}

LLVMValueRef tcc_attention_inverse(tcc_emitter *e, LLVMValueRef denominator) {
    LLVMValueRef one = tcc_emit_float(e, e->f32, 1), zero = tcc_emit_float(e, e->f32, 0);
    LLVMValueRef empty = tcc_emit_compare(e, LLVMRealOEQ, denominator, zero);
    return tcc_emit_select(e, empty, zero, LLVMBuildFDiv(e->builder, one, denominator, ""));
}

void tcc_attention_emit(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p) {
    if (p->a.backward) tcc_attention_emit_backward(e, symbol, p);
    else tcc_attention_emit_forward(e, symbol, p);
}

/* --- Forward */

/* Where a tile of rows keeps its state between blocks of keys. */
typedef struct forward {
    tcc_attention_run r;
    bool one_block;                            /* all keys at once: nothing to rescale */
    LLVMValueRef keys, scores, values;         /* packed k; one tile of scores; packed v or NULL */
    LLVMValueRef maxima, denominators, factor; /* a row each; factor: of the tile at hand */
    LLVMValueRef sums;                         /* rows of unfinished o */
} forward;

static LLVMValueRef scalar_at(tcc_emitter *e, LLVMValueRef base, LLVMValueRef index) {
    return tcc_emit_load(e, e->f32, at(e, base, index), 4);
}

/* Turn a tile's scores into exp(score - maximum), with dropout, row by row; note maxima, denominators (of all that is
 * seen) and the factor for what was summed. */
static void emit_softmax(tcc_emitter *e, forward *f, LLVMValueRef slot0, LLVMValueRef row0, LLVMValueRef key0,
                         LLVMValueRef count, LLVMValueRef is_first) {
    const tcc_attention_plan *p = f->r.p;
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, i64(e, 0), i64(e, p->rows), 1, NULL, 0);
    LLVMValueRef scores = at(e, f->scores, tcc_emit_mul(e, rows.index, i64(e, p->key_stride)));
    LLVMValueRef slot = tcc_emit_add(e, slot0, rows.index), lowest = tcc_emit_float(e, e->vf32, -INFINITY);
    tcc_emit_loop_begin(e, &columns, i64(e, 0), count, e->lanes, &lowest, 1);
    LLVMValueRef address = at(e, scores, columns.index), x = tcc_emit_load(e, e->vf32, address, e->lanes * 4);
    x = tcc_attention_score(e, &f->r, x, tcc_emit_add(e, row0, rows.index), tcc_emit_add(e, key0, columns.index));
    tcc_emit_store(e, x, address, e->lanes * 4);
    x = tcc_attention_larger(e, x, columns.carry[0]);
    tcc_emit_loop_end(e, &columns, &x);
    LLVMValueRef highest = tcc_emit_max_lanes(e, columns.carry[0]), before = NULL;
    if (!f->one_block) {
        before = tcc_emit_select(e, is_first, tcc_emit_float(e, e->f32, -INFINITY), scalar_at(e, f->maxima, slot));
        highest = tcc_attention_larger(e, before, highest);
    }
    LLVMValueRef shift = tcc_attention_shown(e, highest), shifts = tcc_emit_splat(e, shift, e->lanes),
                 zero = tcc_emit_float(e, e->vf32, 0);
    LLVMValueRef row = tcc_emit_add(e, row0, rows.index);
    tcc_attention_draw(e, &f->r, row, key0, count);
    tcc_emit_loop_begin(e, &columns, i64(e, 0), count, e->lanes, &zero, 1);
    address = at(e, scores, columns.index);
    x = tcc_math_exp_negative(e,
                              LLVMBuildFSub(e->builder, tcc_emit_load(e, e->vf32, address, e->lanes * 4), shifts, ""));
    LLVMValueRef kept = tcc_attention_kept(e, &f->r, columns.index);
    tcc_emit_store(e, tcc_attention_drop(e, &p->a, kept, x), address, e->lanes * 4);
    x = LLVMBuildFAdd(e->builder, columns.carry[0], x, "");
    tcc_emit_loop_end(e, &columns, &x);
    LLVMValueRef sum = tcc_emit_sum_lanes(e, columns.carry[0]);
    if (!f->one_block) {
        LLVMValueRef factor = tcc_math_exp_negative(e, LLVMBuildFSub(e->builder, before, shift, ""));
        factor = tcc_emit_select(e, is_first, tcc_emit_float(e, e->f32, 0), factor);
        LLVMValueRef old = tcc_emit_select(e, is_first, tcc_emit_float(e, e->f32, 0),
                                           scalar_at(e, f->denominators, slot));
        sum = LLVMBuildFAdd(e->builder, LLVMBuildFMul(e->builder, old, factor, ""), sum, "");
        tcc_emit_store(e, factor, at(e, f->factor, rows.index), 4);
    }
    tcc_emit_store(e, highest, at(e, f->maxima, slot), 4);
    tcc_emit_store(e, sum, at(e, f->denominators, slot), 4);
    tcc_emit_loop_end(e, &rows, NULL);
}

static void store_output(tcc_emitter *e, const forward *f, LLVMValueRef row, LLVMValueRef column, LLVMValueRef value) {
    LLVMValueRef address = at(e, tcc_attention_row(e, &f->r, TCC_ATTENTION_O, row), column);
    LLVMValueRef mask = tcc_attention_mask(e, f->r.p->a.E, column);
    if (mask) tcc_emit_store_masked(e, value, address, mask);
    else tcc_emit_store(e, value, address, 0);
}

/* o of a tile += probabilities times v; the end of it if there is one block of keys. */
static void emit_values(tcc_emitter *e, forward *f, LLVMValueRef slot0, LLVMValueRef row0, LLVMValueRef tile,
                        LLVMValueRef first_key, LLVMValueRef count, LLVMValueRef is_first) {
    const tcc_attention_plan *p = f->r.p;
    int vectors = tcc_attention_output_vectors(e, p->e_padded);
    tcc_emit_loop chunks;
    tcc_emit_loop_begin(e, &chunks, i64(e, 0), i64(e, p->e_padded), (int64_t)vectors * e->lanes, NULL, 0);
    LLVMValueRef sums[TCC_EMIT_MAX_CARRY];
    for (int i = 0; i < p->rows * vectors; i++) sums[i] = tcc_emit_float(e, e->vf32, 0);
    LLVMValueRef values = f->values ? f->values : tcc_attention_row(e, &f->r, TCC_ATTENTION_V, first_key);
    int64_t stride = f->values ? p->e_padded : p->a.operands[TCC_ATTENTION_V].row;
    tcc_attention_product(e, &f->r, vectors, f->scores, p->key_stride, 1, at(e, values, chunks.index), stride,
                          f->values != NULL, count, sums);
    for (int i = 0; i < p->rows; i++) {
        LLVMValueRef slot = tcc_emit_add(e, slot0, i64(e, i)), row = tcc_emit_add(e, row0, i64(e, i)), scale;
        tcc_emit_if mine;
        bool overlap = f->one_block && p->a.T % p->rows != 0;
        if (f->one_block) scale = tcc_attention_inverse(e, scalar_at(e, f->denominators, slot));
        else scale = scalar_at(e, f->factor, i64(e, i));
        scale = tcc_emit_splat(e, scale, e->lanes);
        if (overlap) tcc_emit_if_begin(e, &mine, LLVMBuildICmp(e->builder, LLVMIntSGE, row, tile, ""));
        for (int v = 0; v < vectors; v++) {
            LLVMValueRef column = tcc_emit_add(e, chunks.index, i64(e, v * e->lanes)), sum = sums[i * vectors + v];
            if (f->one_block) {
                store_output(e, f, row, column, LLVMBuildFMul(e->builder, sum, scale, ""));
            } else {
                LLVMValueRef place = at(e, at(e, f->sums, tcc_emit_mul(e, slot, i64(e, p->e_padded))), column);
                LLVMValueRef old = tcc_emit_load(e, e->vf32, place, e->lanes * 4);
                old = tcc_emit_select(e, is_first, tcc_emit_float(e, e->vf32, 0), old); /* scratch may hold anything */
                tcc_emit_store(e, tcc_emit_fma(e, old, scale, sum), place, e->lanes * 4);
            }
        }
        if (overlap) tcc_emit_if_end(e, &mine);
    }
    tcc_emit_loop_end(e, &chunks, NULL);
}

/* Scale and store what several blocks of keys have summed. */
static void emit_finish(tcc_emitter *e, forward *f, LLVMValueRef slot, LLVMValueRef row) {
    const tcc_attention_plan *p = f->r.p;
    LLVMValueRef scale = tcc_emit_splat(e, tcc_attention_inverse(e, scalar_at(e, f->denominators, slot)), e->lanes);
    LLVMValueRef from = at(e, f->sums, tcc_emit_mul(e, slot, i64(e, p->e_padded)));
    tcc_emit_loop columns;
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, p->e_padded), e->lanes, NULL, 0);
    LLVMValueRef value = tcc_emit_load(e, e->vf32, at(e, from, columns.index), e->lanes * 4);
    store_output(e, f, row, columns.index, LLVMBuildFMul(e->builder, value, scale, ""));
    tcc_emit_loop_end(e, &columns, NULL);
}

static void emit_lse(tcc_emitter *e, forward *f, LLVMValueRef slot, LLVMValueRef row) {
    LLVMValueRef logarithm = tcc_math_log(e, scalar_at(e, f->denominators, slot));
    LLVMValueRef value = LLVMBuildFAdd(e->builder, tcc_attention_shown(e, scalar_at(e, f->maxima, slot)), logarithm,
                                       "");
    tcc_emit_store(e, value, tcc_attention_row(e, &f->r, TCC_ATTENTION_LSE, row), 4);
}

void tcc_attention_emit_forward(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    forward f = {.one_block = p->key_block >= a->S};
    tcc_attention_begin(e, &f.r, p, symbol);
    int64_t slots = round_up(p->query_block, p->rows) + p->rows;
    f.keys = tcc_attention_scratch(e, &f.r, p->d_padded * p->key_stride);
    f.scores = tcc_attention_scratch(e, &f.r, p->rows * p->key_stride);
    f.maxima = tcc_attention_scratch(e, &f.r, slots);
    f.denominators = tcc_attention_scratch(e, &f.r, slots);
    f.factor = tcc_attention_scratch(e, &f.r, p->rows);
    f.sums = tcc_attention_scratch(e, &f.r, slots * p->e_padded);
    if (a->E % e->lanes) f.values = tcc_attention_scratch(e, &f.r, p->key_stride * p->e_padded);

    int64_t blocks = (a->T + p->query_block - 1) / p->query_block;
    tcc_emit_loop items, keys, tiles, panels;
    tcc_emit_items_begin(e, &items);
    tcc_attention_enter(e, &f.r, tcc_emit_div(e, items.index, blocks));
    LLVMValueRef query0 = tcc_emit_mul(e, tcc_emit_rem(e, items.index, blocks), i64(e, p->query_block));
    LLVMValueRef query_end = tcc_emit_min(e, tcc_emit_add(e, query0, i64(e, p->query_block)), i64(e, a->T));
    /* Keys that the last query sees; one block at least, so that rows that see nothing are stored as well. */
    LLVMValueRef keys_end = i64(e, a->S);
    if (a->causal) {
        keys_end = tcc_attention_seen(e, a, tcc_emit_sub(e, query_end, i64(e, 1)));
        keys_end = tcc_emit_select(e, LLVMBuildICmp(e->builder, LLVMIntSLT, keys_end, i64(e, 1), ""), i64(e, 1),
                                   keys_end);
    }
    LLVMValueRef key0 = i64(e, 0);
    if (!f.one_block) {
        tcc_emit_loop_begin(e, &keys, key0, keys_end, p->key_block, NULL, 0);
        key0 = keys.index;
    }
    LLVMValueRef is_first = LLVMBuildICmp(e->builder, LLVMIntEQ, key0, i64(e, 0), "");
    LLVMValueRef in_block = tcc_emit_min(e, tcc_emit_sub(e, keys_end, key0), i64(e, p->key_block));
    tcc_attention_pack_transposed(e, &f.r, TCC_ATTENTION_K, a->D, key0, in_block, f.keys);
    if (f.values) tcc_attention_pack_rows(e, &f.r, TCC_ATTENTION_V, a->E, p->e_padded, key0, in_block, f.values);

    tcc_emit_loop_begin(e, &tiles, query0, query_end, p->rows, NULL, 0);
    LLVMValueRef row0 = tiles.index, slot0 = tcc_emit_sub(e, tiles.index, query0);
    if (a->T % p->rows) row0 = tcc_emit_min(e, row0, i64(e, a->T - p->rows));
    LLVMValueRef seen = tcc_attention_seen(e, a, tcc_emit_add(e, row0, i64(e, p->rows - 1)));
    LLVMValueRef count = tcc_emit_min(e, tcc_emit_sub(e, seen, key0), in_block);
    if (a->causal)
        count = tcc_emit_select(e, LLVMBuildICmp(e->builder, LLVMIntSLT, count, i64(e, 0), ""), i64(e, 0), count);
    int vectors = tcc_attention_score_vectors(e);
    tcc_emit_loop_begin(e, &panels, i64(e, 0), count, (int64_t)vectors * e->lanes, NULL, 0);
    tcc_attention_tile(e, &f.r, TCC_ATTENTION_Q, a->D, row0, at(e, f.keys, panels.index),
                       at(e, f.scores, panels.index));
    tcc_emit_loop_end(e, &panels, NULL);
    emit_softmax(e, &f, slot0, row0, key0, count, is_first);
    emit_values(e, &f, slot0, row0, tiles.index, key0, count, is_first);
    tcc_emit_loop_end(e, &tiles, NULL);
    if (!f.one_block) tcc_emit_loop_end(e, &keys, NULL);

    if (!f.one_block || a->has[TCC_ATTENTION_LSE]) { /* the state of row t lies at the slot its tile had */
        tcc_emit_loop_begin(e, &tiles, query0, query_end, 1, NULL, 0);
        LLVMValueRef slot = tcc_emit_sub(e, tiles.index, query0);
        if (a->T % p->rows) {
            int64_t shift = p->rows - a->T % p->rows;
            LLVMValueRef in_last = LLVMBuildICmp(e->builder, LLVMIntSGE, tiles.index, i64(e, a->T - a->T % p->rows),
                                                 "");
            slot = tcc_emit_select(e, in_last, tcc_emit_add(e, slot, i64(e, shift)), slot);
        }
        if (!f.one_block) emit_finish(e, &f, slot, tiles.index);
        if (a->has[TCC_ATTENTION_LSE]) emit_lse(e, &f, slot, tiles.index);
        tcc_emit_loop_end(e, &tiles, NULL);
    }
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
}
