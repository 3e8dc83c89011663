/* SPDX-License-Identifier: MIT
 * Finished tiles of a contraction on a GPU: through shared memory to the epilogue, or to the workspace. */
#include "codegen/contract/gpu_internal.h"
#include "codegen/contract/gpu_ops.h"

#include "codegen/contract/internal.h"

static tcc_emit_value output_offset(tcc_emitter *e, const tcc_contract_dims *l, tcc_emit_value index, int access) {
    tcc_emit_value indices[TCC_CONTRACT_MAX_DIMS];
    tcc_contract_split_index(e, l, index, indices);
    tcc_emit_value sum = tcc_emit_i64(e, 0);
    for (int i = 0; i < l->n; i++)
        if (l->d[i].c[access])
            sum = tcc_emit_add(e, sum, tcc_emit_mul(e, wide(e, indices[i]), tcc_emit_i64(e, l->d[i].c[access])));
    return sum;
}

void tcc_contract_enter_batch(tcc_emitter *e, const tcc_contract_gpu_plan *p, tcc_contract_finish *f,
                              tcc_emit_value batch) {
    for (int x = 0; x < p->c.n_accesses; x++)
        f->batch_offset[x] = tcc_emit_add(e, f->access[x], output_offset(e, &p->c.b, batch, x));
}

/* The epilogue of the vector at (m, n), which stores. */
void tcc_contract_finish_vector(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_finish *f,
                                tcc_emit_value m, tcc_emit_value n, tcc_emit_value sums) {
    tcc_contract_place place = {.n_accesses = p->c.n_accesses, .first_buffer = f->first_buffer};
    for (int x = 0; x < p->c.n_accesses; x++) {
        place.offset[x] = tcc_emit_add(e, f->batch_offset[x], output_offset(e, &p->c.m, m, x));
        place.offset[x] = tcc_emit_add(e, place.offset[x], output_offset(e, &p->c.n, n, x));
        place.lane_stride[x] = p->c.n.n ? p->c.n.d[p->c.n.n - 1].c[x] : 0;
    }
    const tcc_contract_epilogue *epilogue = f->epilogue;
    epilogue->row(epilogue->user, e, &place);
    epilogue->vector(epilogue->user, e, sums, &place);
    epilogue->row_end(epilogue->user, e);
}

/* Sums[part][i] of a strip of each warp, `part` known at run time alone. */
static tcc_emit_value sum_of(tcc_emitter *e, const tcc_emit_value *sums, int parts, int n, tcc_emit_value part, int i) {
    tcc_emit_value value = sums[i];
    for (int k = 1; k < parts; k++)
        value = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_EQ, part, i32(e, k)), sums[k * n + i], value);
    return value;
}

/* A strip of each warp into shared memory, one below the other. */
static void put_rows(tcc_emitter *e, const tcc_contract_block *x, tcc_emit_value stage, tcc_emit_value part,
                     const tcc_emit_value *sums) {
    const tcc_contract_gpu_plan *p = x->p;
    int pitch = tcc_contract_gpu_pitch(p), strip = tcc_contract_gpu_strip(p), parts = p->warp_m / strip,
        n = p->warp_n / 8;
    bool exact = p->matrix == TCC_DTYPE_COUNT;
    tcc_emit_value row = exact ? x->lane_m : tcc_emit_div(e, x->lane, 4);
    tcc_emit_value column = exact ? x->lane_n : tcc_emit_mul(e, tcc_emit_rem(e, x->lane, 4), i32(e, 2));
    row = tcc_emit_add(e, tcc_emit_mul(e, x->warp_m, i32(e, strip)), row);
    column = tcc_emit_add(e, tcc_emit_mul(e, x->warp_n, i32(e, p->warp_n)), column);
    tcc_emit_value to = at(e, p, stage, tcc_emit_add(e, tcc_emit_mul(e, row, i32(e, pitch)), column));
    for (int i = 0; i < n; i++) {
        tcc_emit_value value = sum_of(e, sums, parts, n, part, i);
        if (exact) { /* sums[row][columns] */
            int across = p->thread_n / p->chunk;
            tcc_emit_store(e, value, at(e, p, to, i32(e, i / across * pitch + i % across * 8 * p->chunk)), CHUNK_BYTES);
            continue;
        }
        for (int half = 0; half < 2; half++) {
            const int lanes[] = {2 * half, 2 * half + 1};
            tcc_emit_store(e, tcc_emit_shuffle(e, value, NULL, lanes, 2),
                           at(e, p, to, i32(e, 8 * half * pitch + 8 * i)), 8);
        }
    }
}

