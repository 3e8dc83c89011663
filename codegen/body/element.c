/* SPDX-License-Identifier: MIT
 * Element types: registers and memory, and conversions between them. */
#include "codegen/body/body.h"

static tcc_emit_type like(tcc_emitter *e, tcc_emit_type scalar, tcc_emit_value v) {
    return tcc_emit_type_like(e, scalar, tcc_emit_type_of(v));
}

tcc_emit_type tcc_scalar_register(tcc_emitter *e, tcc_dtype dtype) {
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

/* f16 to and from its bits, as i32. Integer arithmetic where the target has no instruction: a library's function cannot
 * be called. */
static tcc_emit_value f16_value(tcc_emitter *e, tcc_emit_value bits) {
    tcc_emit_type type = tcc_emit_type_of(bits), wide = like(e, e->f32, bits);
    if (e->target->f16)
        return tcc_emit_fpext(
            e, tcc_emit_bitcast(e, tcc_emit_trunc(e, bits, like(e, e->i16, bits)), like(e, e->f16, bits)), wide);
    tcc_emit_value sign = tcc_emit_shl(e, tcc_emit_and(e, bits, tcc_emit_int(e, type, 0x8000)),
                                       tcc_emit_int(e, type, 16));
    tcc_emit_value rest = tcc_emit_and(e, bits, tcc_emit_int(e, type, 0x7fff));
    tcc_emit_value moved = tcc_emit_shl(e, rest, tcc_emit_int(e, type, 13)); /* the value, 2^112 times too small */
    tcc_emit_value scaled = tcc_emit_fmul(e, tcc_emit_bitcast(e, moved, wide), tcc_emit_float(e, wide, 0x1p112));
    tcc_emit_value special = tcc_emit_or(e, moved, tcc_emit_int(e, type, 0x7f800000));
    tcc_emit_value is_special = tcc_emit_icmp(e, TCC_ICMP_UGE, rest, tcc_emit_int(e, type, 0x7c00));
    tcc_emit_value size = tcc_emit_select(e, is_special, special, tcc_emit_bitcast(e, scaled, type));
    return tcc_emit_bitcast(e, tcc_emit_or(e, size, sign), wide);
}

static tcc_emit_value f16_bits(tcc_emitter *e, tcc_emit_value value) {
    tcc_emit_type type = like(e, e->i32, value), wide = tcc_emit_type_of(value);
    if (e->target->f16)
        return tcc_emit_zext(
            e, tcc_emit_bitcast(e, tcc_emit_fptrunc(e, value, like(e, e->f16, value)), like(e, e->i16, value)), type);
    tcc_emit_value bits = tcc_emit_bitcast(e, value, type);
    tcc_emit_value size = tcc_emit_and(e, bits, tcc_emit_int(e, type, 0x7fffffff));
    tcc_emit_value sign = tcc_emit_and(e, tcc_emit_lshr(e, bits, tcc_emit_int(e, type, 16)),
                                       tcc_emit_int(e, type, 0x8000));
    /* normal: rebase the exponent, round the 13 bits that go to nearest even; a carry makes infinity */
    tcc_emit_value odd = tcc_emit_and(e, tcc_emit_lshr(e, size, tcc_emit_int(e, type, 13)), tcc_emit_int(e, type, 1));
    tcc_emit_value based = tcc_emit_iadd(e, size, tcc_emit_int(e, type, -(112LL << 23) + 0xfff));
    tcc_emit_value normal = tcc_emit_lshr(e, tcc_emit_iadd(e, based, odd), tcc_emit_int(e, type, 13));
    /* below 2^-14: adding 0.5 rounds at the place where f16's last bit is */
    tcc_emit_value shifted = tcc_emit_fadd(e, tcc_emit_bitcast(e, size, wide), tcc_emit_float(e, wide, 0.5));
    tcc_emit_value small = tcc_emit_isub(e, tcc_emit_bitcast(e, shifted, type), tcc_emit_int(e, type, 0x3f000000));
    tcc_emit_value half = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_ULT, size, tcc_emit_int(e, type, 0x38800000)),
                                          small, normal);
    tcc_emit_value large = tcc_emit_icmp(e, TCC_ICMP_UGE, size, tcc_emit_int(e, type, 0x47800000));
    half = tcc_emit_select(e, large, tcc_emit_int(e, type, 0x7c00), half);
    tcc_emit_value nan =
        tcc_emit_or(e, tcc_emit_int(e, type, 0x7e00),
                    tcc_emit_and(e, tcc_emit_lshr(e, size, tcc_emit_int(e, type, 13)), tcc_emit_int(e, type, 0x3ff)));
    half = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_UGT, size, tcc_emit_int(e, type, 0x7f800000)), nan, half);
    return tcc_emit_or(e, half, sign);
}

tcc_emit_value tcc_scalar_from_memory(tcc_emitter *e, tcc_emit_value value, tcc_dtype dtype) {
    switch (dtype) {
    case TCC_F16: return f16_value(e, tcc_emit_zext(e, value, like(e, e->i32, value)));
    case TCC_BF16: return tcc_emit_from_bf16(e, value);
    case TCC_U8: return tcc_emit_zext(e, value, like(e, e->i32, value));
    case TCC_BOOL: return tcc_emit_icmp(e, TCC_ICMP_NE, value, tcc_emit_int(e, tcc_emit_type_of(value), 0));
    default: return value;
    }
}

