/* SPDX-License-Identifier: MIT
 * Multiplying tiles with multiply-adds.
 *
 * Threads and data of a tile. A chunk is 16 bytes of the sums' type: 4 f32, 2 f64. A warp is 4 x 8 threads. A thread
 * has fragments of C, one chunk in each direction, 4 rows or 8 columns of chunks apart, so that a warp reads
 * neighbouring chunks from shared memory. Tiles of operands are [k][row] there, with 4 elements of padding between rows
 * of k. So a warp's writes to columns fall into different banks too. */
#include "codegen/contract/gpu_internal.h"
#include "codegen/contract/gpu_ops.h"

/* sums[rows of fragments * chunk + row][columns of fragments] += A B over the tile in shared memory. */
static void multiply(tcc_emitter *e, const tcc_contract_block *x, tcc_emit_value a, tcc_emit_value b,
                     tcc_emit_value *sums) {
    const tcc_contract_gpu_plan *p = x->p;
    enum { MOST = 8 / 2 };
    const int chunk = p->chunk, high = p->thread_m / chunk, across = p->thread_n / chunk;
    tcc_emit_type type = sums_type(e, p, chunk);
    a = at(e, p, a, tcc_emit_add(e, tcc_emit_mul(e, x->warp_m, i32(e, p->warp_m)), x->lane_m));
    b = at(e, p, b, tcc_emit_add(e, tcc_emit_mul(e, x->warp_n, i32(e, p->warp_n)), x->lane_n));
    for (int k = 0; k < p->tile_k; k++) {
        tcc_emit_value rows[MOST], columns[MOST];
        for (int h = 0; h < high; h++)
            rows[h] = tcc_emit_load(e, type, at(e, p, a, i32(e, k * p->a.pitch + h * 4 * chunk)), CHUNK_BYTES);
        for (int c = 0; c < across; c++)
            columns[c] = tcc_emit_load(e, type, at(e, p, b, i32(e, k * p->b.pitch + c * 8 * chunk)), CHUNK_BYTES);
        for (int r = 0; r < p->thread_m; r++) {
            tcc_emit_value row = tcc_emit_splat(e, tcc_emit_extract(e, rows[r / chunk], i32(e, r % chunk)), chunk);
            for (int c = 0; c < across; c++)
                sums[r * across + c] = tcc_emit_fma(e, row, columns[c], sums[r * across + c]);
        }
    }
}

/* The same over all tiles from `begin` to `end`: the next is on its way while one is multiplied. */
void tcc_contract_fma(tcc_emitter *e, const tcc_contract_block *x, tcc_emit_value begin, tcc_emit_value end,
                      tcc_emit_value *sums) {
    const tcc_contract_gpu_plan *p = x->p;
    const int64_t buffer = (int64_t)p->tile_k * (p->a.pitch + p->b.pitch);
    const int n_sums = p->thread_m * p->thread_n / p->chunk;
    tcc_emit_value shared_a = e->scratch, shared_b = at(e, p, shared_a, i32(e, (int64_t)p->tile_k * p->a.pitch));
    tcc_contract_pending now[TCC_CONTRACT_GPU_SLOTS], next_a[TCC_CONTRACT_GPU_SLOTS], next_b[TCC_CONTRACT_GPU_SLOTS];
    tcc_emit_loop tiles;
    tcc_contract_read_tile(e, p, &x->a, begin, end, now);
    tcc_contract_store_tile(e, p, &x->a, shared_a, now);
    tcc_contract_read_tile(e, p, &x->b, begin, end, now);
    tcc_contract_store_tile(e, p, &x->b, shared_b, now);
    tcc_emit_barrier(e);
    sums[n_sums] = i32(e, 0); /* the buffer at hand, in elements from the first */
    tcc_emit_loop_begin(e, &tiles, wide(e, begin), wide(e, end), p->tile_k, sums, n_sums + 1);
    tcc_emit_value here = tiles.carry[n_sums], other = tcc_emit_xor(e, here, i32(e, buffer));
    tcc_emit_value next = tcc_emit_add(e, narrow(e, tiles.index), i32(e, p->tile_k));
    tcc_contract_read_tile(e, p, &x->a, next, end, next_a);
    tcc_contract_read_tile(e, p, &x->b, next, end, next_b);
    for (int i = 0; i < n_sums; i++) sums[i] = tiles.carry[i];
    multiply(e, x, at(e, p, shared_a, here), at(e, p, shared_b, here), sums);
    tcc_contract_store_tile(e, p, &x->a, at(e, p, shared_a, other), next_a);
    tcc_contract_store_tile(e, p, &x->b, at(e, p, shared_b, other), next_b);
    tcc_emit_barrier(e);
    sums[n_sums] = other;
    tcc_emit_loop_end(e, &tiles, sums);
    for (int i = 0; i < n_sums; i++) sums[i] = tiles.carry[i];
}
