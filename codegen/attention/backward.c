/* SPDX-License-Identifier: MIT
 * The backward kernel of attention: one item computes dq, dk and dv of one (batch, head).
 *
 * With p = exp(scale q k^T + mask - lse), z the factor of dropout and delta the sum of do o along a row: dv = (p z)^T
 * do; ds = scale p ((do v^T) z - delta); dq = ds k; dk = ds^T q. For each block of keys, and each block of queries that
 * sees it, p z and ds are made in scratch. Then the three products add to the gradients in memory (the first block
 * stores). Gradients of a narrow type that several blocks add to are summed up as f32 in scratch. Tiles of queries that
 * see no key are skipped. */
#include "codegen/attention/backward_block.h"

static tcc_emit_value at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->f32, base, offset);
}
static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }

/* An operand whose rows are read as vectors: in place, or padded in scratch. Row 0 is row `first` of the operand. */
typedef struct rows_of {
    tcc_emit_value data;
    int64_t stride;
    bool aligned;
} rows_of;

typedef struct backward {
    tcc_attention_run r;
    tcc_emit_value keys, values; /* transposed blocks of k and v */
    tcc_emit_value probabilities,
        scores;           /* p z and ds: [rows + query_block][key_stride]; slot `rows` is the block's first query */
    tcc_emit_value delta; /* of every query */
    tcc_emit_value padded_k, padded_q, padded_do;
    tcc_emit_value
        sums[TCC_ATTENTION_ROLES]; /* of gradients, as f32: of dq all rows, else of the block; NULL: in place */
    tcc_attention_blocks at;
} backward;

static tcc_emit_value slot_address(tcc_emitter *e, const backward *b, tcc_emit_value base, tcc_emit_value slot,
                                   tcc_emit_value column) {
    tcc_emit_value row = tcc_emit_mul(e, tcc_emit_add(e, slot, i64(e, b->r.p->rows)), i64(e, b->r.p->key_stride));
    return at(e, base, tcc_emit_add(e, row, column));
}

static rows_of rows_at(tcc_emitter *e, const backward *b, tcc_attention_role role, tcc_emit_value padded, int64_t width,
                       tcc_emit_value first) {
    if (padded) return (rows_of){padded, width, true};
    return (rows_of){tcc_attention_row(e, &b->r, role, first), b->r.p->a.operands[role].row, false};
}

/* A vector of a gradient's row: of its sums, or of itself. */
static tcc_emit_value gradient_address(tcc_emitter *e, const backward *b, tcc_attention_role role, tcc_emit_value row,
                                       tcc_emit_value column) {
    if (!b->sums[role]) return tcc_attention_place(e, &b->r, tcc_attention_row(e, &b->r, role, row), column);
    if (role != TCC_ATTENTION_DQ) row = tcc_emit_sub(e, row, b->at.key0);
    return at(e, at(e, b->sums[role], tcc_emit_mul(e, row, i64(e, tcc_attention_padded_width(b->r.p, role)))), column);
}

/* Sums become rows [first, first + count) of their gradient. */
static void emit_rounding(tcc_emitter *e, const backward *b, tcc_attention_role role, tcc_emit_value first,
                          tcc_emit_value count) {
    const int64_t width = role == TCC_ATTENTION_DV ? b->r.p->a.E : b->r.p->a.D;
    if (!b->sums[role]) return;
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, first, tcc_emit_add(e, first, count), 1, NULL, 0);
    tcc_emit_value to = tcc_attention_row(e, &b->r, role, rows.index);
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, width), e->lanes, NULL, 0);
    tcc_emit_value value = tcc_emit_load(e, e->vf32, gradient_address(e, b, role, rows.index, columns.index), 4);
    tcc_attention_store(e, &b->r, value, tcc_attention_place(e, &b->r, to, columns.index),
                        tcc_attention_mask(e, width, columns.index));
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &rows, NULL);
}

