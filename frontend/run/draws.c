/* SPDX-License-Identifier: MIT
 * Initial values' random numbers. Loops over arrays of fixed length without branches, which the compiler turns into
 * vector code. On x86-64 they exist once for each vector width, and the first call picks one: a large model has 10^8
 * parameters, and one value at a time they took longer than compiling it. */
#include "frontend/run/draws.h"
#include "ir/support/widths.h"

#include <math.h>
#include <string.h>

enum { BLOCKS = TCC_DRAWS / 4 }; /* of Philox, 4 words each */

#define INLINE static inline __attribute__((always_inline))

tcc_draws tcc_draws_of(uint64_t seed, const char *name) {
    uint32_t h = 2166136261u; /* FNV-1a */
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return (tcc_draws){{(uint32_t)seed, (uint32_t)(seed >> 32)}, h};
}

/* tcc_philox4x32 of BLOCKS counters in a row; words[k][b] is word k of block b. */
INLINE void philox(const tcc_draws *d, uint64_t first, uint32_t words[4][BLOCKS]) {
    uint32_t *c0 = words[0], *c1 = words[1], *c2 = words[2], *c3 = words[3];
    for (int b = 0; b < BLOCKS; b++) {
        const uint64_t block = first + (uint64_t)b;
        c0[b] = (uint32_t)block, c1[b] = (uint32_t)(block >> 32);
        c2[b] = d->name_hash, c3[b] = 0x696e6974u; /* "init" */
    }
    uint32_t k0 = d->key[0], k1 = d->key[1];
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int b = 0; b < BLOCKS; b++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c0[b], p1 = (uint64_t)0xCD9E8D57u * c2[b];
            c0[b] = (uint32_t)(p1 >> 32) ^ c1[b] ^ k0;
            c1[b] = (uint32_t)p1;
            c2[b] = (uint32_t)(p0 >> 32) ^ c3[b] ^ k1;
            c3[b] = (uint32_t)p0;
        }
}

INLINE double polynomial(double x, const double *c, int count) { /* the constant first */
    double y = c[count - 1];
    for (int i = count - 2; i >= 0; i--) y = y * x + c[i];
    return y;
}

/* log((word + 1/2) / 2^32). With m in [sqrt(1/2), sqrt(2)] it is e log 2 + log m, and log m = 2 atanh(s) of
 * s = (m - 1) / (m + 1), whose series ends where s^2 = 0.0295 leaves less than a unit of the last place. */
INLINE double log_of_word(uint32_t word) {
    static const double atanh_series[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                          2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
    const double log2_high = 0x1.62e42fefa38p-1, log2_low = 0x1.ef35793c7673p-45; /* the first times e is exact */
    const uint64_t half = 0x3fe6a09e667f3bcdu;                                    /* the bits of sqrt(1/2) */
    double x = word + 0.5, m, e;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits += 0x3ff0000000000000u - half;
    const uint64_t mantissa = (bits & 0xfffffffffffffu) + half, exponent = 0x4330000000000000u + (bits >> 52);
    memcpy(&m, &mantissa, sizeof m);
    memcpy(&e, &exponent, sizeof e); /* 2^52 + the exponent */
    e -= 0x1p52 + 0x3ff + 32;
    const double f = m - 1, s = f / (2 + f), z = s * s;
    return e * log2_high + (2 * s + (s * z * polynomial(z, atanh_series, 10) + e * log2_low));
}

/* The cosine and the sine of 2 pi (word + 1/2) / 2^32: a multiple of a quarter turn, found exactly in the integer, and
 * a rest of at most an eighth. */
INLINE void turn_of_word(uint32_t word, double *cosine_out, double *sine_out) {
    static const double cosine[] = {1.0,
                                    -1.0 / 2,
                                    1.0 / 24,
                                    -1.0 / 720,
                                    1.0 / 40320,
                                    -1.0 / 3628800,
                                    1.0 / 479001600,
                                    -1.0 / 87178291200,
                                    1.0 / 20922789888000};
    static const double sine[] = {1.0,          -1.0 / 6,        1.0 / 120,        -1.0 / 5040,
                                  1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000};
    const uint32_t quarter = (word + 0x20000000u) >> 30;
    const int32_t rest = (int32_t)(word - (quarter << 30));
    const double r = (rest + 0.5) * 0x1.921fb54442d18p-30, z = r * r;
    const double even = polynomial(z, cosine, 9), odd = r * polynomial(z, sine, 8);
    const double x = quarter & 1 ? odd : even, y = quarter & 1 ? even : odd;
    *cosine_out = (quarter + 1) & 2 ? -x : x;
    *sine_out = quarter & 2 ? -y : y;
}

INLINE void normals(const uint32_t *radius, const uint32_t *angle, int pairs, double *first, double *second) {
    for (int i = 0; i < pairs; i++) {
        const double r = sqrt(-2 * log_of_word(radius[i]));
        double x, y;
        turn_of_word(angle[i], &x, &y);
        first[i] = r * x;
        second[i] = r * y;
    }
}

/* out[4 b + k] = values[k][b] */
INLINE void interleave(double values[4][BLOCKS], double *out) {
    for (int b = 0; b < BLOCKS; b++)
        for (int k = 0; k < 4; k++) out[4 * b + k] = values[k][b];
}

INLINE void draw_uniform(const tcc_draws *d, uint64_t first, double *out) {
    uint32_t words[4][BLOCKS];
    philox(d, first / 4, words);
    for (int b = 0; b < BLOCKS; b++)
        for (int k = 0; k < 4; k++) out[4 * b + k] = (words[k][b] + 0.5) * 0x1p-32;
}

INLINE void draw_normal(const tcc_draws *d, uint64_t first, double *out) {
    uint32_t words[4][BLOCKS];
    double values[4][BLOCKS];
    philox(d, first / 4, words);
    normals(words[0], words[1], BLOCKS, values[0], values[1]);
    normals(words[2], words[3], BLOCKS, values[2], values[3]);
    interleave(values, out);
}

#define VARIANT(scope, name, target)                                                                                  \
    target static void uniform_##name(const tcc_draws *d, uint64_t first, double *out) {                              \
        draw_uniform(d, first, out);                                                                                  \
    }                                                                                                                 \
    target static void normal_##name(const tcc_draws *d, uint64_t first, double *out) { draw_normal(d, first, out); } \
    target static void normals_##name(const uint32_t *radius, const uint32_t *angle, double *first, double *second) { \
        normals(radius, angle, TCC_PAIRS, first, second);                                                             \
    }                                                                                                                 \
    scope const tcc_draws_variant tcc_draws_##name = {uniform_##name, normal_##name, normals_##name};

TCC_FOR_EACH_WIDTH(VARIANT)

const tcc_draws_variant *tcc_draws_best(void) { return TCC_WIDEST(tcc_draws_); }

void tcc_draws_uniform(const tcc_draws *d, uint64_t first, double *out) { tcc_draws_best()->uniform(d, first, out); }
void tcc_draws_normal(const tcc_draws *d, uint64_t first, double *out) { tcc_draws_best()->normal(d, first, out); }
