/* SPDX-License-Identifier: MIT
 * Further shorthand for functions on f64, beside that of math_ops.h. */
#ifndef TCC_CODEGEN_EMIT_MATH64_OPS_H
#define TCC_CODEGEN_EMIT_MATH64_OPS_H

#include "codegen/emit/math64.h"
#include "codegen/emit/math_ops.h"

static inline tcc_emit_value compare(tcc_emitter *e, tcc_emit_fcmp_kind p, tcc_emit_value a, double b) {
    return tcc_emit_fcmp(e, p, a, constant(e, a, b));
}

static inline tcc_emit_value choose(tcc_emitter *e, tcc_emit_value c, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_select(e, c, a, b);
}

static inline tcc_emit_value function(tcc_emitter *e, const char *name, tcc_emit_value x) {
    return tcc_emit_intrinsic(e, name, tcc_emit_type_of(x), &x, 1);
}

static inline tcc_emit_value magnitude(tcc_emitter *e, tcc_emit_value x) { return function(e, "llvm.fabs", x); }

static inline tcc_emit_value clamp(tcc_emitter *e, tcc_emit_value x, double least, double most) { /* NaN stays */
    x = choose(e, compare(e, TCC_FCMP_OLT, x, least), constant(e, x, least), x);
    return choose(e, compare(e, TCC_FCMP_OGT, x, most), constant(e, x, most), x);
}

/* sum of x^k / (first + k * step)! ..., as nested products: 1 + x/d1 (1 + x/d2 (1 + ...)). */
static inline tcc_emit_value nested(tcc_emitter *e, tcc_emit_value x, const double *divisors, int n) {
    tcc_emit_value one = constant(e, x, 1), sum = one;
    for (int i = n - 1; i >= 0; i--) sum = tcc_emit_fma(e, mul(e, x, constant(e, x, 1 / divisors[i])), sum, one);
    return sum;
}

/* An integer-valued f64 below 2^51 in magnitude as i64: adding 1.5 * 2^52 leaves it in the low bits. */
static inline tcc_emit_value whole(tcc_emitter *e, tcc_emit_value x) {
    tcc_emit_value bits = to_bits(e, add(e, x, constant(e, x, 0x1.8p52)));
    return tcc_emit_isub(e, bits, integer(e, x, 0x4338000000000000));
}

#endif
