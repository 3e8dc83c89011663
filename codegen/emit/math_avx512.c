/* SPDX-License-Identifier: MIT
 * Elementary functions on f32 that are shorter with AVX-512. One instruction multiplies by a power of two that may lie
 * beyond the range of exponents. Others take a number apart. */
#include "codegen/emit/math_tables.h"

enum { LANES = 16, ALL = 0xffff, ROUND_AS_USUAL = 4 };

bool tcc_math_has_avx512(const tcc_emitter *e) { return e->target->lanes == LANES; }

static tcc_emit_value scale(tcc_emitter *e, tcc_emit_value x, tcc_emit_value whole) {
    tcc_emit_value arguments[] = {x, whole, x, LLVMConstInt(e->i16, ALL, false), tcc_emit_i32(e, ROUND_AS_USUAL)};
    return tcc_emit_intrinsic(e, "llvm.x86.avx512.mask.scalef.ps.512", NULL, arguments, 5);
}

tcc_emit_value tcc_math_avx512_scale(tcc_emitter *e, tcc_emit_value x, tcc_emit_value whole) {
    return tcc_math_by_parts(e, scale, x, whole);
}

/* k of |x| = 2^k m, 1 <= m < 2; -inf of 0. Denormals are numbers like others. */
static tcc_emit_value exponent_of(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value arguments[] = {x, x, LLVMConstInt(e->i16, ALL, false), tcc_emit_i32(e, ROUND_AS_USUAL)};
    return tcc_emit_intrinsic(e, "llvm.x86.avx512.mask.getexp.ps.512", NULL, arguments, 4);
}

/* x divided by the power of two that brings it into [3/4, 3/2). */
static tcc_emit_value mantissa_of(tcc_emitter *e, tcc_emit_value x) {
    enum { FROM_THREE_QUARTERS = 3 };
    tcc_emit_value arguments[] = {x, tcc_emit_i32(e, FROM_THREE_QUARTERS), x, LLVMConstInt(e->i16, ALL, false),
                                  tcc_emit_i32(e, ROUND_AS_USUAL)};
    return tcc_emit_intrinsic(e, "llvm.x86.avx512.mask.getmant.ps.512", NULL, arguments, 5);
}

/* y, or where x is no positive number its logarithm: 0 -> -inf, negative -> NaN, inf -> inf, NaN -> NaN. */
static tcc_emit_value log_of_others(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y) {
    /* Four bits for each of: quiet NaN, signalling NaN, 0, 1, -inf, inf, other negative, other positive. */
    enum { OTHERS = 0x03530422 };
    tcc_emit_value arguments[] = {y,
                                  x,
                                  integer(e, x, OTHERS),
                                  tcc_emit_i32(e, 0),
                                  LLVMConstInt(e->i16, ALL, false),
                                  tcc_emit_i32(e, ROUND_AS_USUAL)};
    return tcc_emit_intrinsic(e, "llvm.x86.avx512.mask.fixupimm.ps.512", NULL, arguments, 6);
}

/* x = 2^k m, 3/4 <= m < 3/2: k ln 2 - log(c) + log(1 + r), 1 + r = c m, with c near 1 / m by the four highest bits of
 * m's fraction. Each c is a number whose logarithm is nearly a multiple of 2^-16, so that it and k ln 2 are added
 * without rounding; around 1 it is 1, so that small results keep their relative precision.
 * log(1 + r) = r + r^2 q(r), -0.032 < r <= 0.0625: 2.9e-9. */
static tcc_emit_value log_of(tcc_emitter *e, tcc_emit_value x, tcc_emit_value unused) {
    static const float c[LANES] = {1.0f,         0.915427923f, 0.862896144f, 0.821298301f, 0.779430866f, 0.745931625f,
                                   0.710872054f, 0.679261386f, 1.30205858f,  1.25771153f,  1.20997238f,  1.16212857f,
                                   1.12193096f,  1.08003759f,  1.04441512f,  1.0f};
    static const float minus_log_c[LANES] = {0.0f,          0.0883636475f,  0.147460938f,   0.196868896f,
                                             0.249191284f,  0.293121338f,   0.341262817f,   0.386749268f,
                                             -0.263946533f, -0.229293823f,  -0.190597534f,  -0.150253296f,
                                             -0.11505127f,  -0.0769958496f, -0.0434570312f, 0.0f};
    static const float q[] = {-0.5f, 0.33334446f, -0.250066459f, 0.188551709f};
    (void)unused;
    tcc_emit_value m = mantissa_of(e, x), k = sub(e, exponent_of(e, x), exponent_of(e, m));
    tcc_emit_value index = tcc_emit_lshr(e, to_bits(e, m), integer(e, x, 19));
    tcc_emit_value r = tcc_emit_fma(e, m, tcc_math_look_up(e, c, index), constant(e, x, -1));
    tcc_emit_value high = tcc_emit_fma(e, k, constant(e, x, 0.693145751953125),
                                       tcc_math_look_up(e, minus_log_c, index));
    tcc_emit_value sum = add(e, high, r), lost = sub(e, r, sub(e, sum, high)); /* |high| > |r|, or 0 */
    tcc_emit_value tail = tcc_emit_fma(e, mul(e, r, r), tcc_math_polynomial(e, r, q, COUNT(q)), lost);
    tail = tcc_emit_fma(e, k, constant(e, x, 1.42860677e-6), tail);
    return log_of_others(e, x, add(e, sum, tail));
}

tcc_emit_value tcc_math_avx512_log(tcc_emitter *e, tcc_emit_value x) { return tcc_math_by_parts(e, log_of, x, NULL); }
