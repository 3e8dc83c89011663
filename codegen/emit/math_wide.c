/* SPDX-License-Identifier: MIT
 * Functions on f32 that need more digits inside than f32 has. They compute in f64, with polynomials that are as short
 * as an f32 result allows. Each polynomial is minimax (its relative error stands beside it), with an error of some
 * hundredths of the last place of f32 at most. So results are the nearest f32, except where the exact value lies close
 * to the middle of two. Special values are selected on the f32 result, where a vector is half as wide. */
#include "codegen/emit/math64_ops.h"

static const double ln2 = 0x1.62e42fefa39efp-1;

static tcc_emit_value polynomial(tcc_emitter *e, tcc_emit_value x, const double *coefficients, int count) {
    tcc_emit_value sum = constant(e, x, coefficients[count - 1]);
    for (int i = count - 2; i >= 0; i--) sum = tcc_emit_fma(e, sum, x, constant(e, x, coefficients[i]));
    return sum;
}

/* exp(r) - 1, |r| <= ln(2) / 2. */
static tcc_emit_value expm1_of_rest(tcc_emitter *e, tcc_emit_value r) {
    static const double p[] = {0.99999999999550544,    0.49999999999955071,   0.16666666786380441,
                               0.041666666786337555,   0.0083332835187681053, 0.0013888839090641379,
                               0.00019907582591325133, 2.4867883453521804e-5}; /* 4.7e-12 */
    return mul(e, r, polynomial(e, r, p, COUNT(p)));
}

/* 2^n of an n that lies in the low bits of `shifted`. */
static tcc_emit_value power_of_two(tcc_emitter *e, tcc_emit_value shifted) {
    tcc_emit_value exponent = tcc_emit_shl(e, to_bits(e, shifted), integer(e, shifted, 52));
    return from_bits(e, tcc_emit_iadd(e, exponent, integer(e, shifted, 0x3ff0000000000000)), shifted);
}

/* u = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), for u > 0 that is finite: k and *f. */
static tcc_emit_value split_exponent(tcc_emitter *e, tcc_emit_value u, tcc_emit_value *f) {
    static const int64_t one = 0x3ff0000000000000, root = 0x3fe6a09e667f3bcd;
    tcc_emit_value bits = to_bits(e, u);
    tcc_emit_value above = tcc_emit_iadd(e, bits, integer(e, u, one - root)); /* its exponent is k's */
    tcc_emit_value biased = tcc_emit_lshr(e, above, integer(e, u, 52));
    tcc_emit_value k = from_bits(e, tcc_emit_or(e, biased, integer(e, u, 0x4330000000000000)), u); /* 2^52 more */
    tcc_emit_value scale = tcc_emit_and(e, above, integer(e, u, -(INT64_C(1) << 52)));
    tcc_emit_value mantissa = tcc_emit_iadd(e, tcc_emit_isub(e, bits, scale), integer(e, u, one));
    *f = sub(e, from_bits(e, mantissa, u), constant(e, u, 1));
    return sub(e, k, constant(e, u, 0x1p52 + 1023));
}

/* log(1 + f) of such an f. */
static tcc_emit_value log_of_mantissa(tcc_emitter *e, tcc_emit_value f) {
    static const double p[] = {0.9999999999874651,  -0.50000000035951802,  0.33333334249210019, -0.24999992728435151,
                               0.19999888139632848, -0.16667024572336438,  0.1429081175121173,  -0.12495435332202047,
                               0.11006038108136661, -0.099459959208350392, 0.10047205811191723, -0.098044219431361574,
                               0.052358895250411924}; /* 2.2e-11 */
    return mul(e, f, polynomial(e, f, p, COUNT(p)));
}

/* |x|^y for finite numbers above 0, and y that may be NaN: 2^w with w = y log2 |x|. Near |x| = 1 the logarithm has few
 * digits less than its polynomial; elsewhere w is as exact as is half of |w| units of that. */
static tcc_emit_value power_of_magnitude(tcc_emitter *e, tcc_emit_value a, tcc_emit_value y) {
    tcc_emit_value in = tcc_math64_widen(e, a), f, k = split_exponent(e, in, &f);
    tcc_emit_value log2 = tcc_emit_fma(e, log_of_mantissa(e, f), constant(e, in, 1 / ln2), k);
    tcc_emit_value w = clamp(e, mul(e, tcc_math64_widen(e, y), log2), -160, 140); /* 0 and infinity in f32 */
    tcc_emit_value magic = constant(e, in, 0x1.8p52), shifted = add(e, w, magic);
    tcc_emit_value r = mul(e, sub(e, w, sub(e, shifted, magic)), constant(e, in, ln2)),
                   power = power_of_two(e, shifted);
    return tcc_math64_narrow(e, tcc_emit_fma(e, power, expm1_of_rest(e, r), power));
}

