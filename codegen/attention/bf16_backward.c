/* SPDX-License-Identifier: MIT
 * The backward kernel of attention in bf16 on the host: one item computes dq, dk and dv of one (batch, head), by the
 * formulas of backward.c.
 *
 * The products of a group of queries with k and v of a block of keys are f32. Then p z and ds are rounded to bf16 as
 * pairs of queries, and transposed to rows of keys that multiply do and q. To multiply k, ds is also rounded without
 * transposing. Gradients that several blocks add to are summed up as f32 in scratch. Groups of queries that see no key
 * are skipped. */
#include "codegen/attention/backward_block.h"
#include "codegen/attention/bf16.h"

#include "codegen/contract/internal.h"

enum { GROUP = TCC_ATTENTION_GROUP, PAIRS = GROUP / 2, LINE = 32 /* elements of a cache line */ };

static tcc_emit_value at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->f32, base, offset);
}
static tcc_emit_value at16(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->i16, base, offset);
}
static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }
typedef struct backward {
    tcc_attention_run r;
    tcc_attention_blocks at;
    /* The block of keys: k and v with k of products along their width, and k as pairs of rows. */
    tcc_emit_value k_by_width, v_by_width, k_by_rows;
    /* The block of queries: q and do as rows and as pairs of rows. */
    tcc_emit_value q_rows, do_rows, q_by_rows, do_by_rows;
    /* The group: products; p z and ds as pairs of queries, and ds as rows. */
    tcc_emit_value scores, dp, p_pairs, ds_pairs, ds_rows;
    tcc_emit_value row0, n_rows, padded; /* keys that the last of them sees, in groups */
    /* Of the block: p z and ds as rows of keys, `query_stride` elements apart. */
    tcc_emit_value p_columns, ds_columns;
    int64_t query_stride;
    tcc_emit_value delta;                     /* of every query */
    tcc_emit_value products;                  /* a tile of a gradient */
    tcc_emit_value sums[TCC_ATTENTION_ROLES]; /* of gradients: of dq all rows, else of the block; NULL: none */
} backward;

/* Places in scratch; returns the floats in all. */
static int64_t place(tcc_emitter *e, backward *b, const tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    const int64_t keys = tcc_attention_in_groups(p->key_block), queries = tcc_attention_in_groups(p->query_block);
    const int64_t d = tcc_attention_in_groups(a->D), w = tcc_attention_in_groups(a->E);
    const bool want_q = a->has[TCC_ATTENTION_DQ], want_k = a->has[TCC_ATTENTION_DK], want_v = a->has[TCC_ATTENTION_DV];
    const bool several_keys = p->key_block < a->S, several_queries = p->query_block < a->T;
    b->query_stride = queries / LINE % 2 ? queries : queries + LINE; /* rows meet all sets of a cache */
    const int64_t columns = keys * b->query_stride / 2;
    const struct {
        tcc_emit_value *to;
        int64_t floats;
    } all[] = {
        {&b->k_by_width, d / 2 * p->key_stride},
        {&b->v_by_width, w / 2 * p->key_stride},
        {&b->k_by_rows, want_q ? keys / 2 * p->d_padded : 0},
        {&b->q_rows, queries * d / 2},
        {&b->do_rows, queries * w / 2},
        {&b->q_by_rows, want_k ? queries / 2 * p->d_padded : 0},
        {&b->do_by_rows, want_v ? queries / 2 * p->e_padded : 0},
        {&b->scores, GROUP * p->key_stride},
        {&b->dp, GROUP * p->key_stride},
        {&b->p_pairs, want_v ? PAIRS * p->key_stride : 0},
        {&b->ds_pairs, want_k ? PAIRS * p->key_stride : 0},
        {&b->ds_rows, want_q ? GROUP * p->key_stride / 2 : 0},
        {&b->p_columns, want_v ? columns : 0},
        {&b->ds_columns, want_k ? columns : 0},
        {&b->delta, a->T},
        {&b->products, GROUP * (p->d_padded > p->e_padded ? p->d_padded : p->e_padded)},
        {&b->sums[TCC_ATTENTION_DQ], want_q && several_keys ? tcc_attention_in_groups(a->T) * p->d_padded : 0},
        {&b->sums[TCC_ATTENTION_DK], want_k && several_queries ? keys * p->d_padded : 0},
        {&b->sums[TCC_ATTENTION_DV], want_v && several_queries ? keys * p->e_padded : 0},
    };
    int64_t floats = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (e && all[i].floats) *all[i].to = tcc_attention_scratch(e, &b->r, all[i].floats);
        floats += tcc_attention_in_groups(all[i].floats);
    }
    return floats;
}

