/* SPDX-License-Identifier: MIT
 * Dropout of attention's probabilities on the host: the draws of a row of scores, made where they are needed and never
 * stored.
 *
 * Element (batch, t, s) takes number (batch T + t) S + s of the draws, as a dropout of the whole matrix would. Four
 * neighbours are one evaluation of Philox; a vector of evaluations gives four vectors of draws, whose lanes are then
 * put in order. A row may begin inside a group of four. Then its draws are written to scratch from the multiple of four
 * before it, and read from the row's beginning. */
#include "codegen/attention/internal.h"

#include "codegen/body/body.h"
#include "ir/support/dtype.h"

#include <math.h>

static tcc_emit_value at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->f32, base, offset);
}
static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }

int64_t tcc_attention_draws_floats(int lanes, int64_t keys) {
    return (keys + 3 + 4 * lanes - 1) / (4 * lanes) * (4 * lanes) + lanes;
}

tcc_attention_draws tcc_attention_draws_begin(tcc_emitter *e, tcc_emit_value key, int id_param) {
    tcc_attention_draws d;
    d.seed = tcc_emit_load(e, e->i64, key, 8);
    d.step = tcc_emit_load(e, e->i64, tcc_emit_at(e, e->i64, key, i64(e, 1)), 8);
    d.id = tcc_emit_param(e, id_param);
    return d;
}

tcc_emit_value tcc_attention_keeps(tcc_emitter *e, const tcc_attention *a, tcc_emit_value word) {
    /* (word >> 8) 2^-24 >= p in f32, for whole words: above the last that is dropped. */
    int64_t last = ((int64_t)ceil(ldexp(tcc_dtype_round(TCC_F32, a->p), 24)) << 8) - 1;
    return tcc_emit_icmp(e, TCC_ICMP_UGT, word, tcc_emit_int(e, tcc_emit_type_of(word), last));
}

/* Of each four lanes of a and b, the first two (or last two) parts of `width` lanes by turns. */
static tcc_emit_value by_turns(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, int width, bool last) {
    enum { MOST_LANES = 16 };
    int lanes = e->lanes, indices[MOST_LANES];
    for (int i = 0; i < lanes; i++) {
        int in_four = i % 4, from_b = in_four / width % 2;
        indices[i] = i / 4 * 4 + (last ? 2 : 0) + (width == 1 ? in_four / 2 : in_four % 2) + (from_b ? lanes : 0);
    }
    return tcc_emit_shuffle(e, a, b, indices, lanes);
}

/* The lanes of counters such that by_turns() puts their words in order: lane 4 q + i has counter i lanes / 4 + q. */
static tcc_emit_value counters(tcc_emitter *e) {
    enum { MOST_LANES = 16 };
    tcc_emit_value lane[MOST_LANES];
    for (int i = 0; i < e->lanes; i++) lane[i] = i64(e, i % 4 * (e->lanes / 4) + i / 4);
    return tcc_emit_constants(lane, e->lanes);
}

void tcc_attention_draw(tcc_emitter *e, tcc_attention_run *r, tcc_emit_value row, tcc_emit_value key0,
                        tcc_emit_value count) {
    const tcc_attention *a = &r->p->a;
    if (!a->has[TCC_ATTENTION_RNG]) return;
    tcc_emit_value first = tcc_emit_add(
        e, tcc_emit_mul(e, tcc_emit_add(e, tcc_emit_mul(e, r->batch, i64(e, a->T)), row), i64(e, a->S)), key0);
    bool in_fours = a->S % 4 == 0 && (r->p->key_block % 4 == 0 || r->p->key_block >= a->S);
    tcc_emit_value shift = in_fours ? i64(e, 0) : tcc_emit_and(e, first, i64(e, 3));
    tcc_emit_value block = tcc_emit_lshr(e, first, i64(e, 2));
    tcc_emit_loop fours;
    tcc_emit_loop_begin(e, &fours, i64(e, 0), tcc_emit_add(e, shift, count), 4 * e->lanes, NULL, 0);
    tcc_emit_value here = tcc_emit_add(e, block, tcc_emit_lshr(e, fours.index, i64(e, 2))), w[4], half[4];
    here = tcc_emit_iadd(e, tcc_emit_splat(e, here, e->lanes), counters(e));
    tcc_scalar_philox(e, here, r->dropout.id, r->dropout.seed, r->dropout.step, w);
    for (int i = 0; i < 4; i++) half[i] = by_turns(e, w[i / 2 * 2], w[i / 2 * 2 + 1], 1, i % 2);
    for (int i = 0; i < 4; i++) {
        tcc_emit_value words = by_turns(e, half[i / 2], half[2 + i / 2], 2, i % 2);
        tcc_emit_store(e, words, at(e, r->draws, tcc_emit_add(e, fours.index, i64(e, i * e->lanes))), e->lanes * 4);
    }
    tcc_emit_loop_end(e, &fours, NULL);
    r->drawn = at(e, r->draws, shift);
}

tcc_emit_value tcc_attention_kept(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value column) {
    if (!r->p->a.has[TCC_ATTENTION_RNG]) return NULL;
    return tcc_attention_keeps(e, &r->p->a, tcc_emit_load(e, e->vi32, at(e, r->drawn, column), 4));
}

tcc_emit_value tcc_attention_drop(tcc_emitter *e, const tcc_attention *a, tcc_emit_value kept, tcc_emit_value value) {
    if (!kept) return value;
    tcc_emit_type type = tcc_emit_type_of(value);
    return tcc_emit_select(e, kept, tcc_emit_fmul(e, value, tcc_emit_float(e, type, 1 / (1 - a->p))),
                           tcc_emit_float(e, type, 0));
}
