/* SPDX-License-Identifier: MIT
 * Functions on f32 that lose digits where a step is rounded, so its two parts are kept: what the step gives and what
 * its rounding lost. All arithmetic is on f32, and the parts are summed last. Polynomials are minimax fits with f32
 * coefficients (relative error of the function). */
#include "codegen/emit/math_ops.h"

static const double LN2_HIGH = 0.693145751953125, LN2_LOW = 1.42860677e-6; /* n times the former is exact */

/* a + b, |a| >= |b| or a = 0, and *lost by its rounding. */
static tcc_emit_value sum_of(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, tcc_emit_value *lost) {
    tcc_emit_value sum = add(e, a, b);
    *lost = sub(e, b, sub(e, sum, a));
    return sum;
}

static tcc_emit_value select_less(tcc_emitter *e, tcc_emit_value x, double limit, tcc_emit_value yes,
                                  tcc_emit_value no) {
    return tcc_emit_select(e, tcc_emit_fcmp(e, TCC_FCMP_OLT, x, constant(e, x, limit)), yes, no);
}

/* The integer n that is next to x, which must not exceed 2^21; in *sum, n + bias in the low bits. */
static tcc_emit_value nearest(tcc_emitter *e, tcc_emit_value x, double factor, int bias, tcc_emit_value *sum) {
    tcc_emit_value magic = constant(e, x, MAGIC + bias);
    *sum = tcc_emit_fma(e, x, constant(e, x, factor), magic);
    return sub(e, *sum, magic);
}

/* The half's exponent, with its bias, is one less or the same as the other's. */
tcc_emit_value tcc_math_halves(tcc_emitter *e, tcc_emit_value sum, tcc_emit_value *last) {
    tcc_emit_value bits = to_bits(e, sum), both = tcc_emit_shl(e, bits, integer(e, sum, 23));
    tcc_emit_value half = tcc_emit_and(e, tcc_emit_shl(e, bits, integer(e, sum, 22)), integer(e, sum, 0x7f800000));
    *last = from_bits(e, tcc_emit_isub(e, both, half), sum);
    return from_bits(e, half, sum);
}

/* x 2^n, rounded once, of x near 1 and |n| below 254; `whole` is n, and `sum` has n + 2 BIAS in its low bits. */
static tcc_emit_value scale(tcc_emitter *e, tcc_emit_value x, tcc_emit_value sum, tcc_emit_value whole) {
    if (tcc_math_has_avx512(e)) return tcc_math_avx512_scale(e, x, whole);
    tcc_emit_value last, first = tcc_math_halves(e, sum, &last);
    return mul(e, mul(e, x, first), last);
}

/* 2^n (1 + r p(r)), x = n + r. */
tcc_emit_value tcc_math_exp2(tcc_emitter *e, tcc_emit_value x) {
    static const float p[] = {0.693147182f,   0.240226477f,   0.0555035993f,
                              0.00961850584f, 0.00133908063f, 0.000153264627f}; /* 3.0e-9 */
    tcc_emit_value in = tcc_math_at_least(e, tcc_math_at_most(e, x, 129), -151), sum;
    tcc_emit_value whole = nearest(e, in, 1, 2 * BIAS, &sum);
    tcc_emit_value r = sub(e, in, whole), one = constant(e, x, 1);
    return scale(e, tcc_emit_fma(e, r, tcc_math_polynomial(e, r, p, COUNT(p)), one), sum, whole);
}