int64_t tcc_attention_bf16_backward_floats(const tcc_attention_plan *p) {
    backward b = {0};
    return place(NULL, &b, p);
}

/* -- Gradients -- */

/* Rows row0 ... of a gradient, as finished or added to their sums. is_first NULL: there is one block. */
static void emit_rows(tcc_emitter *e, const backward *b, tcc_attention_role role, tcc_emit_value from,
                      tcc_emit_value row0, tcc_emit_value n_rows, tcc_emit_value is_first) {
    const int64_t padded = tcc_attention_padded_width(b->r.p, role),
                  width = role == TCC_ATTENTION_DV ? b->r.p->a.E : b->r.p->a.D;
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, i64(e, 0), n_rows, 1, NULL, 0);
    tcc_emit_value row = tcc_emit_add(e, row0, rows.index);
    tcc_emit_value products = at(e, from, tcc_emit_mul(e, rows.index, i64(e, padded)));
    if (!is_first) {
        tcc_attention_bf16_store(e, &b->r, role, width, row, products, NULL);
        tcc_emit_loop_end(e, &rows, NULL);
        return;
    }
    tcc_emit_value slot = role == TCC_ATTENTION_DQ ? row : tcc_emit_sub(e, row, b->at.key0);
    tcc_emit_value sums = at(e, b->sums[role], tcc_emit_mul(e, slot, i64(e, padded)));
    /* Before the first block scratch holds anything: no lane is loaded then. */
    tcc_emit_value again = tcc_emit_splat(e, tcc_emit_not(e, is_first), e->lanes);
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, padded), e->lanes, NULL, 0);
    tcc_emit_value value = tcc_emit_load(e, e->vf32, at(e, products, columns.index), e->lanes * 4);
    tcc_emit_value sum = at(e, sums, columns.index);
    value = tcc_emit_fadd(e, tcc_emit_load_masked(e, e->vf32, sum, again), value);
    tcc_emit_store(e, value, sum, e->lanes * 4);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &rows, NULL);
}

/* Sums become rows of their gradient. */
static void emit_sums(tcc_emitter *e, backward *b, tcc_attention_role role, tcc_emit_value row0,
                      tcc_emit_value n_rows) {
    if (b->sums[role]) emit_rows(e, b, role, b->sums[role], row0, n_rows, NULL);
}

/* n_rows (at most a tile's) of a gradient += A times rows of pairs. */
static void emit_gradient(tcc_emitter *e, const backward *b, tcc_attention_role role, tcc_attention_factors f,
                          tcc_emit_value row0, tcc_emit_value n_rows, tcc_emit_value is_first) {
    const int64_t padded = tcc_attention_padded_width(b->r.p, role);
    const int vectors = tcc_attention_bf16_vectors(e, padded);
    tcc_emit_value pairs = f.b;
    tcc_emit_loop chunks;
    f.b_row = padded;
    tcc_emit_loop_begin(e, &chunks, i64(e, 0), i64(e, padded), (int64_t)vectors * e->lanes, NULL, 0);
    f.b = at(e, pairs, chunks.index);
    tcc_attention_bf16_product(e, b->r.p, vectors, &f, at(e, b->products, chunks.index), padded);
    tcc_emit_loop_end(e, &chunks, NULL);
    emit_rows(e, b, role, b->products, row0, n_rows, is_first);
}

/* -- The group of queries -- */

/* What a row's elements need. */
typedef struct row_values {
    tcc_emit_value row, scores, dp, ds, shift, delta; /* shift and delta in all lanes */
} row_values;

