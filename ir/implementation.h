/* SPDX-License-Identifier: MIT
 * Implementations of groups, as the files of ir/ share them. Private to ir/. */
#ifndef TCC_IR_IMPLEMENTATION_H
#define TCC_IR_IMPLEMENTATION_H

#include "ir/ir.h"

/* Whether two are equal, when match[node->id] is the node of `b` that stands for one of `a`. Either may be NULL. */
bool tcc__implementations_equal(const tcc_implementation *a, const tcc_implementation *b, tcc_node *const *match);

#endif