/* As C's pow. */
tcc_emit_value tcc_math_pow(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y) {
    if (x == constant(e, x, 2)) return tcc_math_exp2(e, y); /* LLVM has each constant once */
    tcc_emit_value a = magnitude(e, x), zero = constant(e, x, 0), infinity = constant(e, x, __builtin_inf());
    /* of 1 any power is 1: so an infinite one is a large number */
    tcc_emit_value result = power_of_magnitude(e, a, clamp(e, y, -0x1.fffffep127, 0x1.fffffep127));
    tcc_emit_value is_zero = compare(e, TCC_FCMP_OEQ, x, 0), is_infinite = compare(e, TCC_FCMP_OEQ, a, __builtin_inf());
    tcc_emit_value grows = tcc_emit_xor(e, is_zero, compare(e, TCC_FCMP_OGT, y, 0));
    result = choose(e, tcc_emit_or(e, is_zero, is_infinite), choose(e, grows, infinity, zero), result);
    return tcc_math64_pow_signs(e, x, y, result);
}

/* sin(r + (k + quarter) pi / 2), |r| <= pi / 4 and a bit, k an integer of which the low bits count; quarter: 0 or 1. */
static tcc_emit_value sine_of(tcc_emitter *e, tcc_emit_value r, tcc_emit_value k, int quarter) {
    static const double of_sine[] = {0.9999999999956297, -0.1666666663131027, 0.0083333287551713209,
                                     -0.00019839193964485498, 2.717269367045458e-6}; /* 4.4e-12 */
    static const double of_cosine[] = {0.99999999995201329, -0.49999999611774672, 0.041666616393054352,
                                       -0.001388660894813359, 2.4378993728893832e-5}; /* 4.8e-11 */
    tcc_emit_value z = mul(e, r, r), s = mul(e, r, polynomial(e, z, of_sine, COUNT(of_sine)));
    tcc_emit_value c = polynomial(e, z, of_cosine, COUNT(of_cosine));
    tcc_emit_value odd = tcc_emit_icmp(e, TCC_ICMP_NE, tcc_emit_and(e, k, integer(e, r, 1)), integer(e, r, 0));
    tcc_emit_value y = quarter ? choose(e, odd, s, c) : choose(e, odd, c, s);
    tcc_emit_value turned = quarter ? tcc_emit_iadd(e, k, integer(e, r, 1)) : k;
    tcc_emit_value sign = tcc_emit_shl(e, tcc_emit_and(e, turned, integer(e, r, 2)), integer(e, r, 62));
    return from_bits(e, tcc_emit_xor(e, to_bits(e, y), sign), r);
}

/* As tcc_math64_near_quarters, by fewer instructions: the sum that rounds to n has n's low bits. All products are -0
 * where n is 0, so that -0 stays. */
static tcc_emit_value near_quarters_by_sum(tcc_emitter *e, tcc_emit_value x, tcc_emit_value *rest) {
    tcc_emit_value magic = constant(e, x, 0x1.8p52);
    tcc_emit_value sum = tcc_emit_fma(e, x, constant(e, x, 0x1.45f306dc9c883p-1), magic), n = sub(e, sum, magic);
    tcc_emit_value r = tcc_emit_fma(e, n, constant(e, x, -0x1.921fb54442d18p0), x);
    r = tcc_emit_fma(e, n, constant(e, x, -0x1.1a62633145c07p-54), r);
    *rest = tcc_emit_fma(e, sub(e, magic, sum), constant(e, x, -0x1.f1976b7ed8fbcp-110), r);
    return to_bits(e, sum);
}

/* Below 2^45, as tcc_math64_near_sine; beyond, lane by lane. On a GPU a sine and a cosine have what chooses in common;
 * a CPU has fewer instructions for one of them then, but takes longer for both. */
static tcc_emit_value sine(tcc_emitter *e, tcc_emit_value x, int quarter) {
    const bool together = e->target->lane_groups;
    tcc_emit_value in = tcc_math64_widen(e, x), r;
    tcc_emit_value n = (together ? near_quarters_by_sum : tcc_math64_near_quarters)(e, in, &r);
    tcc_emit_value y = together ? sine_of(e, r, n, quarter)
                                : sine_of(e, r, tcc_emit_iadd(e, n, integer(e, in, quarter)), 0);
    tcc_emit_value far = compare(e, TCC_FCMP_OGE, magnitude(e, x), 0x1p45);
    y = tcc_math64_narrow(e, tcc_math64_replace_far_sines(e, y, in, far, quarter));
    return quarter || together ? y : choose(e, compare(e, TCC_FCMP_OEQ, x, 0), x, y); /* of -0 too */
}

tcc_emit_value tcc_math_sin(tcc_emitter *e, tcc_emit_value x) { return sine(e, x, 0); }
tcc_emit_value tcc_math_cos(tcc_emitter *e, tcc_emit_value x) { return sine(e, x, 1); }
