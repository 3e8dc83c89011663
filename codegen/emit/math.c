/* SPDX-License-Identifier: MIT
 * Elementary functions on f32. Each is an exact range reduction and one polynomial on the reduced range; the
 * polynomials are minimax fits with f32 coefficients (relative error, except where said). Reductions use the trick of
 * adding 1.5 * 2^23, which rounds to an integer and leaves it in the low bits of the sum: no conversion that is
 * undefined for NaN. */
#include "codegen/emit/math_tables.h"

/* GPUs from sm_80 on have an instruction for either, on f32. */
tcc_emit_value tcc_math_extreme(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, bool least) {
    enum { FIRST = 80 };
    tcc_emit_value arguments[] = {a, b};
    if (e->target->hw.sm < FIRST || tcc_emit_scalar_of(tcc_emit_type_of(a)) != e->f32) return NULL;
    return tcc_emit_intrinsic(e, least ? "llvm.minimum" : "llvm.maximum", tcc_emit_type_of(a), arguments, 2);
}

static tcc_emit_value limited(tcc_emitter *e, tcc_emit_value x, double limit, tcc_emit_fcmp_kind beyond, bool most) {
    tcc_emit_value bound = constant(e, x, limit), by_instruction = tcc_math_extreme(e, x, bound, most);
    return by_instruction ? by_instruction : tcc_emit_select(e, tcc_emit_fcmp(e, beyond, x, bound), bound, x);
}

tcc_emit_value tcc_math_at_most(tcc_emitter *e, tcc_emit_value x, double limit) {
    return limited(e, x, limit, TCC_FCMP_OGT, true);
}

tcc_emit_value tcc_math_at_least(tcc_emitter *e, tcc_emit_value x, double limit) {
    return limited(e, x, limit, TCC_FCMP_OLT, false);
}

tcc_emit_value tcc_math_polynomial(tcc_emitter *e, tcc_emit_value x, const float *coefficients, int count) {
    tcc_emit_value sum = constant(e, x, coefficients[count - 1]);
    for (int i = count - 2; i >= 0; i--) sum = tcc_emit_fma(e, sum, x, constant(e, x, coefficients[i]));
    return sum;
}

tcc_emit_value tcc_math_abs(tcc_emitter *e, tcc_emit_value x) {
    return tcc_emit_intrinsic(e, "llvm.fabs", tcc_emit_type_of(x), &x, 1);
}

tcc_emit_value tcc_math_copy_sign(tcc_emitter *e, tcc_emit_value magnitude, tcc_emit_value sign) {
    tcc_emit_value arguments[] = {magnitude, sign};
    if (e->target->functions->copy_sign) return e->target->functions->copy_sign(e, magnitude, sign);
    return tcc_emit_intrinsic(e, "llvm.copysign", tcc_emit_type_of(sign), arguments, 2);
}

tcc_emit_value tcc_math_sqrt(tcc_emitter *e, tcc_emit_value x) {
    return tcc_emit_intrinsic(e, "llvm.sqrt", tcc_emit_type_of(x), &x, 1);
}

