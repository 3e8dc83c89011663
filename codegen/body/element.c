/* SPDX-License-Identifier: MIT
 * Element types: registers and memory, and conversions between them. */
#include "codegen/body/body.h"

static LLVMTypeRef like(tcc_emitter *e, LLVMTypeRef scalar, LLVMValueRef v) {
    return tcc_emit_type_like(e, scalar, LLVMTypeOf(v));
}

LLVMTypeRef tcc_scalar_register(tcc_emitter *e, tcc_dtype dtype) {
    switch (dtype) {
    case TCC_F64: return e->f64;
    case TCC_F32:
    case TCC_F16:
    case TCC_BF16: return e->f32;
    case TCC_I64: return e->i64;
    case TCC_BOOL: return e->i1;
    default: return e->i32;
    }
}

static LLVMValueRef bf16_value(tcc_emitter *e, LLVMValueRef bits) {
    LLVMTypeRef type = LLVMTypeOf(bits);
    LLVMValueRef up = LLVMBuildShl(e->builder, bits, tcc_emit_int(e, type, 16), "");
    return LLVMBuildBitCast(e->builder, up, tcc_emit_type_like(e, e->f32, type), "");
}

/* f16 to and from its bits, as i32. Integer arithmetic where the target has no instruction: a library's function cannot
 * be called. */
static LLVMValueRef f16_value(tcc_emitter *e, LLVMValueRef bits) {
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef type = LLVMTypeOf(bits), wide = like(e, e->f32, bits);
    if (e->target->f16)
        return LLVMBuildFPExt(
            b, LLVMBuildBitCast(b, LLVMBuildTrunc(b, bits, like(e, e->i16, bits), ""), like(e, e->f16, bits), ""), wide,
            "");
    LLVMValueRef sign = LLVMBuildShl(b, LLVMBuildAnd(b, bits, tcc_emit_int(e, type, 0x8000), ""),
                                     tcc_emit_int(e, type, 16), "");
    LLVMValueRef rest = LLVMBuildAnd(b, bits, tcc_emit_int(e, type, 0x7fff), "");
    LLVMValueRef moved = LLVMBuildShl(b, rest, tcc_emit_int(e, type, 13), ""); /* the value, 2^112 times too small */
    LLVMValueRef scaled = LLVMBuildFMul(b, LLVMBuildBitCast(b, moved, wide, ""), tcc_emit_float(e, wide, 0x1p112), "");
    LLVMValueRef special = LLVMBuildOr(b, moved, tcc_emit_int(e, type, 0x7f800000), "");
    LLVMValueRef is_special = LLVMBuildICmp(b, LLVMIntUGE, rest, tcc_emit_int(e, type, 0x7c00), "");
    LLVMValueRef size = tcc_emit_select(e, is_special, special, LLVMBuildBitCast(b, scaled, type, ""));
    return LLVMBuildBitCast(b, LLVMBuildOr(b, size, sign, ""), wide, "");
}

static LLVMValueRef f16_bits(tcc_emitter *e, LLVMValueRef value) {
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef type = like(e, e->i32, value), wide = LLVMTypeOf(value);
    if (e->target->f16)
        return LLVMBuildZExt(
            b, LLVMBuildBitCast(b, LLVMBuildFPTrunc(b, value, like(e, e->f16, value), ""), like(e, e->i16, value), ""),
            type, "");
    LLVMValueRef bits = LLVMBuildBitCast(b, value, type, "");
    LLVMValueRef size = LLVMBuildAnd(b, bits, tcc_emit_int(e, type, 0x7fffffff), "");
    LLVMValueRef sign = LLVMBuildAnd(b, LLVMBuildLShr(b, bits, tcc_emit_int(e, type, 16), ""),
                                     tcc_emit_int(e, type, 0x8000), "");
    /* normal: rebase the exponent, round the 13 bits that go to nearest even; a carry makes infinity */
    LLVMValueRef odd = LLVMBuildAnd(b, LLVMBuildLShr(b, size, tcc_emit_int(e, type, 13), ""), tcc_emit_int(e, type, 1),
                                    "");
    LLVMValueRef based = LLVMBuildAdd(b, size, tcc_emit_int(e, type, -(112LL << 23) + 0xfff), "");
    LLVMValueRef normal = LLVMBuildLShr(b, LLVMBuildAdd(b, based, odd, ""), tcc_emit_int(e, type, 13), "");
    /* below 2^-14: adding 0.5 rounds at the place where f16's last bit is */
    LLVMValueRef shifted = LLVMBuildFAdd(b, LLVMBuildBitCast(b, size, wide, ""), tcc_emit_float(e, wide, 0.5), "");
    LLVMValueRef small = LLVMBuildSub(b, LLVMBuildBitCast(b, shifted, type, ""), tcc_emit_int(e, type, 0x3f000000), "");
    LLVMValueRef half = tcc_emit_select(e, LLVMBuildICmp(b, LLVMIntULT, size, tcc_emit_int(e, type, 0x38800000), ""),
                                        small, normal);
    LLVMValueRef large = LLVMBuildICmp(b, LLVMIntUGE, size, tcc_emit_int(e, type, 0x47800000), "");
    half = tcc_emit_select(e, large, tcc_emit_int(e, type, 0x7c00), half);
    LLVMValueRef nan = LLVMBuildOr(
        b, tcc_emit_int(e, type, 0x7e00),
        LLVMBuildAnd(b, LLVMBuildLShr(b, size, tcc_emit_int(e, type, 13), ""), tcc_emit_int(e, type, 0x3ff), ""), "");
    half = tcc_emit_select(e, LLVMBuildICmp(b, LLVMIntUGT, size, tcc_emit_int(e, type, 0x7f800000), ""), nan, half);
    return LLVMBuildOr(b, half, sign, "");
}

