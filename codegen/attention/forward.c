/* SPDX-License-Identifier: MIT
 * The forward kernel of attention on the host: a tile of queries against blocks of keys, with running maxima and
 * denominators. */
#include "codegen/attention/internal.h"

#include "codegen/emit/math.h"

#include <math.h>

static tcc_emit_value at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->f32, base, offset);
}
static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }

/* Where a tile of rows keeps its state between blocks of keys. */
typedef struct forward {
    tcc_attention_run r;
    bool one_block;                              /* all keys at once: nothing to rescale */
    tcc_emit_value keys, scores, values;         /* packed k; one tile of scores; packed v or NULL */
    tcc_emit_value maxima, denominators, factor; /* a row each; factor: of the tile at hand */
    tcc_emit_value sums;                         /* rows of unfinished o */
} forward;

static tcc_emit_value scalar_at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value index) {
    return tcc_emit_load(e, e->f32, at(e, base, index), 4);
}

/* Turn a tile's scores into exp(score - maximum), with dropout, row by row; note maxima, denominators (of all that is
 * seen) and the factor for what was summed. */
static void emit_softmax(tcc_emitter *e, forward *f, tcc_emit_value slot0, tcc_emit_value row0, tcc_emit_value key0,
                         tcc_emit_value count, tcc_emit_value is_first) {
    const tcc_attention_plan *p = f->r.p;
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, i64(e, 0), i64(e, p->rows), 1, NULL, 0);
    tcc_emit_value scores = at(e, f->scores, tcc_emit_mul(e, rows.index, i64(e, p->key_stride)));
    tcc_emit_value slot = tcc_emit_add(e, slot0, rows.index), lowest = tcc_emit_float(e, e->vf32, -INFINITY);
    tcc_emit_loop_begin(e, &columns, i64(e, 0), count, e->lanes, &lowest, 1);
    tcc_emit_value address = at(e, scores, columns.index), x = tcc_emit_load(e, e->vf32, address, e->lanes * 4);
    x = tcc_attention_score(e, &f->r, x, tcc_emit_add(e, row0, rows.index), tcc_emit_add(e, key0, columns.index));
    tcc_emit_store(e, x, address, e->lanes * 4);
    x = tcc_attention_larger(e, x, columns.carry[0]);
    tcc_emit_loop_end(e, &columns, &x);
    tcc_emit_value highest = tcc_emit_max_lanes(e, columns.carry[0]), before = NULL;
    if (!f->one_block) {
        before = tcc_emit_select(e, is_first, tcc_emit_float(e, e->f32, -INFINITY), scalar_at(e, f->maxima, slot));
        highest = tcc_attention_larger(e, before, highest);
    }
    tcc_emit_value shift = tcc_attention_shown(e, highest), shifts = tcc_emit_splat(e, shift, e->lanes),
                   zero = tcc_emit_float(e, e->vf32, 0);
    tcc_emit_value row = tcc_emit_add(e, row0, rows.index);
    tcc_attention_draw(e, &f->r, row, key0, count);
    tcc_emit_loop_begin(e, &columns, i64(e, 0), count, e->lanes, &zero, 1);
    address = at(e, scores, columns.index);
    x = tcc_math_exp_negative(e, tcc_emit_fsub(e, tcc_emit_load(e, e->vf32, address, e->lanes * 4), shifts));
    tcc_emit_value kept = tcc_attention_kept(e, &f->r, columns.index);
    tcc_emit_store(e, tcc_attention_drop(e, &p->a, kept, x), address, e->lanes * 4);
    x = tcc_emit_fadd(e, columns.carry[0], x);
    tcc_emit_loop_end(e, &columns, &x);
    tcc_emit_value sum = tcc_emit_sum_lanes(e, columns.carry[0]);
    if (!f->one_block) {
        tcc_emit_value factor = tcc_math_exp_negative(e, tcc_emit_fsub(e, before, shift));
        factor = tcc_emit_select(e, is_first, tcc_emit_float(e, e->f32, 0), factor);
        tcc_emit_value old = tcc_emit_select(e, is_first, tcc_emit_float(e, e->f32, 0),
                                             scalar_at(e, f->denominators, slot));
        sum = tcc_emit_fadd(e, tcc_emit_fmul(e, old, factor), sum);
        tcc_emit_store(e, factor, at(e, f->factor, rows.index), 4);
    }
    tcc_emit_store(e, highest, at(e, f->maxima, slot), 4);
    tcc_emit_store(e, sum, at(e, f->denominators, slot), 4);
    tcc_emit_loop_end(e, &rows, NULL);
}

static void store_output(tcc_emitter *e, const forward *f, tcc_emit_value row, tcc_emit_value column,
                         tcc_emit_value value) {
    tcc_emit_value address = tcc_attention_place(e, &f->r, tcc_attention_row(e, &f->r, TCC_ATTENTION_O, row), column);
    tcc_attention_store(e, &f->r, value, address, tcc_attention_mask(e, f->r.p->a.E, column));
}

