/* SPDX-License-Identifier: MIT
 * What rounding may do to a graph's results, by experiment: the interpreter runs once exactly, and beside it a few
 * times with each float result disturbed as much as computing it in its own type may (Monte Carlo arithmetic, Parker
 * 1997). How far these draws are from the exact run is the noise of a value. A compiled program that errs by a small
 * multiple of the noise is as right as its types allow; one that errs by more is wrong.
 *
 * An element-wise result is disturbed by units in its last place, unless its type holds it exactly. A sum is disturbed
 * by units of the sum of its terms' magnitudes, for it may cancel; sums of whole numbers that f32 holds stay exact, but
 * for their own type's rounding.
 * Moving, comparing and choosing are exact. So values near a jump (activations near 0, ties) fall to either side, as
 * they do in real arithmetic. Draws come in pairs that are disturbed in opposite directions: one of a pair falls to the
 * other side. */
#ifndef TCC_IR_NOISE_H
#define TCC_IR_NOISE_H

#include "ir/eval.h"

typedef void tcc_noise_task(void *arg, int index);

typedef struct tcc_noise {
    uint64_t seed;
    int draws;      /* even; more than one pair where luck must not decide */
    int first;      /* number of the first draw, even: draws of other numbers are others, with the same seed */
    double factor;  /* of a disturbance, over what rounding does at worst: the real errors lie well inside the noise */
    bool constants; /* instead: what passes may do to a graph that is interpreted: constants and casts are rounded to
                       their types, all else is computed in f64 in another order */
    bool tf32;      /* contractions may round operands of f32 to 10 bits of fraction */
    bool one_chain; /* contractions add all of their products one after another, as they do on a GPU */
    /* Runs tasks 0 ... count - 1, some at the same time if it can; NULL: one after the other. */
    void (*run)(void *user, tcc_noise_task *task, void *arg, int count);
    void *run_user;
    tcc_value_pool *pool; /* for all that is computed; NULL: none */
} tcc_noise;

/* A value, and what it is in each draw. */
typedef struct tcc_drawn {
    tcc_value exact;
    tcc_value *draws; /* noise->draws of them, from tcc__calloc; NULL: all are exact */
} tcc_drawn;

/* Test hook: as tcc_graph_eval, on inputs that may be disturbed already, which stay the caller's. The caller frees each
 * of `outputs` with tcc_drawn_free. */
tcc_status tcc_graph_eval_draws(const tcc_graph *g, const tcc_drawn *inputs, const tcc_noise *noise, tcc_drawn *outputs,
                                tcc_diag *diag);
void tcc_drawn_free(const tcc_noise *noise, tcc_drawn *v);
/* Raises the noise of each element to the largest distance of a draw from the exact value; INFINITY where they disagree
 * on an integer or on whether it is a number. */
void tcc_drawn_measure(const tcc_noise *noise, const tcc_drawn *v, double *distances);

/* A value and what may be of it. */
typedef struct tcc_noisy {
    tcc_value value; /* exact */
    double *noise;   /* by element, as tcc_drawn_measure says */
} tcc_noisy;

/* As tcc_graph_eval. The caller frees each of `outputs` with tcc_noisy_free. */
tcc_status tcc_graph_eval_noisy(const tcc_graph *g, const tcc_value *inputs, const tcc_noise *noise, tcc_noisy *outputs,
                                tcc_diag *diag);
void tcc_noisy_free(tcc_noisy *v);

#endif
