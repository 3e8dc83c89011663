/* SPDX-License-Identifier: MIT
 * Whether an output of a group may be written over one of its inputs. That depends on how the group's schedule reads
 * the input. */
#ifndef TCC_PASSES_IN_STEP_H
#define TCC_PASSES_IN_STEP_H

#include "ir/ir.h"

/* Whether a kernel of the whole `group` reads `input` only at the element that it writes of `output` in the same step
 * of its loop, so that both may be the same memory. Pointwise groups, reductions, epilogues of contractions and of
 * windows, and the base of a scatter. */
bool tcc_group_same_element(const tcc_group *group, const tcc_node *input, const tcc_node *output);

#endif
