/* SPDX-License-Identifier: MIT
 * The register tile of the host: sums of rows x vectors over nested loops of k. */
#include "codegen/contract/internal.h"

#include <string.h>

enum { UNROLLED_STEPS = 12, FRACTION_BITS = 20, LINE_BYTES = 64, MOST_AHEAD = 8 };

/* -- Tiles: sums 0 to 3, two of A, two of B */

enum { TILE_OF_A = 4, TILE_OF_B = 6, ACROSS = 2, HIGH = TCC_EMIT_TILE_ROWS, ROW_BYTES = 64 };

void tcc_tile_configure(int rows, int vectors, int *out) {
    for (int i = 0; i < TCC_EMIT_TILES; i++) out[i] = 0;
    for (int i = 0; i * HIGH < rows; i++) {
        const int high = rows - i * HIGH < HIGH ? rows - i * HIGH : HIGH;
        out[TILE_OF_A + i] = high;
        for (int v = 0; v < vectors; v++) out[i * ACROSS + v] = high;
    }
    for (int v = 0; v < vectors; v++) out[TILE_OF_B + v] = HIGH;
}

void tcc_tile_begin(tcc_emitter *e, int rows, int vectors) {
    for (int i = 0; i * HIGH < rows; i++)
        for (int v = 0; v < vectors; v++) tcc_emit_tile_zero(e, i * ACROSS + v);
}

void tcc_tile_end(tcc_emitter *e, int rows, int vectors, tcc_emit_value to, int64_t row_bytes) {
    for (int i = 0; i * HIGH < rows; i++)
        for (int v = 0; v < vectors; v++)
            tcc_emit_tile_store(e, i * ACROSS + v, tcc_emit_at_bytes(e, to, i * HIGH * row_bytes + v * ROW_BYTES),
                                row_bytes);
}

static void multiply_tiles(tcc_emitter *e, const tcc_contract_tile *t, tcc_emit_value a, tcc_emit_value b) {
    const int64_t b_row = t->b_row ? t->b_row : t->vectors * ROW_BYTES;
    for (int v = 0; v < t->vectors; v++)
        tcc_emit_tile_load(e, TILE_OF_B + v, tcc_emit_at_bytes(e, b, v * ROW_BYTES), b_row);
    for (int i = 0; i * HIGH < t->rows; i++) {
        tcc_emit_value rows = tcc_contract_at(e, TCC_BF16, a, tcc_emit_i64(e, i * HIGH * t->a_row));
        tcc_emit_tile_load(e, TILE_OF_A + i, rows, 2 * t->a_row);
        for (int v = 0; v < t->vectors; v++) tcc_emit_tile_multiply(e, i * ACROSS + v, TILE_OF_A + i, TILE_OF_B + v);
    }
}

/* -- Vectors */

/* A vector of B at column v, and an element of A in all lanes; of pairs, as 32 bits. */
static tcc_emit_value vector_of_b(tcc_emitter *e, const tcc_contract_tile *t, tcc_emit_value row, int v) {
    if (t->multiply == TCC_CONTRACT_PAIRS)
        return tcc_emit_load(e, e->vi32, tcc_emit_at_bytes(e, row, (int64_t)v * e->lanes * 4), e->lanes * 4);
    tcc_emit_value at = tcc_contract_at(e, t->b_type, row, tcc_emit_i64(e, v * e->lanes));
    return tcc_contract_load_lanes(e, t->b_type, at, t->b_aligned ? e->lanes * 4 : 0, NULL);
}

static tcc_emit_value splat_of_a(tcc_emitter *e, const tcc_contract_tile *t, tcc_emit_value at) {
    tcc_emit_value element = t->multiply == TCC_CONTRACT_PAIRS ? tcc_emit_load(e, e->i32, at, 2)
                                                               : tcc_contract_load_element(e, t->a_type, at, 0);
    return tcc_emit_splat(e, element, e->lanes);
}

/* Values that loops carry. */
static int carried(const tcc_contract_tile *t) { return t->multiply == TCC_CONTRACT_TILES ? 0 : t->rows * t->vectors; }

