/* SPDX-License-Identifier: MIT
 * The memory plan: who lives when and where. Shared by the pass, its printers, codegen's questions and the tests'
 * checker. */
#ifndef TCC_PASSES_PLAN_H
#define TCC_PASSES_PLAN_H

#include "ir/ir.h"

/* A stored value with its place and life: it is written by group `first` and read by none after group `last`. */
typedef struct tcc_plan_value {
    tcc_node *node;
    int64_t offset_bytes, size_bytes; /* the size is rounded up to the alignment of the arena */
    int first, last;
} tcc_plan_value;

typedef struct tcc_plan {
    tcc_vec(tcc_plan_value) values; /* in the order of graph->places; free with tcc_vec_free */
    int64_t peak_bytes; /* most bytes alive in one group, a value and what is written over it counted once */
    int peak_group;
} tcc_plan;

enum { TCC_PLAN_ALIGNMENT = 64 };

/* The plan that graph->groups and graph->places describe. */
tcc_status tcc_plan_read(const tcc_graph *g, tcc_plan *out, tcc_diag *diag);
void tcc_plan_free(tcc_plan *plan);
/* Checks that no two values alive at once overlap, except an output written over an operand of the same pointwise group
 * that dies there, and that outputs marked in_place have no later reader of the old value. */
tcc_status tcc_plan_check(const tcc_graph *g, tcc_diag *diag);
/* The output of the graph whose binding is node's home, so that the group that stores it writes there; -1: it has a
 * place. */
int tcc_plan_binding(const tcc_graph *g, const tcc_node *node);
/* Whether `group` reads `input` only at the element that it writes of `output` in the same step of its loop, so that
 * both may be the same memory. Pointwise groups, reductions, and the base of a scatter. */
bool tcc_plan_same_element(const tcc_group *group, const tcc_node *input, const tcc_node *output);
/* Whether both values have places and these begin at one address. */
bool tcc_plan_share_place(const tcc_graph *g, const tcc_node *a, const tcc_node *b);
static inline int64_t tcc_plan_size(const tcc_node *n) {
    return (tcc_type_bytes(&n->type) + TCC_PLAN_ALIGNMENT - 1) / TCC_PLAN_ALIGNMENT * TCC_PLAN_ALIGNMENT;
}
void tcc_plan_print(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan);
/* Time to the right, addresses upward, a rectangle a value. */
void tcc_plan_svg(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan);

#endif