static row_values row_at(tcc_emitter *e, const backward *b, tcc_emit_value in_group) {
    const int64_t stride = b->r.p->key_stride;
    tcc_emit_value row = tcc_emit_add(e, b->row0, in_group), offset = tcc_emit_mul(e, in_group, i64(e, stride));
    tcc_emit_value lse = tcc_emit_load(e, e->f32, tcc_attention_row(e, &b->r, TCC_ATTENTION_LSE, row), 4);
    tcc_emit_value delta = tcc_emit_load(e, e->f32, at(e, b->delta, row), 4);
    return (row_values){.row = row,
                        .scores = at(e, b->scores, offset),
                        .dp = at(e, b->dp, offset),
                        .ds = b->ds_rows ? at16(e, b->ds_rows, offset) : NULL,
                        .shift = tcc_emit_splat(e, tcc_attention_shown(e, lse), e->lanes),
                        .delta = tcc_emit_splat(e, delta, e->lanes)};
}

/* p z and ds of a vector of keys. */
static void emit_elements(tcc_emitter *e, const backward *b, const row_values *r, tcc_emit_value column,
                          tcc_emit_value kept, tcc_emit_value *p, tcc_emit_value *ds) {
    const tcc_attention *a = &b->r.p->a;
    const tcc_attention_pair pair = {.query = r->row,
                                     .key = tcc_emit_add(e, b->at.key0, column),
                                     .shift = r->shift,
                                     .delta = r->delta,
                                     .kept = kept,
                                     .product = tcc_emit_load(e, e->vf32, at(e, r->scores, column), e->lanes * 4),
                                     .d_out = tcc_emit_load(e, e->vf32, at(e, r->dp, column), e->lanes * 4)};
    tcc_attention_pair_gradient(e, &b->r, &pair, p, ds);
    /* What was multiplied by a key past the last one may be no number. */
    if (a->S % GROUP) {
        tcc_emit_value exists = tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, i64(e, a->S), pair.key));
        *ds = tcc_emit_select(e, exists, *ds, tcc_emit_float(e, e->vf32, 0));
    }
}

static void store_half(tcc_emitter *e, tcc_emit_value rounded, int half, tcc_emit_value address) {
    int indices[32];
    for (int i = 0; i < e->lanes; i++) indices[i] = half * e->lanes + i;
    tcc_emit_store(e, tcc_emit_shuffle(e, rounded, NULL, indices, e->lanes), address, 2);
}

/* Two queries of the group; `both` (i1, NULL: true): the second exists. */
static void emit_pair_of_rows(tcc_emitter *e, backward *b, tcc_emit_value in_group, tcc_emit_value both) {
    tcc_emit_value second = tcc_emit_add(e, in_group, i64(e, 1)), zero = tcc_emit_float(e, e->vf32, 0);
    if (both) second = tcc_emit_select(e, both, second, in_group);
    const row_values rows[] = {row_at(e, b, in_group), row_at(e, b, second)};
    const int64_t stride = b->r.p->key_stride;
    tcc_emit_value pairs = tcc_emit_mul(e, tcc_emit_div(e, in_group, 2), i64(e, stride)), p[2], ds[2];
    const bool drops = b->r.p->a.has[TCC_ATTENTION_RNG];
    tcc_emit_loop columns;
    tcc_emit_value words = b->r.draws, drawn[2] = {0};
    for (int h = 0; h < 2 && drops; h++) {
        b->r.draws = h ? at(e, words, i64(e, tcc_attention_draws_floats(e->lanes, b->r.p->key_stride))) : words;
        tcc_attention_draw(e, &b->r, rows[h].row, b->at.key0, b->padded);
        drawn[h] = b->r.drawn;
    }
    b->r.draws = words;
    tcc_emit_loop_begin(e, &columns, i64(e, 0), b->padded, e->lanes, NULL, 0);
    for (int h = 0; h < 2; h++) {
        b->r.drawn = drawn[h];
        emit_elements(e, b, &rows[h], columns.index, tcc_attention_kept(e, &b->r, columns.index), &p[h], &ds[h]);
    }
    if (both) {
        tcc_emit_value all = tcc_emit_splat(e, both, e->lanes);
        p[1] = tcc_emit_select(e, all, p[1], zero), ds[1] = tcc_emit_select(e, all, ds[1], zero);
    }
    tcc_emit_value rounded = tcc_emit_round_pairs(e, ds[0], ds[1]), to = tcc_emit_add(e, pairs, columns.index);
    if (b->ds_rows) { /* the first row last: it is both where there is no second */
        store_half(e, rounded, 1, at16(e, rows[1].ds, columns.index));
        store_half(e, rounded, 0, at16(e, rows[0].ds, columns.index));
    }
    if (b->ds_pairs) tcc_emit_store(e, tcc_contract_interleave(e, rounded), at(e, b->ds_pairs, to), 2);
    if (b->p_pairs) {
        rounded = tcc_emit_round_pairs(e, p[0], p[1]);
        tcc_emit_store(e, tcc_contract_interleave(e, rounded), at(e, b->p_pairs, to), 2);
    }
    tcc_emit_loop_end(e, &columns, NULL);
}

