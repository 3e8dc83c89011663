/* SPDX-License-Identifier: MIT
 * A contraction's kernels on a GPU: the tile of an item, and the loop over k. Planning is in gpu_plan.c, reading in
 * gpu_read.c, multiplying in fma.c and mma.c, the epilogue in gpu_finish.c. */
#include "codegen/contract/gpu_internal.h"

#include "codegen/contract/gpu_ops.h"
#include "codegen/emit/warp.h"

/* Which tile an item is: a few rows of tiles together run along n, so that what is read again is still in the cache.
 */
static void find_tile(tcc_emitter *e, const tcc_contract_gpu_plan *p, tcc_emit_value tile, tcc_emit_value *m,
                      tcc_emit_value *n) {
    enum { TOGETHER = 8 };
    if (p->m_tiles <= TOGETHER || p->n_tiles == 1) {
        *m = tcc_emit_rem(e, tile, p->m_tiles);
        *n = tcc_emit_div(e, tile, p->m_tiles);
        return;
    }
    int64_t width = TOGETHER * p->n_tiles;
    tcc_emit_value first = tcc_emit_mul(e, tcc_emit_div(e, tile, width), i32(e, TOGETHER)),
                   rest = tcc_emit_rem(e, tile, width);
    tcc_emit_value rows = tcc_emit_min(e, tcc_emit_sub(e, i32(e, p->m_tiles), first), i32(e, TOGETHER));
    *m = tcc_emit_add(e, first, tcc_emit_urem(e, rest, rows));
    *n = tcc_emit_udiv(e, rest, rows);
}

/* The start of an operand in memory, or NULL: it is computed, and its prologue has begun. `named`: 0 or 1, as the
 * caller named it. */
static tcc_emit_value begin_operand(tcc_emitter *e, tcc_contract_reader *s, int named) {
    if (!s->prologue)
        return tcc_emit_at(e, tcc_emit_dtype(e, s->p->dtype), tcc_emit_buffer(e, s->p->first_buffer),
                           tcc_emit_param(e, named));
    s->prologue->begin(s->prologue->user, e, s->p, s->p->first_buffer);
    return NULL;
}

void tcc_contract_gpu_emit(tcc_emitter *e, const char *symbol, const tcc_contract_gpu_plan *p,
                           const tcc_contract_prologue *const *prologues, const tcc_contract_epilogue *epilogue) {
    bool split = p->k_splits > 1;
    const int named_a = p->swapped, named_b = !p->swapped;
    tcc_contract_block x = {
        .p = p, .a = {.p = &p->a, .prologue = prologues[named_a]}, .b = {.p = &p->b, .prologue = prologues[named_b]}};
    tcc_contract_finish f = {.epilogue = split ? NULL : epilogue, .first_buffer = p->first_access};
    tcc_emit_kernel_begin(e, symbol);
    tcc_emit_value a = begin_operand(e, &x.a, named_a);
    tcc_emit_value b = begin_operand(e, &x.b, named_b);
    for (int i = 0; i < p->c.n_accesses && !split; i++) f.access[i] = tcc_emit_param(e, 2 + i);
    if (f.epilogue && f.epilogue->begin) f.epilogue->begin(f.epilogue->user, e, f.first_buffer);

    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value item = narrow(e, items.index), m_tile, n_tile;
    tcc_emit_value tile = tcc_emit_rem(e, item, p->m_tiles * p->n_tiles),
                   rest = tcc_emit_div(e, item, p->m_tiles * p->n_tiles);
    tcc_emit_value batch = tcc_emit_rem(e, rest, p->B), part = tcc_emit_div(e, rest, p->B);
    find_tile(e, p, tile, &m_tile, &n_tile);
    tcc_contract_find_thread(e, &x);
    tcc_emit_value m0 = tcc_emit_mul(e, m_tile, i32(e, p->tile_m)), n0 = tcc_emit_mul(e, n_tile, i32(e, p->tile_n));
    tcc_contract_begin_reading(e, p, &x.a, x.thread, a, batch, m0, p->M);
    tcc_contract_begin_reading(e, p, &x.b, x.thread, b, batch, n0, p->N);

    tcc_emit_value sums[TCC_CONTRACT_GPU_SUMS + 4];
    int n_sums = p->warp_m * p->warp_n / (32 * p->chunk);
    for (int i = 0; i < n_sums; i++) sums[i] = tcc_emit_null(sums_type(e, p, p->chunk));
    if (p->K) {
        tcc_emit_value begin = i32(e, 0), end = i32(e, p->K);
        if (split) {
            begin = tcc_emit_mul(e, part, i32(e, p->k_per_split));
            end = tcc_emit_min(e, tcc_emit_add(e, begin, i32(e, p->k_per_split)), end);
        }
        if (p->matrix == TCC_DTYPE_COUNT) tcc_contract_fma(e, &x, begin, end, sums);
        else tcc_contract_mma(e, &x, begin, end, sums);
    }
    tcc_emit_value workspace = NULL;
    if (split) {
        tcc_emit_value before = tcc_emit_add(e, tcc_emit_mul(e, wide(e, part), tcc_emit_i64(e, p->B)), wide(e, batch));
        workspace = at(e, p, tcc_emit_buffer(e, p->first_access),
                       tcc_emit_mul(e, before, tcc_emit_i64(e, p->M * p->n_padded)));
    } else {
        tcc_contract_enter_batch(e, p, &f, batch);
    }
    tcc_contract_finish_tile(e, &x, &f, workspace, m0, n0, sums);
    tcc_emit_loop_end(e, &items, NULL);
    const tcc_contract_reader *const readers[] = {&x.a, &x.b};
    for (int i = 0; i < 2; i++)
        if (readers[i]->prologue) readers[i]->prologue->end(readers[i]->prologue->user);
    if (f.epilogue && f.epilogue->end) f.epilogue->end(f.epilogue->user, e);
    tcc_emit_kernel_end(e);
}

