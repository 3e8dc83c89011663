/* SPDX-License-Identifier: MIT
 * Collectives, as calls of a communicator. */
#ifndef TCC_CODEGEN_LIBRARY_COLLECTIVE_H
#define TCC_CODEGEN_LIBRARY_COLLECTIVE_H

#include "codegen/schedule/lowering.h"

tcc_status tcc_lower_collective(tcc_lowering *l);

#endif
