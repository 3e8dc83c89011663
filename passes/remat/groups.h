/* SPDX-License-Identifier: MIT
 * The groups of the step without recomputation, given to the graph with recomputation. Fuse starts from them
 * (fuse/given.c), and select keeps those parameters of their choices that fix the order of a sum. So each sum keeps its
 * order, and training gives the same bits. */
#ifndef TCC_PASSES_REMAT_GROUPS_H
#define TCC_PASSES_REMAT_GROUPS_H

#include "passes/remat/model.h"
#include "passes/select.h"

/* Adds to `to` the groups of the model's graph, without outputs, and those of what is computed again. By old id: `map`
 * has each node of graph `from`, `copies` the value computed again or NULL. Fuse may have added nodes behind those of
 * `from`, and adds them again. `target` NULL: none has a choice. */
tcc_status tcc_remat_give_groups(const tcc_remat_model *m, const tcc_pass_target *target, const tcc_graph *from,
                                 tcc_node *const *map, tcc_node *const *copies, tcc_graph *to);

#endif
