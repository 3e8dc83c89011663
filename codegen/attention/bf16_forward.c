/* SPDX-License-Identifier: MIT
 * The forward kernel of attention in bf16 on the host: a tile of queries against blocks of keys. Scores, maxima and
 * denominators are f32; exp(score - maximum) is rounded to bf16 for the product with v; the denominator sums it before
 * rounding. */
#include "codegen/attention/bf16.h"

#include "codegen/emit/math.h"

#include <math.h>

enum { GROUP = TCC_ATTENTION_GROUP };

static tcc_emit_value at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->f32, base, offset);
}
static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }
static tcc_emit_value f32(tcc_emitter *e, double value) { return tcc_emit_float(e, e->f32, value); }

typedef struct forward {
    tcc_attention_run r;
    bool one_block;                 /* all keys at once: nothing to rescale */
    tcc_emit_value keys, values;    /* packed blocks */
    tcc_emit_value queries, scores; /* of a tile; scores become probabilities of bf16 at the beginning of each row */
    tcc_emit_value products;        /* with v, of a tile */
    tcc_emit_value maxima, denominators, sums; /* of each query of the block: state between blocks of keys, and o */
    tcc_emit_value query0, query_end, key0, in_block;
    tcc_emit_value is_first;                    /* block of keys */
    tcc_emit_value row0, n_rows, count, padded; /* the tile: its queries, and the keys that the last of them sees */
} forward;

/* Places in scratch; returns the floats in all. */
static int64_t place(tcc_emitter *e, forward *f, const tcc_attention_plan *p) {
    const int64_t queries = p->query_block, keys = tcc_attention_in_groups(p->key_block);
    const struct {
        tcc_emit_value *to;
        int64_t floats;
    } all[] = {
        {&f->keys, tcc_attention_in_groups(p->a.D) / 2 * p->key_stride},
        {&f->values, keys / 2 * p->e_padded},
        {&f->queries, p->rows * tcc_attention_in_groups(p->a.D) / 2},
        {&f->scores, p->rows * p->key_stride},
        {&f->products, p->rows * p->e_padded},
        {&f->maxima, queries},
        {&f->denominators, queries},
        {&f->sums, p->key_block >= p->a.S ? 0 : queries * p->e_padded},
    };
    int64_t floats = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (e) *all[i].to = tcc_attention_scratch(e, &f->r, all[i].floats);
        floats += tcc_attention_in_groups(all[i].floats);
    }
    return floats;
}

int64_t tcc_attention_bf16_forward_floats(const tcc_attention_plan *p) {
    forward f;
    return place(NULL, &f, p);
}

static tcc_emit_value scalar_at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value index) {
    return tcc_emit_load(e, e->f32, at(e, base, index), 4);
}

/* Scores of a row, from the products; returns the largest. */
static tcc_emit_value emit_scores(tcc_emitter *e, const forward *f, tcc_emit_value row, tcc_emit_value scores) {
    tcc_emit_value lowest = tcc_emit_float(e, e->vf32, -INFINITY), highest[] = {lowest, lowest};
    tcc_emit_loop columns;
    tcc_emit_loop_begin(e, &columns, i64(e, 0), f->padded, GROUP, highest, 2);
    for (int h = 0; h < GROUP / e->lanes; h++) {
        tcc_emit_value column = tcc_emit_add(e, columns.index, i64(e, h * e->lanes)), address = at(e, scores, column);
        tcc_emit_value x = tcc_emit_load(e, e->vf32, address, e->lanes * 4);
        x = tcc_attention_score(e, &f->r, x, row, tcc_emit_add(e, f->key0, column));
        tcc_emit_store(e, x, address, e->lanes * 4);
        highest[h % 2] = tcc_attention_larger(e, x, h < 2 ? columns.carry[h] : highest[h % 2]);
    }
    tcc_emit_loop_end(e, &columns, highest);
    return tcc_emit_max_lanes(e, tcc_attention_larger(e, columns.carry[0], columns.carry[1]));
}

