/* SPDX-License-Identifier: MIT
 * Groups as launches: how order and plan-memory see them. Time is counted in launches of the whole graph; launches that
 * may run together are one moment. */
#ifndef TCC_PASSES_MEMORY_LAUNCHES_H
#define TCC_PASSES_MEMORY_LAUNCHES_H

#include "ir/ir.h"

/* What runs the group; where nothing is chosen yet, one launch that reads all its inputs and writes all its outputs,
 * none of them over another. In `arena`; NULL when memory is short. */
const tcc_implementation *tcc_group_launches(tcc_arena *arena, const tcc_group *group);
/* Moments that the launches take, and the one of launch `launch`, from 0. */
int tcc_launch_moments(const tcc_implementation *x);
int tcc_launch_moment(const tcc_implementation *x, int launch);

bool tcc_launch_reads(const tcc_launch *launch, const tcc_node *n);
bool tcc_launch_writes(const tcc_launch *launch, const tcc_node *n);
/* Whether `written` may take the memory of `old` in that moment: all that reads `old` then reads the element that it
 * writes. */
bool tcc_moment_overwrites(const tcc_implementation *x, int moment, const tcc_node *old, const tcc_node *written);

/* A reduction to a few bytes: a part of a norm, or a flag. Such groups wait for each other, to be one launch. */
static inline bool tcc_group_is_small_sum(const tcc_group *group) {
    enum { FEW_BYTES = 64 };
    int64_t bytes = 0;
    for (int i = 0; i < group->n_outputs; i++) bytes += tcc_type_bytes(&group->outputs[i]->type);
    return group->kind == TCC_GROUP_REDUCE && bytes <= FEW_BYTES;
}

#endif
