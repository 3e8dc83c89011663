/* SPDX-License-Identifier: MIT
 * The optional operands of attention ops, behind those that each has: a mask, and the key of random draws where p > 0.
 */
#ifndef TCC_IR_SDPA_H
#define TCC_IR_SDPA_H

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

#endif
