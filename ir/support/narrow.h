/* SPDX-License-Identifier: MIT
 * Rounding to the short floats, inline and without branches, so that loops over many become vector code. For
 * dtype.c, element.c and the loops of the noise alone. */
#ifndef TCC_SUPPORT_NARROW_H
#define TCC_SUPPORT_NARROW_H

#include <stdint.h>
#include <string.h>

static inline uint32_t tcc__bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float tcc__float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t tcc__narrow_bf16(float x) {
    const uint32_t bits = tcc__bits_of(x), rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
    const uint32_t kept = (bits >> 16) | 0x40; /* a NaN stays one */
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? kept : rounded);
}

static inline uint16_t tcc__narrow_f16(float x) {
    const uint32_t bits = tcc__bits_of(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1) - 0x38000000u) >> 13;
    const float sum = tcc__float_of(magnitude) + 0.5f; /* of a subnormal: the adder rounds */
    const uint32_t subnormal = tcc__bits_of(sum) - tcc__bits_of(0.5f), nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
    uint32_t out = magnitude < 0x38800000u ? subnormal : normal;
    out = magnitude >= 0x477ff000u ? 0x7c00u : out; /* rounds past 65504 */
    out = magnitude > 0x7f800000u ? nan : out;
    return (uint16_t)(sign | out);
}

/* A double as the float that rounds on to any shorter float as the double itself would: to nearest, but odd in the last
 * bit when inexact (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms using
 * rounding to odd"). Every NaN becomes the same one. */
static inline float tcc__to_odd_f32(double x) {
    const float f = (float)x;
    const uint32_t bits = tcc__bits_of(f), magnitude = bits & 0x7fffffffu;
    const uint32_t too_far = x > 0 ? (double)f > x : (double)f < x;
    const uint32_t even = ~bits & 1, inexact = (double)f != x, finite = magnitude < 0x7f800000u;
    const uint32_t odd = bits + (even & inexact & finite) * (1 - 2 * too_far);
    return tcc__float_of(magnitude > 0x7f800000u ? 0x7fc00000u : odd);
}

#endif
