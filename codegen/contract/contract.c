/* SPDX-License-Identifier: MIT
 * Emitting a contraction's kernel: items, packing, the register tile, epilogues. Planning is in plan.c,
 * packing in pack.c. */
#include "codegen/contract/internal.h"

#include <string.h>

/* --- Offsets */

void tcc_contract_split_index(tcc_emitter *e, const tcc_contract_dims *l, LLVMValueRef index, LLVMValueRef *out) {
    for (int i = l->n - 1; i >= 0; i--) {
        out[i] = i == 0 ? index : tcc_emit_rem(e, index, l->d[i].extent);
        if (i > 0) index = tcc_emit_div(e, index, l->d[i].extent);
    }
}

static int64_t stride_of(const tcc_contract_dim *d, int operand) {
    return operand == TCC_OPERAND_A ? d->a : operand == TCC_OPERAND_B ? d->b : d->c[operand];
}

LLVMValueRef tcc_contract_offset(tcc_emitter *e, const tcc_contract_dims *l, const LLVMValueRef *index, int operand) {
    LLVMValueRef sum = tcc_emit_i64(e, 0);
    for (int i = 0; i < l->n; i++) {
        int64_t stride = stride_of(&l->d[i], operand);
        if (stride) sum = tcc_emit_add(e, sum, tcc_emit_mul(e, index[i], tcc_emit_i64(e, stride)));
    }
    return sum;
}

/* --- Epilogues */

static LLVMValueRef lane_addresses(tcc_emitter *e, const tcc_contract_place *place, int x) {
    LLVMValueRef base = tcc_emit_at(e, e->f32, tcc_emit_buffer(e, place->first_buffer + x), place->offset[x]);
    LLVMValueRef steps = LLVMBuildMul(e->builder, tcc_emit_iota(e, e->i64, e->lanes),
                                      tcc_emit_splat(e, tcc_emit_i64(e, place->lane_stride[x]), e->lanes), "");
    return LLVMBuildGEP2(e->builder, e->f32, base, &steps, 1, "");
}

static LLVMValueRef mask_or_all(tcc_emitter *e, const tcc_contract_place *place) {
    return place->mask ? place->mask : LLVMConstAllOnes(e->vi1);
}

LLVMValueRef tcc_contract_load(tcc_emitter *e, const tcc_contract_place *place, int x) {
    LLVMValueRef buffer = tcc_emit_buffer(e, place->first_buffer + x);
    LLVMValueRef address = tcc_emit_at(e, e->f32, buffer, place->offset[x]);
    if (place->lane_stride[x] == 0) return tcc_emit_splat(e, tcc_emit_load(e, e->f32, address, 0), e->lanes);
    if (place->lane_stride[x] == 1)
        return place->mask ? tcc_emit_load_masked(e, e->vf32, address, place->mask)
                           : tcc_emit_load(e, e->vf32, address, 0);
    return tcc_emit_gather(e, e->vf32, lane_addresses(e, place, x), mask_or_all(e, place));
}

void tcc_contract_store(tcc_emitter *e, const tcc_contract_place *place, int x, LLVMValueRef value) {
    if (place->lane_stride[x] == 1) {
        LLVMValueRef address = tcc_emit_at(e, e->f32, tcc_emit_buffer(e, place->first_buffer + x), place->offset[x]);
        if (place->mask) tcc_emit_store_masked(e, value, address, place->mask);
        else tcc_emit_store(e, value, address, 0);
    } else {
        tcc_emit_scatter(e, value, lane_addresses(e, place, x), mask_or_all(e, place));
    }
}

static void finish_vector(tcc_emitter *e, const tcc_contract_plan *p, LLVMValueRef sums,
                          const tcc_contract_place *place, const tcc_contract_epilogue *epilogue) {
    if (epilogue && epilogue->vector) sums = epilogue->vector(epilogue->user, e, sums, place);
    else if (p->c.accumulate) sums = LLVMBuildFAdd(e->builder, tcc_contract_load(e, place, 0), sums, "");
    if (sums) tcc_contract_store(e, place, 0, sums);
}

static void begin_kernel(tcc_emitter *e, const tcc_contract_epilogue *epilogue, int first_buffer) {
    if (epilogue && epilogue->begin) epilogue->begin(epilogue->user, e, first_buffer);
}

static void end_kernel(tcc_emitter *e, const tcc_contract_epilogue *epilogue) {
    if (epilogue && epilogue->end) epilogue->end(epilogue->user, e);
    tcc_emit_kernel_end(e);
}

static void begin_row(tcc_emitter *e, const tcc_contract_epilogue *epilogue, const tcc_contract_place *place) {
    if (epilogue && epilogue->row) epilogue->row(epilogue->user, e, place);
}

static void end_row(tcc_emitter *e, const tcc_contract_epilogue *epilogue) {
    if (epilogue && epilogue->row_end) epilogue->row_end(epilogue->user, e);
}

