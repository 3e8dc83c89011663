/* SPDX-License-Identifier: MIT
 * The rules of fuse, one file per family of groups, and their queries about a draft. A rule is true if the draft may be
 * such a group; it leaves the level of each node in the scratch. Otherwise *reason says why not. */
#ifndef TCC_PASSES_FUSE_DRAFT_H
#define TCC_PASSES_FUSE_DRAFT_H

#include "passes/fuse/fuse.h"

/* The rules. tcc_draft_check_epilogue: also those of a sort. */
bool tcc_draft_check_reduce(const tcc_draft *d, tcc_draft_scratch *s, const char **reason);
bool tcc_draft_check_scan(const tcc_draft *d, tcc_draft_scratch *s, const char **reason);
bool tcc_draft_check_epilogue(const tcc_draft *d, tcc_draft_scratch *s, const char **reason);
bool tcc_draft_check_contract(const tcc_draft *d, tcc_draft_scratch *s, const char **reason);
bool tcc_draft_check_window(const tcc_draft *d, tcc_draft_scratch *s, const char **reason);
bool tcc_draft_check_attention(const tcc_draft *d, tcc_draft_scratch *s, const char **reason);

/* At how many different places each node is evaluated, and how often in all: leaves it in the scratch, where levels are
 * known. `parts`: a concat whose operands are launches of their own, or NULL. False:
 * arithmetic at more than `most_places`, or more than `most_visits` of nodes at places. */
bool tcc_draft_count_places(const tcc_draft *d, tcc_draft_scratch *s, const tcc_node *parts, int most_places,
                            int most_visits);
bool tcc_draft_places_create(tcc_draft_places *p, int n_nodes, int most);
void tcc_draft_places_free(tcc_draft_places *p);

/* A reduction's values lie together in rows. */
bool tcc_draft_reduces_rows(const tcc_node *n);

static inline int position_of(const tcc_draft_scratch *s, const tcc_node *n) { return s->position[n->id]; }

/* A concat whose parts the draft stores beside other outputs. */
static inline bool tcc_draft_weaves(const tcc_draft *d, const tcc_draft_scratch *s, int at) {
    return s->part && d->stored[at] && tcc_type_numel(&d->nodes[at]->type) != s->part;
}

static inline bool fail(const char **reason, const char *text) {
    *reason = text;
    return false;
}

/* The target's answers, asked once. What it takes that its kernel computes operand k of a contraction while it reads
 * it; of none, repeats are -1. */
const struct tcc_operand_work *tcc_draft_operand_work(const tcc_draft_scratch *s, tcc_node *hero, int k);
/* Whether `sum` is that of an operand of `dot`, which one call computes as well. */
bool tcc_draft_sums_operand(const tcc_draft_scratch *s, tcc_node *dot, tcc_node *sum);

/* Equal but for dims of 1. */
bool tcc_dims_alike(const tcc_type *a, const tcc_type *b);

/* What the operands of n make it: bit 1 << level for the level of each that is in the draft. */
unsigned tcc_draft_operand_levels(const tcc_node *n, const tcc_draft_scratch *s);
bool tcc_draft_reads_full(const tcc_node *n, const tcc_draft_scratch *s);
/* The table of an INDEX node is loaded, never computed. */
bool tcc_draft_loads_table(const tcc_node *n, const tcc_draft_scratch *s);
/* Whether a node of the group reads x, which may be the group's or not. */
bool tcc_draft_reads(const tcc_draft *d, const tcc_node *x);
/* A stored reshape that nothing in the group reads: its memory is that of its operand. */
bool tcc_draft_is_last_reshape(const tcc_draft *d, int at);

#endif
