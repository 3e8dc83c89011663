/* SPDX-License-Identifier: MIT
 * Elementary functions on f64: an exact range reduction, then the Taylor series of the function on the reduced
 * argument, long enough that its remainder is below the last place. */
#include "codegen/emit/math64_ops.h"

tcc_emit_value tcc_math64_widen(tcc_emitter *e, tcc_emit_value x) {
    return tcc_emit_fpext(e, x, tcc_emit_type_like(e, e->f64, tcc_emit_type_of(x)));
}

tcc_emit_value tcc_math64_narrow(tcc_emitter *e, tcc_emit_value x) {
    return tcc_emit_fptrunc(e, x, tcc_emit_type_like(e, e->f32, tcc_emit_type_of(x)));
}

/* 2^n for -1022 <= n <= 1023. */
static tcc_emit_value power_of_two(tcc_emitter *e, tcc_emit_value n, tcc_emit_value like) {
    tcc_emit_value biased = tcc_emit_iadd(e, n, integer(e, like, 1023));
    return tcc_emit_bitcast(e, tcc_emit_shl(e, biased, integer(e, like, 52)), tcc_emit_type_of(like));
}

static const double ln2_high = 0x1.62e42feep-1,
                    ln2_low = 0x1.a39ef35793c76p-33; /* the former has 21 zeros at its end */

