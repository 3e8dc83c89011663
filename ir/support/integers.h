/* SPDX-License-Identifier: MIT
 * Arithmetic of integers. */
#ifndef TCC_SUPPORT_INTEGERS_H
#define TCC_SUPPORT_INTEGERS_H

#include <stdint.h>

static inline int64_t tcc_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tcc_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* The greatest common divisor of both magnitudes, which INT64_MIN has none of; that of 0 and b is |b|. */
static inline int64_t tcc_gcd(int64_t a, int64_t b) {
    if (a < 0) a = -a;
    while (b) {
        const int64_t rest = a % b;
        a = b < 0 ? -b : b;
        b = rest;
    }
    return a;
}

/* Of numbers that are not negative. */
static inline int64_t tcc_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/* The least multiple of b that is not below a. */
static inline int64_t tcc_round_up(int64_t a, int64_t b) { return tcc_ceil_div(a, b) * b; }

#endif
