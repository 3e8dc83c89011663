/* SPDX-License-Identifier: MIT
 * Applying a set of the model to a graph. */
#ifndef TCC_PASSES_REMAT_APPLY_H
#define TCC_PASSES_REMAT_APPLY_H

#include "passes/remat/model.h"
#include "passes/select.h"

/* The graph in which the model's set is computed again: copies, marked TCC_MARK_REMAT, of all that lies between what
 * backward has and what it needs; and the groups that fuse starts from (groups.h). `g` has the nodes of the
 * model's graph, with the same numbers. */
tcc_status tcc_remat_apply(const tcc_remat_model *m, const tcc_graph *g, const tcc_pass_target *target,
                           tcc_graph **out);

#endif
