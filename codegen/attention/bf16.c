/* SPDX-License-Identifier: MIT
 * Packing and products of attention in bf16 on the host. */
#include "codegen/attention/bf16.h"

#include "codegen/contract/internal.h"

enum { GROUP = TCC_ATTENTION_GROUP, PAIR = 2 };

static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }

static tcc_emit_value words(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->i32, base, offset);
}

static tcc_emit_value elements(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->i16, base, offset);
}

tcc_emit_value tcc_attention_round_up(tcc_emitter *e, tcc_emit_value n) {
    int64_t constant;
    if (tcc_emit_is_constant(n, &constant)) return i64(e, tcc_attention_in_groups(constant));
    return tcc_emit_and(e, tcc_emit_add(e, n, i64(e, GROUP - 1)), i64(e, -GROUP));
}

void tcc_attention_bf16_begin(tcc_emitter *e, tcc_attention_run *r, const tcc_attention_plan *p, const char *symbol) {
    tcc_attention_begin(e, r, p, symbol);
    if (p->multiply != TCC_CONTRACT_TILES) return;
    int rows[TCC_EMIT_TILES];
    tcc_tile_configure(p->rows, 2, rows);
    tcc_emit_tiles_begin(e, rows);
}

void tcc_attention_bf16_end(tcc_emitter *e, const tcc_attention_plan *p) {
    if (p->multiply == TCC_CONTRACT_TILES) tcc_emit_tiles_end(e);
    tcc_emit_kernel_end(e);
}

/* Lanes of a vector at `column` that lie inside the width; NULL: all. */
static tcc_emit_value inside(tcc_emitter *e, int lanes, int64_t width, tcc_emit_value column) {
    return width % lanes ? tcc_emit_mask(e, lanes, tcc_emit_sub(e, i64(e, width), column)) : NULL;
}

static tcc_emit_value load(tcc_emitter *e, int lanes, tcc_emit_value address, tcc_emit_value mask) {
    tcc_emit_type type = tcc_emit_vector_type(e->i16, lanes);
    return mask ? tcc_emit_load_masked(e, type, address, mask) : tcc_emit_load(e, type, address, 0);
}

void tcc_attention_bf16_rows(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                             tcc_emit_value first, tcc_emit_value count, tcc_emit_value to) {
    const int lanes = PAIR * e->lanes;
    const int64_t padded = tcc_attention_in_groups(width);
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, i64(e, 0), count, 1, NULL, 0);
    tcc_emit_value from = tcc_attention_row(e, r, role, tcc_emit_add(e, first, rows.index));
    tcc_emit_value place = elements(e, to, tcc_emit_mul(e, rows.index, i64(e, padded)));
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, padded), lanes, NULL, 0);
    tcc_emit_value value = load(e, lanes, elements(e, from, columns.index), inside(e, lanes, width, columns.index));
    tcc_emit_store(e, value, elements(e, place, columns.index), 2);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &rows, NULL);
}

void tcc_attention_bf16_transposed(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                                   tcc_emit_value first, tcc_emit_value count, tcc_emit_value to) {
    const int64_t stride = r->p->key_stride, from_row = r->p->a.operands[role].row;
    tcc_emit_loop groups, columns;
    tcc_emit_loop_begin(e, &groups, i64(e, 0), count, e->lanes, NULL, 0);
    tcc_emit_value from = tcc_attention_row(e, r, role, tcc_emit_add(e, first, groups.index));
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, tcc_attention_in_groups(width)), (int64_t)PAIR * e->lanes, NULL,
                        0);
    tcc_emit_value row = tcc_emit_mul(e, tcc_emit_div(e, columns.index, PAIR), i64(e, stride));
    tcc_emit_value left = tcc_emit_sub(e, i64(e, width), columns.index);
    tcc_contract_transpose_by_pairs(e, elements(e, from, columns.index), from_row, tcc_emit_sub(e, count, groups.index),
                                    left, words(e, words(e, to, groups.index), row), stride);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &groups, NULL);
}