/* Scores become exp(score - shift), with dropout, as bf16; returns the sum of all that is seen. */
static tcc_emit_value emit_probabilities(tcc_emitter *e, const forward *f, tcc_emit_value scores,
                                         tcc_emit_value shift) {
    tcc_emit_value zero = tcc_emit_float(e, e->vf32, 0), sums[] = {zero, zero}, x[2];
    tcc_emit_value shifts = tcc_emit_splat(e, shift, e->lanes);
    tcc_emit_loop columns;
    tcc_emit_loop_begin(e, &columns, i64(e, 0), f->padded, GROUP, sums, 2);
    sums[0] = columns.carry[0], sums[1] = columns.carry[1];
    for (int h = 0; h < GROUP / e->lanes; h++) {
        tcc_emit_value column = tcc_emit_add(e, columns.index, i64(e, h * e->lanes));
        tcc_emit_value score = tcc_emit_load(e, e->vf32, at(e, scores, column), e->lanes * 4);
        tcc_emit_value p = tcc_math_exp_negative(e, tcc_emit_fsub(e, score, shifts));
        sums[h % 2] = tcc_emit_fadd(e, sums[h % 2], p);
        x[h % 2] = tcc_attention_drop(e, &f->r.p->a, tcc_attention_kept(e, &f->r, column), p);
        if (h % 2 == 0) continue;
        tcc_emit_value first = tcc_emit_sub(e, column, i64(e, e->lanes));
        tcc_emit_store(e, tcc_emit_round_pairs(e, x[0], x[1]), tcc_emit_at(e, e->i16, scores, first), 2);
    }
    tcc_emit_loop_end(e, &columns, sums);
    return tcc_emit_sum_lanes(e, tcc_emit_fadd(e, columns.carry[0], columns.carry[1]));
}

/* o of a query, from its sums. */
static void store_output(tcc_emitter *e, const forward *f, tcc_emit_value row, tcc_emit_value sums) {
    tcc_emit_value denominator = scalar_at(e, f->denominators, tcc_emit_sub(e, row, f->query0));
    tcc_emit_value scale = tcc_emit_splat(e, tcc_attention_inverse(e, denominator), e->lanes);
    tcc_attention_bf16_store(e, &f->r, TCC_ATTENTION_O, f->r.p->a.E, row, sums, scale);
}

static tcc_emit_value sums_of(tcc_emitter *e, const forward *f, tcc_emit_value row) {
    tcc_emit_value slot = tcc_emit_sub(e, row, f->query0);
    return at(e, f->sums, tcc_emit_mul(e, slot, i64(e, f->r.p->e_padded)));
}

/* The softmax of a tile, row by row; what was summed before is rescaled to the new maximum. */
static void emit_softmax(tcc_emitter *e, forward *f) {
    const tcc_attention_plan *p = f->r.p;
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, i64(e, 0), f->n_rows, 1, NULL, 0);
    tcc_emit_value row = tcc_emit_add(e, f->row0, rows.index), slot = tcc_emit_sub(e, row, f->query0);
    tcc_emit_value scores = at(e, f->scores, tcc_emit_mul(e, rows.index, i64(e, p->key_stride)));
    tcc_emit_value highest = emit_scores(e, f, row, scores), before = NULL;
    if (!f->one_block) {
        before = tcc_emit_select(e, f->is_first, f32(e, -INFINITY), scalar_at(e, f->maxima, slot));
        highest = tcc_attention_larger(e, before, highest);
    }
    tcc_emit_value shift = tcc_attention_shown(e, highest);
    tcc_attention_draw(e, &f->r, row, f->key0, f->count);
    tcc_emit_value sum = emit_probabilities(e, f, scores, shift);
    if (!f->one_block) {
        tcc_emit_value factor = tcc_math_exp_negative(e, tcc_emit_fsub(e, before, shift));
        tcc_emit_value old = tcc_emit_select(e, f->is_first, f32(e, 0), scalar_at(e, f->denominators, slot));
        factor = tcc_emit_select(e, f->is_first, f32(e, 0), factor);
        sum = tcc_emit_fadd(e, tcc_emit_fmul(e, old, factor), sum);
        tcc_emit_value factors = tcc_emit_splat(e, factor, e->lanes), sums = sums_of(e, f, row);
        tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, p->e_padded), e->lanes, NULL, 0);
        tcc_emit_value address = at(e, sums, columns.index), x = tcc_emit_load(e, e->vf32, address, e->lanes * 4);
        x = tcc_emit_select(e, f->is_first, tcc_emit_float(e, e->vf32, 0), x); /* scratch may hold anything */
        tcc_emit_store(e, tcc_emit_fmul(e, x, factors), address, e->lanes * 4);
        tcc_emit_loop_end(e, &columns, NULL);
    }
    tcc_emit_store(e, highest, at(e, f->maxima, slot), 4);
    tcc_emit_store(e, sum, at(e, f->denominators, slot), 4);
    tcc_emit_loop_end(e, &rows, NULL);
}

