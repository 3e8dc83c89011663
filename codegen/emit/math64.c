/* SPDX-License-Identifier: MIT
 * Elementary functions on f64: an exact range reduction, then the Taylor series of the function on the reduced
 * argument, long enough that its remainder is below the last place. */
#include "codegen/emit/math64_ops.h"

LLVMValueRef tcc_math64_widen(tcc_emitter *e, LLVMValueRef x) {
    return LLVMBuildFPExt(e->builder, x, tcc_emit_type_like(e, e->f64, LLVMTypeOf(x)), "");
}

LLVMValueRef tcc_math64_narrow(tcc_emitter *e, LLVMValueRef x) {
    return LLVMBuildFPTrunc(e->builder, x, tcc_emit_type_like(e, e->f32, LLVMTypeOf(x)), "");
}

/* 2^n for -1022 <= n <= 1023. */
static LLVMValueRef power_of_two(tcc_emitter *e, LLVMValueRef n, LLVMValueRef like) {
    LLVMValueRef biased = LLVMBuildAdd(e->builder, n, integer(e, like, 1023), "");
    return LLVMBuildBitCast(e->builder, LLVMBuildShl(e->builder, biased, integer(e, like, 52), ""), LLVMTypeOf(like),
                            "");
}

static const double ln2_high = 0x1.62e42feep-1,
                    ln2_low = 0x1.a39ef35793c76p-33; /* the former has 21 zeros at its end */