/* Zeros for the pairs of queries of the group from `first` on. */
static void clear_pairs(tcc_emitter *e, const backward *b, tcc_emit_value first) {
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, first, i64(e, PAIRS), 1, NULL, 0);
    tcc_emit_loop_begin(e, &columns, i64(e, 0), b->padded, e->lanes, NULL, 0);
    tcc_emit_value to = tcc_emit_add(e, tcc_emit_mul(e, rows.index, i64(e, b->r.p->key_stride)), columns.index);
    if (b->p_pairs) tcc_emit_store(e, tcc_emit_null(e->vi32), at(e, b->p_pairs, to), 4);
    if (b->ds_pairs) tcc_emit_store(e, tcc_emit_null(e->vi32), at(e, b->ds_pairs, to), 4);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &rows, NULL);
}

static tcc_emit_value line_of_words(tcc_emitter *e, const tcc_emit_square *s, int i) {
    return tcc_emit_load(e, e->vf32, at(e, s->from, tcc_emit_mul(e, i64(e, i), s->stride)), 4);
}

/* Pairs of the group's queries become parts of rows of keys. */
static void emit_transposed(tcc_emitter *e, const backward *b, tcc_emit_value pairs, tcc_emit_value rows) {
    if (!pairs) return;
    tcc_emit_value first = tcc_emit_sub(e, b->row0, b->at.query0), all = i64(e, e->lanes);
    tcc_emit_loop columns, halves;
    tcc_emit_loop_begin(e, &columns, i64(e, 0), b->padded, e->lanes, NULL, 0);
    tcc_emit_loop_begin(e, &halves, i64(e, 0), i64(e, PAIRS), e->lanes, NULL, 0);
    tcc_emit_value from = tcc_emit_add(e, tcc_emit_mul(e, halves.index, i64(e, b->r.p->key_stride)), columns.index);
    tcc_emit_value query = tcc_emit_add(e, first, tcc_emit_mul(e, halves.index, i64(e, 2)));
    tcc_emit_value to = tcc_emit_add(e, tcc_emit_mul(e, columns.index, i64(e, b->query_stride)), query);
    tcc_emit_transpose_lines(e, "tcc_transpose_words", line_of_words, at(e, pairs, from), b->r.p->key_stride, all, all,
                             at16(e, rows, to), b->query_stride / 2);
    tcc_emit_loop_end(e, &halves, NULL);
    tcc_emit_loop_end(e, &columns, NULL);
}

/* Products of the group with the keys that it sees. */
static void emit_products(tcc_emitter *e, const backward *b) {
    const tcc_attention_plan *p = b->r.p;
    const int vectors = tcc_attention_score_vectors(e);
    tcc_emit_value slot0 = tcc_emit_sub(e, b->row0, b->at.query0);
    const struct {
        tcc_emit_value rows, columns, to;
        int64_t width;
    } both[] = {{b->q_rows, b->k_by_width, b->scores, tcc_attention_in_groups(p->a.D)},
                {b->do_rows, b->v_by_width, b->dp, tcc_attention_in_groups(p->a.E)}};
    tcc_emit_loop tiles, panels;
    tcc_emit_loop_begin(e, &tiles, i64(e, 0), b->n_rows, p->rows, NULL, 0);
    tcc_emit_loop_begin(e, &panels, i64(e, 0), b->padded, (int64_t)vectors * e->lanes, NULL, 0);
    tcc_emit_value slot = tcc_emit_add(e, slot0, tiles.index);
    tcc_emit_value to = tcc_emit_add(e, tcc_emit_mul(e, tiles.index, i64(e, p->key_stride)), panels.index);
    for (int i = 0; i < 2; i++) {
        const tcc_attention_factors f = {.a = at16(e, both[i].rows, tcc_emit_mul(e, slot, i64(e, both[i].width))),
                                         .a_row = both[i].width,
                                         .b = at(e, both[i].columns, panels.index),
                                         .b_row = p->key_stride,
                                         .count = i64(e, both[i].width)};
        tcc_attention_bf16_product(e, p, vectors, &f, at(e, both[i].to, to), p->key_stride);
    }
    tcc_emit_loop_end(e, &panels, NULL);
    tcc_emit_loop_end(e, &tiles, NULL);
}

