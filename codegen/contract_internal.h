/* SPDX-License-Identifier: MIT
 * What contract.c and contract_pack.c share. */
#ifndef TCC_CODEGEN_CONTRACT_INTERNAL_H
#define TCC_CODEGEN_CONTRACT_INTERNAL_H

#include "codegen/contract.h"

enum { TCC_OPERAND_A = -2, TCC_OPERAND_B = -1 }; /* else: an access */

/* The indices of each dimension from a row-major index over all of them. */
void tcc_contract_split_index(tcc_emitter *e, const tcc_contract_dims *l, LLVMValueRef index, LLVMValueRef *out);
/* Sum of index times stride in elements. */
LLVMValueRef tcc_contract_offset(tcc_emitter *e, const tcc_contract_dims *l, const LLVMValueRef *index, int operand);

/* Copy the rows of tiles [tile0, tile_end) of a block of k, which begins at `a` and has `count` of the split dimension, to `to`. */
void tcc_contract_pack_a(tcc_emitter *e, const tcc_contract_plan *p, LLVMValueRef a, LLVMValueRef to, LLVMValueRef tile0,
                         LLVMValueRef tile_end, LLVMValueRef count);
/* Copy the panel of columns from n0 on as [k][vectors * lanes]; columns past N are whatever is cheap to read. */
void tcc_contract_pack_b(tcc_emitter *e, const tcc_contract_plan *p, LLVMValueRef b, LLVMValueRef to, LLVMValueRef n0,
                         LLVMValueRef count);

#endif