void tcc_contract_gpu_emit_combine(tcc_emitter *e, const char *symbol, const tcc_contract_gpu_plan *p,
                                   const tcc_contract_epilogue *epilogue) {
    tcc_contract_finish f = {.epilogue = epilogue, .first_buffer = 1};
    tcc_emit_kernel_begin(e, symbol);
    tcc_emit_value workspace = tcc_emit_buffer(e, 0);
    for (int i = 0; i < p->c.n_accesses; i++) f.access[i] = tcc_emit_param(e, i);
    if (epilogue && epilogue->begin) epilogue->begin(epilogue->user, e, 1);
    int64_t row = (p->N + p->vector - 1) / p->vector, vectors = p->B * p->M * row;
    tcc_emit_loop items, splits;
    tcc_emit_if exists;
    tcc_emit_items_begin(e, &items);
    tcc_emit_value index = tcc_emit_add(e, tcc_emit_mul(e, items.index, tcc_emit_i64(e, p->combine_threads)),
                                        wide(e, tcc_emit_thread(e)));
    tcc_emit_if_begin(e, &exists, below(e, index, tcc_emit_i64(e, vectors)));
    tcc_emit_value line = tcc_emit_div(e, index, row),
                   column = tcc_emit_mul(e, tcc_emit_rem(e, index, row), tcc_emit_i64(e, p->vector));
    tcc_emit_value from = at(e, p, workspace,
                             tcc_emit_add(e, tcc_emit_mul(e, line, tcc_emit_i64(e, p->n_padded)), column));
    tcc_emit_type type = sums_type(e, p, p->vector);
    tcc_emit_value sum = tcc_emit_load(e, type, from, bytes_of(p, p->vector));
    tcc_emit_loop_begin(e, &splits, tcc_emit_i64(e, 1), tcc_emit_i64(e, p->k_splits), 1, &sum, 1);
    tcc_emit_value next = at(e, p, from, tcc_emit_mul(e, splits.index, tcc_emit_i64(e, p->B * p->M * p->n_padded)));
    sum = tcc_emit_fadd(e, splits.carry[0], tcc_emit_load(e, type, next, bytes_of(p, p->vector)));
    tcc_emit_loop_end(e, &splits, &sum);
    tcc_contract_enter_batch(e, p, &f, narrow(e, tcc_emit_div(e, line, p->M)));
    tcc_contract_finish_vector(e, p, &f, narrow(e, tcc_emit_rem(e, line, p->M)), narrow(e, column), splits.carry[0]);
    tcc_emit_if_end(e, &exists);
    tcc_emit_loop_end(e, &items, NULL);
    if (epilogue && epilogue->end) epilogue->end(epilogue->user, e);
    tcc_emit_kernel_end(e);
}