typedef struct panel_of {
    const backward *b;
    tcc_emit_value row0, slot0;
} panel_of;

/* The products of queries and keys, and of do and values. */
static void emit_panel(void *user, tcc_emitter *e, tcc_emit_value column, int vectors) {
    const panel_of *x = user;
    const backward *b = x->b;
    const tcc_attention *a = &b->r.p->a;
    tcc_attention_tile(e, &b->r, TCC_ATTENTION_Q, a->D, x->row0, vectors, at(e, b->keys, column),
                       slot_address(e, b, b->probabilities, x->slot0, column));
    tcc_attention_tile(e, &b->r, TCC_ATTENTION_DO, a->E, x->row0, vectors, at(e, b->values, column),
                       slot_address(e, b, b->scores, x->slot0, column));
}

/* p z and ds of a tile of queries against the first `count` keys of the block. */
static void emit_scores(tcc_emitter *e, backward *b, tcc_emit_value query0, tcc_emit_value row0, tcc_emit_value key0,
                        tcc_emit_value count) {
    const tcc_attention_plan *p = b->r.p;
    tcc_emit_value slot0 = tcc_emit_sub(e, row0, query0);
    tcc_emit_loop rows, columns;
    tcc_attention_panels(e, count, emit_panel, &(panel_of){b, row0, slot0});
    tcc_emit_loop_begin(e, &rows, i64(e, 0), i64(e, p->rows), 1, NULL, 0);
    tcc_emit_value row = tcc_emit_add(e, row0, rows.index), slot = tcc_emit_add(e, slot0, rows.index);
    tcc_emit_value lse = tcc_emit_load(e, e->f32, tcc_attention_row(e, &b->r, TCC_ATTENTION_LSE, row), 4);
    tcc_emit_value delta = tcc_emit_load(e, e->f32, at(e, b->delta, row), 4), p_z, ds;
    tcc_attention_pair pair = {.query = row,
                               .shift = tcc_emit_splat(e, tcc_attention_shown(e, lse), e->lanes),
                               .delta = tcc_emit_splat(e, delta, e->lanes)};
    tcc_emit_value of_row = slot_address(e, b, b->probabilities, slot, i64(e, 0)),
                   ds_of_row = slot_address(e, b, b->scores, slot, i64(e, 0));
    tcc_attention_draw(e, &b->r, row, key0, count);
    tcc_emit_loop_begin(e, &columns, i64(e, 0), count, e->lanes, NULL, 0);
    tcc_emit_value address = at(e, of_row, columns.index), ds_address = at(e, ds_of_row, columns.index);
    pair.key = tcc_emit_add(e, key0, columns.index);
    pair.kept = tcc_attention_kept(e, &b->r, columns.index);
    pair.product = tcc_emit_load(e, e->vf32, address, e->lanes * 4);
    pair.d_out = tcc_emit_load(e, e->vf32, ds_address, e->lanes * 4);
    tcc_attention_pair_gradient(e, &b->r, &pair, &p_z, &ds);
    tcc_emit_store(e, p_z, address, e->lanes * 4);
    tcc_emit_store(e, ds, ds_address, e->lanes * 4);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &rows, NULL);
}

/* Rows row0... of a gradient (those from `mine` on) = or += A [row, k] times rows of `from`. is_first NULL: there is
 * one block. */
