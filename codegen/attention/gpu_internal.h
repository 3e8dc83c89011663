/* SPDX-License-Identifier: MIT
 * Shared by the two attention kernels for CUDA (FMA, tensor cores). */
#ifndef TCC_CODEGEN_ATTENTION_GPU_INTERNAL_H
#define TCC_CODEGEN_ATTENTION_GPU_INTERNAL_H

#include "codegen/attention/gpu.h"
#include "codegen/attention/internal.h"

/* The kernel at an item. */
typedef struct tcc_attention_block {
    const tcc_attention_gpu_plan *p;
    tcc_emit_value begin[TCC_ATTENTION_ROLES];  /* of the item's batch entry */
    tcc_emit_value thread, warp, in_warp, row0; /* i32; row0: the block's first row */
    tcc_emit_value batch;                       /* i32: the item's batch entry */
    tcc_attention_draws dropout;                /* with TCC_ATTENTION_RNG */
} tcc_attention_block;

tcc_emit_value tcc_attention_element(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role,
                                     tcc_emit_value row, tcc_emit_value column);
/* The scaled and masked score of a query and a key: -inf where the key is not seen or there is no such query. */
tcc_emit_value tcc_attention_gpu_score(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value product,
                                       tcc_emit_value query, tcc_emit_value key);
/* Over the threads of a row of scores, a power of two of them that are neighbours; each gets the same. */
tcc_emit_value tcc_attention_sum_row(tcc_emitter *e, tcc_emit_value x, int threads);
tcc_emit_value tcc_attention_max_row(tcc_emitter *e, tcc_emit_value x, int threads);
/* An operand of one f32 a query: stored by the thread whose place in its row is 0, if there is such a query; 0 for
 * others. */
void tcc_attention_store_value(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role,
                               tcc_emit_value row, tcc_emit_value value, tcc_emit_value place);
tcc_emit_value tcc_attention_load_value(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role,
                                        tcc_emit_value row);
/* Columns [from, to) that the rows of the block meet. */
void tcc_attention_columns(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value *from, tcc_emit_value *to);

/* Begins the loop over them, a block of columns a turn, with n values carried in `carry`; the turn's first column. */
tcc_emit_value tcc_attention_blocks_begin(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value from,
                                          tcc_emit_value to, tcc_emit_loop *blocks, tcc_emit_value *carry, int n);

/* --- Dropout (gpu_dropout.c): bits of i32, set where an element is kept. NULL without dropout. */
/* Bit i: of the query and key + i, for i < 4; the key is a multiple of 4. Only with dropout. */
tcc_emit_value tcc_attention_keeps_four(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value query,
                                        tcc_emit_value key);
/* For tcc_attention_drop(). */
tcc_emit_value tcc_attention_bit(tcc_emitter *e, tcc_emit_value bits, int place);
/* Of a warp's fragments whose rows are queries: element i of the thread's query[h] in tile t is bit 8 (t % 4) + i of
 * kept[h][t / 4]. */
void tcc_attention_keep_rows(tcc_emitter *e, const tcc_attention_block *b, const tcc_emit_value query[2],
                             tcc_emit_value key0, tcc_emit_value kept[2][2]);
/* Whose rows are keys, 16 from key0 on: element i of the thread's key h in tile t (at most 4) is bit 16 i + 4 t of
 * kept[h]. */
void tcc_attention_keep_columns(tcc_emitter *e, const tcc_attention_block *b, tcc_emit_value query0,
                                tcc_emit_value key0, tcc_emit_value kept[2]);

/* The kernel's work on one item by multiply-adds or by tensor cores, and the shared memory that it needs. */
void tcc_attention_fma(tcc_emitter *e, const tcc_attention_block *b);
void tcc_attention_mma(tcc_emitter *e, const tcc_attention_block *b);
int64_t tcc_attention_fma_scratch(const tcc_attention_gpu_plan *p);
int64_t tcc_attention_mma_scratch(const tcc_attention_gpu_plan *p);

#endif
