/* SPDX-License-Identifier: MIT
 * Shorthand of the files that emit contractions on a GPU: indices are i32 there, offsets in memory i64. */
#ifndef TCC_CODEGEN_CONTRACT_GPU_OPS_H
#define TCC_CODEGEN_CONTRACT_GPU_OPS_H

#include "codegen/contract/gpu.h"

enum { CHUNK_BYTES = 16 };

static inline LLVMValueRef i32(tcc_emitter *e, int64_t value) { return tcc_emit_i32(e, (int32_t)value); }

static inline LLVMValueRef narrow(tcc_emitter *e, LLVMValueRef x) { return LLVMBuildTrunc(e->builder, x, e->i32, ""); }

static inline LLVMValueRef wide(tcc_emitter *e, LLVMValueRef x) { return LLVMBuildSExt(e->builder, x, e->i64, ""); }

static inline LLVMValueRef both(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return a && b ? LLVMBuildAnd(e->builder, a, b, "") : a ? a : b;
}

static inline LLVMValueRef below(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildICmp(e->builder, LLVMIntSLT, a, b, "");
}

static inline LLVMValueRef at(tcc_emitter *e, const tcc_contract_gpu_plan *p, LLVMValueRef base, LLVMValueRef offset) {
    return tcc_emit_at(e, tcc_emit_dtype(e, p->sum), base, offset);
}

static inline LLVMTypeRef sums_type(tcc_emitter *e, const tcc_contract_gpu_plan *p, int n) {
    return tcc_emit_vector_type(tcc_emit_dtype(e, p->sum), n);
}

static inline int bytes_of(const tcc_contract_gpu_plan *p, int n) { return n * (int)tcc_dtype_bytes(p->sum); }

#endif
