/* SPDX-License-Identifier: MIT
 * A memory plan, checked by what its values' lives are. */
#ifndef TCC_TEST_PLAN_CHECK_H
#define TCC_TEST_PLAN_CHECK_H

#include "ir/ir.h"

/* Checks that nothing alive at once overlaps, except an output written over an operand that dies in the same launch and
 * that this reads in step, and that outputs marked in_place have no later reader of the old value. */
tcc_status check_plan(const tcc_graph *g, tcc_diag *diag);

#endif
