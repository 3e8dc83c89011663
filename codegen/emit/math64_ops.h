/* SPDX-License-Identifier: MIT
 * Further shorthand for functions on f64, beside that of math_ops.h. */
#ifndef TCC_CODEGEN_EMIT_MATH64_OPS_H
#define TCC_CODEGEN_EMIT_MATH64_OPS_H

#include "codegen/emit/math64.h"
#include "codegen/emit/math_ops.h"

static inline LLVMValueRef compare(tcc_emitter *e, LLVMRealPredicate p, LLVMValueRef a, double b) {
    return LLVMBuildFCmp(e->builder, p, a, constant(e, a, b), "");
}

static inline LLVMValueRef choose(tcc_emitter *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
    return tcc_emit_select(e, c, a, b);
}

static inline LLVMValueRef function(tcc_emitter *e, const char *name, LLVMValueRef x) {
    return tcc_emit_intrinsic(e, name, LLVMTypeOf(x), &x, 1);
}

static inline LLVMValueRef magnitude(tcc_emitter *e, LLVMValueRef x) { return function(e, "llvm.fabs", x); }

static inline LLVMValueRef clamp(tcc_emitter *e, LLVMValueRef x, double least, double most) { /* NaN stays */
    x = choose(e, compare(e, LLVMRealOLT, x, least), constant(e, x, least), x);
    return choose(e, compare(e, LLVMRealOGT, x, most), constant(e, x, most), x);
}

/* sum of x^k / (first + k * step)! ..., as nested products: 1 + x/d1 (1 + x/d2 (1 + ...)). */
static inline LLVMValueRef nested(tcc_emitter *e, LLVMValueRef x, const double *divisors, int n) {
    LLVMValueRef one = constant(e, x, 1), sum = one;
    for (int i = n - 1; i >= 0; i--) sum = tcc_emit_fma(e, mul(e, x, constant(e, x, 1 / divisors[i])), sum, one);
    return sum;
}

/* An integer-valued f64 below 2^51 in magnitude as i64: adding 1.5 * 2^52 leaves it in the low bits. */
static inline LLVMValueRef whole(tcc_emitter *e, LLVMValueRef x) {
    LLVMValueRef bits = to_bits(e, add(e, x, constant(e, x, 0x1.8p52)));
    return LLVMBuildSub(e->builder, bits, integer(e, x, 0x4338000000000000), "");
}

#endif
