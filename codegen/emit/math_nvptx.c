/* SPDX-License-Identifier: MIT
 * Elementary functions on f32 by a GPU's approximate instructions, where the error that the PTX ISA states for them is
 * small beside that of f32:
 *
 *     instruction          largest error                      used in
 *     ex2.approx.f32       2 ulp                              exp
 *     ex2.approx.ftz.f32   2 ulp; below 2^-126: 0             exp_negative, sigmoid, tanh, erf
 *     rcp.approx.ftz.f32   1 ulp; of above 2^126: 0           sigmoid, tanh: of 1 and above
 *     rsqrt.approx.f32     2^-22.9, relative                  rsqrt
 *     lg2.approx.f32       2^-22, absolute, in (1/2, 2)       erfinv, which needs no more
 *                          2^-22, relative, elsewhere
 *
 * and not where it is not:
 *
 *     lg2.approx           as above                           near 1 no digit of a logarithm is left
 *     tanh.approx          2^-11, relative                    not even f16
 *     sin.approx, cos      absolute, and only near 0
 *     sqrt.approx, div     2^-23 relative, 2 ulp              what is exact in f32 must stay so: an integer's root,
 *                                                             floor(x / y) of a multiple
 *
 * For the host: math_host.c. */
#include "codegen/emit/nvptx.h"
#include "codegen/emit/math.h"

#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static const double LN2_HIGH = 0x1.62e43p-1, LN2_LOW = -0x1.05c61p-29, LOG2_E = 0x1.715476p+0;

static tcc_emit_value constant(tcc_emitter *e, tcc_emit_value like, double value) {
    return tcc_emit_float(e, tcc_emit_type_of(like), value);
}
static tcc_emit_value mul(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) { return tcc_emit_fmul(e, a, b); }
static tcc_emit_value one_plus(tcc_emitter *e, tcc_emit_value x) { return tcc_emit_fadd(e, x, constant(e, x, 1)); }
static tcc_emit_value minus(tcc_emitter *e, tcc_emit_value x) { return tcc_emit_fneg(e, x); }

/* An instruction of one f32, lane by lane. */
static tcc_emit_value hardware(tcc_emitter *e, const char *name, tcc_emit_value x) {
    int lanes = tcc_emit_lanes_of(tcc_emit_type_of(x));
    if (lanes == 1) return tcc_cuda_intrinsic(e, name, &x, 1);
    tcc_emit_value result = tcc_emit_poison(tcc_emit_type_of(x));
    for (int i = 0; i < lanes; i++) {
        tcc_emit_value lane = tcc_emit_extract(e, x, tcc_emit_i32(e, i));
        lane = tcc_cuda_intrinsic(e, name, &lane, 1);
        result = tcc_emit_insert(e, result, lane, tcc_emit_i32(e, i));
    }
    return result;
}
/* LLVM 22 renamed those of ex2, which take several types there. */
static tcc_emit_value power_of(tcc_emitter *e, const char *before, const char *now, tcc_emit_value x) {
    return hardware(e, LLVMLookupIntrinsicID(before, strlen(before)) ? before : now, x);
}
static tcc_emit_value power(tcc_emitter *e, tcc_emit_value x) {
    return power_of(e, "llvm.nvvm.ex2.approx.ftz.f", "llvm.nvvm.ex2.approx.ftz", x);
}
static tcc_emit_value inverse(tcc_emitter *e, tcc_emit_value x) { return hardware(e, "llvm.nvvm.rcp.approx.ftz.f", x); }

static tcc_emit_value signed_as(tcc_emitter *e, tcc_emit_value magnitude, tcc_emit_value sign) {
    const bool wide = tcc_emit_type_of(sign) == e->f64;
    tcc_emit_value arguments[] = {sign, magnitude};
    return tcc_cuda_assemble(e, wide ? "copysign.f64 $0, $1, $2;" : "copysign.f32 $0, $1, $2;",
                             wide ? "=d,d,d" : "=f,f,f", arguments, 2);
}

/* LLVM 19 makes it of seven instructions. */
tcc_emit_value tcc_nvptx_copy_sign(tcc_emitter *e, tcc_emit_value magnitude, tcc_emit_value sign) {
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(sign));
    if (lanes == 1) return signed_as(e, magnitude, sign);
    tcc_emit_value result = tcc_emit_poison(tcc_emit_type_of(sign));
    for (int i = 0; i < lanes; i++) {
        tcc_emit_value lane = tcc_emit_i32(e, i);
        tcc_emit_value of = signed_as(e, tcc_emit_extract(e, magnitude, lane), tcc_emit_extract(e, sign, lane));
        result = tcc_emit_insert(e, result, of, lane);
    }
    return result;
}

/* t = x / ln 2, rounded, and x - t ln 2, what the rounding lost: exp(x) = 2^t exp(lost). x is finite. */
static tcc_emit_value split(tcc_emitter *e, tcc_emit_value x, tcc_emit_value *lost) {
    tcc_emit_value t = mul(e, x, constant(e, x, LOG2_E)), back = minus(e, t);
    *lost = tcc_emit_fma(e, back, constant(e, x, LN2_HIGH), x);
    *lost = tcc_emit_fma(e, back, constant(e, x, LN2_LOW), *lost);
    return t;
}