/* Lanes of the vector at n that exist, or NULL when every panel is full. */
static LLVMValueRef lanes_mask(tcc_emitter *e, const tcc_contract_plan *p, LLVMValueRef n) {
    if (p->N % ((int64_t)p->vectors * e->lanes) == 0) return NULL;
    return tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, tcc_emit_i64(e, p->N), n));
}

/* --- The register tile */

enum { UNROLLED_STEPS = 12 };

/* sums += A column * B row for `count` successive k, from a and b on. */
static void emit_steps(tcc_emitter *e, const tcc_tile *t, LLVMValueRef a, LLVMValueRef b, LLVMValueRef *sums,
                       int count) {
    const tcc_tile_level *l = &t->levels[t->n_levels - 1];
    for (int u = 0; u < count; u++) {
        LLVMValueRef lanes[8];
        for (int v = 0; v < t->vectors; v++) {
            LLVMValueRef at = tcc_emit_at(e, e->f32, b, tcc_emit_i64(e, u * l->b + v * e->lanes));
            lanes[v] = tcc_emit_load(e, e->vf32, at, t->b_aligned ? e->lanes * 4 : 4);
        }
        for (int i = 0; i < t->rows; i++) {
            LLVMValueRef at = tcc_emit_at(e, e->f32, a, tcc_emit_i64(e, u * l->a + i * t->a_row));
            LLVMValueRef scalar = tcc_emit_splat(e, tcc_emit_load(e, e->f32, at, 4), e->lanes);
            for (int v = 0; v < t->vectors; v++)
                sums[i * t->vectors + v] = tcc_emit_fma(e, scalar, lanes[v], sums[i * t->vectors + v]);
        }
    }
}

static void emit_inner(tcc_emitter *e, const tcc_tile *t, LLVMValueRef a, LLVMValueRef b, LLVMValueRef *sums) {
    const tcc_tile_level *l = &t->levels[t->n_levels - 1];
    a = tcc_emit_anchor(e, a), b = tcc_emit_anchor(e, b);
    int n = t->rows * t->vectors, unroll = n >= 24 ? 4 : n >= 8 ? 8 : 16;
    if (!l->runtime && l->count <= unroll) {
        emit_steps(e, t, a, b, sums, (int)l->count);
        return;
    }
    LLVMValueRef carry[TCC_EMIT_MAX_CARRY];
    int64_t counts[] = {unroll, 1};
    LLVMValueRef done = tcc_emit_i64(e, 0);
    for (int pass = 0; pass < 2; pass++) { /* unrolled, then what is left */
        int64_t step = counts[pass];
        if (l->runtime && pass == 1 && l->multiple % unroll == 0) break;
        if (!l->runtime && pass == 1) {
            emit_steps(e, t, a, b, sums, (int)(l->count % unroll));
            break;
        }
        LLVMValueRef to = l->runtime ? l->runtime : tcc_emit_i64(e, l->count / unroll * unroll);
        if (l->runtime && pass == 0 && l->multiple % unroll)
            to = tcc_emit_mul(e, tcc_emit_div(e, to, unroll), tcc_emit_i64(e, unroll));
        memcpy(carry, sums, sizeof *carry * (size_t)n);
        carry[n] = a, carry[n + 1] = b;
        tcc_emit_loop loop;
        tcc_emit_loop_begin(e, &loop, done, to, step, carry, n + 2);
        memcpy(carry, loop.carry, sizeof *carry * (size_t)(n + 2));
        emit_steps(e, t, carry[n], carry[n + 1], carry, (int)step);
        carry[n] = tcc_emit_anchor(e, tcc_emit_at(e, e->f32, carry[n], tcc_emit_i64(e, step * l->a)));
        carry[n + 1] = tcc_emit_anchor(e, tcc_emit_at(e, e->f32, carry[n + 1], tcc_emit_i64(e, step * l->b)));
        tcc_emit_loop_end(e, &loop, carry);
        memcpy(sums, loop.carry, sizeof *carry * (size_t)n);
        a = loop.carry[n], b = loop.carry[n + 1];
        done = to;
    }
}

