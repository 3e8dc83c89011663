/* SPDX-License-Identifier: MIT
 * Composite ops by their definitions. The interpreter, autodiff and the decompose pass all use this one table. */
#ifndef TCC_IR_DECOMPOSE_H
#define TCC_IR_DECOMPOSE_H

#include "ir/ir.h"

/* Builds in `g` the definition of composite node `n` (which may be of another graph) on `operands` of g, and returns its value;
 * NULL after an error, which g->diag tells. May use other composites that come earlier in ops.def's list. */
tcc_node *tcc_ir_decompose(tcc_graph *g, const tcc_node *n, tcc_node *const *operands);

#endif