/* o of a tile += probabilities times v; the end of it if there is one block of keys. */
static void emit_values(tcc_emitter *e, forward *f, tcc_emit_value slot0, tcc_emit_value row0, tcc_emit_value tile,
                        tcc_emit_value first_key, tcc_emit_value count, tcc_emit_value is_first) {
    const tcc_attention_plan *p = f->r.p;
    int vectors = tcc_attention_output_vectors(e, p->e_padded);
    tcc_emit_loop chunks;
    tcc_emit_loop_begin(e, &chunks, i64(e, 0), i64(e, p->e_padded), (int64_t)vectors * e->lanes, NULL, 0);
    tcc_emit_value sums[TCC_EMIT_MAX_CARRY];
    for (int i = 0; i < p->rows * vectors; i++) sums[i] = tcc_emit_float(e, e->vf32, 0);
    tcc_emit_value values = f->values ? f->values : tcc_attention_row(e, &f->r, TCC_ATTENTION_V, first_key);
    int64_t stride = f->values ? p->e_padded : p->a.operands[TCC_ATTENTION_V].row;
    tcc_attention_product(e, &f->r, vectors, TCC_F32, f->scores, p->key_stride, 1, at(e, values, chunks.index), stride,
                          f->values != NULL, count, sums);
    for (int i = 0; i < p->rows; i++) {
        tcc_emit_value slot = tcc_emit_add(e, slot0, i64(e, i)), row = tcc_emit_add(e, row0, i64(e, i)), scale;
        tcc_emit_if mine;
        bool overlap = f->one_block && p->a.T % p->rows != 0;
        if (f->one_block) scale = tcc_attention_inverse(e, scalar_at(e, f->denominators, slot));
        else scale = scalar_at(e, f->factor, i64(e, i));
        scale = tcc_emit_splat(e, scale, e->lanes);
        if (overlap) tcc_emit_if_begin(e, &mine, tcc_emit_icmp(e, TCC_ICMP_SGE, row, tile));
        for (int v = 0; v < vectors; v++) {
            tcc_emit_value column = tcc_emit_add(e, chunks.index, i64(e, v * e->lanes)), sum = sums[i * vectors + v];
            if (f->one_block) {
                store_output(e, f, row, column, tcc_emit_fmul(e, sum, scale));
            } else {
                tcc_emit_value place = at(e, at(e, f->sums, tcc_emit_mul(e, slot, i64(e, p->e_padded))), column);
                tcc_emit_value old = tcc_emit_load(e, e->vf32, place, e->lanes * 4);
                old = tcc_emit_select(e, is_first, tcc_emit_float(e, e->vf32, 0), old); /* scratch may hold anything */
                tcc_emit_store(e, tcc_emit_fma(e, old, scale, sum), place, e->lanes * 4);
            }
        }
        if (overlap) tcc_emit_if_end(e, &mine);
    }
    tcc_emit_loop_end(e, &chunks, NULL);
}

/* Scale and store what several blocks of keys have summed. */
static void emit_finish(tcc_emitter *e, forward *f, tcc_emit_value slot, tcc_emit_value row) {
    const tcc_attention_plan *p = f->r.p;
    tcc_emit_value scale = tcc_emit_splat(e, tcc_attention_inverse(e, scalar_at(e, f->denominators, slot)), e->lanes);
    tcc_emit_value from = at(e, f->sums, tcc_emit_mul(e, slot, i64(e, p->e_padded)));
    tcc_emit_loop columns;
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, p->e_padded), e->lanes, NULL, 0);
    tcc_emit_value value = tcc_emit_load(e, e->vf32, at(e, from, columns.index), e->lanes * 4);
    store_output(e, f, row, columns.index, tcc_emit_fmul(e, value, scale));
    tcc_emit_loop_end(e, &columns, NULL);
}

static void emit_lse(tcc_emitter *e, forward *f, tcc_emit_value slot, tcc_emit_value row) {
    tcc_emit_value logarithm = tcc_math_log(e, scalar_at(e, f->denominators, slot));
    tcc_emit_value value = tcc_emit_fadd(e, tcc_attention_shown(e, scalar_at(e, f->maxima, slot)), logarithm);
    tcc_emit_store(e, value, tcc_attention_row(e, &f->r, TCC_ATTENTION_LSE, row), 4);
}

typedef struct panel_of {
    const forward *f;
    tcc_emit_value row0;
} panel_of;

static void emit_panel(void *user, tcc_emitter *e, tcc_emit_value column, int vectors) {
    const panel_of *x = user;
    tcc_attention_tile(e, &x->f->r, TCC_ATTENTION_Q, x->f->r.p->a.D, x->row0, vectors, at(e, x->f->keys, column),
                       at(e, x->f->scores, column));
}