LLVMValueRef tcc_math64_exp(tcc_emitter *e, LLVMValueRef x) {
    LLVMValueRef in = clamp(e, x, -750, 710);
    LLVMValueRef n = function(e, "llvm.roundeven", mul(e, in, constant(e, x, 0x1.71547652b82fep0)));
    LLVMValueRef r = tcc_emit_fma(e, n, constant(e, x, -ln2_high), in);
    r = tcc_emit_fma(e, n, constant(e, x, -ln2_low), r);
    static const double divisors[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    LLVMValueRef y = nested(e, r, divisors, 14);
    /* 2^n in two steps: n may leave the range of exponents by half */
    LLVMValueRef exponent = whole(e, n), half = LLVMBuildAShr(e->builder, exponent, integer(e, x, 1), "");
    y = mul(e, y, power_of_two(e, half, x));
    y = mul(e, y, power_of_two(e, LLVMBuildSub(e->builder, exponent, half, ""), x));
    y = choose(e, compare(e, LLVMRealOGT, x, 0x1.62e42fefa39efp9), constant(e, x, __builtin_inf()), y);
    return choose(e, LLVMBuildFCmp(e->builder, LLVMRealUNO, x, x, ""), x, y);
}

LLVMValueRef tcc_math64_expm1(tcc_emitter *e, LLVMValueRef x) {
    static const double divisors[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    LLVMValueRef small = mul(e, x, nested(e, x, divisors, 15));
    LLVMValueRef large = sub(e, tcc_math64_exp(e, x), constant(e, x, 1));
    return choose(e, compare(e, LLVMRealOLT, magnitude(e, x), 0.5), small, large);
}

LLVMValueRef tcc_math64_log(tcc_emitter *e, LLVMValueRef x) {
    /* x = 2^k m, sqrt(1/2) <= m < sqrt(2); denormals are scaled up first */
    LLVMValueRef tiny = compare(e, LLVMRealOLT, x, 0x1p-1022);
    LLVMValueRef scaled = choose(e, tiny, mul(e, x, constant(e, x, 0x1p54)), x);
    LLVMValueRef bits = LLVMBuildSub(e->builder, to_bits(e, scaled), integer(e, x, 0x3fe6a09e667f3bcd), "");
    LLVMValueRef k = LLVMBuildAShr(e->builder, bits, integer(e, x, 52), "");
    LLVMValueRef mantissa = LLVMBuildSub(e->builder, to_bits(e, scaled),
                                         LLVMBuildShl(e->builder, k, integer(e, x, 52), ""), "");
    LLVMValueRef m = LLVMBuildBitCast(e->builder, mantissa, LLVMTypeOf(x), "");
    k = LLVMBuildSub(e->builder, k, choose(e, tiny, integer(e, x, 54), integer(e, x, 0)), "");
    LLVMValueRef real_k = LLVMBuildSIToFP(e->builder, k, LLVMTypeOf(x), "");
    /* log m = 2 atanh(f / (2 + f)) = f - s (f - r) with s = f / (2 + f), which keeps the leading f exact */
    LLVMValueRef f = sub(e, m, constant(e, x, 1)), s = quotient(e, f, add(e, f, constant(e, x, 2))), z = mul(e, s, s);
    LLVMValueRef series = constant(e, x, 2.0 / 25);
    for (int i = 23; i >= 3; i -= 2) series = tcc_emit_fma(e, series, z, constant(e, x, 2.0 / i));
    LLVMValueRef tail = mul(e, s, sub(e, f, mul(e, z, series)));
    LLVMValueRef low = sub(e, mul(e, real_k, constant(e, x, ln2_low)), tail);
    LLVMValueRef y = add(e, mul(e, real_k, constant(e, x, ln2_high)), add(e, f, low));
    y = choose(e, compare(e, LLVMRealOEQ, x, __builtin_inf()), x, y);
    y = choose(e, compare(e, LLVMRealOEQ, x, 0), constant(e, x, -__builtin_inf()), y);
    return choose(e, compare(e, LLVMRealULT, x, 0), constant(e, x, __builtin_nan("")), y);
}

LLVMValueRef tcc_math64_log1p(tcc_emitter *e, LLVMValueRef x) {
    /* log(u) x / (u - 1) corrects for the rounding of u = 1 + x (Kahan) */
    LLVMValueRef u = add(e, x, constant(e, x, 1)), difference = sub(e, u, constant(e, x, 1));
    LLVMValueRef zero = compare(e, LLVMRealOEQ, difference, 0);
    LLVMValueRef corrected = quotient(e, mul(e, tcc_math64_log(e, u), x),
                                      choose(e, zero, constant(e, x, 1), difference));
    LLVMValueRef y = choose(e, zero, x, corrected);
    y = choose(e, compare(e, LLVMRealOEQ, x, -1), constant(e, x, -__builtin_inf()), y);
    return choose(e, compare(e, LLVMRealOEQ, x, __builtin_inf()), x, y);
}

static LLVMValueRef sine(tcc_emitter *e, LLVMValueRef x, int quarter) {
    LLVMValueRef far = compare(e, LLVMRealOGE, magnitude(e, x), 0x1p45);
    LLVMValueRef y = tcc_math64_replace_far_sines(e, tcc_math64_near_sine(e, x, quarter), x, far, quarter);
    return quarter ? y : choose(e, compare(e, LLVMRealOEQ, x, 0), x, y); /* of -0 too */
}

LLVMValueRef tcc_math64_sin(tcc_emitter *e, LLVMValueRef x) { return sine(e, x, 0); }
LLVMValueRef tcc_math64_cos(tcc_emitter *e, LLVMValueRef x) { return sine(e, x, 1); }

/* Up to 1; beyond, pi / 2 less that of 1 / |x|. Halving the angle three times, by tan(a / 2) = tan a / (1 + sqrt(1 +
 * tan^2 a)), leaves at most tan(pi / 32) < 0.1, where the series may end with x^15: what is left is below 2^-53. */
LLVMValueRef tcc_math64_atan(tcc_emitter *e, LLVMValueRef x) {
    LLVMValueRef a = magnitude(e, x), one = constant(e, x, 1), steep = compare(e, LLVMRealOGT, a, 1);
    LLVMValueRef t = quotient(e, choose(e, steep, one, a), choose(e, steep, a, one));
    for (int i = 0; i < 3; i++) t = quotient(e, t, add(e, function(e, "llvm.sqrt", tcc_emit_fma(e, t, t, one)), one));
    LLVMValueRef z = mul(e, t, t), series = constant(e, x, -1.0 / 15);
    for (int i = 13; i >= 1; i -= 2) series = tcc_emit_fma(e, series, z, constant(e, x, (i % 4 == 1 ? 1.0 : -1.0) / i));
    LLVMValueRef y = mul(e, mul(e, t, series), constant(e, x, 8));
    return copy_sign(e, choose(e, steep, sub(e, constant(e, x, 0x1.921fb54442d18p0), y), y), x);
}

LLVMValueRef tcc_math64_tanh(tcc_emitter *e, LLVMValueRef x) {
    LLVMValueRef a = clamp(e, magnitude(e, x), 0, 22);
    LLVMValueRef t = tcc_math64_expm1(e, mul(e, a, constant(e, x, 2)));
    return copy_sign(e, quotient(e, t, add(e, t, constant(e, x, 2))), x);
}

LLVMValueRef tcc_math64_sigmoid(tcc_emitter *e, LLVMValueRef x) {
    LLVMValueRef one = constant(e, x, 1);
    return quotient(e, one, add(e, one, tcc_math64_exp(e, LLVMBuildFNeg(e->builder, x, ""))));
}

LLVMValueRef tcc_math64_erf(tcc_emitter *e, LLVMValueRef x) {
    /* 2 / sqrt(pi) x e^(-x^2) (1 + 2x^2/3 (1 + 2x^2/5 (1 + ...))): all terms are positive. 110 of them reach |x| = 6,
     * from where on erf is 1. */
    LLVMValueRef a = clamp(e, magnitude(e, x), 0, 6), z = mul(e, a, a), twice = add(e, z, z);
    double divisors[110];
    for (int i = 0; i < 110; i++) divisors[i] = 2 * i + 3;
    LLVMValueRef sum = nested(e, twice, divisors, 110);
    LLVMValueRef y = mul(e, mul(e, a, constant(e, x, 0x1.20dd750429b6dp0)),
                         mul(e, tcc_math64_exp(e, LLVMBuildFNeg(e->builder, z, "")), sum));
    y = choose(e, compare(e, LLVMRealOGE, a, 6), constant(e, x, 1), y);
    return copy_sign(e, y, x);
}

LLVMValueRef tcc_math64_pow_signs(tcc_emitter *e, LLVMValueRef x, LLVMValueRef y, LLVMValueRef result) {
    LLVMBuilderRef b = e->builder;
    LLVMValueRef one = constant(e, x, 1), nan = constant(e, x, __builtin_nan(""));
    LLVMValueRef y_whole = LLVMBuildFCmp(b, LLVMRealOEQ, function(e, "llvm.floor", y), y, "");
    LLVMValueRef half = mul(e, y, constant(e, x, 0.5));
    LLVMValueRef y_odd = LLVMBuildAnd(b, y_whole,
                                      LLVMBuildFCmp(b, LLVMRealUNE, function(e, "llvm.floor", half), half, ""), "");
    LLVMValueRef negative = LLVMBuildICmp(b, LLVMIntSLT, to_bits(e, x), integer(e, x, 0), "");
    result = choose(e, LLVMBuildAnd(b, negative, y_odd, ""), LLVMBuildFNeg(b, result, ""), result);
    LLVMValueRef below = compare(e, LLVMRealOLT, x, 0), finite = compare(e, LLVMRealOGT, x, -__builtin_inf());
    LLVMValueRef fraction = LLVMBuildNot(b, y_whole, "");
    result = choose(e, LLVMBuildAnd(b, LLVMBuildAnd(b, below, finite, ""), fraction, ""), nan, result);
    result = choose(e, LLVMBuildFCmp(b, LLVMRealUNO, x, y, ""), nan, result);
    result = choose(e, compare(e, LLVMRealOEQ, x, 1), one, result);
    return choose(e, compare(e, LLVMRealOEQ, y, 0), one, result);
}

LLVMValueRef tcc_math64_pow(tcc_emitter *e, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef a = magnitude(e, x);
    /* |x| = 1 needs care where y is infinite: log is 0 */
    LLVMValueRef log = tcc_math64_log(e, a), product = mul(e, y, log);
    LLVMValueRef result = tcc_math64_exp(e, product);
    result = choose(e, compare(e, LLVMRealOEQ, a, 1), constant(e, x, 1), result);
    return tcc_math64_pow_signs(e, x, y, result);
}

LLVMValueRef tcc_math64_rem(tcc_emitter *e, LLVMValueRef x, LLVMValueRef y) {
    LLVMValueRef a = magnitude(e, x), d = magnitude(e, y), q, r = tcc_math64_remainder_once(e, a, d, &q);
    r = tcc_math64_replace_far_remainders(e, r, a, d, compare(e, LLVMRealOGE, q, 0x1p52));
    LLVMValueRef large = compare(e, LLVMRealOEQ, d, __builtin_inf()),
                 finite = compare(e, LLVMRealOLT, a, __builtin_inf());
    r = choose(e, LLVMBuildAnd(e->builder, large, finite, ""), a, r);
    return copy_sign(e, r, x);
}
