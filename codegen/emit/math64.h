/* SPDX-License-Identifier: MIT
 * Elementary functions on f64 values, scalar or vector: for f64 tensors, and for f32 functions that need more than f32
 * inside (pow, rem; math_wide.c has others, shorter). Within a few units of the last place of f64. They are
 * straight-line code, except for very large arguments (math_far.c). */
#ifndef TCC_CODEGEN_EMIT_MATH64_H
#define TCC_CODEGEN_EMIT_MATH64_H

#include "codegen/emit/llvm.h"

LLVMValueRef tcc_math64_widen(tcc_emitter *e, LLVMValueRef x);  /* f32 -> f64 */
LLVMValueRef tcc_math64_narrow(tcc_emitter *e, LLVMValueRef x); /* f64 -> f32 */

LLVMValueRef tcc_math64_exp(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_expm1(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_log(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_log1p(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_sin(tcc_emitter *e, LLVMValueRef x); /* sin and cos: 2.5 ulp of f64 for every x */
LLVMValueRef tcc_math64_cos(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_near_sin(tcc_emitter *e, LLVMValueRef x); /* |x| < 2^45: no branch */
LLVMValueRef tcc_math64_near_cos(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_atan(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_tanh(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_sigmoid(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_erf(tcc_emitter *e, LLVMValueRef x);
/* exp(y log |x|) with the signs and special cases of C's pow; relative error about |y log x| units of the last place of
 * f64. */
LLVMValueRef tcc_math64_pow(tcc_emitter *e, LLVMValueRef x, LLVMValueRef y);
/* x^y, of `result` = |x|^y: its sign, and what C's pow says of x < 0, of 1 and of NaN. */
LLVMValueRef tcc_math64_pow_signs(tcc_emitter *e, LLVMValueRef x, LLVMValueRef y, LLVMValueRef result);
/* Remainder with the sign of x, exact. */
LLVMValueRef tcc_math64_rem(tcc_emitter *e, LLVMValueRef x, LLVMValueRef y);

/* --- What math64_near.c and math_far.c give to math64.c and math_wide.c. */

/* x = n pi / 2 + *rest, |*rest| <= pi / 4 and a bit, for |x| < 2^45; n, an integer. */
LLVMValueRef tcc_math64_near_quarters(tcc_emitter *e, LLVMValueRef x, LLVMValueRef *rest);

/* sin(x + quarter pi / 2), |x| < 2^45. */
LLVMValueRef tcc_math64_near_sine(tcc_emitter *e, LLVMValueRef x, int quarter);
/* sin(r + k pi / 2), |r| <= pi / 4 and a bit, k an integer. */
LLVMValueRef tcc_math64_sine_of(tcc_emitter *e, LLVMValueRef r, LLVMValueRef k);
/* The remainder of a >= 0 by d >= 0, of a quotient below 2^53, which is given too unless its place is NULL. */
LLVMValueRef tcc_math64_remainder_once(tcc_emitter *e, LLVMValueRef a, LLVMValueRef d, LLVMValueRef *quotient_out);
/* y, and sin(x + quarter pi / 2) in the lanes that are `far`: 2^45 and beyond, and infinities, where it is NaN. */
LLVMValueRef tcc_math64_replace_far_sines(tcc_emitter *e, LLVMValueRef y, LLVMValueRef x, LLVMValueRef far,
                                          int quarter);
/* r, and the remainder of a by d in the lanes that are `far`. */
LLVMValueRef tcc_math64_replace_far_remainders(tcc_emitter *e, LLVMValueRef r, LLVMValueRef a, LLVMValueRef d,
                                               LLVMValueRef far);

#endif