static void emit_levels(tcc_emitter *e, const tcc_tile *t, int at, LLVMValueRef a, LLVMValueRef b, LLVMValueRef *sums) {
    if (at == t->n_levels - 1) {
        emit_inner(e, t, a, b, sums);
        return;
    }
    const tcc_tile_level *l = &t->levels[at];
    int n = t->rows * t->vectors;
    int64_t steps = 1;
    for (int i = at; i < t->n_levels; i++)
        steps = t->levels[i].runtime ? UNROLLED_STEPS + 1 : steps * t->levels[i].count;
    if (steps <= UNROLLED_STEPS) { /* so few that loops would cost more than they save */
        for (int64_t i = 0; i < l->count; i++)
            emit_levels(e, t, at + 1, tcc_emit_at(e, e->f32, a, tcc_emit_i64(e, i * l->a)),
                        tcc_emit_at(e, e->f32, b, tcc_emit_i64(e, i * l->b)), sums);
        return;
    }
    tcc_emit_loop loop;
    LLVMValueRef to = l->runtime ? l->runtime : tcc_emit_i64(e, l->count);
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), to, 1, sums, n);
    LLVMValueRef inner[TCC_EMIT_MAX_CARRY];
    memcpy(inner, loop.carry, sizeof *inner * (size_t)n);
    LLVMValueRef to_a = tcc_emit_mul(e, loop.index, tcc_emit_i64(e, l->a));
    LLVMValueRef to_b = tcc_emit_mul(e, loop.index, tcc_emit_i64(e, l->b));
    emit_levels(e, t, at + 1, tcc_emit_at(e, e->f32, a, to_a), tcc_emit_at(e, e->f32, b, to_b), inner);
    tcc_emit_loop_end(e, &loop, inner);
    memcpy(sums, loop.carry, sizeof *inner * (size_t)n);
}

/* Neighbouring levels that both operands walk as one become one. */
static void merge_levels(tcc_emitter *e, tcc_tile *t) {
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

void tcc_tile_emit(tcc_emitter *e, tcc_tile *t, LLVMValueRef a, LLVMValueRef b, LLVMValueRef *sums) {
    merge_levels(e, t);
    emit_levels(e, t, 0, a, b, sums);
}

/* Part of a k dimension: its first index and how many follow, inside the block. `count` NULL: all that the level has.
 */
typedef struct part {
    LLVMValueRef from, count;
} part;

/* The k loops inside a block, as strides of what the tile reads; moves a and b to where the windows begin. */
static void make_levels(tcc_emitter *e, const tcc_contract_plan *p, LLVMValueRef count, const part *parts, tcc_tile *t,
                        LLVMValueRef *a, LLVMValueRef *b) {
    const tcc_contract_dims *k = &p->c.k;
    int64_t panel_row = (int64_t)p->vectors * e->lanes, linear = p->k_inner;
    for (int i = p->k_split_dim; i < k->n; i++) {
        if (i > p->k_split_dim) linear /= k->d[i].extent;
        tcc_tile_level l = {.count = k->d[i].extent, .a = k->d[i].a, .b = k->d[i].b, .multiple = 1};
        if (i == p->k_split_dim) {
            l.count = p->k_step;
            l.runtime = k->d[i].extent % p->k_step ? count : NULL;
        }
        if (p->pack_a) l.a = linear * (p->a_columns ? p->a_row : 1);
        if (p->pack_b) l.b = linear * panel_row;
        if (parts[i].count) {
            l.runtime = parts[i].count;
            *a = tcc_emit_at(e, e->f32, *a, tcc_emit_mul(e, parts[i].from, tcc_emit_i64(e, l.a)));
            *b = tcc_emit_at(e, e->f32, *b, tcc_emit_mul(e, parts[i].from, tcc_emit_i64(e, l.b)));
        }
        t->levels[t->n_levels++] = l;
    }
}

static LLVMValueRef max_of(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSGT, a, b, ""), a, b, "");
}

/* The indices j with 0 <= base + step j < extent: [*from, *to). */
static void window_range(tcc_emitter *e, LLVMValueRef base, int64_t step, int64_t extent, LLVMValueRef *from,
                         LLVMValueRef *to) {
    LLVMValueRef zero = tcc_emit_i64(e, 0);
    int64_t size = step < 0 ? -step : step;
    if (step < 0) base = tcc_emit_sub(e, tcc_emit_i64(e, extent - 1), base); /* seen from the other end */
    LLVMValueRef before = max_of(e, tcc_emit_sub(e, zero, base), zero);
    *from = tcc_emit_div(e, tcc_emit_add(e, before, tcc_emit_i64(e, size - 1)), size);
    LLVMValueRef left = max_of(e, tcc_emit_sub(e, tcc_emit_i64(e, extent), base), zero);
    *to = tcc_emit_div(e, tcc_emit_add(e, left, tcc_emit_i64(e, size - 1)), size);
}

/* Cuts the k dimensions to the windows as they lie for the batch and tile at hand. `block`: indices of the block, see
 * below. */