static void emit_gradient(tcc_emitter *e, backward *b, tcc_attention_role role, int64_t width, int64_t padded,
                          tcc_emit_value row0, tcc_emit_value mine, bool overlap, tcc_emit_value a, int64_t a_row,
                          int64_t a_k, rows_of from, tcc_emit_value count, tcc_emit_value is_first) {
    const tcc_attention_plan *p = b->r.p;
    int vectors = tcc_attention_output_vectors(e, padded);
    tcc_emit_loop chunks;
    tcc_emit_loop_begin(e, &chunks, i64(e, 0), i64(e, padded), (int64_t)vectors * e->lanes, NULL, 0);
    tcc_emit_value sums[TCC_EMIT_MAX_CARRY], zero = tcc_emit_float(e, e->vf32, 0);
    /* The first block must not read what is there: no lane of it is loaded. */
    tcc_emit_value again = is_first ? tcc_emit_splat(e, tcc_emit_not(e, is_first), e->lanes) : NULL;
    for (int i = 0; i < p->rows * vectors; i++) sums[i] = zero;
    tcc_attention_product(e, &b->r, vectors, TCC_F32, a, a_row, a_k, at(e, from.data, chunks.index), from.stride,
                          from.aligned, count, sums);
    for (int i = 0; i < p->rows; i++) {
        tcc_emit_value row = tcc_emit_add(e, row0, i64(e, i));
        tcc_emit_if own;
        if (overlap) tcc_emit_if_begin(e, &own, tcc_emit_icmp(e, TCC_ICMP_SGE, row, mine));
        for (int v = 0; v < vectors; v++) {
            tcc_emit_value column = tcc_emit_add(e, chunks.index, i64(e, v * e->lanes)), before = again;
            tcc_emit_value place = gradient_address(e, b, role, row, column), value = sums[i * vectors + v];
            tcc_emit_value mask = b->sums[role] ? NULL : tcc_attention_mask(e, width, column);
            if (mask && again) before = tcc_emit_and(e, mask, again);
            if (again) value = tcc_emit_fadd(e, tcc_emit_load_masked(e, e->vf32, place, before), value);
            if (b->sums[role]) tcc_emit_store(e, value, place, 4);
            else tcc_attention_store(e, &b->r, value, place, mask);
        }
        if (overlap) tcc_emit_if_end(e, &own);
    }
    tcc_emit_loop_end(e, &chunks, NULL);
}

static void begin(tcc_emitter *e, backward *b, const tcc_attention_plan *p, const char *symbol) {
    const tcc_attention *a = &p->a;
    tcc_attention_begin(e, &b->r, p, symbol);
    int64_t slots = tcc_attention_slots(p);
    b->keys = tcc_attention_scratch(e, &b->r, p->d_padded * p->key_stride);
    b->values = tcc_attention_scratch(e, &b->r, p->e_padded * p->key_stride);
    b->probabilities = tcc_attention_scratch(e, &b->r, slots * p->key_stride);
    b->scores = tcc_attention_scratch(e, &b->r, slots * p->key_stride);
    b->delta = tcc_attention_scratch(e, &b->r, a->T);
    bool pad_d = tcc_attention_copies_rows(e, p, a->D), pad_e = tcc_attention_copies_rows(e, p, a->E);
    if (pad_d) b->padded_k = tcc_attention_scratch(e, &b->r, p->key_stride * p->d_padded);
    if (pad_d) b->padded_q = tcc_attention_scratch(e, &b->r, p->query_block * p->d_padded);
    if (pad_e) b->padded_do = tcc_attention_scratch(e, &b->r, p->query_block * p->e_padded);
    if (a->dtype == TCC_F32) return;
    if (p->key_block < a->S) b->sums[TCC_ATTENTION_DQ] = tcc_attention_scratch(e, &b->r, a->T * p->d_padded);
    if (p->query_block == a->T) return;
    b->sums[TCC_ATTENTION_DK] = tcc_attention_scratch(e, &b->r, p->key_block * p->d_padded);
    b->sums[TCC_ATTENTION_DV] = tcc_attention_scratch(e, &b->r, p->key_block * p->e_padded);
}

