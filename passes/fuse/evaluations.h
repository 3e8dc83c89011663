/* SPDX-License-Identifier: MIT
 * How often a kernel evaluates each node of its group, as fuse counted it for the group's cost. Codegen compares its
 * own count. */
#ifndef TCC_PASSES_FUSE_EVALUATIONS_H
#define TCC_PASSES_FUSE_EVALUATIONS_H

#include "ir/ir.h"

typedef struct tcc_draft_scratch tcc_draft_scratch;

/* For groups of one graph. NULL when memory is short. */
tcc_draft_scratch *tcc_evaluations_create(const tcc_graph *g);
void tcc_evaluations_free(tcc_draft_scratch *s);
/* By position in the group. INT64_MAX in front of a contraction, whose kernel is charged for repeating it, and in
 * front of a window; 0 where these are more than fuse lets a kernel do. */
void tcc_evaluations_count(tcc_draft_scratch *s, const tcc_group *group, int64_t *evaluations);

#endif