/* log(x) = k ln 2 + log(1 + f), sqrt(1/2) <= 1 + f < sqrt(2); log(1 + f) = f + f^2 p(f). */
tcc_emit_value tcc_math_log_by_bits(tcc_emitter *e, tcc_emit_value x) {
    static const float p[] = {-0.5f,       0.33333373f,  -0.2500084f, 0.1999899f,   -0.16621207f,
                              0.14238907f, -0.13212356f, 0.1256589f,  -7.286021e-2f}; /* 7.9e-9 */
    tcc_emit_value denormal = tcc_emit_fcmp(e, TCC_FCMP_OLT, x, constant(e, x, 0x1p-126));
    tcc_emit_value scaled = tcc_emit_select(e, denormal, mul(e, x, constant(e, x, 0x1p23)), x);
    /* The exponent that brings the mantissa into [sqrt(1/2), sqrt(2)): carry out of the bits of sqrt(1/2). */
    tcc_emit_value bits = to_bits(e, scaled), origin = integer(e, x, 0x3f3504f3);
    tcc_emit_value above = tcc_emit_isub(e, bits, origin);
    tcc_emit_value k = tcc_emit_ashr(e, above, integer(e, x, 23));
    tcc_emit_value mantissa = tcc_emit_isub(e, bits, tcc_emit_shl(e, k, integer(e, x, 23)));
    tcc_emit_value f = sub(e, from_bits(e, mantissa, x), constant(e, x, 1));
    tcc_emit_value kf = tcc_emit_sitofp(e, k, tcc_emit_type_of(x));
    kf = add(e, kf, tcc_emit_select(e, denormal, constant(e, x, -23), constant(e, x, 0)));
    tcc_emit_value tail = tcc_emit_fma(e, mul(e, f, f), tcc_math_polynomial(e, f, p, COUNT(p)),
                                       mul(e, kf, constant(e, x, 1.42860677e-6)));
    tcc_emit_value y = tcc_emit_fma(e, kf, constant(e, x, 0.693145751953125), add(e, f, tail));
    /* 0 -> -inf, negative -> NaN, inf -> inf, NaN -> NaN */
    tcc_emit_value zero = tcc_emit_fcmp(e, TCC_FCMP_OEQ, x, constant(e, x, 0));
    y = tcc_emit_select(e, zero, constant(e, x, -__builtin_inf()), y);
    tcc_emit_value finite = tcc_emit_fcmp(e, TCC_FCMP_OLT, x, constant(e, x, __builtin_inf()));
    y = tcc_emit_select(e, finite, y, x);
    tcc_emit_value negative = tcc_emit_fcmp(e, TCC_FCMP_OLT, x, constant(e, x, 0));
    return tcc_emit_select(e, negative, constant(e, x, __builtin_nan("")), y);
}

/* An odd polynomial below 0.63, 1 - 2 / (exp(2 |x|) + 1) above. */
tcc_emit_value tcc_math_tanh(tcc_emitter *e, tcc_emit_value x) {
    static const float p[] = {-0.33333278f, 0.13331324f, -5.372953e-2f, 2.0604875e-2f, -5.6657237e-3f}; /* 4.8e-9 */
    tcc_emit_value a = tcc_math_abs(e, x), square = mul(e, x, x);
    tcc_emit_value small = tcc_emit_fma(e, mul(e, square, a), tcc_math_polynomial(e, square, p, COUNT(p)), a);
    tcc_emit_value large = e->target->functions->tanh_large(e, a);
    tcc_emit_value below = tcc_emit_fcmp(e, TCC_FCMP_OLT, a, constant(e, x, 0.63));
    return copy_sign(e, tcc_emit_select(e, below, small, large), x);
}

/* An odd polynomial below 0.9375; above, 1 - exp(p(|x|)) where p fits the logarithm of erfc (absolute error). */
tcc_emit_value tcc_math_erf_by_exp(tcc_emitter *e, tcc_emit_value x,
                                   tcc_emit_value (*exp)(tcc_emitter *e, tcc_emit_value x)) {
    static const float p[] = {0.128379166f,  -0.37612632f,   0.11283674f,  -2.6858337e-2f,
                              5.1985579e-3f, -8.1157684e-4f, 8.2597617e-5f}; /* 8.6e-10 */
    static const float q[] = {3.0332414e-4f, -1.1301694f,   -0.63192844f,   -0.10999024f, 2.637374e-2f,
                              -4.744175e-3f, 5.9377758e-4f, -4.5729415e-5f, 1.6220364e-6f}; /* 1.6e-9 */
    tcc_emit_value a = tcc_math_abs(e, x), square = mul(e, x, x);
    tcc_emit_value small = tcc_emit_fma(e, a, tcc_math_polynomial(e, square, p, COUNT(p)), a);
    tcc_emit_value logarithm = tcc_math_polynomial(e, tcc_math_at_most(e, a, 3.95), q, COUNT(q));
    tcc_emit_value large = sub(e, constant(e, x, 1), exp(e, logarithm));
    tcc_emit_value below = tcc_emit_fcmp(e, TCC_FCMP_OLT, a, constant(e, x, 0.9375));
    return copy_sign(e, tcc_emit_select(e, below, small, large), x);
}

