/* SPDX-License-Identifier: MIT
 * What the interpreter makes of a user's program: every observable value of a few training steps, and the noise that
 * rounding may put on it. */
#ifndef TCC_TESTS_HARNESS_USER_REFERENCE_H
#define TCC_TESTS_HARNESS_USER_REFERENCE_H

#include "harness/user_check.h"
#include "ir/noise.h"

/* One array that can be observed. `when` is the training step, USER_TRAIN_STEPS for the state after the last of them,
 * USER_TRAIN_STEPS + 1 for a forward pass from there. */
typedef struct user_expected {
    char name[96];
    int when;
    tcc_noisy v;
} user_expected;

typedef struct user_reference {
    tcc_graph *train, *evaluate; /* the latter NULL where it is not asked for */
    const user_program *p;
    tcc_model *model;
    tcc_value *initial; /* of the training graph's inputs that are stored */
    bool gpu;           /* the program runs on a GPU, too: its noise is that of chains as they are there */
    int runs;           /* disturbed ones so far */
    int count;
    user_expected *list;
} user_reference;

/* `m` is a model of `p` that nothing was done with yet, borrowed; only its parameters are used. Nothing is expected
 * before the first disturbed runs. NULL after an error, which the context keeps. */
user_reference *user_reference_create(tcc_model *m, const user_program *p, bool evaluate);
void user_reference_destroy(user_reference *r);
/* Adds so many disturbed runs to the noise, an even number; the first time the exact values are made. */
tcc_status user_reference_disturb(user_reference *r, int runs);
/* Compares packed memory with an expected value. Returns what differs, in a static buffer, or NULL; `worst` is raised
 * to the largest error over what is allowed. */
const char *user_reference_compare(const user_expected *e, const void *memory, double *worst);
/* Batches, initial state and all that is expected, as members of a JSON object. */
void user_reference_print_json(tcc_strbuf *out, const user_reference *r);
/* The share of elements that the noise leaves undetermined. */
double user_reference_vagueness(const user_reference *r);

#endif
