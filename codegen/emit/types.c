/* SPDX-License-Identifier: MIT
 * Types and constants. */
#include "codegen/emit/functions.h"

#include <llvm-c/Target.h>

tcc_emit_value tcc_emit_i64(tcc_emitter *e, int64_t value) {
    return LLVMConstInt(e->i64, (unsigned long long)value, true);
}

tcc_emit_value tcc_emit_i32(tcc_emitter *e, int32_t value) {
    return LLVMConstInt(e->i32, (unsigned long long)value, true);
}

tcc_emit_type tcc_emit_scalar_of(tcc_emit_type type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

int tcc_emit_lanes_of(tcc_emit_type type) {
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(type) : 1;
}

tcc_emit_type tcc_emit_vector_type(tcc_emit_type scalar, int lanes) {
    return lanes == 1 ? scalar : LLVMVectorType(scalar, (unsigned)lanes);
}

tcc_emit_type tcc_emit_type_like(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_type like) {
    (void)e;
    return tcc_emit_vector_type(scalar, tcc_emit_lanes_of(like));
}

tcc_emit_value tcc_emit_splat_constant(tcc_emit_value scalar, int lanes) {
    if (lanes == 1) return scalar;
    tcc_emit_value elements[64];
    for (int i = 0; i < lanes && i < 64; i++) elements[i] = scalar;
    return LLVMConstVector(elements, (unsigned)lanes);
}

tcc_emit_value tcc_emit_float(tcc_emitter *e, tcc_emit_type type, double value) {
    (void)e;
    return tcc_emit_splat_constant(LLVMConstReal(tcc_emit_scalar_of(type), value), tcc_emit_lanes_of(type));
}

tcc_emit_value tcc_emit_int(tcc_emitter *e, tcc_emit_type type, int64_t value) {
    (void)e;
    return tcc_emit_splat_constant(LLVMConstInt(tcc_emit_scalar_of(type), (unsigned long long)value, true),
                                   tcc_emit_lanes_of(type));
}

tcc_emit_type tcc_emit_dtype(tcc_emitter *e, tcc_dtype dtype) {
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

bool tcc_emit_is_constant(tcc_emit_value v, int64_t *value) {
    tcc_emit_value constant = LLVMIsAConstantInt(v);
    if (!constant) return false;
    *value = LLVMConstIntGetSExtValue(constant);
    return true;
}

int tcc_emit_scalar_bytes(tcc_emit_type type) {
    switch (LLVMGetTypeKind(tcc_emit_scalar_of(type))) {
    case LLVMFloatTypeKind: return 4;
    case LLVMIntegerTypeKind: return (int)(LLVMGetIntTypeWidth(tcc_emit_scalar_of(type)) + 7) / 8;
    default: return 8;
    }
}

tcc_emit_type tcc_emit_type_of(tcc_emit_value v) { return LLVMTypeOf(v); }

bool tcc_emit_is_float(tcc_emit_type type) {
    const LLVMTypeKind kind = LLVMGetTypeKind(tcc_emit_scalar_of(type));
    return kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind;
}

int tcc_emit_bits_of(tcc_emit_type type) { return (int)LLVMGetIntTypeWidth(tcc_emit_scalar_of(type)); }

int tcc_emit_type_bytes(tcc_emitter *e, tcc_emit_type type) {
    return (int)LLVMABISizeOfType(LLVMGetModuleDataLayout(e->module), type);
}

tcc_emit_value tcc_emit_null(tcc_emit_type type) { return LLVMConstNull(type); }

tcc_emit_value tcc_emit_poison(tcc_emit_type type) { return LLVMGetPoison(type); }

tcc_emit_value tcc_emit_constants(tcc_emit_value *scalars, int lanes) {
    return LLVMConstVector(scalars, (unsigned)lanes);
}