/* x p(w), w = -log(1 - x^2) as by Giles ("Approximating the erfinv function", 2010): a polynomial in w below 4, in its
 * root from there on. At 1 and -1 w is infinite, and so is the polynomial, whose last coefficient is positive. */
static tcc_emit_value erfinv_of(tcc_emitter *e, tcc_emit_value x, tcc_emit_value unused) {
    (void)unused;
    static const float near[] = {1.3772153f,    0.24976808f,     -0.0019684294f, -0.001692272f, 0.00021622209f,
                                 7.773483e-06f, -4.9698538e-06f, 2.2973134e-07f, 7.815849e-08f}; /* 4.0e-8 */
    static const float far[] = {2.8329768f,      1.0016749f,     0.009445469f,  -0.0076361005f,
                                0.005682739f,    -0.0036009464f, 0.0014996716f, -5.737127e-05f,
                                -0.00032329542f, 0.000121853394f};                         /* 2.0e-8 */
    tcc_emit_value one = constant(e, x, 1), rest = mul(e, sub(e, one, x), add(e, one, x)); /* exact enough near 1 */
    tcc_emit_value w = tcc_emit_fneg(e, e->target->functions->log_rough(e, rest));
    tcc_emit_value inner = tcc_math_polynomial(e, sub(e, w, constant(e, x, 2)), near, COUNT(near));
    tcc_emit_value outer = tcc_math_polynomial(e, sub(e, tcc_math_sqrt(e, w), constant(e, x, 3)), far, COUNT(far));
    tcc_emit_value below = tcc_emit_fcmp(e, TCC_FCMP_OLT, w, constant(e, x, 4));
    return mul(e, x, tcc_emit_select(e, below, inner, outer));
}

/* A host has registers for the constants and one vector alone. */
tcc_emit_value tcc_math_erfinv(tcc_emitter *e, tcc_emit_value x) {
    if (e->target->lane_groups || tcc_emit_lanes_of(tcc_emit_type_of(x)) <= e->target->lanes)
        return erfinv_of(e, x, NULL);
    return tcc_math_by_parts(e, erfinv_of, x, NULL);
}

tcc_emit_value tcc_math_by_vectors(tcc_emitter *e, tcc_emit_value (*f)(tcc_emitter *e, tcc_emit_value x),
                                   tcc_emit_value x) {
    enum { MOST = 16 };
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(x)), full = e->target->lanes;
    int indices[MOST];
    if (!e->target->lane_groups || lanes <= full || lanes > MOST) return f(e, x);
    for (int i = 0; i < lanes; i++) indices[i] = i;
    tcc_emit_value all = f(e, tcc_emit_shuffle(e, x, NULL, indices, full));
    for (int first = full; first < lanes; first += full)
        all = tcc_emit_append(e, all, f(e, tcc_emit_shuffle(e, x, NULL, indices + first, full)));
    return all;
}

tcc_emit_value tcc_math_exp(tcc_emitter *e, tcc_emit_value x) { return e->target->functions->exp(e, x); }

tcc_emit_value tcc_math_exp_negative(tcc_emitter *e, tcc_emit_value x) {
    return e->target->functions->exp_negative(e, x);
}

tcc_emit_value tcc_math_log(tcc_emitter *e, tcc_emit_value x) { return e->target->functions->log(e, x); }

tcc_emit_value tcc_math_erf(tcc_emitter *e, tcc_emit_value x) { return e->target->functions->erf(e, x); }

tcc_emit_value tcc_math_erf_slope(tcc_emitter *e, tcc_emit_value x) {
    const tcc_emit_functions *f = e->target->functions;
    return f->erf_slope ? f->erf_slope(e, x) : NULL;
}

tcc_emit_value tcc_math_sigmoid(tcc_emitter *e, tcc_emit_value x) { return e->target->functions->sigmoid(e, x); }

tcc_emit_value tcc_math_rsqrt(tcc_emitter *e, tcc_emit_value x) { return e->target->functions->rsqrt(e, x); }
