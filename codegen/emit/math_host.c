/* SPDX-License-Identifier: MIT
 * Elementary functions on f32 for the host, where a GPU has instructions (math_nvptx.c). */
#include "codegen/emit/math_ops.h"

/* exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2) / 2; x must not exceed 2^21. */
typedef struct exponential {
    tcc_emit_value rest, n, whole; /* exp(r) - 1; n as an integer and as it is */
} exponential;

/* ln 2 is split so that n times the high part is exact. */
static exponential exp_reduced(tcc_emitter *e, tcc_emit_value x) {
    static const float p[] = {0.49999994f, 0.1666652f, 4.1668233e-2f, 8.368816e-3f, 1.3823839e-3f}; /* 3.2e-9 */
    tcc_emit_value magic = constant(e, x, 12582912.0);
    tcc_emit_value shifted = tcc_emit_fma(e, x, constant(e, x, 1.44269504), magic);
    tcc_emit_value n = tcc_emit_isub(e, to_bits(e, shifted), to_bits(e, magic));
    tcc_emit_value whole = sub(e, shifted, magic);
    tcc_emit_value r = tcc_emit_fma(e, whole, constant(e, x, -0.693145751953125), x);
    r = tcc_emit_fma(e, whole, constant(e, x, -1.42860677e-6), r);
    tcc_emit_value q = tcc_math_polynomial(e, r, p, COUNT(p));
    return (exponential){tcc_emit_fma(e, mul(e, r, r), q, r), n, whole};
}

static tcc_emit_value of_r(tcc_emitter *e, const exponential *y) { return add(e, y->rest, constant(e, y->rest, 1)); }

/* 2^n for -126 <= n <= 127. */
static tcc_emit_value power_of_two(tcc_emitter *e, tcc_emit_value n, tcc_emit_value like) {
    tcc_emit_value biased = tcc_emit_iadd(e, n, integer(e, like, 127));
    return from_bits(e, tcc_emit_shl(e, biased, integer(e, like, 23)), like);
}

/* exp(x) where the result is neither 0 nor inf nor a denormal. */
static tcc_emit_value exp_small(tcc_emitter *e, tcc_emit_value x) {
    exponential y = exp_reduced(e, x);
    if (tcc_math_has_avx512(e)) return tcc_math_avx512_scale(e, of_r(e, &y), y.whole);
    tcc_emit_value power = power_of_two(e, y.n, x);
    return tcc_emit_fma(e, y.rest, power, power);
}

/* Of x below 89. */
static tcc_emit_value exp_below(tcc_emitter *e, tcc_emit_value x) {
    exponential y = exp_reduced(e, tcc_math_at_least(e, x, -104));
    if (tcc_math_has_avx512(e)) return tcc_math_avx512_scale(e, of_r(e, &y), y.whole);
    tcc_emit_value last, first = tcc_math_halves(e, y.n, x, &last);
    return mul(e, tcc_emit_fma(e, y.rest, first, first), last); /* which rounds as 1 + rest does */
}

tcc_emit_value tcc_host_exp(tcc_emitter *e, tcc_emit_value x) { return exp_below(e, tcc_math_at_most(e, x, 89)); }

tcc_emit_value tcc_host_tanh_large(tcc_emitter *e, tcc_emit_value a) {
    exponential y = exp_reduced(e, mul(e, tcc_math_at_most(e, a, 10), constant(e, a, 2)));
    tcc_emit_value denominator = tcc_emit_fma(e, of_r(e, &y), power_of_two(e, y.n, a), constant(e, a, 1));
    return sub(e, constant(e, a, 1), quotient(e, constant(e, a, 2), denominator));
}

tcc_emit_value tcc_host_exp_negative(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value result = exp_small(e, tcc_math_at_least(e, x, -88));
    tcc_emit_value tiny = tcc_emit_fcmp(e, TCC_FCMP_OLT, x, constant(e, x, -87.3));
    return tcc_emit_select(e, tiny, constant(e, x, 0), result);
}

/* With z = exp(-|x|): 1 / (1 + z) for x >= 0, z / (1 + z) below, so that neither side cancels or overflows. */
tcc_emit_value tcc_host_sigmoid(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value one = constant(e, x, 1);
    tcc_emit_value z = exp_below(e, tcc_emit_fneg(e, tcc_math_abs(e, x)));
    tcc_emit_value negative = tcc_emit_icmp(e, TCC_ICMP_SLT, to_bits(e, x), integer(e, x, 0));
    return quotient(e, tcc_emit_select(e, negative, z, one), add(e, one, z));
}

tcc_emit_value tcc_host_rsqrt(tcc_emitter *e, tcc_emit_value x) {
    return quotient(e, constant(e, x, 1), tcc_math_sqrt(e, x));
}

tcc_emit_value tcc_host_log(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_has_avx512(e) ? tcc_math_avx512_log(e, x) : tcc_math_log_by_bits(e, x);
}

tcc_emit_value tcc_host_erf(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_has_avx512(e) ? tcc_math_avx512_erf(e, x) : tcc_math_erf_by_exp(e, x, exp_small);
}

tcc_emit_value tcc_host_erf_slope(tcc_emitter *e, tcc_emit_value x) {
    return tcc_math_has_avx512(e) ? tcc_math_avx512_erf_slope(e, x) : NULL;
}