/* Sums pass through shared memory, a strip of each warp at a time, and leave it row by row. */
void tcc_contract_finish_tile(tcc_emitter *e, tcc_contract_block *x, const tcc_contract_finish *f,
                              tcc_emit_value workspace, tcc_emit_value m0, tcc_emit_value n0, tcc_emit_value *sums) {
    const tcc_contract_gpu_plan *p = x->p;
    int pitch = tcc_contract_gpu_pitch(p), strip = tcc_contract_gpu_strip(p), rows = strip * p->warps_m;
    int vector = workspace ? p->chunk : p->vector, row = p->tile_n / vector;
    tcc_emit_value stage = e->scratch;
    tcc_emit_loop strips, vectors;
    tcc_emit_barrier(e);
    tcc_contract_find_thread(e, x);
    tcc_emit_loop_begin(e, &strips, tcc_emit_i64(e, 0), tcc_emit_i64(e, p->warp_m / strip), 1, NULL, 0);
    tcc_emit_value number = narrow(e, strips.index);
    put_rows(e, x, stage, number, sums);
    tcc_emit_barrier(e);
    tcc_emit_loop_begin(e, &vectors, wide(e, x->thread), tcc_emit_i64(e, (int64_t)rows * row), p->threads, NULL, 0);
    tcc_emit_value index = narrow(e, vectors.index), line = tcc_emit_div(e, index, row);
    tcc_emit_value column = tcc_emit_mul(e, tcc_emit_rem(e, x->thread, row),
                                         i32(e, vector)); /* the same in every turn */
    tcc_emit_value m = tcc_emit_mul(e, tcc_emit_div(e, line, strip), i32(e, p->warp_m));
    m = tcc_emit_add(e, tcc_emit_add(e, m, tcc_emit_rem(e, line, strip)), tcc_emit_mul(e, number, i32(e, strip)));
    m = tcc_emit_add(e, m0, m);
    tcc_emit_value n = tcc_emit_add(e, n0, column), inside = NULL;
    if (p->M % p->tile_m) inside = both(e, inside, below(e, m, i32(e, p->M)));
    if (p->N % p->tile_n) inside = both(e, inside, below(e, n, i32(e, p->N)));
    tcc_emit_if exists;
    if (inside) tcc_emit_if_begin(e, &exists, inside);
    tcc_emit_value from = at(e, p, stage, tcc_emit_add(e, tcc_emit_mul(e, line, i32(e, pitch)), column));
    tcc_emit_value value = tcc_emit_load(e, sums_type(e, p, vector), from, bytes_of(p, vector));
    if (workspace) {
        tcc_emit_value offset = tcc_emit_add(e, tcc_emit_mul(e, wide(e, m), tcc_emit_i64(e, p->n_padded)), wide(e, n));
        tcc_emit_store(e, value, at(e, p, workspace, offset), CHUNK_BYTES);
    } else {
        tcc_contract_finish_vector(e, p, f, m, n, value);
    }
    if (inside) tcc_emit_if_end(e, &exists);
    tcc_emit_loop_end(e, &vectors, NULL);
    tcc_emit_barrier(e);
    tcc_emit_loop_end(e, &strips, NULL);
}
