/* SPDX-License-Identifier: MIT
 * The groups that the step had when it was planned without computing anything again, for the graph that computes values
 * again. Fuse starts from them (fuse_given.c), and select keeps of their choices what a sum's order follows from. So
 * each sum adds up in the order that it has there, and training gives the same bits. */
#ifndef TCC_PASSES_REMAT_GROUPS_H
#define TCC_PASSES_REMAT_GROUPS_H

#include "passes/remat/model.h"
#include "passes/select.h"

/* Adds to `to` the groups of the model's graph, without outputs, and those of what is computed again. By old id: `map`
 * has each node, `copies` the value computed again or NULL. `target` NULL: none has a choice. */
tcc_status tcc_remat_give_groups(const tcc_remat_model *m, const tcc_pass_target *target, tcc_node *const *map,
                                 tcc_node *const *copies, tcc_graph *to);

#endif
