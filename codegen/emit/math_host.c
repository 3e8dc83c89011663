/* SPDX-License-Identifier: MIT
 * Elementary functions on f32 for the host, where a GPU has instructions (math_nvptx.c). */
#include "codegen/emit/math_tables.h"

/* exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2) / 2; x must not exceed 2^21. */
typedef struct exponential {
    tcc_emit_value rest, sum, whole; /* exp(r) - 1; in the low bits, n + bias; n */
} exponential;

/* ln 2 is split so that n times the high part is exact. */
static exponential exp_reduced(tcc_emitter *e, tcc_emit_value x, int bias) {
    static const float p[] = {0.49999994f, 0.1666652f, 4.1668233e-2f, 8.368816e-3f, 1.3823839e-3f}; /* 3.2e-9 */
    tcc_emit_value magic = constant(e, x, MAGIC + bias);
    tcc_emit_value sum = tcc_emit_fma(e, x, constant(e, x, 1.44269504), magic), whole = sub(e, sum, magic);
    tcc_emit_value r = tcc_emit_fma(e, whole, constant(e, x, -0.693145751953125), x);
    r = tcc_emit_fma(e, whole, constant(e, x, -1.42860677e-6), r);
    tcc_emit_value q = tcc_math_polynomial(e, r, p, COUNT(p));
    return (exponential){tcc_emit_fma(e, mul(e, r, r), q, r), sum, whole};
}

/* exp(x) from -88 on where the result is not infinite: 0 below -87.68, where 2^n has no number. */
static tcc_emit_value exp_small(tcc_emitter *e, tcc_emit_value x) {
    exponential y = exp_reduced(e, x, BIAS);
    tcc_emit_value power = power_of_low_bits(e, y.sum);
    return tcc_emit_fma(e, y.rest, power, power);
}

tcc_emit_value tcc_host_exp(tcc_emitter *e, tcc_emit_value x) {
    exponential y = exp_reduced(e, tcc_math_at_least(e, tcc_math_at_most(e, x, 89), -104), 2 * BIAS);
    if (tcc_math_has_avx512(e)) return tcc_math_avx512_scale(e, add(e, y.rest, constant(e, x, 1)), y.whole);
    tcc_emit_value last, first = tcc_math_halves(e, y.sum, &last);
    return mul(e, tcc_emit_fma(e, y.rest, first, first), last); /* which rounds as 1 + rest does */
}

/* 1 + z is rounded once where 1 + 2^n is exact. */
tcc_emit_value tcc_host_tanh_large(tcc_emitter *e, tcc_emit_value a) {
    exponential y = exp_reduced(e, mul(e, tcc_math_at_most(e, a, 10), constant(e, a, 2)), BIAS);
    tcc_emit_value power = power_of_low_bits(e, y.sum), one = constant(e, a, 1);
    tcc_emit_value denominator = tcc_emit_fma(e, y.rest, power, add(e, power, one));
    return sub(e, one, quotient(e, constant(e, a, 2), denominator));
}

tcc_emit_value tcc_host_exp_negative(tcc_emitter *e, tcc_emit_value x) {
    return exp_small(e, tcc_math_at_least(e, x, -88));
}

/* s / (s + s z) with z = exp(-x) and a small power of two s, so that s z is a number where the result is a denormal. A
 * z that does not count beside 1 need not be right. */
tcc_emit_value tcc_host_sigmoid(tcc_emitter *e, tcc_emit_value x) {
    enum { SMALL = 30 };
    tcc_emit_value in = tcc_math_at_least(e, tcc_math_at_most(e, x, 66), -104);
    tcc_emit_value s = constant(e, x, 1.0 / (1 << SMALL));
    exponential y = exp_reduced(e, tcc_emit_fneg(e, in), BIAS - SMALL);
    tcc_emit_value power = power_of_low_bits(e, y.sum); /* added last: the sum before it rounds far less */
    return quotient(e, s, add(e, tcc_emit_fma(e, y.rest, power, s), power));
}

tcc_emit_value tcc_host_rsqrt(tcc_emitter *e, tcc_emit_value x) {
    return quotient(e, constant(e, x, 1), tcc_math_sqrt(e, x));
}

tcc_emit_value tcc_host_log(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_has_avx512(e) ? tcc_math_avx512_log(e, x) : tcc_math_log_by_bits(e, x);
}

tcc_emit_value tcc_host_erf(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_has_tables(e) ? tcc_math_erf_by_tables(e, x) : tcc_math_erf_by_exp(e, x, exp_small);
}

tcc_emit_value tcc_host_erf_slope(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_has_tables(e) ? tcc_math_erf_slope_by_tables(e, x) : NULL;
}
