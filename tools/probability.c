/* SPDX-License-Identifier: MIT
 * A float is a whole number of at most 24 bits times a power of two, so what printf rounds is exact in 64 bits. */
#include "probability.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

/* p * 10^digits, rounded to nearest, of two to the even one; p is from 1e-5 to 1, and digits at most 10. */
static uint64_t scale(float p, int digits) {
    int exponent;
    uint64_t exact = (uint64_t)ldexpf(frexpf(p, &exponent), 24);
    const int shift = 24 - exponent;
    while (digits--) exact *= 10;
    const uint64_t half = UINT64_C(1) << (shift - 1), rest = exact & (2 * half - 1), whole = exact >> shift;
    return whole + (rest > half || (rest == half && whole & 1));
}

char *probability_print(float p, bool fixed, char out[PROBABILITY_MAX]) {
    int digits = fixed ? 4 : 6;
    if (!(p >= (fixed ? 1e-5f : 1e-4f) && p <= 1)) {
        snprintf(out, PROBABILITY_MAX, fixed ? "%.4f" : "%.6g", (double)p);
        return out;
    }
    for (double least = 0.1; !fixed && p < least; least /= 10) digits++; /* 6 from the first that is not 0 */
    uint64_t value = scale(p, digits);
    char *end = out + 2 + digits;
    out[1] = '.';
    for (char *at = end; at > out + 2; value /= 10) *--at = (char)('0' + value % 10);
    out[0] = (char)('0' + value);
    while (!fixed && end[-1] == '0') end--;
    if (end[-1] == '.') end--;
    *end = '\0';
    return out;
}
