/* SPDX-License-Identifier: MIT
 * The memory plan: lifetimes, in launches, and offsets of values, temporaries and workspaces. Shared by the pass, its
 * printers, codegen's questions and the tests' checker. */
#ifndef TCC_PASSES_MEMORY_PLAN_H
#define TCC_PASSES_MEMORY_PLAN_H

#include "ir/ir.h"

/* Memory of the arena with its place and life, in moments of the whole graph: it is first written in moment `first` and
 * used by none after `last`. */
typedef struct tcc_plan_value {
    tcc_node *node; /* a stored value; NULL: a temporary of a group, or, */
    int group,
        temporary; /* where group is -1, output `temporary` of the graph on its way to the state that it becomes */
    int64_t offset_bytes, size_bytes; /* the size is rounded up to the alignment of the arena */
    int first, last;
    bool written_over; /* another value takes over the memory in the last moment */
} tcc_plan_value;

typedef struct tcc_plan {
    tcc_arena arena;                     /* of launches that are not in the graph */
    const tcc_implementation **launches; /* by group */
    int *start;                          /* by group: its first moment; one more: the end, when outputs are copied */
    int *first_write, *last_read;        /* by node: the moments; -1: never */
    tcc_vec(tcc_plan_value) values;      /* in the order of graph->places; then temporaries; then staged outputs */
    int64_t peak_bytes; /* most bytes alive in one moment, a value and what is written over it counted once */
    int peak_moment;
} tcc_plan;

enum { TCC_PLAN_ALIGNMENT = 64 };

/* The plan that graph->groups and graph->places describe. */
tcc_status tcc_plan_read(const tcc_graph *g, tcc_plan *out, tcc_diag *diag);
void tcc_plan_free(tcc_plan *plan);
/* Whether `later` may take the memory of `earlier`, which dies in the moment that writes it. */
bool tcc_plan_overwrites(const tcc_plan *plan, const tcc_plan_value *earlier, const tcc_plan_value *later);
/* Whether an output may be written over the state that it replaces: all readers of the old value come before, or read
 * in step with the launch that writes the new one. */
bool tcc_plan_may_replace(const tcc_graph *g, const tcc_plan *plan, const tcc_output *output);
static inline int64_t tcc_plan_aligned(int64_t bytes) {
    return (bytes + TCC_PLAN_ALIGNMENT - 1) / TCC_PLAN_ALIGNMENT * TCC_PLAN_ALIGNMENT;
}
static inline int64_t tcc_plan_size(const tcc_node *n) { return tcc_plan_aligned(tcc_type_bytes(&n->type)); }
void tcc_plan_print(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan);
/* Time to the right, addresses upward, a rectangle a value. */
void tcc_plan_svg(tcc_strbuf *b, const tcc_graph *g, const tcc_plan *plan);
/* What the memory is for, in words; overwritten by the next but one call. */
const char *tcc_plan_value_text(const tcc_graph *g, const tcc_plan_value *v);

#endif
