/* SPDX-License-Identifier: MIT */
#include "codegen/attention/backward_block.h"

#include "codegen/emit/math.h"

enum { ROWS_AHEAD = 8 }; /* of do and o, that are fetched while a row is multiplied */

static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }

static tcc_emit_value is_first(tcc_emitter *e, tcc_emit_value at, tcc_emit_value first, bool only) {
    return only ? NULL : tcc_emit_icmp(e, TCC_ICMP_EQ, at, first);
}

static tcc_emit_value at_least_zero(tcc_emitter *e, tcc_emit_value x) {
    return tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SLT, x, i64(e, 0)), i64(e, 0), x);
}

void tcc_attention_enter_keys(tcc_emitter *e, const tcc_attention_plan *p, tcc_emit_value key0,
                              tcc_attention_blocks *b) {
    const int64_t S = p->a.S;
    b->key0 = key0;
    b->in_block = tcc_emit_min(e, tcc_emit_sub(e, i64(e, S), key0), i64(e, p->key_block));
    if (S % p->key_block == 0) b->in_block = i64(e, p->key_block);
    b->first_keys = is_first(e, key0, i64(e, 0), p->key_block >= S);
}

tcc_emit_value tcc_attention_first_query(tcc_emitter *e, const tcc_attention_plan *p, const tcc_attention_blocks *b) {
    const tcc_attention *a = &p->a;
    if (!a->causal || !b->first_keys) return i64(e, 0);
    tcc_emit_value first = at_least_zero(e, tcc_emit_sub(e, b->key0, i64(e, a->S - a->T)));
    first = tcc_emit_mul(e, tcc_emit_div(e, first, p->query_block), i64(e, p->query_block));
    return tcc_emit_select(e, b->first_keys, i64(e, 0), first);
}

void tcc_attention_enter_queries(tcc_emitter *e, const tcc_attention_plan *p, tcc_emit_value query0,
                                 tcc_emit_value from, tcc_attention_blocks *b) {
    b->query0 = query0;
    b->query_end = tcc_emit_min(e, tcc_emit_add(e, query0, i64(e, p->query_block)), i64(e, p->a.T));
    b->n_queries = tcc_emit_sub(e, b->query_end, query0);
    b->first_queries = is_first(e, query0, from, p->query_block >= p->a.T);
}

tcc_emit_value tcc_attention_seen_in_block(tcc_emitter *e, const tcc_attention *a, const tcc_attention_blocks *b,
                                           tcc_emit_value query) {
    if (!a->causal) return b->in_block;
    tcc_emit_value seen = tcc_emit_sub(e, tcc_attention_seen(e, a, query), b->key0);
    return at_least_zero(e, tcc_emit_min(e, seen, b->in_block));
}

tcc_emit_value tcc_attention_blind_queries(tcc_emitter *e, const tcc_attention *a, const tcc_attention_blocks *b,
                                           tcc_emit_value key) {
    tcc_emit_value first_to_see = tcc_emit_sub(e, key, i64(e, a->S - a->T));
    return at_least_zero(e, tcc_emit_sub(e, first_to_see, b->query0));
}

void tcc_attention_emit_delta(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value delta) {
    const tcc_attention *a = &r->p->a;
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, i64(e, 0), i64(e, a->T), 1, NULL, 0);
    tcc_emit_value o = tcc_attention_row(e, r, TCC_ATTENTION_O, rows.index), zero = tcc_emit_float(e, e->vf32, 0);
    tcc_emit_value d_o = tcc_attention_row(e, r, TCC_ATTENTION_DO, rows.index);
    tcc_emit_value ahead = tcc_emit_add(e, rows.index, i64(e, ROWS_AHEAD));
    tcc_attention_prefetch(e, r, TCC_ATTENTION_O, ahead, 1, i64(e, 0), a->E, false);
    tcc_attention_prefetch(e, r, TCC_ATTENTION_DO, ahead, 1, i64(e, 0), a->E, false);
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, a->E), e->lanes, &zero, 1);
    tcc_emit_value mask = tcc_attention_mask(e, a->E, columns.index);
    tcc_emit_value x = tcc_attention_load(e, r, tcc_attention_place(e, r, o, columns.index), mask);
    tcc_emit_value y = tcc_attention_load(e, r, tcc_attention_place(e, r, d_o, columns.index), mask);
    tcc_emit_value sum = tcc_emit_fma(e, x, y, columns.carry[0]);
    tcc_emit_loop_end(e, &columns, &sum);
    tcc_emit_store(e, tcc_emit_sum_lanes(e, columns.carry[0]), tcc_emit_at(e, e->f32, delta, rows.index), 4);
    tcc_emit_loop_end(e, &rows, NULL);
}

void tcc_attention_pair_gradient(tcc_emitter *e, const tcc_attention_run *r, const tcc_attention_pair *x,
                                 tcc_emit_value *p, tcc_emit_value *ds) {
    const tcc_attention *a = &r->p->a;
    tcc_emit_value score = tcc_attention_score(e, r, x->product, x->query, x->key);
    tcc_emit_value probability = tcc_math_exp_negative(e, tcc_emit_fsub(e, score, x->shift));
    *p = tcc_attention_drop(e, a, x->kept, probability);
    tcc_emit_value d = tcc_emit_fsub(e, tcc_attention_drop(e, a, x->kept, x->d_out), x->delta);
    tcc_emit_value scaled = tcc_emit_fmul(e, d, tcc_emit_float(e, e->vf32, a->scale));
    *ds = tcc_emit_fmul(e, probability, scaled);
}
