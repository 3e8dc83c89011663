/* SPDX-License-Identifier: MIT
 * Which nodes of a training step belong to the backward pass and the updates behind it. */
#ifndef TCC_PASSES_BACKWARD_H
#define TCC_PASSES_BACKWARD_H

#include "ir/ir.h"

/* By node id: autodiff made it, or it depends on such a node. The others are the forward pass, and what depends on
 * inputs alone. Caller frees with tcc__free; NULL when memory is short. */
bool *tcc_backward_nodes(const tcc_graph *g);

#endif