tcc_emit_value tcc_nvptx_exp(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value lost, t = split(e, tcc_math_at_least(e, tcc_math_at_most(e, x, 89), -104), &lost);
    return mul(e, power_of(e, "llvm.nvvm.ex2.approx.f", "llvm.nvvm.ex2.approx", t),
               one_plus(e, lost)); /* inf times a number near 1 */
}

tcc_emit_value tcc_nvptx_exp_negative(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value lost, t = split(e, tcc_math_at_least(e, x, -88), &lost), y = power(e, t);
    return tcc_emit_fma(e, y, lost, y);
}

/* Above 0.63 the error of 2 |x| / ln 2 shrinks faster than it grows: no second part. exp(2 |x|) may be inf. */
tcc_emit_value tcc_nvptx_tanh_large(tcc_emitter *e, tcc_emit_value a) {
    tcc_emit_value y = power(e, mul(e, a, constant(e, a, 2 * LOG2_E)));
    return tcc_emit_fma(e, inverse(e, one_plus(e, y)), constant(e, a, -2), constant(e, a, 1));
}

/* Relative error 2^-22 + |x| 2^-24; below -87.3: 0. */
static tcc_emit_value exp_rough(tcc_emitter *e, tcc_emit_value x) {
    return power(e, mul(e, x, constant(e, x, LOG2_E)));
}

tcc_emit_value tcc_nvptx_sigmoid(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value z = tcc_nvptx_exp_negative(e, minus(e, tcc_math_abs(e, x)));
    tcc_emit_value negative = tcc_emit_fcmp(e, TCC_FCMP_OLT, x, constant(e, x, 0));
    return mul(e, tcc_emit_select(e, negative, z, constant(e, x, 1)), inverse(e, one_plus(e, z)));
}

tcc_emit_value tcc_nvptx_rsqrt(tcc_emitter *e, tcc_emit_value x) { return hardware(e, "llvm.nvvm.rsqrt.approx.f", x); }

tcc_emit_value tcc_nvptx_log(tcc_emitter *e, tcc_emit_value x) { return tcc_math_log_by_bits(e, x); }

tcc_emit_value tcc_nvptx_log_rough(tcc_emitter *e, tcc_emit_value x) {
    return mul(e, hardware(e, "llvm.nvvm.lg2.approx.f", x), constant(e, x, LN2_HIGH));
}

/* 1 + x = 2^k (1 + f), 3/4 <= 1 + f < 3/2: k ln 2 + log(1 + f), where f = 2^-k x + (2^-k - 1) is exact, as both have
 * other signs and are near each other unless k is 0 or x is large. log(1 + f) = f - f^2 / 2 + f^3 p(f). */
tcc_emit_value tcc_nvptx_log1p(tcc_emitter *e, tcc_emit_value x) {
    static const float p[] = {0.333333403f,  -0.250001639f, 0.199995741f,  -0.16655311f, 0.142769486f,
                              -0.127287462f, 0.116959743f,  -0.091025047f, 0.0375719517f}; /* 9.2e-10 */
    enum { LEAST = 0x3f400000 /* 3/4 */, FOUR = 0x40800000, EXPONENT = -0x800000 };
    const double of_exponent = 0x1.62e43p-1 * 0x1p-23;
    tcc_emit_type real = tcc_emit_type_of(x), whole = tcc_emit_type_like(e, e->i32, real);
    tcc_emit_value bits = tcc_emit_bitcast(e, one_plus(e, x), whole), none = constant(e, x, -__builtin_inf());
    bits = tcc_emit_isub(e, bits, tcc_emit_int(e, whole, LEAST));
    tcc_emit_value exponent = tcc_emit_and(e, bits, tcc_emit_int(e, whole, EXPONENT)); /* k, 23 places to the left */
    tcc_emit_value near = tcc_emit_bitcast(e, tcc_emit_isub(e, tcc_emit_bitcast(e, x, whole), exponent), real);
    tcc_emit_value four = tcc_emit_isub(e, tcc_emit_int(e, whole, FOUR), exponent); /* 2^-k may be no number */
    tcc_emit_value f = tcc_emit_fma(e, tcc_emit_bitcast(e, four, real), constant(e, x, 0.25), constant(e, x, -1));
    f = tcc_emit_fadd(e, near, f);
    tcc_emit_value square = mul(e, f, f), y = mul(e, mul(e, square, f), tcc_math_polynomial(e, f, p, COUNT(p)));
    y = tcc_emit_fadd(e, f, tcc_emit_fma(e, square, constant(e, x, -0.5), y));
    y = tcc_emit_fma(e, tcc_emit_sitofp(e, exponent, real), constant(e, x, of_exponent), y);
    /* -0 stays, -1 -> -inf, less -> NaN, inf -> inf, NaN -> NaN */
    y = tcc_emit_select(e, tcc_emit_fcmp(e, TCC_FCMP_OEQ, x, constant(e, x, 0)), x, y);
    tcc_emit_value end = constant(e, x, -1), less = tcc_emit_fcmp(e, TCC_FCMP_OLT, x, end);
    y = tcc_emit_select(e, tcc_emit_fcmp(e, TCC_FCMP_OEQ, x, end), none, y);
    y = tcc_emit_select(e, less, constant(e, x, __builtin_nan("")), y);
    return tcc_emit_select(e, tcc_emit_fcmp(e, TCC_FCMP_OLT, x, constant(e, x, __builtin_inf())), y, x);
}

tcc_emit_value tcc_nvptx_erf(tcc_emitter *e, tcc_emit_value x) { return tcc_math_erf_by_exp(e, x, exp_rough); }