static void enter_keys(tcc_emitter *e, backward *b, tcc_emit_value key0) {
    const tcc_attention_plan *p = b->r.p;
    const tcc_attention *a = &p->a;
    tcc_attention_enter_keys(e, p, key0, &b->at);
    tcc_attention_pack_transposed(e, &b->r, TCC_ATTENTION_K, a->D, key0, b->at.in_block, b->keys);
    tcc_attention_pack_transposed(e, &b->r, TCC_ATTENTION_V, a->E, key0, b->at.in_block, b->values);
    if (b->padded_k)
        tcc_attention_pack_rows(e, &b->r, TCC_ATTENTION_K, a->D, p->d_padded, key0, b->at.in_block, b->padded_k);
}

static void enter_queries(tcc_emitter *e, backward *b, tcc_emit_value query0, tcc_emit_value from) {
    const tcc_attention_plan *p = b->r.p;
    const tcc_attention *a = &p->a;
    tcc_attention_enter_queries(e, p, query0, from, &b->at);
    if (b->padded_q)
        tcc_attention_pack_rows(e, &b->r, TCC_ATTENTION_Q, a->D, p->d_padded, query0, b->at.n_queries, b->padded_q);
    if (b->padded_do)
        tcc_attention_pack_rows(e, &b->r, TCC_ATTENTION_DO, a->E, p->e_padded, query0, b->at.n_queries, b->padded_do);
}

/* The tile of queries from `tile` on: its p and ds, and its share of dq. */
static void emit_tile_of_queries(tcc_emitter *e, backward *b, tcc_emit_value tile) {
    const tcc_attention_plan *p = b->r.p;
    const tcc_attention *a = &p->a;
    tcc_emit_value row0 = tile;
    if (a->T % p->rows) row0 = tcc_emit_min(e, row0, i64(e, a->T - p->rows));
    tcc_emit_value last = tcc_emit_add(e, row0, i64(e, p->rows - 1));
    tcc_emit_value count = tcc_attention_seen_in_block(e, a, &b->at, last);
    /* A tile of keys that begins at the last one seen reads a few more columns, which must be there; where tiles of
     * queries and of keys begin at multiples of their rows, it ends where they end. */
    const bool meet = a->T % p->rows == 0 && a->S % p->rows == 0 && p->query_block % p->rows == 0 &&
                      p->key_block % p->rows == 0;
    tcc_emit_value computed = count;
    if (a->causal && !meet) computed = tcc_emit_min(e, tcc_emit_add(e, count, i64(e, p->rows - 1)), b->at.in_block);
    tcc_attention_prefetch(e, &b->r, TCC_ATTENTION_Q, tcc_emit_add(e, row0, i64(e, p->rows)), p->rows, i64(e, 0), a->D,
                           false);
    if (a->has[TCC_ATTENTION_DQ])
        tcc_attention_prefetch(e, &b->r, TCC_ATTENTION_DQ, row0, p->rows, i64(e, 0), a->D, true);
    emit_scores(e, b, b->at.query0, row0, b->at.key0, computed);
    if (!a->has[TCC_ATTENTION_DQ]) return;
    rows_of k = rows_at(e, b, TCC_ATTENTION_K, b->padded_k, p->d_padded, b->at.key0);
    tcc_emit_value ds = slot_address(e, b, b->scores, tcc_emit_sub(e, row0, b->at.query0), i64(e, 0));
    emit_gradient(e, b, TCC_ATTENTION_DQ, a->D, p->d_padded, row0, tile, a->T % p->rows != 0, ds, p->key_stride, 1, k,
                  count, b->at.first_keys);
}

