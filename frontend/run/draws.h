/* SPDX-License-Identifier: MIT
 * The random numbers of initial values, many at a time: Philox 4x32-10 keyed by the seed, with a hash of the name and
 * the place in the stream as its counter. The bits do not depend on the machine: the code calls no math library, and
 * each vector width computes the same operations. */
#ifndef TCC_FRONTEND_RUN_DRAWS_H
#define TCC_FRONTEND_RUN_DRAWS_H

#include <stdint.h>

enum { TCC_DRAWS = 256 }; /* values that are drawn at a time, one of each word */

typedef struct tcc_draws {
    uint32_t key[2], name_hash;
} tcc_draws;

tcc_draws tcc_draws_of(uint64_t seed, const char *name);

/* Values [first, first + TCC_DRAWS) of the stream; first is a multiple of 4. Uniform in (0, 1), (word + 1/2) / 2^32, or
 * normal, two of two words as `normals` below has them. */
void tcc_draws_uniform(const tcc_draws *d, uint64_t first, double *out);
void tcc_draws_normal(const tcc_draws *d, uint64_t first, double *out);

/* Normal values of words, by the method of Box and Muller: first[i] = sqrt(-2 log u) cos(2 pi v) and
 * second[i] = sqrt(-2 log u) sin(2 pi v), where u and v are (word + 1/2) / 2^32 of radius[i] and angle[i]. The error is
 * below 2^-49; the largest value is 6.8. */
enum { TCC_PAIRS = TCC_DRAWS / 2 };
typedef struct tcc_draws_variant {
    void (*uniform)(const tcc_draws *d, uint64_t first, double *out);
    void (*normal)(const tcc_draws *d, uint64_t first, double *out);
    void (*normals)(const uint32_t *radius, const uint32_t *angle, double *first, double *second);
} tcc_draws_variant;

/* For any machine; and with the vectors of the machine at hand, which gives the same bits. */
extern const tcc_draws_variant tcc_draws_portable;
const tcc_draws_variant *tcc_draws_best(void);

#endif