static void find_parts(tcc_emitter *e, const tcc_contract_plan *p, const LLVMValueRef *batch, const LLVMValueRef *row,
                       const LLVMValueRef *block, LLVMValueRef count, part *parts) {
    const tcc_contract *c = &p->c;
    LLVMValueRef seen = NULL; /* the block's outer indices lie in their windows */
    for (int v = 0; v < c->n_windows; v++) {
        LLVMValueRef base = tcc_emit_i64(e, c->windows[v].start), from, to;
        for (int i = 0; i < c->b.n; i++)
            if (c->b.d[i].w[v])
                base = tcc_emit_add(e, base, tcc_emit_mul(e, batch[i], tcc_emit_i64(e, c->b.d[i].w[v])));
        for (int i = 0; i < c->m.n; i++)
            if (c->m.d[i].w[v]) base = tcc_emit_add(e, base, tcc_emit_mul(e, row[i], tcc_emit_i64(e, c->m.d[i].w[v])));
        for (int i = 0; i < c->k.n; i++) {
            if (!c->k.d[i].w[v]) continue;
            window_range(e, base, c->k.d[i].w[v], c->windows[v].extent, &from, &to);
            to = tcc_emit_min(e, to, tcc_emit_i64(e, c->k.d[i].extent));
            if (i < p->k_split_dim) {
                LLVMValueRef above = LLVMBuildICmp(e->builder, LLVMIntSGE, block[i], from, "");
                LLVMValueRef inside = LLVMBuildAnd(e->builder, above,
                                                   LLVMBuildICmp(e->builder, LLVMIntSLT, block[i], to, ""), "");
                seen = seen ? LLVMBuildAnd(e->builder, seen, inside, "") : inside;
                continue;
            }
            if (i == p->k_split_dim) {
                LLVMValueRef begun = tcc_emit_mul(e, block[i], tcc_emit_i64(e, p->k_step));
                from = max_of(e, tcc_emit_sub(e, from, begun), tcc_emit_i64(e, 0));
                to = tcc_emit_min(e, tcc_emit_sub(e, to, begun), count);
            }
            parts[i] = (part){from, max_of(e, tcc_emit_sub(e, to, from), tcc_emit_i64(e, 0))};
        }
    }
    if (!seen) return;
    part *first = &parts[p->k_split_dim];
    if (!first->count) *first = (part){tcc_emit_i64(e, 0), count};
    first->count = tcc_emit_select(e, seen, first->count, tcc_emit_i64(e, 0));
}

/* --- The kernel */

typedef struct kernel {
    const tcc_contract_epilogue *epilogue;
    LLVMValueRef offset[TCC_CONTRACT_MAX_ACCESSES]; /* of each access for the item's b */
    LLVMValueRef workspace;                         /* offset of (split, b) in the workspace */
    LLVMValueRef stage;                             /* a finished tile in scratch */
} kernel;

/* Where an epilogue stands at the first vector of a row. */
static tcc_contract_place place_of_row(tcc_emitter *e, const tcc_contract_plan *p, const kernel *k, LLVMValueRef row,
                                       LLVMValueRef n0) {
    tcc_contract_place place = {.n_accesses = p->c.n_accesses, .first_buffer = 2};
    LLVMValueRef index[TCC_CONTRACT_MAX_DIMS];
    tcc_contract_split_index(e, &p->c.m, row, index);
    for (int x = 0; x < p->c.n_accesses; x++) {
        int64_t stride = p->c.n.d[0].c[x];
        LLVMValueRef along_n = stride ? tcc_emit_mul(e, n0, tcc_emit_i64(e, stride)) : tcc_emit_i64(e, 0);
        place.offset[x] = tcc_emit_add(e, tcc_emit_add(e, k->offset[x], along_n),
                                       tcc_contract_offset(e, &p->c.m, index, x));
        place.lane_stride[x] = stride;
    }
    return place;
}

/* Finish the vector that is `column` lanes into the panel at n0. */
static void finish_at(tcc_emitter *e, const tcc_contract_plan *p, const kernel *k, const tcc_contract_place *row,
                      LLVMValueRef n0, LLVMValueRef column, LLVMValueRef sums) {
    tcc_contract_place place = *row;
    for (int x = 0; x < p->c.n_accesses; x++)
        if (place.lane_stride[x])
            place.offset[x] = tcc_emit_add(e, row->offset[x],
                                           tcc_emit_mul(e, column, tcc_emit_i64(e, place.lane_stride[x])));
    place.mask = lanes_mask(e, p, tcc_emit_add(e, n0, column));
    finish_vector(e, p, sums, &place, k->epilogue);
}

/* The sums of a tile whose first row is row0 go to the workspace, or to C. Rows before `first_row` belong to another
 * tile. What follows the sums is emitted once, in a loop over the tile that was set down in scratch; a plain store goes
 * from registers. */
