/* SPDX-License-Identifier: MIT
 * Shorthand of the files that emit functions on f32 or f64, scalar or vector. A constant or an integer is of the type
 * that `like` has, or of its bits. */
#ifndef TCC_CODEGEN_EMIT_MATH_OPS_H
#define TCC_CODEGEN_EMIT_MATH_OPS_H

#include "codegen/emit/functions.h"
#include "codegen/emit/math.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static inline tcc_emit_value constant(tcc_emitter *e, tcc_emit_value like, double value) {
    return tcc_emit_float(e, tcc_emit_type_of(like), value);
}

static inline tcc_emit_type bits_type(tcc_emitter *e, tcc_emit_value like) {
    tcc_emit_type type = tcc_emit_type_of(like);
    return tcc_emit_type_like(e, tcc_emit_scalar_of(type) == e->f64 ? e->i64 : e->i32, type);
}

static inline tcc_emit_value to_bits(tcc_emitter *e, tcc_emit_value x) {
    return tcc_emit_bitcast(e, x, bits_type(e, x));
}

static inline tcc_emit_value from_bits(tcc_emitter *e, tcc_emit_value bits, tcc_emit_value like) {
    return tcc_emit_bitcast(e, bits, tcc_emit_type_of(like));
}

static inline tcc_emit_value integer(tcc_emitter *e, tcc_emit_value like, int64_t value) {
    return tcc_emit_int(e, bits_type(e, like), value);
}

static inline tcc_emit_value add(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) { return tcc_emit_fadd(e, a, b); }

static inline tcc_emit_value sub(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) { return tcc_emit_fsub(e, a, b); }

static inline tcc_emit_value mul(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) { return tcc_emit_fmul(e, a, b); }

static inline tcc_emit_value quotient(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_fdiv(e, a, b);
}

static inline tcc_emit_value copy_sign(tcc_emitter *e, tcc_emit_value magnitude, tcc_emit_value sign) {
    return tcc_math_copy_sign(e, magnitude, sign);
}

/* Added to an f32 below 2^21, it rounds that to an integer n and leaves n in the low bits of the sum; with a bias added
 * to it, n + bias. */
#define MAGIC 12582912.0 /* 1.5 * 2^23 */
enum { BIAS = 127 };     /* of 1's exponent */

/* 2^(n + bias - BIAS) of such a sum, n + bias < 255: 0 where that is 0. All other bits are shifted out. */
static inline tcc_emit_value power_of_low_bits(tcc_emitter *e, tcc_emit_value sum) {
    return from_bits(e, tcc_emit_shl(e, to_bits(e, sum), integer(e, sum, 23)), sum);
}

#endif