/* sums += A column * B row for `count` successive steps of k, from a and b on. */
static void emit_steps(tcc_emitter *e, const tcc_contract_tile *t, tcc_emit_value a, tcc_emit_value b,
                       tcc_emit_value *sums, int count) {
    const tcc_tile_level *l = &t->levels[t->n_levels - 1];
    for (int u = 0; u < count; u++) {
        tcc_emit_value lanes[TCC_EMIT_MAX_CARRY], row = tcc_contract_at(e, t->b_type, b, tcc_emit_i64(e, u * l->b));
        if (t->multiply == TCC_CONTRACT_TILES) {
            multiply_tiles(e, t, tcc_contract_at(e, t->a_type, a, tcc_emit_i64(e, u * l->a)), row);
            continue;
        }
        for (int v = 0; v < t->vectors; v++) lanes[v] = vector_of_b(e, t, row, v);
        for (int i = 0; i < t->rows; i++) {
            tcc_emit_value at = tcc_contract_at(e, t->a_type, a, tcc_emit_i64(e, u * l->a + i * t->a_row));
            tcc_emit_value scalar = splat_of_a(e, t, at);
            for (int v = 0; v < t->vectors; v++) {
                tcc_emit_value *sum = &sums[i * t->vectors + v];
                *sum = t->multiply == TCC_CONTRACT_PAIRS ? tcc_emit_multiply_pairs(e, scalar, lanes[v], *sum)
                                                         : tcc_emit_fma(e, scalar, lanes[v], *sum);
            }
        }
    }
}

/* What `ahead` asks for at step `index` of `count`, `step` at a time: lines spread evenly over the loop, because only
 * a few can be on their way. */
static void emit_ahead(tcc_emitter *e, const tcc_tile_ahead *ahead, tcc_emit_value index, int64_t count, int64_t step) {
    if (!ahead->count || count < step) return;
    const int64_t turns = count / step, each = (ahead->count + turns - 1) / turns;
    if (each > MOST_AHEAD) return; /* a panel is hardly read again: packing it waits as long as fetching it */
    const int64_t pace = (ahead->count << FRACTION_BITS) / (turns * step); /* lines for each step */
    for (int64_t i = 0; i < each; i++) {
        tcc_emit_value done = tcc_emit_mul(e, index, tcc_emit_i64(e, pace));
        done = tcc_emit_add(e, done, tcc_emit_i64(e, i * pace * step / each));
        tcc_emit_value line = tcc_emit_add(e, ahead->first, tcc_emit_div(e, done, INT64_C(1) << FRACTION_BITS));
        tcc_emit_value row = tcc_emit_mul(e, tcc_emit_div(e, line, ahead->width), tcc_emit_i64(e, ahead->row));
        tcc_emit_value column = tcc_emit_mul(e, tcc_emit_rem(e, line, ahead->width),
                                             tcc_emit_i64(e, LINE_BYTES / tcc_dtype_bytes(ahead->type)));
        tcc_emit_prefetch(e, tcc_contract_at(e, ahead->type, ahead->from, tcc_emit_add(e, row, column)), 2);
    }
}