/* Half of 2^n (1 + r + q) - 1 = (2^n - 1) + 2^n r + 2^n q, so that 2^n is a number; q = lost + r^2 p(r). */
tcc_emit_value tcc_math_expm1(tcc_emitter *e, tcc_emit_value x) {
    static const float p[] = {0.5f,           0.166666657f,   0.0416664928f,
                              0.00833354611f, 0.00139323215f, 0.00019761725f}; /* 4.3e-10 */
    tcc_emit_value in = tcc_math_at_least(e, tcc_math_at_most(e, x, 89), -20), sum_of_n;
    tcc_emit_value whole = nearest(e, in, 1.44269504, BIAS - 1, &sum_of_n), low = constant(e, x, -LN2_LOW);
    tcc_emit_value rough = tcc_emit_fma(e, whole, constant(e, x, -LN2_HIGH), in);
    tcc_emit_value r = tcc_emit_fma(e, whole, low, rough), lost = tcc_emit_fma(e, whole, low, sub(e, rough, r));
    tcc_emit_value q = tcc_emit_fma(e, mul(e, r, r), tcc_math_polynomial(e, r, p, COUNT(p)), lost);
    tcc_emit_value half = power_of_low_bits(e, sum_of_n), rest;
    tcc_emit_value sum = sum_of(e, sub(e, half, constant(e, x, 0.5)), mul(e, half, r), &rest);
    tcc_emit_value y = add(e, sum, tcc_emit_fma(e, half, q, rest));
    return select_less(e, tcc_math_abs(e, x), 0x1p-26, x, add(e, y, y)); /* of -0 too */
}

/* |x| = n ln 2 + r: with c = cosh r - 1 and s = sinh r, e^r = 1 + c + s and e^-r = 1 + c - s. So the sum and the
 * difference of 2^n e^r and 2^-n e^-r need no quotient. Powers are a quarter of what they are called, which is a number
 * up to where the result is infinite. */
typedef struct hyperbolic {
    tcc_emit_value c, s;
    tcc_emit_value up, down, sum, difference; /* 2^n / 4, 2^-n / 4; of both */
} hyperbolic;

static hyperbolic hyperbolic_of(tcc_emitter *e, tcc_emit_value x) {
    static const float even[] = {0.5f, 0.0416664593f, 0.00139354286f};          /* 9.9e-11 */
    static const float odd[] = {0.166666672f, 0.00833317544f, 0.000199740971f}; /* 4.7e-11 */
    tcc_emit_value in = tcc_math_at_most(e, tcc_math_abs(e, x), 89.5), sum, none = integer(e, x, 0);
    tcc_emit_value whole = nearest(e, in, 1.44269504, BIAS - 2, &sum);
    tcc_emit_value r = tcc_emit_fma(e, whole, constant(e, x, -LN2_HIGH), in);
    r = tcc_emit_fma(e, whole, constant(e, x, -LN2_LOW), r);
    tcc_emit_value square = mul(e, r, r), up = power_of_low_bits(e, sum);
    /* The exponents of both, with their biases, have one sum; a power that has no number does not count. */
    tcc_emit_value bits = tcc_emit_isub(e, integer(e, x, (int64_t)(2 * (BIAS - 2)) << 23), to_bits(e, up));
    bits = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SGT, bits, none), bits, none);
    tcc_emit_value down = from_bits(e, bits, x);
    return (hyperbolic){.c = mul(e, square, tcc_math_polynomial(e, square, even, COUNT(even))),
                        .s = tcc_emit_fma(e, mul(e, square, r), tcc_math_polynomial(e, square, odd, COUNT(odd)), r),
                        .up = up,
                        .down = down,
                        .sum = add(e, up, down),
                        .difference = sub(e, up, down)};
}

/* (up - down) (1 + c) + (up + down) s */
tcc_emit_value tcc_math_sinh(tcc_emitter *e, tcc_emit_value x) {
    hyperbolic h = hyperbolic_of(e, x);
    tcc_emit_value y = add(e, h.difference, tcc_emit_fma(e, h.sum, h.s, mul(e, h.difference, h.c)));
    tcc_emit_value a = tcc_math_abs(e, x);
    y = select_less(e, a, 0x1p-13, a, add(e, y, y)); /* a quarter of a denormal is no number */
    return copy_sign(e, y, x);
}

/* (up + down) (1 + c) + (up - down) s, to `up` last: its sum with `down` would be rounded once more. */
tcc_emit_value tcc_math_cosh(tcc_emitter *e, tcc_emit_value x) {
    hyperbolic h = hyperbolic_of(e, x);
    tcc_emit_value y = tcc_emit_fma(e, h.difference, h.s, tcc_emit_fma(e, h.sum, h.c, h.down));
    y = add(e, h.up, y);
    return add(e, y, y);
}

