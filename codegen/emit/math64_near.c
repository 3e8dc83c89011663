/* SPDX-License-Identifier: MIT
 * Sines of arguments below 2^45, and remainders of quotients below 2^53: what functions of all arguments are made of.
 */
#include "codegen/emit/math64_ops.h"

LLVMValueRef tcc_math64_sine_of(tcc_emitter *e, LLVMValueRef r, LLVMValueRef k) {
    LLVMValueRef z = mul(e, r, r), minus = LLVMBuildFNeg(e->builder, z, "");
    static const double sine_divisors[] = {20, 42, 72, 110, 156, 210, 272, 342};
    static const double cosine_divisors[] = {2, 12, 30, 56, 90, 132, 182, 240, 306};
    LLVMValueRef cubic = mul(e, r, mul(e, minus, constant(e, r, 1.0 / 6)));
    LLVMValueRef s = tcc_emit_fma(e, cubic, nested(e, minus, sine_divisors, 8), r);
    LLVMValueRef c = nested(e, minus, cosine_divisors, 9);
    LLVMValueRef odd = LLVMBuildICmp(e->builder, LLVMIntNE, LLVMBuildAnd(e->builder, k, integer(e, r, 1), ""),
                                     integer(e, r, 0), "");
    LLVMValueRef flip = LLVMBuildICmp(e->builder, LLVMIntNE, LLVMBuildAnd(e->builder, k, integer(e, r, 2), ""),
                                      integer(e, r, 0), "");
    LLVMValueRef y = choose(e, odd, c, s);
    return choose(e, flip, LLVMBuildFNeg(e->builder, y, ""), y);
}

/* sin(x + quarter * pi / 2), |x| < 2^45. There are fewer than 2^45 quarters, n, and pi / 2 has three parts. The first
 * step is exact: x and n times the first part are multiples of 2^-52 or, below 1, of 2^-53, less than 1 apart. */
LLVMValueRef tcc_math64_near_sine(tcc_emitter *e, LLVMValueRef x, int quarter) {
    LLVMValueRef n = function(e, "llvm.roundeven", mul(e, x, constant(e, x, 0x1.45f306dc9c883p-1)));
    LLVMValueRef r = tcc_emit_fma(e, n, constant(e, x, -0x1.921fb54442d18p0), x);
    r = tcc_emit_fma(e, n, constant(e, x, -0x1.1a62633145c07p-54), r);
    r = tcc_emit_fma(e, n, constant(e, x, 0x1.f1976b7ed8fbcp-110), r);
    return tcc_math64_sine_of(e, r, LLVMBuildAdd(e->builder, whole(e, n), integer(e, x, quarter), ""));
}

LLVMValueRef tcc_math64_near_sin(tcc_emitter *e, LLVMValueRef x) { return tcc_math64_near_sine(e, x, 0); }

LLVMValueRef tcc_math64_near_cos(tcc_emitter *e, LLVMValueRef x) { return tcc_math64_near_sine(e, x, 1); }

LLVMValueRef tcc_math64_remainder_once(tcc_emitter *e, LLVMValueRef a, LLVMValueRef d, LLVMValueRef *quotient_out) {
    LLVMValueRef q = quotient(e, a, d), n = function(e, "llvm.floor", q), zero = constant(e, a, 0);
    LLVMValueRef r = tcc_emit_fma(e, LLVMBuildFNeg(e->builder, n, ""), d,
                                  a); /* off by one d where the quotient rounded */
    r = choose(e, LLVMBuildFCmp(e->builder, LLVMRealOLT, r, zero, ""), add(e, r, d), r);
    if (quotient_out) *quotient_out = q;
    return choose(e, LLVMBuildFCmp(e->builder, LLVMRealOGE, r, d, ""), sub(e, r, d), r);
}
