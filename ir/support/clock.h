/* SPDX-License-Identifier: MIT
 * Time that passes, from a point that nobody knows: for differences. */
#ifndef TCC_SUPPORT_CLOCK_H
#define TCC_SUPPORT_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t tcc_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static inline double tcc_clock_ms(void) { return 1e-6 * (double)tcc_clock_ns(); }
static inline double tcc_clock_seconds(void) { return 1e-9 * (double)tcc_clock_ns(); }

#endif
