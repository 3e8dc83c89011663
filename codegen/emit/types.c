/* SPDX-License-Identifier: MIT
 * Types and constants. */
#include "codegen/emit/functions.h"

LLVMValueRef tcc_emit_i64(tcc_emitter *e, int64_t value) {
    return LLVMConstInt(e->i64, (unsigned long long)value, true);
}

LLVMValueRef tcc_emit_i32(tcc_emitter *e, int32_t value) {
    return LLVMConstInt(e->i32, (unsigned long long)value, true);
}

LLVMTypeRef tcc_emit_scalar_of(LLVMTypeRef type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

int tcc_emit_lanes_of(LLVMTypeRef type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(type) : 1;
}

LLVMTypeRef tcc_emit_vector_type(LLVMTypeRef scalar, int lanes) {
    return lanes == 1 ? scalar : LLVMVectorType(scalar, (unsigned)lanes);
}

LLVMTypeRef tcc_emit_type_like(tcc_emitter *e, LLVMTypeRef scalar, LLVMTypeRef like) {
    (void)e;
    return tcc_emit_vector_type(scalar, tcc_emit_lanes_of(like));
}

LLVMValueRef tcc_emit_splat_constant(LLVMValueRef scalar, int lanes) {
    if (lanes == 1) return scalar;
    LLVMValueRef elements[64];
    for (int i = 0; i < lanes && i < 64; i++) elements[i] = scalar;
    return LLVMConstVector(elements, (unsigned)lanes);
}

LLVMValueRef tcc_emit_float(tcc_emitter *e, LLVMTypeRef type, double value) {
    (void)e;
    return tcc_emit_splat_constant(LLVMConstReal(tcc_emit_scalar_of(type), value), tcc_emit_lanes_of(type));
}

LLVMValueRef tcc_emit_int(tcc_emitter *e, LLVMTypeRef type, int64_t value) {
    (void)e;
    return tcc_emit_splat_constant(LLVMConstInt(tcc_emit_scalar_of(type), (unsigned long long)value, true),
                                   tcc_emit_lanes_of(type));
}

LLVMTypeRef tcc_emit_dtype(tcc_emitter *e, tcc_dtype dtype) {
    switch (dtype) {
    case TCC_F64: return e->f64;
    case TCC_F32: return e->f32;
    case TCC_F16:
    case TCC_BF16: return e->i16;
    case TCC_I64: return e->i64;
    case TCC_I32: return e->i32;
    case TCC_U8:
    case TCC_BOOL: return e->i8;
    case TCC_DTYPE_COUNT: break;
    }
    return NULL;
}

bool tcc_emit_is_constant(LLVMValueRef v, int64_t *value) {
    LLVMValueRef constant = LLVMIsAConstantInt(v);
    if (!constant) return false;
    *value = LLVMConstIntGetSExtValue(constant);
    return true;
}

int tcc_emit_scalar_bytes(LLVMTypeRef type) {
    switch (LLVMGetTypeKind(tcc_emit_scalar_of(type))) {
    case LLVMFloatTypeKind: return 4;
    case LLVMIntegerTypeKind: return (int)(LLVMGetIntTypeWidth(tcc_emit_scalar_of(type)) + 7) / 8;
    default: return 8;
    }
}