void tcc_attention_emit_forward(tcc_emitter *e, const char *symbol, const tcc_attention_plan *p) {
    const tcc_attention *a = &p->a;
    forward f = {.one_block = p->key_block >= a->S};
    tcc_attention_begin(e, &f.r, p, symbol);
    int64_t slots = tcc_attention_slots(p);
    f.keys = tcc_attention_scratch(e, &f.r, p->d_padded * p->key_stride);
    f.scores = tcc_attention_scratch(e, &f.r, p->rows * p->key_stride);
    f.maxima = tcc_attention_scratch(e, &f.r, slots);
    f.denominators = tcc_attention_scratch(e, &f.r, slots);
    f.factor = tcc_attention_scratch(e, &f.r, p->rows);
    f.sums = tcc_attention_scratch(e, &f.r, slots * p->e_padded);
    if (tcc_attention_copies_rows(e, p, a->E)) f.values = tcc_attention_scratch(e, &f.r, p->key_stride * p->e_padded);

    int64_t blocks = (a->T + p->query_block - 1) / p->query_block;
    tcc_emit_loop items, keys, tiles;
    tcc_emit_items_begin(e, &items);
    tcc_attention_enter(e, &f.r, tcc_emit_div(e, items.index, blocks));
    tcc_emit_value query0 = tcc_emit_mul(e, tcc_emit_rem(e, items.index, blocks), i64(e, p->query_block));
    tcc_emit_value query_end = tcc_emit_min(e, tcc_emit_add(e, query0, i64(e, p->query_block)), i64(e, a->T));
    /* Keys that the last query sees; one block at least, so that rows that see nothing are stored as well. */
    tcc_emit_value keys_end = i64(e, a->S);
    if (a->causal) {
        keys_end = tcc_attention_seen(e, a, tcc_emit_sub(e, query_end, i64(e, 1)));
        keys_end = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SLT, keys_end, i64(e, 1)), i64(e, 1), keys_end);
    }
    tcc_emit_value key0 = i64(e, 0);
    if (!f.one_block) {
        tcc_emit_loop_begin(e, &keys, key0, keys_end, p->key_block, NULL, 0);
        key0 = keys.index;
    }
    tcc_emit_value is_first = tcc_emit_icmp(e, TCC_ICMP_EQ, key0, i64(e, 0));
    tcc_emit_value in_block = tcc_emit_min(e, tcc_emit_sub(e, keys_end, key0), i64(e, p->key_block));
    tcc_attention_pack_transposed(e, &f.r, TCC_ATTENTION_K, a->D, key0, in_block, f.keys);
    if (f.values) tcc_attention_pack_rows(e, &f.r, TCC_ATTENTION_V, a->E, p->e_padded, key0, in_block, f.values);

    tcc_emit_loop_begin(e, &tiles, query0, query_end, p->rows, NULL, 0);
    tcc_emit_value row0 = tiles.index, slot0 = tcc_emit_sub(e, tiles.index, query0);
    if (a->T % p->rows) row0 = tcc_emit_min(e, row0, i64(e, a->T - p->rows));
    tcc_emit_value seen = tcc_attention_seen(e, a, tcc_emit_add(e, row0, i64(e, p->rows - 1)));
    tcc_emit_value count = tcc_emit_min(e, tcc_emit_sub(e, seen, key0), in_block);
    if (a->causal) count = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SLT, count, i64(e, 0)), i64(e, 0), count);
    tcc_attention_panels(e, count, emit_panel, &(panel_of){&f, row0});
    emit_softmax(e, &f, slot0, row0, key0, count, is_first);
    emit_values(e, &f, slot0, row0, tiles.index, key0, count, is_first);
    tcc_emit_loop_end(e, &tiles, NULL);
    if (!f.one_block) tcc_emit_loop_end(e, &keys, NULL);

    if (!f.one_block || a->has[TCC_ATTENTION_LSE]) { /* the state of row t lies at the slot its tile had */
        tcc_emit_loop_begin(e, &tiles, query0, query_end, 1, NULL, 0);
        tcc_emit_value slot = tcc_emit_sub(e, tiles.index, query0);
        if (a->T % p->rows) {
            int64_t shift = p->rows - a->T % p->rows;
            tcc_emit_value in_last = tcc_emit_icmp(e, TCC_ICMP_SGE, tiles.index, i64(e, a->T - a->T % p->rows));
            slot = tcc_emit_select(e, in_last, tcc_emit_add(e, slot, i64(e, shift)), slot);
        }
        if (!f.one_block) emit_finish(e, &f, slot, tiles.index);
        if (a->has[TCC_ATTENTION_LSE]) emit_lse(e, &f, slot, tiles.index);
        tcc_emit_loop_end(e, &tiles, NULL);
    }
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
}
