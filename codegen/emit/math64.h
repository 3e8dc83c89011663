/* SPDX-License-Identifier: MIT
 * Elementary functions on f64 values, scalar or vector: for f64 tensors, and for f32 functions that need more than f32
 * inside (pow, rem; math_wide.c has others, shorter). Within a few units of the last place of f64. They are
 * straight-line code, except for very large arguments (math_far.c). */
#ifndef TCC_CODEGEN_EMIT_MATH64_H
#define TCC_CODEGEN_EMIT_MATH64_H

#include "codegen/emit/emitter.h"

tcc_emit_value tcc_math64_widen(tcc_emitter *e, tcc_emit_value x);  /* f32 -> f64 */
tcc_emit_value tcc_math64_narrow(tcc_emitter *e, tcc_emit_value x); /* f64 -> f32 */

tcc_emit_value tcc_math64_exp(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_expm1(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_log(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_log1p(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_sin(tcc_emitter *e, tcc_emit_value x); /* sin and cos: 2.5 ulp of f64 for every x */
tcc_emit_value tcc_math64_cos(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_near_sin(tcc_emitter *e, tcc_emit_value x); /* |x| < 2^45: no branch */
tcc_emit_value tcc_math64_near_cos(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_atan(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_sinh(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_cosh(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_tanh(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_sigmoid(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_erf(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math64_erfinv(tcc_emitter *e, tcc_emit_value x);
/* exp(y log |x|) with the signs and special cases of C's pow; relative error about |y log x| units of the last place of
 * f64. */
tcc_emit_value tcc_math64_pow(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y);
/* x^y, of `result` = |x|^y: its sign, and what C's pow says of x < 0, of 1 and of NaN. */
tcc_emit_value tcc_math64_pow_signs(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y, tcc_emit_value result);
/* Remainder with the sign of x, exact. */
tcc_emit_value tcc_math64_rem(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y);

/* --- What math64_near.c and math_far.c give to math64.c, math_wide.c and math_narrow.c. */

/* x = n pi / 2 + *rest, |*rest| <= pi / 4 and a bit, for |x| < 2^45; n, an integer. */
tcc_emit_value tcc_math64_near_quarters(tcc_emitter *e, tcc_emit_value x, tcc_emit_value *rest);

/* sin(x + quarter pi / 2), |x| < 2^45. */
tcc_emit_value tcc_math64_near_sine(tcc_emitter *e, tcc_emit_value x, int quarter);
/* sin(r + k pi / 2), |r| <= pi / 4 and a bit, k an integer. */
tcc_emit_value tcc_math64_sine_of(tcc_emitter *e, tcc_emit_value r, tcc_emit_value k);
/* The remainder of a >= 0 by d >= 0, of a quotient below 2^53, which is given too unless its place is NULL. */
tcc_emit_value tcc_math64_remainder_once(tcc_emitter *e, tcc_emit_value a, tcc_emit_value d,
                                         tcc_emit_value *quotient_out);
/* y, and sin(x + quarter pi / 2) in the lanes that are `far`: 2^22 or beyond, and infinities, where it is NaN. Both are
 * of f64, or both of f32. */
tcc_emit_value tcc_math64_replace_far_sines(tcc_emitter *e, tcc_emit_value y, tcc_emit_value x, tcc_emit_value far,
                                            int quarter);
/* r, and the remainder of a by d in the lanes that are `far`. */
tcc_emit_value tcc_math64_replace_far_remainders(tcc_emitter *e, tcc_emit_value r, tcc_emit_value a, tcc_emit_value d,
                                                 tcc_emit_value far);

#endif