static void emit_tile_end(tcc_emitter *e, const tcc_contract_plan *p, const kernel *k, LLVMValueRef row0,
                          LLVMValueRef first_row, LLVMValueRef n0, LLVMValueRef *sums) {
    bool overlap = p->row_extent % p->rows != 0, loops = p->k_splits == 1 && k->epilogue && !k->epilogue->plain;
    int64_t width = p->panels * p->vectors * e->lanes, row_width = (int64_t)p->vectors * e->lanes;
    for (int i = 0; i < p->rows && !loops; i++) {
        LLVMValueRef row = tcc_emit_add(e, row0, tcc_emit_i64(e, i));
        tcc_emit_if mine;
        if (overlap) tcc_emit_if_begin(e, &mine, LLVMBuildICmp(e->builder, LLVMIntSGE, row, first_row, ""));
        if (p->k_splits > 1) {
            LLVMValueRef at =
                tcc_emit_add(e, tcc_emit_add(e, k->workspace, tcc_emit_mul(e, row, tcc_emit_i64(e, width))), n0);
            LLVMValueRef address = tcc_emit_at(e, e->f32, tcc_emit_buffer(e, 2), at);
            for (int v = 0; v < p->vectors; v++)
                tcc_emit_store(e, sums[i * p->vectors + v],
                               tcc_emit_at(e, e->f32, address, tcc_emit_i64(e, v * e->lanes)), e->lanes * 4);
        } else {
            tcc_contract_place place = place_of_row(e, p, k, row, n0);
            begin_row(e, k->epilogue, &place);
            for (int v = 0; v < p->vectors; v++)
                finish_at(e, p, k, &place, n0, tcc_emit_i64(e, v * e->lanes), sums[i * p->vectors + v]);
            end_row(e, k->epilogue);
        }
        if (overlap) tcc_emit_if_end(e, &mine);
    }
    if (!loops) return;
    for (int i = 0; i < p->rows * p->vectors; i++)
        tcc_emit_store(e, sums[i], tcc_emit_at(e, e->f32, k->stage, tcc_emit_i64(e, (int64_t)i * e->lanes)),
                       e->lanes * 4);
    tcc_emit_loop rows, columns;
    tcc_emit_loop_begin(e, &rows, tcc_emit_sub(e, first_row, row0), tcc_emit_i64(e, p->rows), 1, NULL, 0);
    tcc_contract_place place = place_of_row(e, p, k, tcc_emit_add(e, row0, rows.index), n0);
    begin_row(e, k->epilogue, &place);
    LLVMValueRef stage = tcc_emit_at(e, e->f32, k->stage, tcc_emit_mul(e, rows.index, tcc_emit_i64(e, row_width)));
    LLVMValueRef end = tcc_emit_i64(e, row_width);
    if (p->N % row_width) end = tcc_emit_min(e, end, tcc_emit_sub(e, tcc_emit_i64(e, p->N), n0));
    tcc_emit_loop_begin(e, &columns, tcc_emit_i64(e, 0), end, e->lanes, NULL, 0);
    LLVMValueRef value = tcc_emit_load(e, e->vf32, tcc_emit_at(e, e->f32, stage, columns.index), e->lanes * 4);
    finish_at(e, p, k, &place, n0, columns.index, value);
    tcc_emit_loop_end(e, &columns, NULL);
    end_row(e, k->epilogue);
    tcc_emit_loop_end(e, &rows, NULL);
}

/* Sums of a tile over several blocks of k meet in scratch. */
static LLVMValueRef partial_address(tcc_emitter *e, LLVMValueRef partial, int i) {
    return tcc_emit_at(e, e->f32, partial, tcc_emit_i64(e, (int64_t)i * e->lanes));
}

