/* SPDX-License-Identifier: MIT
 * Shorthand of the files that emit contractions on a GPU: indices are i32 there, offsets in memory i64. */
#ifndef TCC_CODEGEN_CONTRACT_GPU_OPS_H
#define TCC_CODEGEN_CONTRACT_GPU_OPS_H

#include "codegen/contract/gpu.h"

enum { CHUNK_BYTES = 16 };

static inline tcc_emit_value i32(tcc_emitter *e, int64_t value) { return tcc_emit_i32(e, (int32_t)value); }

static inline tcc_emit_value narrow(tcc_emitter *e, tcc_emit_value x) { return tcc_emit_trunc(e, x, e->i32); }

static inline tcc_emit_value wide(tcc_emitter *e, tcc_emit_value x) { return tcc_emit_sext(e, x, e->i64); }

static inline tcc_emit_value both(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return a && b ? tcc_emit_and(e, a, b) : a ? a : b;
}

static inline tcc_emit_value below(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_icmp(e, TCC_ICMP_SLT, a, b);
}

static inline tcc_emit_value at(tcc_emitter *e, const tcc_contract_gpu_plan *p, tcc_emit_value base,
                                tcc_emit_value offset) {
    return tcc_emit_at(e, tcc_emit_dtype(e, p->sum), base, offset);
}

static inline tcc_emit_type sums_type(tcc_emitter *e, const tcc_contract_gpu_plan *p, int n) {
    return tcc_emit_vector_type(tcc_emit_dtype(e, p->sum), n);
}

static inline int bytes_of(const tcc_contract_gpu_plan *p, int n) { return n * (int)tcc_dtype_bytes(p->sum); }

#endif
