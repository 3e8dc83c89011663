/* SPDX-License-Identifier: MIT
 * Shared by the host's two attention kernels: operands and scratch of an item, packing, products, scores. */
#include "codegen/attention/internal.h"

#include "codegen/body/body.h"
#include "codegen/contract/internal.h"

#include <math.h>

enum { LINE_FLOATS = 16 }; /* of a cache line */

static tcc_emit_value at(tcc_emitter *e, tcc_emit_value base, tcc_emit_value offset) {
    return tcc_emit_at(e, e->f32, base, offset);
}

static tcc_emit_value i64(tcc_emitter *e, int64_t value) { return tcc_emit_i64(e, value); }

static tcc_dtype dtype_of(const tcc_attention_plan *p, tcc_attention_role role) {
    return role == TCC_ATTENTION_LSE ? TCC_F32 : p->a.dtype;
}

static tcc_emit_value in_operand(tcc_emitter *e, const tcc_attention_plan *p, tcc_attention_role role,
                                 tcc_emit_value base, tcc_emit_value offset) {
    return tcc_contract_at(e, dtype_of(p, role), base, offset);
}

void tcc_attention_begin(tcc_emitter *e, tcc_attention_run *r, const tcc_attention_plan *p, const char *symbol) {
    *r = (tcc_attention_run){.p = p};
    tcc_emit_kernel_begin(e, symbol);
    for (int i = 0; i < TCC_ATTENTION_ROLES; i++)
        if (p->buffers[i] >= 0 && i != TCC_ATTENTION_RNG)
            r->base[i] = in_operand(e, p, i, tcc_emit_buffer(e, p->buffers[i]), tcc_emit_param(e, p->buffers[i]));
    const int rng = p->buffers[TCC_ATTENTION_RNG];
    if (rng < 0) return;
    tcc_emit_value buffer = tcc_emit_buffer(e, rng), key = tcc_emit_at(e, e->i64, buffer, tcc_emit_param(e, rng));
    r->dropout = tcc_attention_draws_begin(e, key, p->n_buffers);
    r->draws = tcc_attention_scratch(e, r, tcc_attention_draws_floats(e->lanes, p->key_stride));
}

void tcc_attention_enter(tcc_emitter *e, tcc_attention_run *r, tcc_emit_value batch) {
    const tcc_attention *a = &r->p->a;
    tcc_emit_value index[TCC_ATTENTION_MAX_BATCH];
    r->batch = batch;
    for (int i = a->n_batch - 1; i >= 0; i--) {
        index[i] = i == 0 ? batch : tcc_emit_rem(e, batch, a->batch[i]);
        if (i > 0) batch = tcc_emit_div(e, batch, a->batch[i]);
    }
    for (int role = 0; role < TCC_ATTENTION_ROLES; role++) {
        if (!r->base[role]) continue;
        tcc_emit_value offset = i64(e, 0);
        for (int i = 0; i < a->n_batch; i++)
            if (a->operands[role].batch[i])
                offset = tcc_emit_add(e, offset, tcc_emit_mul(e, index[i], i64(e, a->operands[role].batch[i])));
        r->begin[role] = in_operand(e, r->p, role, r->base[role], offset);
    }
}

tcc_emit_value tcc_attention_scratch(tcc_emitter *e, tcc_attention_run *r, int64_t floats) {
    tcc_emit_value place = at(e, e->scratch, i64(e, r->scratch_floats));
    r->scratch_floats += (floats + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    return place;
}

tcc_emit_value tcc_attention_seen(tcc_emitter *e, const tcc_attention *a, tcc_emit_value t) {
    if (!a->causal) return i64(e, a->S);
    return tcc_emit_min(e, tcc_emit_add(e, t, i64(e, a->S - a->T + 1)), i64(e, a->S));
}

tcc_emit_value tcc_attention_row(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role,
                                 tcc_emit_value row) {
    return in_operand(e, r->p, role, r->begin[role], tcc_emit_mul(e, row, i64(e, r->p->a.operands[role].row)));
}

tcc_emit_value tcc_attention_place(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value row,
                                   tcc_emit_value column) {
    return tcc_contract_at(e, r->p->a.dtype, row, column);
}

tcc_emit_value tcc_attention_mask(tcc_emitter *e, int64_t width, tcc_emit_value column) {
    return width % e->lanes ? tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, i64(e, width), column)) : NULL;
}

