/* SPDX-License-Identifier: MIT
 * What the random programs of loop_programs.h are made of. */
#ifndef TCC_TESTS_HARNESS_LOOP_KINDS_H
#define TCC_TESTS_HARNESS_LOOP_KINDS_H

#include "traincc/traincc.h"

typedef struct loop_program {
    const struct loop_kind *kind;
    int turns;
    int64_t dims[3];
    uint64_t random;
} loop_program;

typedef struct loop_kind {
    const char *name;
    tcc_tensor (*build)(loop_program *p, tcc_tensor x); /* x: [rows, columns], or [turns, rows, columns] */
    int rank;
} loop_kind;

/* Turns over one value (loop_kinds.c), over several or over the frames of a sequence (loop_kinds_states.c). */
extern const loop_kind loop_kinds[], loop_kinds_states[];
extern const int n_loop_kinds, n_loop_kinds_states;

int64_t loop_below(loop_program *p, int64_t n); /* a random number of the program */
tcc_tensor loop_shifted(tcc_tensor y, int axis, int64_t by);
tcc_tensor loop_frame(tcc_tensor x, int64_t t); /* [rows, columns] of turn t */

#endif
