/* SPDX-License-Identifier: MIT
 * remat's model: values that are available to late work, and values that late groups evaluate inline, so that
 * recomputing them takes no memory. In a layer of convolution, norm and ReLU, the latter are the ReLU's result, which
 * the next filter's gradient recomputes as it reads it, and the ReLU's mask. */
#ifndef TCC_PASSES_REMAT_PASSING_H
#define TCC_PASSES_REMAT_PASSING_H

#include "passes/remat/model.h"

/* Whether a node's value is there for late work, as it is kept. */
bool tcc_remat_available(const tcc_remat_model *m, const tcc_node *n);
/* Whether a stored value may be computed again at all: early work makes it, late work reads it, and it is large
 * enough to matter. */
bool tcc_remat_may_repeat(const tcc_remat_model *m, int value);
/* Whether early work reads it; else it is stored for late work alone, and not at all if that computes it again. */
bool tcc_remat_is_read_early(const tcc_remat_model *m, int value);
/* Fills m->passing and what is known of readers; m has late nodes, values and times. */
tcc_status tcc_remat_find_passing(tcc_remat_model *m, const struct tcc_pass_target *target, tcc_diag *diag);

/* Finds m->passes of a value that is computed again, after those that it is computed from: its readers evaluate it
 * where that takes few reads, and no more than their kernels can have. */
void tcc_remat_pass(tcc_remat_model *m, const tcc_node *n);

/* Time to load what a value is evaluated from. */
double tcc_remat_loading_ns(tcc_remat_model *m, const tcc_node *n);
/* By how much the late groups' time grows, as they evaluate what is computed again and not stored. */
double tcc_remat_passing_ns(tcc_remat_model *m);
/* The same for `n` alone, which passing says may pass, if it were computed again; false: it would take many reads. */
bool tcc_remat_passing_cost(tcc_remat_model *m, const tcc_node *n, double *ns);

#endif
