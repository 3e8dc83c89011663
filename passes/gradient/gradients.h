/* SPDX-License-Identifier: MIT
 * The gradients of a scalar by other nodes of its graph. */
#ifndef TCC_PASSES_GRADIENTS_H
#define TCC_PASSES_GRADIENTS_H

#include "ir/ir.h"

/* Adds to g the gradients of y, a float scalar, by each of x[0 .. count), floats, which may be any nodes. out[i] is the
 * gradient by x[i], of its type, or NULL where y does not depend on it. It is the whole derivative: also what goes by
 * way of others of x. `seed` is the gradient by y itself, a scalar; NULL: 1. `backward`: the new nodes are a training
 * step's backward pass; else they have the lines of the nodes that they belong to, and no segment. What is
 * built afterwards has no marks and no segment. Errors: TCC_ENOMEM; a failed build, as g->diag tells. */
tcc_status tcc_build_gradients(tcc_graph *g, tcc_node *y, tcc_node *seed, bool backward, int count, tcc_node *const *x,
                               tcc_node **out);

#endif
