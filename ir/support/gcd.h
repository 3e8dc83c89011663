/* SPDX-License-Identifier: MIT
 * The greatest common divisor. */
#ifndef TCC_SUPPORT_GCD_H
#define TCC_SUPPORT_GCD_H

#include <stdint.h>

/* Of both magnitudes, which INT64_MIN has none of; that of 0 and b is |b|. */
static inline int64_t tcc_gcd(int64_t a, int64_t b) {
    if (a < 0) a = -a;
    while (b) {
        const int64_t rest = a % b;
        a = b < 0 ? -b : b;
        b = rest;
    }
    return a;
}

#endif
