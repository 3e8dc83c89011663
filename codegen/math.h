/* SPDX-License-Identifier: MIT
 * Elementary functions as straight-line code on f32 values, scalar or vector: the same bits in every lane and for every width,
 * no calls, no tables. Error bounds are in units of the last place of the exact result, checked by tests/unit/test_math.c over the
 * whole range. NaN gives NaN; infinities, zeros and denormals behave as in C's math.h. */
#ifndef TCC_CODEGEN_MATH_H
#define TCC_CODEGEN_MATH_H

#include "codegen/llvm.h"

LLVMValueRef tcc_math_exp(tcc_emitter *e, LLVMValueRef x);     /* 1.05 ulp; denormal results included */
/* exp for x <= 0 alone, as in softmax: below -87.3 the result is 0 instead of a denormal. 1.05 ulp */
LLVMValueRef tcc_math_exp_negative(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math_log(tcc_emitter *e, LLVMValueRef x);     /* 0.9 ulp */
LLVMValueRef tcc_math_tanh(tcc_emitter *e, LLVMValueRef x);    /* 1.4 ulp */
LLVMValueRef tcc_math_erf(tcc_emitter *e, LLVMValueRef x);     /* 1.1 ulp */
LLVMValueRef tcc_math_sigmoid(tcc_emitter *e, LLVMValueRef x); /* 2.4 ulp: 1 / (1 + exp(-x)) */
LLVMValueRef tcc_math_abs(tcc_emitter *e, LLVMValueRef x);
LLVMValueRef tcc_math_sqrt(tcc_emitter *e, LLVMValueRef x);    /* correctly rounded */

/* Horner's rule in x with `count` coefficients, the constant first. */
LLVMValueRef tcc_math_polynomial(tcc_emitter *e, LLVMValueRef x, const float *coefficients, int count);

#endif