/* The tile of keys from `tile` of the block on: its share of dk and dv from the queries that see it. */
static void emit_tile_of_keys(tcc_emitter *e, backward *b, tcc_emit_value tile) {
    const tcc_attention_plan *p = b->r.p;
    const tcc_attention *a = &p->a;
    bool overlap = a->S % p->rows != 0 || p->key_block % p->rows != 0;
    tcc_emit_value column0 = tile;
    if (overlap) column0 = tcc_emit_min(e, column0, tcc_emit_sub(e, b->at.in_block, i64(e, p->rows)));
    tcc_emit_value skipped = i64(e, 0);
    if (a->causal) {
        skipped = tcc_attention_blind_queries(e, a, &b->at, tcc_emit_add(e, b->at.key0, column0));
        skipped = tcc_emit_min(e, skipped, b->at.n_queries);
    }
    tcc_emit_value left = tcc_emit_sub(e, b->at.n_queries, skipped), row = tcc_emit_add(e, b->at.key0, column0),
                   mine = tcc_emit_add(e, b->at.key0, tile);
    if (a->has[TCC_ATTENTION_DV])
        tcc_attention_prefetch(e, &b->r, TCC_ATTENTION_DV, row, p->rows, i64(e, 0), a->E, true);
    if (a->has[TCC_ATTENTION_DK])
        tcc_attention_prefetch(e, &b->r, TCC_ATTENTION_DK, row, p->rows, i64(e, 0), a->D, true);
    if (a->has[TCC_ATTENTION_DV]) {
        rows_of d_o = rows_at(e, b, TCC_ATTENTION_DO, b->padded_do, p->e_padded, b->at.query0);
        d_o.data = at(e, d_o.data, tcc_emit_mul(e, skipped, i64(e, d_o.stride)));
        emit_gradient(e, b, TCC_ATTENTION_DV, a->E, p->e_padded, row, mine, overlap,
                      slot_address(e, b, b->probabilities, skipped, column0), 1, p->key_stride, d_o, left,
                      b->at.first_queries);
    }
    if (a->has[TCC_ATTENTION_DK]) {
        rows_of q = rows_at(e, b, TCC_ATTENTION_Q, b->padded_q, p->d_padded, b->at.query0);
        q.data = at(e, q.data, tcc_emit_mul(e, skipped, i64(e, q.stride)));
        emit_gradient(e, b, TCC_ATTENTION_DK, a->D, p->d_padded, row, mine, overlap,
                      slot_address(e, b, b->scores, skipped, column0), 1, p->key_stride, q, left, b->at.first_queries);
    }
}

void tcc_attention_emit_backward(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    backward b = {0};
    tcc_emit_loop items, keys, queries, tiles;
    begin(e, &b, p, symbol);
    tcc_emit_items_begin(e, &items);
    tcc_attention_enter(e, &b.r, items.index);
    tcc_attention_emit_delta(e, &b.r, b.delta);
    tcc_emit_loop_begin(e, &keys, i64(e, 0), i64(e, a->S), p->key_block, NULL, 0);
    enter_keys(e, &b, keys.index);
    tcc_emit_value from = tcc_attention_first_query(e, p, &b.at);
    tcc_emit_loop_begin(e, &queries, from, i64(e, a->T), p->query_block, NULL, 0);
    enter_queries(e, &b, queries.index, from);
    tcc_emit_loop_begin(e, &tiles, b.at.query0, b.at.query_end, p->rows, NULL, 0);
    emit_tile_of_queries(e, &b, tiles.index);
    tcc_emit_loop_end(e, &tiles, NULL);
    tcc_emit_loop_begin(e, &tiles, i64(e, 0), b.at.in_block, p->rows, NULL, 0);
    emit_tile_of_keys(e, &b, tiles.index);
    tcc_emit_loop_end(e, &tiles, NULL);
    tcc_emit_loop_end(e, &queries, NULL);
    if (a->has[TCC_ATTENTION_DK]) emit_rounding(e, &b, TCC_ATTENTION_DK, b.at.key0, b.at.in_block);
    if (a->has[TCC_ATTENTION_DV]) emit_rounding(e, &b, TCC_ATTENTION_DV, b.at.key0, b.at.in_block);
    tcc_emit_loop_end(e, &keys, NULL);
    if (a->has[TCC_ATTENTION_DQ]) emit_rounding(e, &b, TCC_ATTENTION_DQ, i64(e, 0), i64(e, a->T));
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
}