/* 1 + x = u + lost, u = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2): k ln 2 + log(1 + f + lost / 2^k). */
tcc_emit_value tcc_math_log1p(tcc_emitter *e, tcc_emit_value x) {
    static const float p[] = {0.333333135f,  -0.250000089f, 0.200020716f,  -0.166679889f, 0.142203599f,
                              -0.124062411f, 0.118835397f,  -0.116700068f, 0.0674915463f}; /* 7.7e-10 */
    enum { ROOT = 0x3f3504f3, ONE = 0x3f800000 };
    if (e->target->functions->log1p) return e->target->functions->log1p(e, x);
    tcc_emit_value one = constant(e, x, 1), lost,
                   u = sum_of(e, tcc_math_at_least(e, x, 1), tcc_math_at_most(e, x, 1), &lost);
    /* The exponent that brings the mantissa there: carry out of the bits of sqrt(1/2). */
    tcc_emit_value bits = to_bits(e, u), places = integer(e, x, 23);
    tcc_emit_value k = tcc_emit_ashr(e, tcc_emit_isub(e, bits, integer(e, x, ROOT)), places);
    tcc_emit_value exponent = tcc_emit_shl(e, k, places);
    tcc_emit_value f = sub(e, from_bits(e, tcc_emit_isub(e, bits, exponent), x), one);
    /* Of the largest u, which has lost nothing that counts, 2^-k is no number. */
    tcc_emit_value scale = tcc_emit_isub(e, integer(e, x, ONE), exponent), none = integer(e, x, 0);
    tcc_emit_value positive = tcc_emit_icmp(e, TCC_ICMP_SGT, scale, none);
    lost = mul(e, lost, from_bits(e, tcc_emit_select(e, positive, scale, none), x));
    tcc_emit_value f2 = mul(e, f, f), tail = mul(e, mul(e, f2, f), tcc_math_polynomial(e, f, p, COUNT(p))), rest;
    tail = tcc_emit_fma(e, f2, constant(e, x, -0.5), tail);
    tail = add(e, tail, tcc_emit_fma(e, tcc_emit_fneg(e, lost), f, lost));
    tcc_emit_value whole = tcc_emit_sitofp(e, k, tcc_emit_type_of(x));
    tail = tcc_emit_fma(e, whole, constant(e, x, LN2_LOW), tail);
    tcc_emit_value y = sum_of(e, mul(e, whole, constant(e, x, LN2_HIGH)), f, &rest);
    y = copy_sign(e, add(e, y, add(e, rest, tail)), x);
    y = select_less(e, x, __builtin_inf(), y, x); /* NaN too */
    tcc_emit_value none_left = tcc_emit_fcmp(e, TCC_FCMP_OEQ, x, constant(e, x, -1));
    y = tcc_emit_select(e, none_left, constant(e, x, -__builtin_inf()), y);
    return select_less(e, x, -1, constant(e, x, __builtin_nan("")), y);
}

/* t + t^3 p(t^2) up to 1; beyond, pi / 2 and that of t = -1 / |x|. */
tcc_emit_value tcc_math_atan(tcc_emitter *e, tcc_emit_value x) {
    static const float p[] = {-0.333332986f, 0.19998531f,    -0.142640516f, 0.109511748f,  -0.0840047523f,
                              0.0579065457f, -0.0311270021f, 0.0108873611f, -0.0017875476f}; /* 2.6e-9 */
    tcc_emit_value a = tcc_math_abs(e, x), one = constant(e, x, 1), zero = constant(e, x, 0), lost;
    tcc_emit_value steep = tcc_emit_fcmp(e, TCC_FCMP_OGT, a, one);
    tcc_emit_value t = quotient(e, tcc_emit_select(e, steep, constant(e, x, -1), a), tcc_emit_select(e, steep, a, one));
    tcc_emit_value z = mul(e, t, t), tail = mul(e, mul(e, t, z), tcc_math_polynomial(e, z, p, COUNT(p)));
    tcc_emit_value high = tcc_emit_select(e, steep, constant(e, x, 0x1.921fb6p0), zero),
                   low = tcc_emit_select(e, steep, constant(e, x, -0x1.777a5cp-25), zero);
    tcc_emit_value sum = sum_of(e, high, t, &lost);
    return copy_sign(e, add(e, sum, add(e, lost, add(e, tail, low))), x);
}