static void emit_inner(tcc_emitter *e, const tcc_contract_tile *t, tcc_emit_value a, tcc_emit_value b,
                       tcc_emit_value *sums) {
    const tcc_tile_level *l = &t->levels[t->n_levels - 1];
    a = tcc_emit_anchor(e, a), b = tcc_emit_anchor(e, b);
    /* Some 48 products pay for the loop, and more of them cost compile time; but what is fetched ahead is counted once
     * a turn. */
    const bool twice = t->multiply != TCC_CONTRACT_FMA || (t->n_levels == 1 && t->ahead.count);
    const int n = carried(t), all = t->rows * t->vectors, unroll = (all >= 24 ? 2 : all >= 8 ? 4 : 8) << twice;
    if (!l->runtime && l->count <= unroll) {
        emit_steps(e, t, a, b, sums, (int)l->count);
        return;
    }
    tcc_emit_value carry[TCC_EMIT_MAX_CARRY];
    int64_t counts[] = {unroll, 1};
    tcc_emit_value done = tcc_emit_i64(e, 0);
    for (int pass = 0; pass < 2; pass++) { /* unrolled, then what is left */
        int64_t step = counts[pass];
        if (l->runtime && pass == 1 && l->multiple % unroll == 0) break;
        if (!l->runtime && pass == 1) {
            emit_steps(e, t, a, b, sums, (int)(l->count % unroll));
            break;
        }
        tcc_emit_value to = l->runtime ? l->runtime : tcc_emit_i64(e, l->count / unroll * unroll);
        if (l->runtime && pass == 0 && l->multiple % unroll)
            to = tcc_emit_mul(e, tcc_emit_div(e, to, unroll), tcc_emit_i64(e, unroll));
        memcpy(carry, sums, sizeof *carry * (size_t)n);
        carry[n] = a, carry[n + 1] = b;
        tcc_emit_loop loop;
        tcc_emit_loop_begin(e, &loop, done, to, step, carry, n + 2);
        memcpy(carry, loop.carry, sizeof *carry * (size_t)(n + 2));
        if (pass == 0 && t->n_levels == 1) emit_ahead(e, &t->ahead, loop.index, l->count, step);
        emit_steps(e, t, carry[n], carry[n + 1], carry, (int)step);
        carry[n] = tcc_emit_anchor(e, tcc_contract_at(e, t->a_type, carry[n], tcc_emit_i64(e, step * l->a)));
        carry[n + 1] = tcc_emit_anchor(e, tcc_contract_at(e, t->b_type, carry[n + 1], tcc_emit_i64(e, step * l->b)));
        tcc_emit_loop_end(e, &loop, carry);
        memcpy(sums, loop.carry, sizeof *carry * (size_t)n);
        a = loop.carry[n], b = loop.carry[n + 1];
        done = to;
    }
}

static void emit_levels(tcc_emitter *e, const tcc_contract_tile *t, int at, tcc_emit_value a, tcc_emit_value b,
                        tcc_emit_value *sums) {
    if (at == t->n_levels - 1) {
        emit_inner(e, t, a, b, sums);
        return;
    }
    const tcc_tile_level *l = &t->levels[at];
    const int n = carried(t);
    int64_t steps = 1;
    for (int i = at; i < t->n_levels; i++)
        steps = t->levels[i].runtime ? UNROLLED_STEPS + 1 : steps * t->levels[i].count;
    if (steps <= UNROLLED_STEPS) { /* so few that loops would cost more than they save */
        for (int64_t i = 0; i < l->count; i++)
            emit_levels(e, t, at + 1, tcc_contract_at(e, t->a_type, a, tcc_emit_i64(e, i * l->a)),
                        tcc_contract_at(e, t->b_type, b, tcc_emit_i64(e, i * l->b)), sums);
        return;
    }
    tcc_emit_loop loop;
    tcc_emit_value to = l->runtime ? l->runtime : tcc_emit_i64(e, l->count);
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), to, 1, sums, n);
    tcc_emit_value inner[TCC_EMIT_MAX_CARRY];
    memcpy(inner, loop.carry, sizeof *inner * (size_t)n);
    tcc_emit_value to_a = tcc_emit_mul(e, loop.index, tcc_emit_i64(e, l->a));
    tcc_emit_value to_b = tcc_emit_mul(e, loop.index, tcc_emit_i64(e, l->b));
    emit_levels(e, t, at + 1, tcc_contract_at(e, t->a_type, a, to_a), tcc_contract_at(e, t->b_type, b, to_b), inner);
    tcc_emit_loop_end(e, &loop, inner);
    memcpy(sums, loop.carry, sizeof *inner * (size_t)n);
}

/* Neighbouring levels that are one loop for both operands become one. */
static void merge_levels(tcc_emitter *e, tcc_contract_tile *t) {
    for (int i = t->n_levels - 2; i >= 0; i--) {
        tcc_tile_level *outer = &t->levels[i], *inner = outer + 1;
        if (inner->runtime || outer->a != inner->a * inner->count || outer->b != inner->b * inner->count) continue;
        if (outer->runtime) {
            inner->runtime = tcc_emit_mul(e, outer->runtime, tcc_emit_i64(e, inner->count));
            inner->multiple = outer->multiple * inner->count;
        }
        inner->count *= outer->count;
        memmove(outer, inner, sizeof *outer * (size_t)(t->n_levels - i - 1));
        t->n_levels--;
    }
}

void tcc_tile_emit(tcc_emitter *e, tcc_contract_tile *t, tcc_emit_value a, tcc_emit_value b, tcc_emit_value *sums) {
    merge_levels(e, t);
    emit_levels(e, t, 0, a, b, sums);
}