/* o of a tile, or what it adds to it. */
static void emit_values(tcc_emitter *e, forward *f) {
    const tcc_attention_plan *p = f->r.p;
    const int vectors = tcc_attention_bf16_vectors(e, p->e_padded);
    tcc_emit_loop chunks, rows, columns;
    tcc_emit_loop_begin(e, &chunks, i64(e, 0), i64(e, p->e_padded), (int64_t)vectors * e->lanes, NULL, 0);
    const tcc_attention_factors factors = {.a = f->scores,
                                           .a_row = 2 * p->key_stride,
                                           .b = at(e, f->values, chunks.index),
                                           .b_row = p->e_padded,
                                           .count = f->padded};
    tcc_attention_bf16_product(e, p, vectors, &factors, at(e, f->products, chunks.index), p->e_padded);
    tcc_emit_loop_end(e, &chunks, NULL);
    tcc_emit_loop_begin(e, &rows, i64(e, 0), f->n_rows, 1, NULL, 0);
    tcc_emit_value row = tcc_emit_add(e, f->row0, rows.index);
    tcc_emit_value from = at(e, f->products, tcc_emit_mul(e, rows.index, i64(e, p->e_padded)));
    if (f->one_block) {
        store_output(e, f, row, from);
    } else {
        tcc_emit_value sums = sums_of(e, f, row);
        tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, p->e_padded), e->lanes, NULL, 0);
        tcc_emit_value value = tcc_emit_load(e, e->vf32, at(e, from, columns.index), e->lanes * 4);
        tcc_emit_value to = at(e, sums, columns.index);
        value = tcc_emit_fadd(e, tcc_emit_load(e, e->vf32, to, e->lanes * 4), value);
        tcc_emit_store(e, value, to, e->lanes * 4);
        tcc_emit_loop_end(e, &columns, NULL);
    }
    tcc_emit_loop_end(e, &rows, NULL);
}

/* lse of the queries of the block: as vectors where it is contiguous. */
static void emit_lse(tcc_emitter *e, const forward *f) {
    const tcc_attention *a = &f->r.p->a;
    if (!a->has[TCC_ATTENTION_LSE]) return;
    const int lanes = a->operands[TCC_ATTENTION_LSE].row == 1 ? e->lanes : 1;
    tcc_emit_type type = tcc_emit_vector_type(e->f32, lanes);
    tcc_emit_value n_queries = tcc_emit_sub(e, f->query_end, f->query0);
    tcc_emit_loop slots;
    tcc_emit_loop_begin(e, &slots, i64(e, 0), n_queries, lanes, NULL, 0);
    tcc_emit_value highest = tcc_emit_load(e, type, at(e, f->maxima, slots.index), 4);
    tcc_emit_value sum = tcc_math_log(e, tcc_emit_load(e, type, at(e, f->denominators, slots.index), 4));
    tcc_emit_value value = tcc_emit_fadd(e, tcc_attention_shown(e, highest), sum);
    tcc_emit_value to = tcc_attention_row(e, &f->r, TCC_ATTENTION_LSE, tcc_emit_add(e, f->query0, slots.index));
    tcc_emit_value left = tcc_emit_sub(e, n_queries, slots.index);
    if (lanes > 1) tcc_emit_store_masked(e, value, to, tcc_emit_mask(e, lanes, left));
    else tcc_emit_store(e, value, to, 4);
    tcc_emit_loop_end(e, &slots, NULL);
}

/* What several blocks of keys have summed becomes o. */
static void emit_finish(tcc_emitter *e, const forward *f) {
    if (f->one_block) return;
    tcc_emit_loop rows;
    tcc_emit_loop_begin(e, &rows, f->query0, f->query_end, 1, NULL, 0);
    store_output(e, f, rows.index, sums_of(e, f, rows.index));
    tcc_emit_loop_end(e, &rows, NULL);
}

