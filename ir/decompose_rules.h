/* SPDX-License-Identifier: MIT
 * Inside the definitions of composite ops: their signature, and a declaration of each. */
#ifndef TCC_IR_DECOMPOSE_RULES_H
#define TCC_IR_DECOMPOSE_RULES_H

#include "ir/ir.h"

/* `in` are n's operands in g, none of them NULL. */
typedef tcc_node *tcc_definition(tcc_graph *g, const tcc_node *n, tcc_node *const *in);

/* One declaration an op; those of ops that are not composite are never defined or used. */
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    tcc_definition tcc__define_##id;
#include "ir/ops.def"
#undef TCC_OP

#define TCC_DEFINITION(id)                                                                                      \
    tcc_node *tcc__define_##id(tcc_graph *g __attribute__((unused)), const tcc_node *n __attribute__((unused)), \
                               tcc_node *const *in)

#endif
