/* SPDX-License-Identifier: MIT
 * Sines whose results are rounded to 16 bits: in f32, with an error below 2^-21 of the result where the argument has 16
 * bits, too, and of 1 elsewhere. So they are the nearest bf16 or f16, except where the exact value lies close to the
 * middle of two. */
#include "codegen/emit/math64.h"
#include "codegen/emit/math_ops.h"

/* sin(r + k pi / 2), |r| <= 0.95, k an integer of which the low bits count. */
static tcc_emit_value sine_of(tcc_emitter *e, tcc_emit_value r, tcc_emit_value k) {
    static const float of_sine[] = {1, -0.16666621f, 0.00833073910f, -0.000193655957f};            /* 1.3e-8 */
    static const float of_cosine[] = {0.999999881f, -0.49999550f, 0.0416421406f, -0.00134523318f}; /* 1.4e-7 */
    tcc_emit_value z = mul(e, r, r), s = mul(e, r, tcc_math_polynomial(e, z, of_sine, COUNT(of_sine)));
    tcc_emit_value c = tcc_math_polynomial(e, z, of_cosine, COUNT(of_cosine));
    tcc_emit_value odd = tcc_emit_icmp(e, TCC_ICMP_NE, tcc_emit_and(e, k, integer(e, r, 1)), integer(e, r, 0));
    tcc_emit_value sign = tcc_emit_shl(e, tcc_emit_and(e, k, integer(e, r, 2)), integer(e, r, 30));
    return from_bits(e, tcc_emit_xor(e, to_bits(e, tcc_emit_select(e, odd, c, s)), sign), r);
}

/* Below 2^22 pi / 2 has three parts, the second and the third below 0. The first step is exact: x and n times the first
 * part are multiples of 2^-23 or, below 1, of 2^-24, less than 1 apart. All products are -0 where n is 0, so that -0
 * stays. The factor that makes quarters of x is off by 2^-26 of it, and so n by 0.1 at most. */
static tcc_emit_value sine(tcc_emitter *e, tcc_emit_value x, int quarter) {
    tcc_emit_value magic = constant(e, x, MAGIC);
    tcc_emit_value sum = tcc_emit_fma(e, x, constant(e, x, 0x1.45f306p-1), magic), minus_n = sub(e, magic, sum);
    tcc_emit_value r = tcc_emit_fma(e, sub(e, sum, magic), constant(e, x, -0x1.921fb6p0), x);
    r = tcc_emit_fma(e, minus_n, constant(e, x, -0x1.777a5cp-25), r);
    r = tcc_emit_fma(e, minus_n, constant(e, x, -0x1.ee59dap-50), r);
    tcc_emit_value y = sine_of(e, r, tcc_emit_iadd(e, to_bits(e, sum), integer(e, x, quarter)));
    tcc_emit_value far = tcc_emit_fcmp(e, TCC_FCMP_OGE, tcc_math_abs(e, x), constant(e, x, 0x1p22));
    return tcc_math64_replace_far_sines(e, y, x, far, quarter);
}

/* Where products are rounded before they are added to, a sum of exact ones takes longer than f64. */
tcc_emit_value tcc_math_narrow_sin(tcc_emitter *e, tcc_emit_value x) {
    return e->target->fma ? sine(e, x, 0) : tcc_math_sin(e, x);
}
tcc_emit_value tcc_math_narrow_cos(tcc_emitter *e, tcc_emit_value x) {
    return e->target->fma ? sine(e, x, 1) : tcc_math_cos(e, x);
}