tcc_emit_value tcc_attention_load(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value address,
                                  tcc_emit_value mask) {
    return tcc_contract_load_lanes(e, r->p->a.dtype, address, 0, mask);
}

void tcc_attention_store(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value value, tcc_emit_value address,
                         tcc_emit_value mask) {
    value = tcc_scalar_to_memory(e, value, r->p->a.dtype);
    if (mask) tcc_emit_store_masked(e, value, address, mask);
    else tcc_emit_store(e, value, address, 0);
}

void tcc_attention_prefetch(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, tcc_emit_value first,
                            int rows, tcc_emit_value column, int64_t width, bool to_store) {
    enum { INTO_L2 = 2 };
    const int64_t line = LINE_FLOATS * 4 / tcc_dtype_bytes(r->p->a.dtype);
    for (int i = 0; i < rows; i++) {
        tcc_emit_value row = tcc_attention_row(e, r, role, tcc_emit_add(e, first, i64(e, i)));
        for (int64_t c = 0; c < width; c += line) {
            tcc_emit_value place = tcc_attention_place(e, r, row, tcc_emit_add(e, column, i64(e, c)));
            if (to_store) tcc_emit_prefetch_to_store(e, place);
            else tcc_emit_prefetch(e, place, INTO_L2);
        }
    }
}

/* Row i of a square as f32. */
static tcc_emit_value line_of(tcc_emitter *e, const tcc_emit_square *s, int i, tcc_dtype dtype) {
    tcc_emit_value last = tcc_emit_sub(e, s->rows, i64(e, 1));
    tcc_emit_value row = tcc_emit_mul(e, tcc_emit_min(e, i64(e, i), last), s->stride);
    return tcc_contract_load_lanes(e, dtype, tcc_contract_at(e, dtype, s->from, row), 0, s->mask);
}

static tcc_emit_value line_of_f16(tcc_emitter *e, const tcc_emit_square *s, int i) { return line_of(e, s, i, TCC_F16); }
static tcc_emit_value line_of_bf16(tcc_emitter *e, const tcc_emit_square *s, int i) {
    return line_of(e, s, i, TCC_BF16);
}

static void transpose(tcc_emitter *e, tcc_dtype dtype, tcc_emit_value from, int64_t from_stride, tcc_emit_value rows,
                      tcc_emit_value columns, tcc_emit_value to, int64_t to_stride) {
    if (dtype == TCC_F32) tcc_emit_transpose(e, from, from_stride, rows, columns, to, to_stride);
    else
        tcc_emit_transpose_lines(e, dtype == TCC_F16 ? "tcc_transpose_f16" : "tcc_transpose_bf16",
                                 dtype == TCC_F16 ? line_of_f16 : line_of_bf16, from, from_stride, rows, columns, to,
                                 to_stride);
}

void tcc_attention_pack_transposed(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                                   tcc_emit_value first, tcc_emit_value count, tcc_emit_value to) {
    int64_t stride = r->p->key_stride;
    tcc_emit_loop groups, columns;
    tcc_emit_loop_begin(e, &groups, i64(e, 0), count, e->lanes, NULL, 0);
    tcc_emit_value from = tcc_attention_row(e, r, role, tcc_emit_add(e, first, groups.index));
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, width), e->lanes, NULL, 0);
    tcc_attention_prefetch(e, r, role, tcc_emit_add(e, tcc_emit_add(e, first, groups.index), i64(e, e->lanes)),
                           e->lanes, columns.index, e->lanes, false);
    tcc_emit_value place = at(e, at(e, to, groups.index), tcc_emit_mul(e, columns.index, i64(e, stride)));
    transpose(e, r->p->a.dtype, tcc_attention_place(e, r, from, columns.index), r->p->a.operands[role].row,
              tcc_emit_sub(e, count, groups.index), tcc_emit_sub(e, i64(e, width), columns.index), place, stride);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &groups, NULL);
}

void tcc_attention_pack_rows(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                             int64_t padded, tcc_emit_value first, tcc_emit_value count, tcc_emit_value to) {
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, i64(e, 0), count, 1, NULL, 0);
    tcc_emit_value from = tcc_attention_row(e, r, role, tcc_emit_add(e, first, rows.index));
    tcc_emit_value place = at(e, to, tcc_emit_mul(e, rows.index, i64(e, padded)));
    tcc_emit_loop_begin(e, &columns, i64(e, 0), i64(e, width), e->lanes, NULL, 0);
    tcc_emit_value value = tcc_attention_load(e, r, tcc_attention_place(e, r, from, columns.index),
                                              tcc_attention_mask(e, width, columns.index));
    tcc_emit_store(e, value, at(e, place, columns.index), e->lanes * 4);
    tcc_emit_loop_end(e, &columns, NULL);
    tcc_emit_loop_end(e, &rows, NULL);
}