LLVMValueRef tcc_scalar_from_memory(tcc_emitter *e, LLVMValueRef value, tcc_dtype dtype) {
    switch (dtype) {
    case TCC_F16: return f16_value(e, LLVMBuildZExt(e->builder, value, like(e, e->i32, value), ""));
    case TCC_BF16: return bf16_value(e, LLVMBuildZExt(e->builder, value, like(e, e->i32, value), ""));
    case TCC_U8: return LLVMBuildZExt(e->builder, value, like(e, e->i32, value), "");
    case TCC_BOOL: return LLVMBuildICmp(e->builder, LLVMIntNE, value, tcc_emit_int(e, LLVMTypeOf(value), 0), "");
    default: return value;
    }
}

LLVMValueRef tcc_scalar_to_memory(tcc_emitter *e, LLVMValueRef value, tcc_dtype dtype) {
    switch (dtype) {
    case TCC_F16: return LLVMBuildTrunc(e->builder, f16_bits(e, value), like(e, e->i16, value), "");
    case TCC_BF16: return tcc_scalar_rounded_to_memory(e, tcc_emit_cast_bf16(e, value), dtype);
    case TCC_U8: return LLVMBuildTrunc(e->builder, value, like(e, e->i8, value), "");
    case TCC_BOOL: return LLVMBuildZExt(e->builder, value, like(e, e->i8, value), "");
    default: return value;
    }
}

/* The 16 bits that x was made of, where it was; else NULL. LLVM sees that only within one block. */
static LLVMValueRef bits_behind(LLVMValueRef x) {
    if (!LLVMIsABitCastInst(x)) return NULL;
    LLVMValueRef up = LLVMGetOperand(x, 0), bits;
    if (!LLVMIsAInstruction(up) || LLVMGetInstructionOpcode(up) != LLVMShl) return NULL;
    bits = LLVMGetOperand(up, 0);
    return LLVMIsAZExtInst(bits) ? LLVMGetOperand(bits, 0) : NULL;
}

LLVMValueRef tcc_scalar_rounded_to_memory(tcc_emitter *e, LLVMValueRef value, tcc_dtype dtype) {
    if (dtype != TCC_BF16) return tcc_scalar_to_memory(e, value, dtype);
    LLVMValueRef before = bits_behind(value);
    if (before) return before;
    LLVMTypeRef type = like(e, e->i32, value);
    LLVMValueRef bits = LLVMBuildBitCast(e->builder, value, type, "");
    LLVMValueRef high = LLVMBuildLShr(e->builder, bits, tcc_emit_int(e, type, 16), "");
    return LLVMBuildTrunc(e->builder, high, like(e, e->i16, value), "");
}

LLVMValueRef tcc_scalar_round(tcc_emitter *e, LLVMValueRef value, tcc_dtype dtype) {
    return dtype == TCC_BF16 ? tcc_emit_round_bf16(e, value) : f16_value(e, f16_bits(e, value));
}

static LLVMValueRef float_to_integer(tcc_emitter *e, LLVMValueRef value, LLVMTypeRef scalar) {
    LLVMTypeRef overloads[] = {like(e, scalar, value), LLVMTypeOf(value)};
    unsigned id = LLVMLookupIntrinsicID("llvm.fptosi.sat", 15);
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(e->module, id, overloads, 2);
    return LLVMBuildCall2(e->builder, LLVMIntrinsicGetType(e->context, id, overloads, 2), function, &value, 1, "");
}

