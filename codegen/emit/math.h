/* SPDX-License-Identifier: MIT
 * Elementary functions as straight-line code on f32 values, scalar or vector, with the same bits in every lane and for
 * every width. There are no calls, and no tables except those that one instruction looks up (math_tables.h). Error
 * bounds are in units of the last place of the exact result, on the host and on CUDA (math_nvptx.c), checked by
 * tests/unit/codegen/test_math.c and tests/gpu/test_gpu_math.c over the whole range. NaN gives NaN; infinities, zeros
 * and denormals behave as in C's math.h unless a comment says otherwise. */
#ifndef TCC_CODEGEN_EMIT_MATH_H
#define TCC_CODEGEN_EMIT_MATH_H

#include "codegen/emit/emitter.h"

tcc_emit_value tcc_math_exp(tcc_emitter *e, tcc_emit_value x); /* 1.05 ulp; CUDA 4 ulp; denormal results included */
/* exp for x <= 0 alone, as in softmax: 0 below -87.69, and denormals down to there; CUDA 0 below -87.3. 1.05 ulp; CUDA
 * 3.2 ulp */
tcc_emit_value tcc_math_exp_negative(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math_log(tcc_emitter *e, tcc_emit_value x);    /* 0.9 ulp; with AVX-512 0.79 ulp */
tcc_emit_value tcc_math_tanh(tcc_emitter *e, tcc_emit_value x);   /* 1.2 ulp; CUDA 3.6 ulp */
tcc_emit_value tcc_math_erf(tcc_emitter *e, tcc_emit_value x);    /* 1.1 ulp; with AVX2 0.9 ulp; CUDA 2 ulp */
tcc_emit_value tcc_math_erfinv(tcc_emitter *e, tcc_emit_value x); /* 2.85 ulp; CUDA 4.5 ulp */
/* 2 / sqrt(pi) e^(-x^2), 1.1 ulp of 1. What it has in common with erf(x) is computed once. NULL: the target has no way
 * that is shorter than exp. */
tcc_emit_value tcc_math_erf_slope(tcc_emitter *e, tcc_emit_value x);
/* 1 / (1 + exp(-x)). 2.1 ulp; CUDA 6 ulp, and below x = -87.3 the result is 0 instead of a denormal */
tcc_emit_value tcc_math_sigmoid(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math_rsqrt(tcc_emitter *e, tcc_emit_value x); /* 1 / sqrt(x), 1.5 ulp; CUDA 2.2 ulp */
/* math_parts.c, on CUDA too. */
tcc_emit_value tcc_math_exp2(tcc_emitter *e, tcc_emit_value x);  /* 0.9 ulp */
tcc_emit_value tcc_math_expm1(tcc_emitter *e, tcc_emit_value x); /* 1.05 ulp, 0.85 ulp below 0 */
tcc_emit_value tcc_math_log1p(tcc_emitter *e, tcc_emit_value x); /* 1.1 ulp; CUDA 0.9 ulp */
tcc_emit_value tcc_math_sinh(tcc_emitter *e, tcc_emit_value x);  /* 1.45 ulp */
tcc_emit_value tcc_math_cosh(tcc_emitter *e, tcc_emit_value x);  /* 1.26 ulp */
tcc_emit_value tcc_math_atan(tcc_emitter *e, tcc_emit_value x);  /* 1.25 ulp */
/* 2^n as two factors, about 2^(n / 2) each, of |n| below 254 where n + 254 is in the low nine bits of an f32; the
 * result and *last. */
tcc_emit_value tcc_math_halves(tcc_emitter *e, tcc_emit_value sum, tcc_emit_value *last);
/* In f64 inside (math_wide.c), on CUDA too; 0.501 ulp, pow 0.55 ulp, and as exp2 where the base is the constant 2. */
tcc_emit_value tcc_math_pow(tcc_emitter *e, tcc_emit_value x, tcc_emit_value y);
tcc_emit_value tcc_math_sin(tcc_emitter *e, tcc_emit_value x); /* sin and cos: for every x */
tcc_emit_value tcc_math_cos(tcc_emitter *e, tcc_emit_value x);
/* For results of 16 bits (math_narrow.c), on CUDA too; 0.501 ulp of bf16 and f16. */
tcc_emit_value tcc_math_narrow_sin(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math_narrow_cos(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math_abs(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math_copy_sign(tcc_emitter *e, tcc_emit_value magnitude, tcc_emit_value sign); /* of f64, too */
tcc_emit_value tcc_math_sqrt(tcc_emitter *e, tcc_emit_value x); /* correctly rounded */

/* f(x); on a GPU one vector of registers after the other, so that a thread has no more at once of what is between. */
tcc_emit_value tcc_math_by_vectors(tcc_emitter *e, tcc_emit_value (*f)(tcc_emitter *e, tcc_emit_value x),
                                   tcc_emit_value x);

/* The larger of two, or the smaller; NaN where either is, and of zeros 0 is the larger. One instruction, or NULL. */
tcc_emit_value tcc_math_extreme(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b, bool least);
/* x, or `limit` when x is beyond it; NaN stays. */
tcc_emit_value tcc_math_at_most(tcc_emitter *e, tcc_emit_value x, double limit);
tcc_emit_value tcc_math_at_least(tcc_emitter *e, tcc_emit_value x, double limit);

/* math_avx512.c, where the host has AVX-512. */
bool tcc_math_has_avx512(const tcc_emitter *e);
tcc_emit_value tcc_math_avx512_log(tcc_emitter *e, tcc_emit_value x);
/* x 2^whole, rounded once. */
tcc_emit_value tcc_math_avx512_scale(tcc_emitter *e, tcc_emit_value x, tcc_emit_value whole);

/* math_erf.c, where the host looks up tables by an instruction (math_tables.h). */
tcc_emit_value tcc_math_erf_by_tables(tcc_emitter *e, tcc_emit_value x);
tcc_emit_value tcc_math_erf_slope_by_tables(tcc_emitter *e, tcc_emit_value x);

/* erf by two polynomials and an exponential of [-20, 0.1], whose error is about 2^-22 near 0 at most. */
tcc_emit_value tcc_math_erf_by_exp(tcc_emitter *e, tcc_emit_value x,
                                   tcc_emit_value (*exp)(tcc_emitter *e, tcc_emit_value x));

tcc_emit_value tcc_math_log_by_bits(tcc_emitter *e, tcc_emit_value x);

/* Horner's rule in x with `count` coefficients, the constant first. */
tcc_emit_value tcc_math_polynomial(tcc_emitter *e, tcc_emit_value x, const float *coefficients, int count);

#endif