static int keys_at_once(const tcc_emitter *e, const tcc_attention_plan *p) {
    return p->multiply == TCC_CONTRACT_FMA ? e->lanes : 2 * e->lanes;
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

void tcc_attention_product(tcc_emitter *e, const tcc_attention_run *r, int vectors, tcc_dtype a_type, tcc_emit_value a,
                           int64_t a_row, int64_t a_k, tcc_emit_value b, int64_t b_k, bool b_aligned,
                           tcc_emit_value count, tcc_emit_value *sums) {
    tcc_contract_tile t = {.multiply = TCC_CONTRACT_FMA,
                           .a_type = a_type,
                           .b_type = TCC_F32,
                           .rows = r->p->rows,
                           .vectors = vectors,
                           .a_row = a_row,
                           .b_aligned = b_aligned,
                           .n_levels = 1};
    t.levels[0] = (tcc_tile_level){.a = a_k, .b = b_k, .multiple = 1};
    if (!tcc_emit_is_constant(count, &t.levels[0].count)) t.levels[0].runtime = count;
    tcc_tile_emit(e, &t, a, b, sums);
}

void tcc_attention_panels(tcc_emitter *e, tcc_emit_value count, tcc_attention_panel panel, void *user) {
    const int vectors = tcc_attention_score_vectors(e);
    tcc_emit_value used = tcc_emit_div(e, tcc_emit_add(e, count, i64(e, e->lanes - 1)), e->lanes);
    tcc_emit_value rest = tcc_emit_rem(e, used, vectors);
    tcc_emit_value whole = tcc_emit_mul(e, tcc_emit_sub(e, used, rest), i64(e, e->lanes));
    tcc_emit_loop panels;
    tcc_emit_loop_begin(e, &panels, i64(e, 0), whole, (int64_t)vectors * e->lanes, NULL, 0);
    panel(user, e, panels.index, vectors);
    tcc_emit_loop_end(e, &panels, NULL);
    int64_t constant;
    if (tcc_emit_is_constant(rest, &constant) && constant == 0) return;
    tcc_emit_if one;
    tcc_emit_if_begin(e, &one, tcc_emit_icmp(e, TCC_ICMP_NE, rest, i64(e, 0)));
    panel(user, e, whole, 1);
    tcc_emit_if_end(e, &one);
}

void tcc_attention_tile(tcc_emitter *e, const tcc_attention_run *r, tcc_attention_role role, int64_t width,
                        tcc_emit_value row0, int vectors, tcc_emit_value packed, tcc_emit_value to) {
    int rows = r->p->rows;
    tcc_emit_value sums[TCC_EMIT_MAX_CARRY];
    for (int i = 0; i < rows * vectors; i++) sums[i] = tcc_emit_float(e, e->vf32, 0);
    tcc_attention_product(e, r, vectors, r->p->a.dtype, tcc_attention_row(e, r, role, row0), r->p->a.operands[role].row,
                          1, packed, r->p->key_stride, true, i64(e, width), sums);
    to = tcc_emit_anchor(e, to);
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            tcc_emit_store(e, sums[i * vectors + v], at(e, to, i64(e, i * r->p->key_stride + v * e->lanes)),
                           e->lanes * 4);
}

tcc_emit_value tcc_attention_score(tcc_emitter *e, const tcc_attention_run *r, tcc_emit_value product,
                                   tcc_emit_value row, tcc_emit_value key) {
    const tcc_attention *a = &r->p->a;
    tcc_emit_value x = tcc_emit_fmul(e, product, tcc_emit_float(e, e->vf32, a->scale)), inside = NULL;
    if (a->causal || a->S % keys_at_once(e, r->p))
        inside = tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, tcc_attention_seen(e, a, row), key));
    if (a->has[TCC_ATTENTION_MASK]) {
        tcc_emit_value mask = tcc_attention_place(e, r, tcc_attention_row(e, r, TCC_ATTENTION_MASK, row), key);
        x = tcc_emit_fadd(e, x, tcc_attention_load(e, r, mask, inside));
    }
    return inside ? tcc_emit_select(e, inside, x, tcc_emit_float(e, e->vf32, -INFINITY)) : x;
}
