/* SPDX-License-Identifier: MIT
 * Number formats of the PTX ISA: float16, bfloat16, tf32, and rounding of exact values into any of them. */
#ifndef PTXSIM_NUMBERS_H
#define PTXSIM_NUMBERS_H

#include "ptx.h"

#include <math.h>
#include <string.h>

enum { F16_NAN = 0x7fff, BF16_NAN = 0x7fff };
#define F32_NAN UINT32_C(0x7fffffff)
#define F64_NAN UINT64_C(0x7fffffffffffffff)

static inline float as_f32(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint32_t as_u32(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline double as_f64(uint64_t u) {
    double f;
    memcpy(&f, &u, 8);
    return f;
}
static inline uint64_t as_u64(double f) {
    uint64_t u;
    memcpy(&u, &f, 8);
    return u;
}

/* Exact widening. */
static inline float f16_to_f32(uint32_t h) {
    uint32_t sign = (h & 0x8000) << 16, rest = h & 0x7fff;
    if (rest >= 0x7c00) return as_f32(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    float scaled = as_f32(rest << 13) * 0x1p112f; /* exact, subnormals too */
    return as_f32(sign | as_u32(scaled));
}
static inline float bf16_to_f32(uint32_t h) { return as_f32(h << 16); }

/* A float format: precision in bits with the implicit one, least exponent of a normal, largest exponent. */
typedef struct sim_format {
    int precision, min_exponent, max_exponent;
} sim_format;
extern const sim_format sim_f16, sim_bf16, sim_tf32, sim_f32, sim_f64;

/* (-1)^negative * significand * 2^exponent rounded into the format; overflow as IEEE 754 has it for the rounding mode
 * (RNA: to infinity). `sticky`: there is more below the last bit. The bits of the format's own encoding are returned.
 */
uint64_t sim_round_parts(bool negative, uint64_t significand, int exponent, bool sticky, sim_format format,
                         sim_round mode);
/* A double into the format; NaN becomes the format's canonical one. */
uint64_t sim_round_double(double value, sim_format format, sim_round mode);
/* Round to the nearest: fast paths. NaN becomes the canonical one. */
uint32_t sim_f32_to_f16(float f);
uint32_t sim_f32_to_bf16(float f);
double sim_round_integral(double value, sim_round mode);
/* a + b with the error of rounding to double folded in as an odd last bit, so that rounding further is correct. */
double sim_add_odd(double a, double b);

static inline float flush_f32(float f) { return as_u32(f) & 0x7f800000 ? f : as_f32(as_u32(f) & 0x80000000); }
static inline float canonical_f32(float f) { return f != f ? as_f32(F32_NAN) : f; }

#endif