/* Queries from row0 on: their p and ds, and their share of dq. */
static void emit_group(tcc_emitter *e, backward *b, tcc_emit_value row0) {
    const tcc_attention_plan *p = b->r.p;
    const tcc_attention *a = &p->a;
    b->row0 = row0;
    b->n_rows = tcc_emit_min(e, tcc_emit_sub(e, b->at.query_end, row0), i64(e, GROUP));
    tcc_emit_value last = tcc_emit_sub(e, tcc_emit_add(e, row0, b->n_rows), i64(e, 1));
    b->padded = tcc_attention_round_up(e, tcc_attention_seen_in_block(e, a, &b->at, last));
    emit_products(e, b);
    tcc_emit_loop pairs, tiles;
    tcc_emit_value n_pairs = tcc_emit_div(e, tcc_emit_add(e, b->n_rows, i64(e, 1)), 2);
    tcc_emit_loop_begin(e, &pairs, i64(e, 0), n_pairs, 1, NULL, 0);
    tcc_emit_value row = tcc_emit_mul(e, pairs.index, i64(e, 2)), both = NULL;
    if (a->T % 2) both = tcc_emit_icmp(e, TCC_ICMP_SLT, tcc_emit_add(e, row, i64(e, 1)), b->n_rows);
    emit_pair_of_rows(e, b, row, both);
    tcc_emit_loop_end(e, &pairs, NULL);
    if (a->T % GROUP) clear_pairs(e, b, n_pairs);
    emit_transposed(e, b, b->p_pairs, b->p_columns);
    emit_transposed(e, b, b->ds_pairs, b->ds_columns);
    if (!a->has[TCC_ATTENTION_DQ]) return;
    tcc_emit_loop_begin(e, &tiles, i64(e, 0), b->n_rows, p->rows, NULL, 0);
    tcc_emit_value offset = tcc_emit_mul(e, tiles.index, i64(e, p->key_stride));
    const tcc_attention_factors f = {
        .a = at16(e, b->ds_rows, offset), .a_row = p->key_stride, .b = b->k_by_rows, .count = b->padded};
    tcc_emit_value left = tcc_emit_min(e, tcc_emit_sub(e, b->n_rows, tiles.index), i64(e, p->rows));
    emit_gradient(e, b, TCC_ATTENTION_DQ, f, tcc_emit_add(e, row0, tiles.index), left, b->at.first_keys);
    tcc_emit_loop_end(e, &tiles, NULL);
}

/* -- Blocks -- */

static void enter_keys(tcc_emitter *e, backward *b, tcc_emit_value key0) {
    const tcc_attention_plan *p = b->r.p;
    const tcc_attention *a = &p->a;
    tcc_attention_enter_keys(e, p, key0, &b->at);
    tcc_attention_bf16_transposed(e, &b->r, TCC_ATTENTION_K, a->D, key0, b->at.in_block, b->k_by_width);
    tcc_attention_bf16_transposed(e, &b->r, TCC_ATTENTION_V, a->E, key0, b->at.in_block, b->v_by_width);
    if (b->k_by_rows)
        tcc_attention_bf16_pairs(e, &b->r, TCC_ATTENTION_K, a->D, p->d_padded, key0, b->at.in_block, b->k_by_rows);
}

static void enter_queries(tcc_emitter *e, backward *b, tcc_emit_value query0, tcc_emit_value from) {
    const tcc_attention_plan *p = b->r.p;
    const tcc_attention *a = &p->a;
    tcc_attention_enter_queries(e, p, query0, from, &b->at);
    tcc_attention_bf16_rows(e, &b->r, TCC_ATTENTION_Q, a->D, query0, b->at.n_queries, b->q_rows);
    tcc_attention_bf16_rows(e, &b->r, TCC_ATTENTION_DO, a->E, query0, b->at.n_queries, b->do_rows);
    if (b->q_by_rows)
        tcc_attention_bf16_pairs(e, &b->r, TCC_ATTENTION_Q, a->D, p->d_padded, query0, b->at.n_queries, b->q_by_rows);
    if (b->do_by_rows)
        tcc_attention_bf16_pairs(e, &b->r, TCC_ATTENTION_DO, a->E, p->e_padded, query0, b->at.n_queries, b->do_by_rows);
}

