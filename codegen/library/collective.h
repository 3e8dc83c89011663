/* SPDX-License-Identifier: MIT
 * Collectives, as calls of a communicator. */
#ifndef TCC_CODEGEN_LIBRARY_COLLECTIVE_H
#define TCC_CODEGEN_LIBRARY_COLLECTIVE_H

#include "codegen/calls.h"
#include "codegen/schedule/lowering.h"

/* The call that a collective becomes, with its params. `fast_sums`: the option. */
tcc_call tcc_collective_call(const tcc_node *n, bool fast_sums, tcc_collective_params *params);
tcc_status tcc_lower_collective(tcc_lowering *l);

#endif
