/* SPDX-License-Identifier: MIT
 * What the two ways of computing attention on CUDA share. */
#ifndef TCC_CODEGEN_ATTENTION_GPU_INTERNAL_H
#define TCC_CODEGEN_ATTENTION_GPU_INTERNAL_H

#include "codegen/attention_gpu.h"

/* The kernel at an item. */
typedef struct tcc_attention_block {
    const tcc_attention_gpu_plan *p;
    LLVMValueRef begin[TCC_ATTENTION_ROLES];  /* of the item's batch entry */
    LLVMValueRef thread, warp, in_warp, row0; /* i32; row0: the block's first row */
} tcc_attention_block;

LLVMValueRef tcc_attention_element(tcc_emitter *e, const tcc_attention_block *b, tcc_attention_role role, LLVMValueRef row, LLVMValueRef column);
/* The scaled and masked score of a query and a key: -inf where the key is not seen or there is no such query. */
LLVMValueRef tcc_attention_gpu_score(tcc_emitter *e, const tcc_attention_block *b, LLVMValueRef product, LLVMValueRef query, LLVMValueRef key);
/* x, or 0 where x is -inf: a maximum to subtract from scores that are all hidden. */
LLVMValueRef tcc_attention_shown(tcc_emitter *e, LLVMValueRef x);
/* Columns [from, to) that the rows of the block meet. */
void tcc_attention_columns(tcc_emitter *e, const tcc_attention_block *b, LLVMValueRef *from, LLVMValueRef *to);

/* The kernel's work on one item by tensor cores, and the shared memory that it needs. */
void tcc_attention_mma(tcc_emitter *e, const tcc_attention_block *b);
int64_t tcc_attention_mma_scratch(const tcc_attention_gpu_plan *p);

#endif