tcc_emit_value tcc_math64_exp(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value in = clamp(e, x, -750, 710);
    tcc_emit_value n = function(e, "llvm.roundeven", mul(e, in, constant(e, x, 0x1.71547652b82fep0)));
    tcc_emit_value r = tcc_emit_fma(e, n, constant(e, x, -ln2_high), in);
    r = tcc_emit_fma(e, n, constant(e, x, -ln2_low), r);
    static const double divisors[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    tcc_emit_value y = nested(e, r, divisors, 14);
    /* 2^n in two steps: n may leave the range of exponents by half */
    tcc_emit_value exponent = whole(e, n), half = tcc_emit_ashr(e, exponent, integer(e, x, 1));
    y = mul(e, y, power_of_two(e, half, x));
    y = mul(e, y, power_of_two(e, tcc_emit_isub(e, exponent, half), x));
    y = choose(e, compare(e, TCC_FCMP_OGT, x, 0x1.62e42fefa39efp9), constant(e, x, __builtin_inf()), y);
    return choose(e, tcc_emit_fcmp(e, TCC_FCMP_UNO, x, x), x, y);
}

tcc_emit_value tcc_math64_expm1(tcc_emitter *e, tcc_emit_value x) {
    static const double divisors[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    tcc_emit_value small = mul(e, x, nested(e, x, divisors, 15));
    tcc_emit_value large = sub(e, tcc_math64_exp(e, x), constant(e, x, 1));
    return choose(e, compare(e, TCC_FCMP_OLT, magnitude(e, x), 0.5), small, large);
}

tcc_emit_value tcc_math64_log(tcc_emitter *e, tcc_emit_value x) {
    /* x = 2^k m, sqrt(1/2) <= m < sqrt(2); denormals are scaled up first */
    tcc_emit_value tiny = compare(e, TCC_FCMP_OLT, x, 0x1p-1022);
    tcc_emit_value scaled = choose(e, tiny, mul(e, x, constant(e, x, 0x1p54)), x);
    tcc_emit_value bits = tcc_emit_isub(e, to_bits(e, scaled), integer(e, x, 0x3fe6a09e667f3bcd));
    tcc_emit_value k = tcc_emit_ashr(e, bits, integer(e, x, 52));
    tcc_emit_value mantissa = tcc_emit_isub(e, to_bits(e, scaled), tcc_emit_shl(e, k, integer(e, x, 52)));
    tcc_emit_value m = tcc_emit_bitcast(e, mantissa, tcc_emit_type_of(x));
    k = tcc_emit_isub(e, k, choose(e, tiny, integer(e, x, 54), integer(e, x, 0)));
    tcc_emit_value real_k = tcc_emit_sitofp(e, k, tcc_emit_type_of(x));
    /* log m = 2 atanh(f / (2 + f)) = f - s (f - r) with s = f / (2 + f), which keeps the leading f exact */
    tcc_emit_value f = sub(e, m, constant(e, x, 1)), s = quotient(e, f, add(e, f, constant(e, x, 2))), z = mul(e, s, s);
    tcc_emit_value series = constant(e, x, 2.0 / 25);
    for (int i = 23; i >= 3; i -= 2) series = tcc_emit_fma(e, series, z, constant(e, x, 2.0 / i));
    tcc_emit_value tail = mul(e, s, sub(e, f, mul(e, z, series)));
    tcc_emit_value low = sub(e, mul(e, real_k, constant(e, x, ln2_low)), tail);
    tcc_emit_value y = add(e, mul(e, real_k, constant(e, x, ln2_high)), add(e, f, low));
    y = choose(e, compare(e, TCC_FCMP_OEQ, x, __builtin_inf()), x, y);
    y = choose(e, compare(e, TCC_FCMP_OEQ, x, 0), constant(e, x, -__builtin_inf()), y);
    return choose(e, compare(e, TCC_FCMP_ULT, x, 0), constant(e, x, __builtin_nan("")), y);
}

tcc_emit_value tcc_math64_log1p(tcc_emitter *e, tcc_emit_value x) {
    /* log(u) x / (u - 1) corrects for the rounding of u = 1 + x (Kahan) */
    tcc_emit_value u = add(e, x, constant(e, x, 1)), difference = sub(e, u, constant(e, x, 1));
    tcc_emit_value zero = compare(e, TCC_FCMP_OEQ, difference, 0);
    tcc_emit_value corrected = quotient(e, mul(e, tcc_math64_log(e, u), x),
                                        choose(e, zero, constant(e, x, 1), difference));
    tcc_emit_value y = choose(e, zero, x, corrected);
    y = choose(e, compare(e, TCC_FCMP_OEQ, x, -1), constant(e, x, -__builtin_inf()), y);
    return choose(e, compare(e, TCC_FCMP_OEQ, x, __builtin_inf()), x, y);
}

static tcc_emit_value sine(tcc_emitter *e, tcc_emit_value x, int quarter) {
    tcc_emit_value far = compare(e, TCC_FCMP_OGE, magnitude(e, x), 0x1p45);
    tcc_emit_value y = tcc_math64_replace_far_sines(e, tcc_math64_near_sine(e, x, quarter), x, far, quarter);
    return quarter ? y : choose(e, compare(e, TCC_FCMP_OEQ, x, 0), x, y); /* of -0 too */
}

tcc_emit_value tcc_math64_sin(tcc_emitter *e, tcc_emit_value x) { return sine(e, x, 0); }
tcc_emit_value tcc_math64_cos(tcc_emitter *e, tcc_emit_value x) { return sine(e, x, 1); }

/* Up to 1; beyond, pi / 2 less that of 1 / |x|. Halving the angle three times, by tan(a / 2) = tan a / (1 + sqrt(1 +
 * tan^2 a)), leaves at most tan(pi / 32) < 0.1, where the series may end with x^15: what is left is below 2^-53. */
tcc_emit_value tcc_math64_atan(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value a = magnitude(e, x), one = constant(e, x, 1), steep = compare(e, TCC_FCMP_OGT, a, 1);
    tcc_emit_value t = quotient(e, choose(e, steep, one, a), choose(e, steep, a, one));
    for (int i = 0; i < 3; i++) t = quotient(e, t, add(e, function(e, "llvm.sqrt", tcc_emit_fma(e, t, t, one)), one));
    tcc_emit_value z = mul(e, t, t), series = constant(e, x, -1.0 / 15);
    for (int i = 13; i >= 1; i -= 2) series = tcc_emit_fma(e, series, z, constant(e, x, (i % 4 == 1 ? 1.0 : -1.0) / i));
    tcc_emit_value y = mul(e, mul(e, t, series), constant(e, x, 8));
    return copy_sign(e, choose(e, steep, sub(e, constant(e, x, 0x1.921fb54442d18p0), y), y), x);
}

/* e^|x| / 2 by its root, which is a number where that may be none, and *inverse: e^-|x| / 2. */
static tcc_emit_value half_exp(tcc_emitter *e, tcc_emit_value x, tcc_emit_value *inverse) {
    tcc_emit_value half = constant(e, x, 0.5), root = tcc_math64_exp(e, mul(e, magnitude(e, x), half));
    *inverse = quotient(e, quotient(e, half, root), root);
    return mul(e, mul(e, root, half), root);
}

tcc_emit_value tcc_math64_sinh(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value a = magnitude(e, x), one = constant(e, x, 1), inverse, large = half_exp(e, x, &inverse);
    tcc_emit_value t = tcc_math64_expm1(e, a),
                   small = mul(e, add(e, t, quotient(e, t, add(e, t, one))), constant(e, x, 0.5));
    return copy_sign(e, choose(e, compare(e, TCC_FCMP_OLT, a, 0.5), small, sub(e, large, inverse)), x);
}

tcc_emit_value tcc_math64_cosh(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value inverse, large = half_exp(e, x, &inverse);
    return add(e, large, inverse);
}

tcc_emit_value tcc_math64_tanh(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value a = clamp(e, magnitude(e, x), 0, 22);
    tcc_emit_value t = tcc_math64_expm1(e, mul(e, a, constant(e, x, 2)));
    return copy_sign(e, quotient(e, t, add(e, t, constant(e, x, 2))), x);
}

tcc_emit_value tcc_math64_sigmoid(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value one = constant(e, x, 1);
    return quotient(e, one, add(e, one, tcc_math64_exp(e, tcc_emit_fneg(e, x))));
}

tcc_emit_value tcc_math64_erf(tcc_emitter *e, tcc_emit_value x) {
    /* 2 / sqrt(pi) x e^(-x^2) (1 + 2x^2/3 (1 + 2x^2/5 (1 + ...))): all terms are positive. 110 of them reach |x| = 6,
     * from where on erf is 1. */
    tcc_emit_value a = clamp(e, magnitude(e, x), 0, 6), z = mul(e, a, a), twice = add(e, z, z);
    double divisors[110];
    for (int i = 0; i < 110; i++) divisors[i] = 2 * i + 3;
    tcc_emit_value sum = nested(e, twice, divisors, 110);
    tcc_emit_value y = mul(e, mul(e, a, constant(e, x, 0x1.20dd750429b6dp0)),
                           mul(e, tcc_math64_exp(e, tcc_emit_fneg(e, z)), sum));
    y = choose(e, compare(e, TCC_FCMP_OGE, a, 6), constant(e, x, 1), y);
    return copy_sign(e, y, x);
}

static tcc_emit_value polynomial(tcc_emitter *e, tcc_emit_value x, const double *coefficients, int count) {
    tcc_emit_value sum = constant(e, x, coefficients[count - 1]);
    for (int i = count - 2; i >= 0; i--) sum = tcc_emit_fma(e, sum, x, constant(e, x, coefficients[i]));
    return sum;
}

/* A quotient of polynomials of x^2, or for |x| above 0.7 of sqrt(-log((1 - |x|) / 2)), is as exact as f32: then two of
 * Newton's steps. */
tcc_emit_value tcc_math64_erfinv(tcc_emitter *e, tcc_emit_value x) {
    static const double a[] = {0.886226899, -1.645349621, 0.914624893, -0.140543331},
                        b[] = {1, -2.118377725, 1.442710462, -0.329097515, 0.012229801},
                        c[] = {-1.970840454, -1.624906493, 3.429567803, 1.641345311},
                        d[] = {1, 3.543889200, 1.637067800};
    tcc_emit_value size = magnitude(e, x), z = mul(e, x, x), infinity = constant(e, x, __builtin_inf());
    tcc_emit_value inner = mul(e, x, quotient(e, polynomial(e, z, a, COUNT(a)), polynomial(e, z, b, COUNT(b))));
    z = tcc_math64_log(e, mul(e, sub(e, constant(e, x, 1), size), constant(e, x, 0.5)));
    z = function(e, "llvm.sqrt", tcc_emit_fneg(e, z));
    tcc_emit_value outer = quotient(e, polynomial(e, z, c, COUNT(c)), polynomial(e, z, d, COUNT(d)));
    tcc_emit_value y = choose(e, compare(e, TCC_FCMP_OLE, size, 0.7), inner, copy_sign(e, outer, x));
    for (int i = 0; i < 2; i++) {
        tcc_emit_value off = sub(e, tcc_math64_erf(e, y), x), power = tcc_math64_exp(e, mul(e, y, y));
        y = sub(e, y, mul(e, off, mul(e, power, constant(e, x, 0x1.c5bf891b4ef6bp-1)))); /* sqrt(pi) / 2 */
    }
    return choose(e, compare(e, TCC_FCMP_OEQ, size, 1), copy_sign(e, infinity, x), y);
}

tcc_emit_value tcc_math64_pow_signs(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y, tcc_emit_value result) {
    tcc_emit_value one = constant(e, x, 1), nan = constant(e, x, __builtin_nan(""));
    tcc_emit_value y_whole = tcc_emit_fcmp(e, TCC_FCMP_OEQ, function(e, "llvm.floor", y), y);
    tcc_emit_value half = mul(e, y, constant(e, x, 0.5));
    tcc_emit_value y_odd = tcc_emit_and(e, y_whole,
                                        tcc_emit_fcmp(e, TCC_FCMP_UNE, function(e, "llvm.floor", half), half));
    tcc_emit_value negative = tcc_emit_icmp(e, TCC_ICMP_SLT, to_bits(e, x), integer(e, x, 0));
    result = choose(e, tcc_emit_and(e, negative, y_odd), tcc_emit_fneg(e, result), result);
    tcc_emit_value below = compare(e, TCC_FCMP_OLT, x, 0), finite = compare(e, TCC_FCMP_OGT, x, -__builtin_inf());
    tcc_emit_value fraction = tcc_emit_not(e, y_whole);
    result = choose(e, tcc_emit_and(e, tcc_emit_and(e, below, finite), fraction), nan, result);
    result = choose(e, tcc_emit_fcmp(e, TCC_FCMP_UNO, x, y), nan, result);
    result = choose(e, compare(e, TCC_FCMP_OEQ, x, 1), one, result);
    return choose(e, compare(e, TCC_FCMP_OEQ, y, 0), one, result);
}

tcc_emit_value tcc_math64_pow(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y) {
    tcc_emit_value a = magnitude(e, x);
    /* |x| = 1 needs care where y is infinite: log is 0 */
    tcc_emit_value log = tcc_math64_log(e, a), product = mul(e, y, log);
    tcc_emit_value result = tcc_math64_exp(e, product);
    result = choose(e, compare(e, TCC_FCMP_OEQ, a, 1), constant(e, x, 1), result);
    return tcc_math64_pow_signs(e, x, y, result);
}

tcc_emit_value tcc_math64_rem(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y) {
    tcc_emit_value a = magnitude(e, x), d = magnitude(e, y), q, r = tcc_math64_remainder_once(e, a, d, &q);
    r = tcc_math64_replace_far_remainders(e, r, a, d, compare(e, TCC_FCMP_OGE, q, 0x1p52));
    tcc_emit_value large = compare(e, TCC_FCMP_OEQ, d, __builtin_inf()),
                   finite = compare(e, TCC_FCMP_OLT, a, __builtin_inf());
    r = choose(e, tcc_emit_and(e, large, finite), a, r);
    return copy_sign(e, r, x);
}