tcc_emit_value tcc_scalar_to_memory(tcc_emitter *e, tcc_emit_value value, tcc_dtype dtype) {
    switch (dtype) {
    case TCC_F16: return tcc_emit_trunc(e, f16_bits(e, value), like(e, e->i16, value));
    case TCC_BF16: return tcc_scalar_rounded_to_memory(e, tcc_emit_cast_bf16(e, value), dtype);
    case TCC_U8: return tcc_emit_trunc(e, value, like(e, e->i8, value));
    case TCC_BOOL: return tcc_emit_zext(e, value, like(e, e->i8, value));
    default: return value;
    }
}

tcc_emit_value tcc_scalar_rounded_to_memory(tcc_emitter *e, tcc_emit_value value, tcc_dtype dtype) {
    if (dtype != TCC_BF16) return tcc_scalar_to_memory(e, value, dtype);
    tcc_emit_value before = tcc_emit_bits_behind(e, value);
    if (before) return before;
    tcc_emit_type type = like(e, e->i32, value);
    tcc_emit_value bits = tcc_emit_bitcast(e, value, type);
    tcc_emit_value high = tcc_emit_lshr(e, bits, tcc_emit_int(e, type, 16));
    return tcc_emit_trunc(e, high, like(e, e->i16, value));
}

tcc_emit_value tcc_scalar_round(tcc_emitter *e, tcc_emit_value value, tcc_dtype dtype) {
    return dtype == TCC_BF16 ? tcc_emit_round_bf16(e, value) : f16_value(e, f16_bits(e, value));
}

/* An f64 as the f32 that rounds on to any shorter float as the f64 itself would: to nearest, but odd in the last bit
 * when inexact (Boldo and Melquiond 2008). */
static tcc_emit_value to_odd_f32(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_type type = like(e, e->i32, x), single = like(e, e->f32, x);
    tcc_emit_value near = tcc_emit_fptrunc(e, x, single), back = tcc_emit_fpext(e, near, tcc_emit_type_of(x));
    tcc_emit_value bits = tcc_emit_bitcast(e, near, type), one = tcc_emit_int(e, type, 1),
                   zero = tcc_emit_int(e, type, 0);
    tcc_emit_value above = tcc_emit_fcmp(e, TCC_FCMP_OGT, back, x),
                   negative = tcc_emit_icmp(e, TCC_ICMP_SLT, bits, zero);
    tcc_emit_value too_far = tcc_emit_xor(e, above, negative);
    tcc_emit_value even = tcc_emit_icmp(e, TCC_ICMP_EQ, tcc_emit_and(e, bits, one), zero);
    tcc_emit_value moves = tcc_emit_and(e, even, tcc_emit_fcmp(e, TCC_FCMP_ONE, back, x));
    tcc_emit_value odd = tcc_emit_iadd(e, bits, tcc_emit_select(e, too_far, tcc_emit_int(e, type, -1), one));
    return tcc_emit_bitcast(e, tcc_emit_select(e, moves, odd, bits), single);
}

tcc_emit_value tcc_scalar_convert(tcc_emitter *e, tcc_emit_value value, tcc_dtype from, tcc_dtype to) {
    if (from == to) return value;
    tcc_emit_type type = like(e, tcc_scalar_register(e, to), value);
    if (tcc_dtype_is_float(from)) {
        if (to == TCC_BOOL) return tcc_emit_fcmp(e, TCC_FCMP_UNE, value, tcc_emit_float(e, tcc_emit_type_of(value), 0));
        if (to == TCC_F64) return tcc_emit_fpext(e, value, type);
        if (tcc_dtype_is_float(to)) {
            if (from == TCC_F64) value = to == TCC_F32 ? tcc_emit_fptrunc(e, value, type) : to_odd_f32(e, value);
            if (to == TCC_F16) return f16_value(e, f16_bits(e, value));
            return to == TCC_BF16 ? tcc_emit_cast_bf16(e, value) : value;
        }
        tcc_emit_value whole = tcc_emit_fptosi_sat(e, value, to == TCC_I64 ? e->i64 : e->i32);
        if (to != TCC_U8) return whole;
        tcc_emit_value least = tcc_emit_int(e, type, 0), most = tcc_emit_int(e, type, 255);
        whole = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SLT, whole, least), least, whole);
        return tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SGT, whole, most), most, whole);
    }
    if (to == TCC_BOOL) return tcc_emit_icmp(e, TCC_ICMP_NE, value, tcc_emit_int(e, tcc_emit_type_of(value), 0));
    if (tcc_dtype_is_float(to)) {
        const bool narrow = tcc_dtype_is_narrow(to), twice = narrow && (from == TCC_I32 || from == TCC_I64);
        if (twice) type = like(e, e->f64, value); /* f32 would round too */
        tcc_emit_value x = from == TCC_BOOL ? tcc_emit_uitofp(e, value, type) : tcc_emit_sitofp(e, value, type);
        return narrow ? tcc_scalar_convert(e, x, twice ? TCC_F64 : TCC_F32, to) : x;
    }
    if (to == TCC_I64) return from == TCC_I32 ? tcc_emit_sext(e, value, type) : tcc_emit_zext(e, value, type);
    tcc_emit_value narrow = from == TCC_I64    ? tcc_emit_trunc(e, value, type)
                            : from == TCC_BOOL ? tcc_emit_zext(e, value, type)
                                               : value;
    return to == TCC_U8 ? tcc_emit_and(e, narrow, tcc_emit_int(e, type, 255)) : narrow;
}
