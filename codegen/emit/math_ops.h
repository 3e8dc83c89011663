/* SPDX-License-Identifier: MIT
 * Shorthand of the files that emit functions on f32 or f64, scalar or vector. A constant or an integer is of the type
 * that `like` has, or of its bits. */
#ifndef TCC_CODEGEN_EMIT_MATH_OPS_H
#define TCC_CODEGEN_EMIT_MATH_OPS_H

#include "codegen/emit/functions.h"
#include "codegen/emit/math.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static inline LLVMValueRef constant(tcc_emitter *e, LLVMValueRef like, double value) {
    return tcc_emit_float(e, LLVMTypeOf(like), value);
}

static inline LLVMTypeRef bits_type(tcc_emitter *e, LLVMValueRef like) {
    LLVMTypeRef type = LLVMTypeOf(like);
    return tcc_emit_type_like(e, tcc_emit_scalar_of(type) == e->f64 ? e->i64 : e->i32, type);
}

static inline LLVMValueRef to_bits(tcc_emitter *e, LLVMValueRef x) {
    return LLVMBuildBitCast(e->builder, x, bits_type(e, x), "");
}

static inline LLVMValueRef from_bits(tcc_emitter *e, LLVMValueRef bits, LLVMValueRef like) {
    return LLVMBuildBitCast(e->builder, bits, LLVMTypeOf(like), "");
}

static inline LLVMValueRef integer(tcc_emitter *e, LLVMValueRef like, int64_t value) {
    return tcc_emit_int(e, bits_type(e, like), value);
}

static inline LLVMValueRef add(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFAdd(e->builder, a, b, "");
}

static inline LLVMValueRef sub(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFSub(e->builder, a, b, "");
}

static inline LLVMValueRef mul(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFMul(e->builder, a, b, "");
}

static inline LLVMValueRef quotient(tcc_emitter *e, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildFDiv(e->builder, a, b, "");
}

static inline LLVMValueRef copy_sign(tcc_emitter *e, LLVMValueRef magnitude, LLVMValueRef sign) {
    LLVMValueRef arguments[] = {magnitude, sign};
    return tcc_emit_intrinsic(e, "llvm.copysign", LLVMTypeOf(sign), arguments, 2);
}

#endif