/* An f64 as the f32 that rounds on to any shorter float as the f64 itself would: to nearest, but odd in the last bit
 * when inexact (Boldo and Melquiond 2008). */
static LLVMValueRef to_odd_f32(tcc_emitter *e, LLVMValueRef x) {
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef type = like(e, e->i32, x), single = like(e, e->f32, x);
    LLVMValueRef near = LLVMBuildFPTrunc(b, x, single, ""), back = LLVMBuildFPExt(b, near, LLVMTypeOf(x), "");
    LLVMValueRef bits = LLVMBuildBitCast(b, near, type, ""), one = tcc_emit_int(e, type, 1),
                 zero = tcc_emit_int(e, type, 0);
    LLVMValueRef above = LLVMBuildFCmp(b, LLVMRealOGT, back, x, ""),
                 negative = LLVMBuildICmp(b, LLVMIntSLT, bits, zero, "");
    LLVMValueRef too_far = LLVMBuildXor(b, above, negative, "");
    LLVMValueRef even = LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildAnd(b, bits, one, ""), zero, "");
    LLVMValueRef moves = LLVMBuildAnd(b, even, LLVMBuildFCmp(b, LLVMRealONE, back, x, ""), "");
    LLVMValueRef odd = LLVMBuildAdd(b, bits, tcc_emit_select(e, too_far, tcc_emit_int(e, type, -1), one), "");
    return LLVMBuildBitCast(b, tcc_emit_select(e, moves, odd, bits), single, "");
}

LLVMValueRef tcc_scalar_convert(tcc_emitter *e, LLVMValueRef value, tcc_dtype from, tcc_dtype to) {
    if (from == to) return value;
    LLVMTypeRef type = like(e, tcc_scalar_register(e, to), value);
    LLVMBuilderRef b = e->builder;
    if (tcc_dtype_is_float(from)) {
        if (to == TCC_BOOL) return LLVMBuildFCmp(b, LLVMRealUNE, value, tcc_emit_float(e, LLVMTypeOf(value), 0), "");
        if (to == TCC_F64) return LLVMBuildFPExt(b, value, type, "");
        if (tcc_dtype_is_float(to)) {
            if (from == TCC_F64) value = to == TCC_F32 ? LLVMBuildFPTrunc(b, value, type, "") : to_odd_f32(e, value);
            if (to == TCC_F16) return f16_value(e, f16_bits(e, value));
            return to == TCC_BF16 ? tcc_emit_cast_bf16(e, value) : value;
        }
        LLVMValueRef whole = float_to_integer(e, value, to == TCC_I64 ? e->i64 : e->i32);
        if (to != TCC_U8) return whole;
        LLVMValueRef least = tcc_emit_int(e, type, 0), most = tcc_emit_int(e, type, 255);
        whole = tcc_emit_select(e, LLVMBuildICmp(b, LLVMIntSLT, whole, least, ""), least, whole);
        return tcc_emit_select(e, LLVMBuildICmp(b, LLVMIntSGT, whole, most, ""), most, whole);
    }
    if (to == TCC_BOOL) return LLVMBuildICmp(b, LLVMIntNE, value, tcc_emit_int(e, LLVMTypeOf(value), 0), "");
    if (tcc_dtype_is_float(to)) {
        const bool narrow = tcc_dtype_is_narrow(to), twice = narrow && (from == TCC_I32 || from == TCC_I64);
        if (twice) type = like(e, e->f64, value); /* f32 would round too */
        LLVMValueRef x = from == TCC_BOOL ? LLVMBuildUIToFP(b, value, type, "") : LLVMBuildSIToFP(b, value, type, "");
        return narrow ? tcc_scalar_convert(e, x, twice ? TCC_F64 : TCC_F32, to) : x;
    }
    if (to == TCC_I64) return from == TCC_I32 ? LLVMBuildSExt(b, value, type, "") : LLVMBuildZExt(b, value, type, "");
    LLVMValueRef narrow = from == TCC_I64    ? LLVMBuildTrunc(b, value, type, "")
                          : from == TCC_BOOL ? LLVMBuildZExt(b, value, type, "")
                                             : value;
    return to == TCC_U8 ? LLVMBuildAnd(b, narrow, tcc_emit_int(e, type, 255), "") : narrow;
}
