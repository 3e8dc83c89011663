/* SPDX-License-Identifier: MIT
 * Loops of the interpreter with noise over the elements of a value, for several instruction sets. All of them give the
 * same bits. */
#ifndef TCC_IR_NOISE_LOOPS_H
#define TCC_IR_NOISE_LOOPS_H

#include "ir/support/dtype.h"

/* By how much of the worst an element errs: between 1/2 and 1 in size, of either sign. */
typedef struct tcc_pushes {
    uint64_t seed;
    bool reversed;       /* each push is the other way round */
    const double *alike; /* elements that are equal here are pushed alike; NULL: each by itself */
    const double *too;   /* and equal here; NULL: nothing more */
} tcc_pushes;

/* Results that are rounded once. */
typedef struct tcc_noise_points {
    tcc_dtype held;               /* what this type holds exactly stays, */
    bool all;                     /* unless all do err */
    double units, unit, smallest; /* x is moved by units max(unit |x|, smallest) at most */
} tcc_noise_points;

/* Sums whose terms have the magnitudes `terms`. */
typedef struct tcc_noise_sums {
    const double *terms;
    double units;         /* of these, by which a sum is moved at most */
    bool whole;           /* all are whole numbers: below 2^24 their sums are exact, */
    bool rounds;          /* but for rounding to the result's own type, */
    tcc_noise_points own; /* which is this; else nothing of it counts */
} tcc_noise_sums;

/* What says whether it has changed something is true if any element is another one then. */
typedef struct tcc_noise_loops {
    bool (*points)(const tcc_pushes *p, const tcc_noise_points *points, double *out, int64_t count);
    bool (*sums)(const tcc_pushes *p, const tcc_noise_sums *sums, double *out, int64_t count);
    /* out = in (1 + unit push) */
    void (*factors)(const tcc_pushes *p, double unit, const double *in, double *out, int64_t count);
    /* Whether a result, or what lies as far on the other side of its exact value, is larger than that. */
    bool (*any_beyond)(double size, const double *exact, const double *x, int64_t count);
    /* As tcc_dtype_round has it, to a float. */
    bool (*round_all)(tcc_dtype dtype, double *x, int64_t count);
} tcc_noise_loops;
/* That of element e. */
double tcc__noise_push(const tcc_pushes *p, int64_t e);
/* For any machine, and for this one. */
extern const tcc_noise_loops tcc__noise_loops_portable;
const tcc_noise_loops *tcc__noise_loops_best(void);

#endif
