/* SPDX-License-Identifier: MIT
 * Shared by the files of fuse: a draft of a group, whether it may be one kernel, and its cost. */
#ifndef TCC_PASSES_FUSE_FUSE_H
#define TCC_PASSES_FUSE_FUSE_H

#include "ir/ir.h"
#include "passes/fuse/evaluations.h"
#include "passes/pass.h"
#include "passes/select.h"

enum {
    TCC_FUSE_MAX_NODES = 150, /* what keeps a kernel's code in the instruction cache and its compilation short */
    TCC_FUSE_MAX_INPUTS = 24, /* pointers that a kernel holds in registers or close to */
    TCC_FUSE_MAX_OUTPUTS = 12,
    TCC_FUSE_MAX_CONTEXTS = 8, /* different indices at which a group may evaluate one computed node */
    TCC_FUSE_MAX_FRONT = 24,   /* nodes in front of a contraction */
    TCC_FUSE_MAX_LEVELS = 4,   /* reductions that depend on each other: sweeps over a row. M2 counts
                                  as one with its mean, though codegen may make two of them */
};

/* A set of nodes that might be a group. */
typedef struct tcc_draft {
    tcc_node **nodes; /* in topological order */
    bool *stored;     /* by position in nodes */
    int n_nodes;
    tcc_group_kind kind; /* set by tcc_draft_check */
    tcc_node *hero;
    /* The cost of its kernel: bytes of loads and stores, and for arithmetic and the launch the bytes that take as long.
     * A hero's own work does not count, since fusion does not change it. */
    double cost;
} tcc_draft;

/* How a draft evaluates one of its nodes; by position in nodes. */
typedef enum tcc_draft_level {
    TCC_LEVEL_POINT,  /* does not depend on the hero: evaluated where it is needed */
    TCC_LEVEL_FULL,   /* depends on it, one value an iteration point */
    TCC_LEVEL_KEPT,   /* depends on a reduction, one value a kept point */
    TCC_LEVEL_ACROSS, /* depends on a sum over the kept points, one value a reduced point */
    TCC_LEVEL_PARTS,  /* a sum of a part of a row, one value a part */
} tcc_draft_level;

/* The places at which a draft evaluates its nodes (places.c). */
typedef struct tcc_draft_places {
    int *first;                     /* by node id: its visits */
    struct tcc_draft_place *places; /* index maps */
    struct tcc_draft_visit *visits; /* of nodes at places */
    int n_places, n_visits, most, most_visits;
} tcc_draft_places;

/* Scratch of the checks: arrays by node id that answer "where in the draft is this node" at once. One per pass. */
struct tcc_draft_scratch {
    int *position;          /* of each node of the graph in the draft at hand, or -1 */
    tcc_draft_level *level; /* by position */
    int *contexts;          /* by position: how many different places it is evaluated at */
    bool *identity;         /* by position: an output, or evaluated at the index of one */
    int64_t *times;         /* by position: evaluations of an element, at all of them */
    int *mark;              /* by position */
    bool *stored;           /* by position: of a group that is asked about */
    tcc_draft_places places;
    double *loaded; /* by node id: bytes that are loaded of it; 0 between checks */
    const tcc_graph *graph;
    const tcc_pass_target *target; /* NULL: none */
    tcc_costs costs;
    /* Of the target; of groups that there are, what fuse let them do. */
    bool stores_across;
    int64_t longest_column, longest_parts;
    /* What the target answered, by node id; 0: it was not asked. */
    struct tcc_operand_work *work; /* of the two operands of each contraction: repeats -1 none */
    int *summed;                   /* by sum: the id of the dot that was asked about, plus one; negative: no */
    int64_t part;                  /* elements of a part, of a draft with woven outputs (passes/group.h); else 0 */
    int levels;                    /* of the last REDUCE draft: the reductions of the longest chain of dependent ones */
};

/* `options` NULL: the usual ones. */
bool tcc_draft_scratch_create(const tcc_graph *g, const tcc_pass_options *options, tcc_draft_scratch *out);
void tcc_draft_scratch_free(tcc_draft_scratch *s);

/* Whether the draft is a group as passes/group.h says. Sets kind, hero and cost; otherwise *reason says why not, in a
 * few words. */
bool tcc_draft_check(tcc_draft *d, tcc_draft_scratch *s, const char **reason);
/* Part of the check; the scratch holds levels and how often nodes are evaluated. */
double tcc_draft_cost(const tcc_draft *d, tcc_draft_scratch *s);

/* The bytes of memory traffic that take so long. */
static inline double tcc_traffic_of(const tcc_costs *costs, double ns) { return ns / costs->byte_ns; }
/* Work of one evaluation of `op`, in bytes of traffic that take as long. */
double tcc_op_cost(const tcc_costs *costs, tcc_op op);

static inline tcc_fusion_class tcc_fusion_of(const tcc_node *n) { return tcc_op_get_info(n->op)->fusion; }
static inline bool tcc_is_leaf(const tcc_node *n) { return tcc_fusion_of(n) == TCC_FUSION_LEAF; }
/* Each element of the result follows from one of each operand, by arithmetic or by where it lies. */
static inline bool tcc_is_elementwise(const tcc_node *n) {
    const tcc_fusion_class fusion = tcc_fusion_of(n);
    return fusion == TCC_FUSION_POINT || fusion == TCC_FUSION_VIEW || fusion == TCC_FUSION_INDEX;
}
struct tcc_operand_work;
/* Whether a contraction that computes an operand may do `n` for it; if not, *reason says why. */
bool tcc_is_operand_work(const struct tcc_operand_work *work, const tcc_node *n, const char **reason);
static inline bool tcc_is_reduction(const tcc_node *n) { return tcc_fusion_of(n) == TCC_FUSION_REDUCE; }

#endif
