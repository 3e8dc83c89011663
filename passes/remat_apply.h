/* SPDX-License-Identifier: MIT
 * Applying a set of the model to a graph, and planning the result. */
#ifndef TCC_PASSES_REMAT_APPLY_H
#define TCC_PASSES_REMAT_APPLY_H

#include "passes/pass.h"
#include "passes/remat_model.h"

/* The graph in which the model's set is computed again: copies, marked TCC_MARK_REMAT, of all that lies between what
 * backward has and what it needs. `g` has the nodes of the model's graph, with the same numbers. */
tcc_status tcc_remat_apply(const tcc_remat_model *m, const tcc_graph *g, tcc_graph **out);
/* The passes from fuse to plan-memory on `g`, which stays the caller's: what they will make of it. */
tcc_status tcc_remat_plan(tcc_pass_cx *cx, const tcc_graph *g, tcc_graph **out);

#endif
