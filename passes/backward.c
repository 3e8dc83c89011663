/* SPDX-License-Identifier: MIT */
#include "passes/backward.h"

#include "ir/support/alloc.h"

bool *tcc_backward_nodes(const tcc_graph *g) {
    bool *backward = tcc__malloc(sizeof *backward * (size_t)(g->nodes.count + 1));
    for (int i = 0; backward && i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        backward[i] = n->backward && n->op != TCC_OP_INPUT && n->op != TCC_OP_CONSTANT;
        for (int k = 0; k < n->n_operands && !backward[i]; k++) backward[i] = backward[n->operands[k]->id];
    }
    return backward;
}