void tcc_contract_emit(tcc_emitter *e, const char *symbol, const tcc_contract_plan *p,
                       const tcc_contract_epilogue *epilogue) {
    const int64_t panel = (int64_t)p->vectors * e->lanes;
    const int n_sums = p->rows * p->vectors;
    kernel k = {.epilogue = epilogue};

    tcc_emit_kernel_begin(e, symbol);
    int buffer_a = p->swapped ? 1 : 0;
    LLVMValueRef a = tcc_emit_at(e, e->f32, tcc_emit_buffer(e, buffer_a), tcc_emit_param(e, buffer_a));
    LLVMValueRef b = tcc_emit_at(e, e->f32, tcc_emit_buffer(e, 1 - buffer_a), tcc_emit_param(e, 1 - buffer_a));
    LLVMValueRef access[TCC_CONTRACT_MAX_ACCESSES];
    if (p->k_splits == 1)
        for (int x = 0; x < p->c.n_accesses; x++) access[x] = tcc_emit_param(e, 2 + x);
    if (p->k_splits == 1) begin_kernel(e, epilogue, 2);
    LLVMValueRef packed_b = tcc_emit_at(e, e->f32, e->scratch, tcc_emit_i64(e, p->a_floats));
    k.stage = tcc_emit_at(e, e->f32, e->scratch, tcc_emit_i64(e, p->scratch_bytes / 4 - (int64_t)n_sums * e->lanes));
    LLVMValueRef partials = tcc_emit_at(e, e->f32, e->scratch, tcc_emit_i64(e, p->a_floats + p->b_floats));

    /* Successive items mostly share their rows; A is then packed once. */
    bool keep_a = p->pack_a && p->k_blocks_per_split == 1;
    LLVMValueRef none = tcc_emit_i64(e, -1);
    tcc_emit_loop items;
    tcc_emit_loop_begin(e, &items, e->begin, e->end, 1, &none, keep_a ? 1 : 0);
    LLVMValueRef rest = items.index, panel_block = tcc_emit_rem(e, rest, p->panel_blocks);
    LLVMValueRef rows_key = rest = tcc_emit_div(e, rest, p->panel_blocks);
    LLVMValueRef row_block = tcc_emit_rem(e, rest, p->row_blocks);
    rest = tcc_emit_div(e, rest, p->row_blocks);
    /* A part of k is finished for all of the batch before the next: filter gradients meet the same images at each tap.
     */
    LLVMValueRef batch = tcc_emit_rem(e, rest, p->B), split = tcc_emit_div(e, rest, p->B);
    LLVMValueRef index[TCC_CONTRACT_MAX_DIMS];
    tcc_contract_split_index(e, &p->c.b, batch, index);
    LLVMValueRef item_a = tcc_emit_at(e, e->f32, a, tcc_contract_offset(e, &p->c.b, index, TCC_OPERAND_A));
    LLVMValueRef item_b = tcc_emit_at(e, e->f32, b, tcc_contract_offset(e, &p->c.b, index, TCC_OPERAND_B));
    if (p->k_splits == 1) {
        for (int x = 0; x < p->c.n_accesses; x++)
            k.offset[x] = tcc_emit_add(e, access[x], tcc_contract_offset(e, &p->c.b, index, x));
    } else {
        LLVMValueRef part = tcc_emit_add(e, tcc_emit_mul(e, split, tcc_emit_i64(e, p->B)), batch);
        k.workspace = tcc_emit_mul(e, part, tcc_emit_i64(e, p->M * p->panels * panel));
    }
    LLVMValueRef tile0 = tcc_emit_mul(e, row_block, tcc_emit_i64(e, p->tiles_per_block));
    LLVMValueRef tile_end = tcc_emit_min(e, tcc_emit_add(e, tile0, tcc_emit_i64(e, p->tiles_per_block)),
                                         tcc_emit_i64(e, p->tiles));
    LLVMValueRef panel0 = tcc_emit_mul(e, panel_block, tcc_emit_i64(e, p->panels_per_block));
    LLVMValueRef panel_end = tcc_emit_min(e, tcc_emit_add(e, panel0, tcc_emit_i64(e, p->panels_per_block)),
                                          tcc_emit_i64(e, p->panels));

    LLVMValueRef block0 = tcc_emit_mul(e, split, tcc_emit_i64(e, p->k_blocks_per_split));
    LLVMValueRef block_end = tcc_emit_add(e, block0, tcc_emit_i64(e, p->k_blocks_per_split));
    if (p->k_blocks % p->k_blocks_per_split) block_end = tcc_emit_min(e, block_end, tcc_emit_i64(e, p->k_blocks));
    bool one_block = p->k_blocks_per_split == 1;
    tcc_emit_loop blocks;
    if (one_block) blocks.index = block0;
    else tcc_emit_loop_begin(e, &blocks, block0, block_end, 1, NULL, 0);

    /* Where the block begins in k, and how much of the split dimension it has. */
    tcc_contract_dims outer = {.n = p->k_split_dim + 1};
    memcpy(outer.d, p->c.k.d, sizeof *outer.d * (size_t)outer.n);
    tcc_contract_dim *stepped = &outer.d[p->k_split_dim];
    int64_t extent = stepped->extent;
    stepped->extent = (extent + p->k_step - 1) / p->k_step;
    stepped->a *= p->k_step;
    stepped->b *= p->k_step;
    LLVMValueRef block[TCC_CONTRACT_MAX_DIMS];
    tcc_contract_split_index(e, &outer, blocks.index, block);
    LLVMValueRef block_a = tcc_emit_at(e, e->f32, item_a, tcc_contract_offset(e, &outer, block, TCC_OPERAND_A));
    LLVMValueRef block_b = tcc_emit_at(e, e->f32, item_b, tcc_contract_offset(e, &outer, block, TCC_OPERAND_B));
    LLVMValueRef count = tcc_emit_i64(e, p->k_step);
    if (extent % p->k_step) {
        LLVMValueRef begun = tcc_emit_mul(e, block[p->k_split_dim], tcc_emit_i64(e, p->k_step));
        count = tcc_emit_min(e, count, tcc_emit_sub(e, tcc_emit_i64(e, extent), begun));
    }

    if (p->pack_a) {
        tcc_emit_if repack;
        if (keep_a) tcc_emit_if_begin(e, &repack, LLVMBuildICmp(e->builder, LLVMIntNE, rows_key, items.carry[0], ""));
        tcc_contract_pack_a(e, p, block_a, e->scratch, tile0, tile_end, count);
        if (keep_a) tcc_emit_if_end(e, &repack);
    }

    tcc_emit_loop panels, tiles;
    tcc_emit_loop_begin(e, &panels, panel0, panel_end, 1, NULL, 0);
    LLVMValueRef n0 = tcc_emit_mul(e, panels.index, tcc_emit_i64(e, panel));
    if (p->pack_b) tcc_contract_pack_b(e, p, block_b, packed_b, n0, count);
    LLVMValueRef panel_b = p->pack_b ? packed_b : tcc_emit_at(e, e->f32, block_b, n0);

    tcc_emit_loop_begin(e, &tiles, tile0, tile_end, 1, NULL, 0);
    /* Tiles walk the outer dimensions of m, if rows lie in the last alone, before they go on to further rows. */
    tcc_contract_dims outer_m = p->c.m;
    outer_m.n--;
    int64_t positions = p->M / p->row_extent;
    LLVMValueRef position = tcc_emit_rem(e, tiles.index, positions), row_index[TCC_CONTRACT_MAX_DIMS];
    LLVMValueRef first_row = tcc_emit_mul(e, tcc_emit_div(e, tiles.index, positions), tcc_emit_i64(e, p->rows)),
                 row0 = first_row;
    if (p->row_extent % p->rows) row0 = tcc_emit_min(e, first_row, tcc_emit_i64(e, p->row_extent - p->rows));
    LLVMValueRef in_last = row0;
    if (positions > 1) {
        LLVMValueRef begun = tcc_emit_mul(e, position, tcc_emit_i64(e, p->row_extent));
        row0 = tcc_emit_add(e, begun, row0), first_row = tcc_emit_add(e, begun, first_row);
        tcc_contract_split_index(e, &outer_m, position, row_index);
    }
    tcc_tile t = {.rows = p->rows, .vectors = p->vectors, .b_aligned = p->pack_b};
    LLVMValueRef tile_a;
    LLVMValueRef tile_in_block = tcc_emit_sub(e, tiles.index, tile0);
    if (p->pack_a) {
        t.a_row = p->a_columns ? 1 : p->a_row;
        LLVMValueRef place = tcc_emit_mul(e, tile_in_block, tcc_emit_i64(e, p->rows * p->a_row));
        if (p->a_columns) place = tcc_emit_sub(e, row0, tcc_emit_mul(e, tile0, tcc_emit_i64(e, p->rows)));
        tile_a = tcc_emit_at(e, e->f32, e->scratch, place);
    } else {
        t.a_row = p->c.m.d[p->c.m.n - 1].a;
        tile_a = tcc_emit_at(e, e->f32, block_a, tcc_emit_mul(e, in_last, tcc_emit_i64(e, t.a_row)));
        if (positions > 1)
            tile_a = tcc_emit_at(e, e->f32, tile_a, tcc_contract_offset(e, &outer_m, row_index, TCC_OPERAND_A));
    }
    row_index[p->c.m.n - 1] = in_last;
    LLVMValueRef sums[TCC_EMIT_MAX_CARRY];
    for (int i = 0; i < n_sums; i++) sums[i] = tcc_emit_float(e, e->vf32, 0);
    if (p->K) {
        part parts[TCC_CONTRACT_MAX_DIMS] = {0};
        LLVMValueRef tile_b = panel_b;
        find_parts(e, p, index, row_index, block, count, parts);
        make_levels(e, p, count, parts, &t, &tile_a, &tile_b);
        tcc_tile_emit(e, &t, tile_a, tile_b, sums);
    }

    if (one_block) {
        emit_tile_end(e, p, &k, row0, first_row, n0, sums);
    } else {
        LLVMValueRef slot =
            tcc_emit_add(e, tcc_emit_mul(e, tcc_emit_sub(e, panels.index, panel0), tcc_emit_i64(e, p->tiles_per_block)),
                         tile_in_block);
        LLVMValueRef partial = tcc_emit_at(e, e->f32, partials,
                                           tcc_emit_mul(e, slot, tcc_emit_i64(e, (int64_t)n_sums * e->lanes)));
        LLVMValueRef next = tcc_emit_add(e, blocks.index, tcc_emit_i64(e, 1));
        LLVMValueRef is_last = LLVMBuildICmp(e->builder, LLVMIntEQ, next, block_end, "");
        /* Scratch holds nothing before the first block: no lane is loaded then. */
        LLVMValueRef again = tcc_emit_splat(e, LLVMBuildICmp(e->builder, LLVMIntNE, blocks.index, block0, ""),
                                            e->lanes);
        for (int i = 0; i < n_sums; i++)
            sums[i] = LLVMBuildFAdd(e->builder, tcc_emit_load_masked(e, e->vf32, partial_address(e, partial, i), again),
                                    sums[i], "");
        tcc_emit_if finish;
        tcc_emit_if_begin(e, &finish, is_last);
        emit_tile_end(e, p, &k, row0, first_row, n0, sums);
        tcc_emit_if_else(e, &finish);
        for (int i = 0; i < n_sums; i++) tcc_emit_store(e, sums[i], partial_address(e, partial, i), e->lanes * 4);
        tcc_emit_if_end(e, &finish);
    }
    tcc_emit_loop_end(e, &tiles, NULL);
    tcc_emit_loop_end(e, &panels, NULL);
    if (!one_block) tcc_emit_loop_end(e, &blocks, NULL);
    tcc_emit_loop_end(e, &items, &rows_key);
    end_kernel(e, p->k_splits == 1 ? epilogue : NULL);
}

