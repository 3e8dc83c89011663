/* SPDX-License-Identifier: MIT
 * The signature of a group, independent of its graph: equal layers of a network have equal signatures. */
#ifndef TCC_CODEGEN_SIGNATURE_H
#define TCC_CODEGEN_SIGNATURE_H

#include "ir/ir.h"

/* Groups with equal texts are lowered alike; norms that a library computes are not told by it, for these look around in
 * the graph. `inputs` are the group's (tcc_group_inputs). NULL when memory is short; the caller frees it. */
char *tcc_group_signature(const tcc_group *group, tcc_node *const *inputs, int n_inputs);

#endif