/* Queries row0 ... of the block against the block of keys. */
static void emit_tile(tcc_emitter *e, forward *f, tcc_emit_value row0) {
    const tcc_attention_plan *p = f->r.p;
    const tcc_attention *a = &p->a;
    const int vectors = tcc_attention_score_vectors(e);
    const int64_t width = tcc_attention_in_groups(a->D);
    f->row0 = row0;
    f->n_rows = tcc_emit_min(e, tcc_emit_sub(e, f->query_end, row0), i64(e, p->rows));
    f->count = f->in_block;
    if (a->causal) {
        tcc_emit_value last = tcc_emit_sub(e, tcc_emit_add(e, row0, f->n_rows), i64(e, 1));
        tcc_emit_value seen = tcc_emit_min(e, tcc_emit_sub(e, tcc_attention_seen(e, a, last), f->key0), f->in_block);
        f->count = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SLT, seen, i64(e, 0)), i64(e, 0), seen);
    }
    f->padded = tcc_attention_round_up(e, f->count);
    tcc_attention_bf16_rows(e, &f->r, TCC_ATTENTION_Q, a->D, row0, f->n_rows, f->queries);
    tcc_emit_loop panels;
    tcc_emit_loop_begin(e, &panels, i64(e, 0), f->padded, (int64_t)vectors * e->lanes, NULL, 0);
    const tcc_attention_factors factors = {.a = f->queries,
                                           .a_row = width,
                                           .b = at(e, f->keys, panels.index),
                                           .b_row = p->key_stride,
                                           .count = i64(e, width)};
    tcc_attention_bf16_product(e, p, vectors, &factors, at(e, f->scores, panels.index), p->key_stride);
    tcc_emit_loop_end(e, &panels, NULL);
    emit_softmax(e, f);
    emit_values(e, f);
}

static void enter_queries(tcc_emitter *e, forward *f, tcc_emit_value block) {
    const tcc_attention_plan *p = f->r.p;
    f->query0 = tcc_emit_mul(e, block, i64(e, p->query_block));
    f->query_end = tcc_emit_min(e, tcc_emit_add(e, f->query0, i64(e, p->query_block)), i64(e, p->a.T));
}

void tcc_attention_emit_bf16_forward(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    forward f = {.one_block = p->key_block >= a->S};
    tcc_attention_bf16_begin(e, &f.r, p, symbol);
    place(e, &f, p);
    const int64_t blocks = (a->T + p->query_block - 1) / p->query_block;
    tcc_emit_loop items, keys, tiles;
    tcc_emit_items_begin(e, &items);
    tcc_attention_enter(e, &f.r, tcc_emit_div(e, items.index, blocks));
    enter_queries(e, &f, tcc_emit_rem(e, items.index, blocks));
    tcc_emit_value keys_end = i64(e, a->S);
    if (a->causal) { /* one block at least, so that rows that see nothing are stored as well */
        keys_end = tcc_attention_seen(e, a, tcc_emit_sub(e, f.query_end, i64(e, 1)));
        keys_end = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SLT, keys_end, i64(e, 1)), i64(e, 1), keys_end);
    }
    f.key0 = i64(e, 0);
    if (!f.one_block) {
        tcc_emit_loop_begin(e, &keys, f.key0, keys_end, p->key_block, NULL, 0);
        f.key0 = keys.index;
    }
    f.is_first = tcc_emit_icmp(e, TCC_ICMP_EQ, f.key0, i64(e, 0));
    f.in_block = tcc_emit_min(e, tcc_emit_sub(e, keys_end, f.key0), i64(e, p->key_block));
    tcc_attention_bf16_transposed(e, &f.r, TCC_ATTENTION_K, a->D, f.key0, f.in_block, f.keys);
    tcc_attention_bf16_pairs(e, &f.r, TCC_ATTENTION_V, a->E, p->e_padded, f.key0, f.in_block, f.values);
    tcc_emit_loop_begin(e, &tiles, f.query0, f.query_end, p->rows, NULL, 0);
    emit_tile(e, &f, tiles.index);
    tcc_emit_loop_end(e, &tiles, NULL);
    if (!f.one_block) tcc_emit_loop_end(e, &keys, NULL);
    emit_finish(e, &f);
    emit_lse(e, &f);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_attention_bf16_end(e, p);
}