void tcc_contract_emit_combine(tcc_emitter *e, const char *symbol, const tcc_contract_plan *p,
                               const tcc_contract_epilogue *epilogue) {
    const int64_t width = p->panels * p->vectors * e->lanes;
    const tcc_contract_dim *along = &p->c.n.d[0];
    tcc_emit_kernel_begin(e, symbol);
    LLVMValueRef workspace = tcc_emit_buffer(e, 0), access[TCC_CONTRACT_MAX_ACCESSES];
    for (int x = 0; x < p->c.n_accesses; x++) access[x] = tcc_emit_param(e, x);
    begin_kernel(e, epilogue, 1);
    int64_t chunks = (p->M + p->combine_rows - 1) / p->combine_rows;
    tcc_emit_loop items, rows, vectors, splits;
    tcc_emit_items_begin(e, &items);
    LLVMValueRef batch = tcc_emit_div(e, items.index, chunks), index[TCC_CONTRACT_MAX_DIMS];
    tcc_contract_split_index(e, &p->c.b, batch, index);
    LLVMValueRef item[TCC_CONTRACT_MAX_ACCESSES];
    for (int x = 0; x < p->c.n_accesses; x++)
        item[x] = tcc_emit_add(e, access[x], tcc_contract_offset(e, &p->c.b, index, x));
    LLVMValueRef from = tcc_emit_mul(e, tcc_emit_rem(e, items.index, chunks), tcc_emit_i64(e, p->combine_rows));
    LLVMValueRef to = tcc_emit_min(e, tcc_emit_add(e, from, tcc_emit_i64(e, p->combine_rows)), tcc_emit_i64(e, p->M));
    tcc_emit_loop_begin(e, &rows, from, to, 1, NULL, 0);
    tcc_contract_split_index(e, &p->c.m, rows.index, index);
    tcc_contract_place place = {.n_accesses = p->c.n_accesses, .first_buffer = 1};
    LLVMValueRef row[TCC_CONTRACT_MAX_ACCESSES];
    for (int x = 0; x < p->c.n_accesses; x++)
        row[x] = tcc_emit_add(e, item[x], tcc_contract_offset(e, &p->c.m, index, x));
    LLVMValueRef at = tcc_emit_add(e, tcc_emit_mul(e, batch, tcc_emit_i64(e, p->M)), rows.index);
    LLVMValueRef source = tcc_emit_at(e, e->f32, workspace, tcc_emit_mul(e, at, tcc_emit_i64(e, width)));
    for (int x = 0; x < p->c.n_accesses; x++) place.offset[x] = row[x], place.lane_stride[x] = along->c[x];
    begin_row(e, epilogue, &place);
    tcc_emit_loop_begin(e, &vectors, tcc_emit_i64(e, 0), tcc_emit_i64(e, p->N), e->lanes, NULL, 0);
    source = tcc_emit_at(e, e->f32, source, vectors.index);
    LLVMValueRef sum = tcc_emit_load(e, e->vf32, source, e->lanes * 4);
    tcc_emit_loop_begin(e, &splits, tcc_emit_i64(e, 1), tcc_emit_i64(e, p->k_splits), 1, &sum, 1);
    LLVMValueRef part = tcc_emit_at(e, e->f32, source,
                                    tcc_emit_mul(e, splits.index, tcc_emit_i64(e, p->B * p->M * width)));
    sum = LLVMBuildFAdd(e->builder, splits.carry[0], tcc_emit_load(e, e->vf32, part, e->lanes * 4), "");
    tcc_emit_loop_end(e, &splits, &sum);
    for (int x = 0; x < p->c.n_accesses; x++) {
        place.offset[x] = row[x];
        if (along->c[x])
            place.offset[x] = tcc_emit_add(e, row[x], tcc_emit_mul(e, vectors.index, tcc_emit_i64(e, along->c[x])));
    }
    place.mask = p->N % e->lanes ? tcc_emit_mask(e, e->lanes, tcc_emit_sub(e, tcc_emit_i64(e, p->N), vectors.index))
                                 : NULL;
    finish_vector(e, p, splits.carry[0], &place, epilogue);
    tcc_emit_loop_end(e, &vectors, NULL);
    end_row(e, epilogue);
    tcc_emit_loop_end(e, &rows, NULL);
    tcc_emit_loop_end(e, &items, NULL);
    end_kernel(e, epilogue);
}
