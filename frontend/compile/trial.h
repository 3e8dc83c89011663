/* SPDX-License-Identifier: MIT
 * A program that runs once beside a model, on given inputs, so that all its values can be read. */
#ifndef TCC_FRONTEND_COMPILE_TRIAL_H
#define TCC_FRONTEND_COMPILE_TRIAL_H

#include "frontend/compile/compile.h"

typedef struct tcc_trial {
    tcc_model *m;             /* on whose device it runs */
    const tcc_graph *g;       /* planned */
    const void *const *given; /* packed values of its inputs, by input; borrowed */
    tcc_program *program;
    tcc_exec *exec;
    void **memory; /* of the device, by binding: inputs in order, then outputs */
    int *binding;  /* by node: where its value is in the end; -1: in the arena, at */
    int64_t *offset_bytes;
} tcc_trial;

/* Compiles and runs it, in memory full of NaN patterns. *out is to be cleared after an error, too. `g` and `given` must
 * outlive the trial. */
tcc_status tcc__trial_run(tcc_model *m, const tcc_graph *g, const void *const *given, tcc_trial *out);
/* The bits that binding `binding` holds after the run: in its memory, or in a copy that the caller frees (*copy, else
 * NULL) where the device's memory is not the host's. */
tcc_status tcc__trial_binding(const tcc_trial *t, int binding, void **copy, const void **out);
/* The bits of an input, or of a value that a group of the graph stores: in the memory that holds them, or in a copy
 * that the caller frees (*copy, else NULL) where the device's memory is not the host's. A value that the plan keeps
 * apart is as it was written; other memory may have been used again. */
tcc_status tcc__trial_view(const tcc_trial *t, const tcc_node *n, void **copy, const void **out);
void tcc__trial_clear(tcc_trial *t);

#endif
