/* SPDX-License-Identifier: MIT
 * Shared by the two ways of multiplying (FMA, tensor cores): the offsets of a thread's accesses in tiles and in
 * memory. */
#ifndef TCC_CODEGEN_CONTRACT_GPU_INTERNAL_H
#define TCC_CODEGEN_CONTRACT_GPU_INTERNAL_H

#include "codegen/contract/gpu.h"

enum { TCC_CONTRACT_GPU_SLOTS = 16, TCC_CONTRACT_GPU_SUMS = 32 }; /* most accesses and chunks of sums of a thread */

/* One access of a thread in every tile of an operand. */
typedef struct tcc_contract_slot {
    tcc_emit_value o, k;                        /* in the tile; i32 */
    tcc_emit_value base;                        /* of the row in memory */
    tcc_emit_value row[TCC_CONTRACT_MAX_FORMS]; /* the forms there, where computed */
    tcc_emit_value inside;                      /* the row exists; NULL: surely */
    tcc_emit_value position[TCC_CONTRACT_MAX_WINDOWS];
} tcc_contract_slot;

typedef struct tcc_contract_reader {
    const tcc_contract_side *p;
    const tcc_contract_prologue *prologue; /* NULL: in memory */
    tcc_contract_slot slots[TCC_CONTRACT_GPU_SLOTS];
} tcc_contract_reader;

/* The kernel at an item. */
typedef struct tcc_contract_block {
    const tcc_contract_gpu_plan *p;
    tcc_emit_value thread, lane;   /* i32; in the block, in the warp */
    tcc_emit_value warp_m, warp_n; /* i32 */
    tcc_emit_value lane_m, lane_n; /* a chunk x the place in a warp of 4 x 8 */
    tcc_contract_reader a, b;
} tcc_contract_block;

/* What an access of the next tile is made from: read, and not looked at yet. */
typedef struct tcc_contract_pending {
    tcc_emit_value raw[TCC_CONTRACT_MAX_LOADS], forms[TCC_CONTRACT_MAX_FORMS];
    tcc_emit_value exists; /* i1: of an operand that is computed, what is not 0 by itself; NULL: all that counts */
} tcc_contract_pending;

/* Where access `slot` of the tile at k0 of an operand in memory lies, and whether all of it exists: k below `end`,
 * inside the windows. */
tcc_emit_value tcc_contract_locate(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_reader *s,
                                   int slot, tcc_emit_value k0, tcc_emit_value end, tcc_emit_value *inside);
/* Begins to read the tile at k0, one access after another; only k below `end` exists. */
void tcc_contract_read_tile(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_reader *s,
                            tcc_emit_value k0, tcc_emit_value end, tcc_contract_pending *out);
/* The elements of an access, in the sums' type. */
tcc_emit_value tcc_contract_arrived(tcc_emitter *e, const tcc_contract_reader *s, const tcc_contract_pending *access);

/* Sets thread, lane and the warp's and lane's places. */
void tcc_contract_find_thread(tcc_emitter *e, tcc_contract_block *x);
/* What does not change along k. `o0`: the tile's first row; `extent`: how many rows there are. */
void tcc_contract_begin_reading(tcc_emitter *e, const tcc_contract_gpu_plan *p, tcc_contract_reader *s,
                                tcc_emit_value thread, tcc_emit_value memory, tcc_emit_value batch, tcc_emit_value o0,
                                int64_t extent);
/* A tile that was read goes to shared memory, [k][row]. */
void tcc_contract_store_tile(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_reader *s,
                             tcc_emit_value shared, const tcc_contract_pending *accesses);

/* Sums of tile rows times tile columns over k in [begin, end) (i32). Multiply-adds: sums[rows of fragments * chunk +
 * row][columns of fragments]; the next tile is on its way while one is multiplied. */
void tcc_contract_fma(tcc_emitter *e, const tcc_contract_block *x, tcc_emit_value begin, tcc_emit_value end,
                      tcc_emit_value *sums);
/* Tensor cores: sums of tile rows times tile columns over k in [begin, end) (i32), as vectors of 4 in the order of
 * mma.sync: for each 16 rows of the warp, for each 8 columns. Shared memory is free to use afterwards, but for a
 * barrier. */
void tcc_contract_mma(tcc_emitter *e, const tcc_contract_block *x, tcc_emit_value begin, tcc_emit_value end,
                      tcc_emit_value *sums);

/* --- Finished tiles (gpu_finish.c) */

typedef struct tcc_contract_finish {
    const tcc_contract_epilogue *epilogue;
    tcc_emit_value access[TCC_CONTRACT_MAX_ACCESSES]; /* params */
    tcc_emit_value batch_offset[TCC_CONTRACT_MAX_ACCESSES];
    int first_buffer;
} tcc_contract_finish;

void tcc_contract_enter_batch(tcc_emitter *e, const tcc_contract_gpu_plan *p, tcc_contract_finish *f,
                              tcc_emit_value batch);
/* The epilogue of the vector at (m, n). */
void tcc_contract_finish_vector(tcc_emitter *e, const tcc_contract_gpu_plan *p, const tcc_contract_finish *f,
                                tcc_emit_value m, tcc_emit_value n, tcc_emit_value sums);
/* Sums pass through shared memory, a strip of each warp at a time, and leave it row by row. */
void tcc_contract_finish_tile(tcc_emitter *e, tcc_contract_block *x, const tcc_contract_finish *f,
                              tcc_emit_value workspace, tcc_emit_value m0, tcc_emit_value n0, tcc_emit_value *sums);

#endif
