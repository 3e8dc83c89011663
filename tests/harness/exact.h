/* SPDX-License-Identifier: MIT
 * Functions in double precision that the C library lacks: what results are judged by. */
#ifndef TCC_TESTS_HARNESS_EXACT_H
#define TCC_TESTS_HARNESS_EXACT_H

#include <math.h>

static inline double exact_sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* By Newton's method. */
static inline double exact_erfinv(double y) {
    const double a = fabs(y);
    if (!(a < 1)) return a == 1 ? copysign(INFINITY, y) : NAN;
    double x = a < 0.7 ? a : sqrt(-log((1 - a) * 2));
    for (int i = 0; i < 40; i++) x -= (a < 0.5 ? erf(x) - a : (1 - a) - erfc(x)) * exp(x * x) / M_2_SQRTPI;
    return copysign(x, y);
}

#endif
