/* SPDX-License-Identifier: MIT
 * Elementary functions on f64 values, scalar or vector, as straight-line code: for f64 tensors, and for f32 functions
 * that need more than f32 inside (pow, expm1, log1p, sin, cos). Within a few units of the last place of f64. */
#ifndef TCC_CODEGEN_MATH64_H
#define TCC_CODEGEN_MATH64_H

#include "codegen/llvm.h"

LLVMValueRef tcc_math64_widen(tcc_emitter *e, LLVMValueRef x);  /* f32 -> f64 */
LLVMValueRef tcc_math64_narrow(tcc_emitter *e, LLVMValueRef x); /* f64 -> f32 */

LLVMValueRef tcc_math64_exp(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_expm1(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_log(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_log1p(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_sin(tcc_emitter *e,
                            LLVMValueRef x); /* |x| up to 2^30; beyond that accuracy goes, but not out of -1 .. 1 */
LLVMValueRef tcc_math64_cos(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_tanh(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_sigmoid(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math64_erf(tcc_emitter *e, LLVMValueRef x);
/* exp(y log |x|) with the signs and special cases of C's pow; relative error about |y log x| units of the last place of
 * f64. */
LLVMValueRef tcc_math64_pow(tcc_emitter *e, LLVMValueRef x, LLVMValueRef y);
/* Remainder with the sign of x; exact while the quotient has fewer than 53 bits. */
LLVMValueRef tcc_math64_rem(tcc_emitter *e, LLVMValueRef x, LLVMValueRef y);

#endif