/* Keys from `tile` of the block on: their share of dk and dv from the groups of queries that see the first of them. */
static void emit_tile_of_keys(tcc_emitter *e, backward *b, tcc_emit_value tile) {
    const tcc_attention_plan *p = b->r.p;
    const tcc_attention *a = &p->a;
    tcc_emit_value skipped = i64(e, 0), key = tcc_emit_add(e, b->at.key0, tile);
    tcc_emit_value n_keys = tcc_emit_min(e, tcc_emit_sub(e, b->at.in_block, tile), i64(e, p->rows));
    tcc_emit_value queries = tcc_attention_round_up(e, b->at.n_queries);
    if (a->causal) {
        skipped = tcc_attention_blind_queries(e, a, &b->at, key);
        skipped = tcc_emit_and(e, skipped, i64(e, -GROUP));
        skipped = tcc_emit_min(e, skipped, queries);
    }
    tcc_emit_value left = tcc_emit_sub(e, queries, skipped), pair = tcc_emit_div(e, skipped, 2);
    tcc_emit_value offset = tcc_emit_add(e, tcc_emit_mul(e, tile, i64(e, b->query_stride)), skipped);
    const struct {
        tcc_attention_role role;
        tcc_emit_value columns, rows;
    } both[] = {{TCC_ATTENTION_DV, b->p_columns, b->do_by_rows}, {TCC_ATTENTION_DK, b->ds_columns, b->q_by_rows}};
    for (int i = 0; i < 2; i++) {
        if (!a->has[both[i].role]) continue;
        const int64_t width = tcc_attention_padded_width(b->r.p, both[i].role);
        const tcc_attention_factors f = {.a = at16(e, both[i].columns, offset),
                                         .a_row = b->query_stride,
                                         .b = at(e, both[i].rows, tcc_emit_mul(e, pair, i64(e, width))),
                                         .count = left};
        emit_gradient(e, b, both[i].role, f, key, n_keys, b->at.first_queries);
    }
}

void tcc_attention_emit_bf16_backward(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    backward b = {0};
    tcc_emit_loop items, keys, queries, tiles;
    tcc_attention_bf16_begin(e, &b.r, p, symbol);
    if (a->has[TCC_ATTENTION_RNG]) tcc_attention_scratch(e, &b.r, tcc_attention_draws_floats(e->lanes, p->key_stride));
    place(e, &b, p);
    tcc_emit_items_begin(e, &items);
    tcc_attention_enter(e, &b.r, items.index);
    tcc_attention_emit_delta(e, &b.r, b.delta);
    tcc_emit_loop_begin(e, &keys, i64(e, 0), i64(e, a->S), p->key_block, NULL, 0);
    enter_keys(e, &b, keys.index);
    tcc_emit_value from = tcc_attention_first_query(e, p, &b.at);
    tcc_emit_loop_begin(e, &queries, from, i64(e, a->T), p->query_block, NULL, 0);
    enter_queries(e, &b, queries.index, from);
    tcc_emit_loop_begin(e, &tiles, b.at.query0, b.at.query_end, GROUP, NULL, 0);
    emit_group(e, &b, tiles.index);
    tcc_emit_loop_end(e, &tiles, NULL);
    tcc_emit_loop_begin(e, &tiles, i64(e, 0), b.at.in_block, p->rows, NULL, 0);
    emit_tile_of_keys(e, &b, tiles.index);
    tcc_emit_loop_end(e, &tiles, NULL);
    tcc_emit_loop_end(e, &queries, NULL);
    emit_sums(e, &b, TCC_ATTENTION_DK, b.at.key0, b.at.in_block);
    emit_sums(e, &b, TCC_ATTENTION_DV, b.at.key0, b.at.in_block);
    tcc_emit_loop_end(e, &keys, NULL);
    emit_sums(e, &b, TCC_ATTENTION_DQ, i64(e, 0), i64(e, a->T));
    tcc_emit_loop_end(e, &items, NULL);
    tcc_attention_bf16_end(e, p);
}