/* Pairs of rows [from, to) of those to pack; `count`: those that exist, NULL: all of them do. */
static void pack_pairs(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                       int64_t padded, tcc_emit_value first, tcc_emit_value from, tcc_emit_value to,
                       tcc_emit_value count, tcc_emit_value packed) {
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, from, to, PAIR, NULL, 0);
    tcc_emit_value place = words(e, packed, tcc_emit_mul(e, tcc_emit_div(e, rows.index, PAIR), i64(e, padded)));
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, padded), e->lanes, NULL, 0);
    tcc_emit_value mask = inside(e, e->lanes, width, columns.index), halves[PAIR];
    for (int h = 0; h < PAIR; h++) {
        tcc_emit_value row = tcc_emit_add(e, rows.index, i64(e, h)), lanes = mask;
        if (count) {
            tcc_emit_value exists = tcc_emit_icmp(e, TCC_ICMP_SLT, row, count);
            exists = tcc_emit_splat(e, exists, e->lanes);
            lanes = mask ? tcc_emit_and(e, mask, exists) : exists;
        }
        tcc_emit_value address = tcc_attention_row(e, r, role, tcc_emit_add(e, first, row));
        halves[h] = load(e, e->lanes, elements(e, address, columns.index), lanes);
    }
    tcc_emit_store(e, tcc_contract_pairs_of(e, halves[0], halves[1]), words(e, place, columns.index), e->lanes * 4);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &rows, NULL);
}

void tcc_attention_bf16_pairs(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                              int64_t padded, tcc_emit_value first, tcc_emit_value count, tcc_emit_value to) {
    tcc_emit_value whole = tcc_emit_and(e, count, i64(e, -PAIR));
    pack_pairs(e, r, role, width, padded, first, i64(e, 0), whole, NULL, to);
    pack_pairs(e, r, role, width, padded, first, whole, tcc_attention_round_up(e, count), count, to);
}

void tcc_attention_bf16_store(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                              tcc_emit_value row, tcc_emit_value from, tcc_emit_value scale) {
    const int lanes = PAIR * e->lanes;
    tcc_emit_value to = tcc_attention_row(e, r, role, row), halves[PAIR];
    tcc_emit_loop columns;
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, width), lanes, NULL, 0);
    for (int h = 0; h < PAIR; h++) {
        tcc_emit_value address = words(e, from, tcc_emit_add(e, columns.index, i64(e, h * e->lanes)));
        halves[h] = tcc_emit_load(e, e->vf32, address, e->lanes * 4);
        if (scale) halves[h] = tcc_emit_fmul(e, halves[h], scale);
    }
    tcc_emit_value value = tcc_emit_round_pairs(e, halves[0], halves[1]), mask = inside(e, lanes, width, columns.index);
    if (mask) tcc_emit_store_masked(e, value, elements(e, to, columns.index), mask);
    else tcc_emit_store(e, value, elements(e, to, columns.index), 2);
    tcc_emit_loop_end(e, &columns, NULL);
}

int tcc_attention_bf16_vectors(const tcc_emitter *e, int64_t padded) { return padded / e->lanes % 2 ? 1 : 2; }

void tcc_attention_bf16_product(tcc_emitter *e, const tcc_attention_plan *p, int vectors,
                                const tcc_attention_factors *f, tcc_emit_value to, int64_t to_row) {
    const int step = p->multiply;
    tcc_contract_tile t = {.multiply = p->multiply,
                           .a_type = TCC_BF16,
                           .b_type = TCC_BF16,
                           .rows = p->rows,
                           .vectors = vectors,
                           .a_row = f->a_row,
                           .b_row = f->b_row * 4,
                           .n_levels = 1};
    tcc_tile_level *level = &t.levels[0];
    *level = (tcc_tile_level){.a = step, .b = step / PAIR * f->b_row * PAIR, .multiple = GROUP / step};
    if (tcc_emit_is_constant(f->count, &level->count)) level->count /= step;
    else level->runtime = tcc_emit_div(e, f->count, step);
    tcc_emit_value sums[TCC_EMIT_MAX_CARRY];
    if (p->multiply == TCC_CONTRACT_TILES) {
        tcc_tile_begin(e, p->rows, vectors);
        tcc_tile_emit(e, &t, f->a, f->b, sums);
        tcc_tile_end(e, p->rows, vectors, to, to_row * 4);
        return;
    }
    for (int i = 0; i < p->rows * vectors; i++) sums[i] = tcc_emit_float(e, e->vf32, 0);
    tcc_tile_emit(e, &t, f->a, f->b, sums);
    to = tcc_emit_anchor(e, to);
    for (int i = 0; i < p->rows; i++)
        for (int v = 0; v < vectors; v++)
            tcc_emit_store(e, sums[i * vectors + v], tcc_emit_at(e, e->f32, to, i64(e, i * to_row + v * e->lanes)),
                           e->lanes * 4);
}
