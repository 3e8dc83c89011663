/* SPDX-License-Identifier: MIT
 * Attention ops. Operands that are optional come behind those that each has: a mask, and the key of random draws where
 * p > 0. In a dim before the rows, k and v may both be 1 where q is more: those queries share keys and values. */
#ifndef TCC_IR_SDPA_H
#define TCC_IR_SDPA_H

#include "ir/build.h"
#include "ir/ir.h"

static inline bool tcc_sdpa_draws(const tcc_node *n) { return n->attrs->sdpa.p > 0; }

/* NULL: it has none. */
static inline tcc_node *tcc_sdpa_key(const tcc_node *n) {
    return tcc_sdpa_draws(n) ? n->operands[n->n_operands - 1] : NULL;
}

static inline tcc_node *tcc_sdpa_mask(const tcc_node *n) {
    const int least = tcc_op_get_info(n->op)->least;
    return n->n_operands - tcc_sdpa_draws(n) > least ? n->operands[least] : NULL;
}

/* Whether queries apart in dim d, one before the rows, see the same keys. */
static inline bool tcc_sdpa_shares(const tcc_node *n, int d) {
    return n->operands[1]->type.dims[d] == 1 && n->operands[0]->type.dims[d] != 1;
}

/* x, which is k or v of n or lies as they do, for each query: what is shared is repeated. */
static inline tcc_node *tcc_sdpa_spread(tcc_graph *g, const tcc_node *n, tcc_node *x) {
    int64_t dims[TCC_MAX_RANK];
    int own[TCC_MAX_RANK];
    bool shares = false;
    if (!x) return NULL;
    for (int d = 0; d < x->type.rank; d++) {
        const bool shared = d < x->type.rank - 2 && tcc_sdpa_shares(n, d);
        dims[d] = shared ? n->operands[0]->type.dims[d] : x->type.dims[d];
        own[d] = d;
        shares = shares || shared;
    }
    return shares ? tcc_ir_broadcast(g, x, x->type.rank, dims, own) : x;
}

/* Whether n is a gradient by k or v, which are summed over what shares them. */
static inline bool tcc_sdpa_is_by_key(const tcc_node *n) {
    return n->op == TCC_OP_SDPA_GRAD_K || n->op == TCC_OP_SDPA_GRAD_V;
}

#endif
