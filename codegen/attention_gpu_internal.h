/* SPDX-License-Identifier: MIT
 * What the two ways of computing attention on CUDA share. */
#ifndef TCC_CODEGEN_ATTENTION_GPU_INTERNAL_H
#define TCC_CODEGEN_ATTENTION_GPU_INTERNAL_H

#include "codegen/attention_gpu.h"
#include "codegen/attention_internal.h"

/* The kernel at an item. */
typedef struct tcc_attention_block {
    const tcc_attention_gpu_plan *p;
    LLVMValueRef begin[TCC_ATTENTION_ROLES];  /* of the item's batch entry */
    LLVMValueRef thread, warp, in_warp, row0; /* i32; row0: the block's first row */
} tcc_attention_block;

LLVMValueRef tcc_attention_element(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role, LLVMValueRef row, LLVMValueRef column);
/* The scaled and masked score of a query and a key: -inf where the key is not seen or there is no such query. */
LLVMValueRef tcc_attention_gpu_score(tcc_emitter *e, const tcc_attention_block *b, LLVMValueRef product, LLVMValueRef query, LLVMValueRef key);
/* Over the threads of a row of scores, a power of two of them that are neighbours; each gets the same. */
LLVMValueRef tcc_attention_sum_row(tcc_emitter *e, LLVMValueRef x, int threads);
LLVMValueRef tcc_attention_max_row(tcc_emitter *e, LLVMValueRef x, int threads);
/* An operand of one f32 a query: stored by the thread whose place in its row is 0, if there is such a query; 0 for others. */
void tcc_attention_store_value(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role, LLVMValueRef row, LLVMValueRef value,
                               LLVMValueRef place);
LLVMValueRef tcc_attention_load_value(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role, LLVMValueRef row);
/* Columns [from, to) that the rows of the block meet. */
void tcc_attention_columns(tcc_emitter *e, const tcc_attention_block *b, LLVMValueRef *from, LLVMValueRef *to);

/* Begins the loop over them, a block of columns a turn, with n values carried in `carry`; the turn's first column. */
LLVMValueRef tcc_attention_walk(tcc_emitter *e, const tcc_attention_block *b, LLVMValueRef from, LLVMValueRef to, tcc_emit_loop *blocks,
                                LLVMValueRef *carry, int n);

/* The kernel's work on one item by multiply-adds or by tensor cores, and the shared memory that it needs. */
void tcc_attention_fma(tcc_emitter *e, const tcc_attention_block *b);
void tcc_attention_mma(tcc_emitter *e, const tcc_attention_block *b);
int64_t tcc_attention_fma_scratch(const tcc_attention_gpu_plan *p);
int64_t tcc_attention_mma_scratch(const tcc_attention_gpu_plan *p);

#endif
