/* SPDX-License-Identifier: MIT
 * Questions that the passes ask of a program's target. Codegen answers them; the composition root connects both. */
#ifndef TCC_PASSES_SELECT_H
#define TCC_PASSES_SELECT_H

#include "ir/ir.h"
#include "ir/support/costs.h"

/* One way to run a group. */
typedef struct tcc_candidate {
    const char *name;
    int64_t ns; /* predicted; after a cut, of both parts */
    /* NULL: the group is cut in two at the value `cut`, and each part is asked for by itself. */
    const tcc_implementation *implementation;
    tcc_node *cut;
} tcc_candidate;

typedef tcc_vec(tcc_candidate) tcc_candidates;

/* What it takes to compute an operand of a contraction while it is read. */
typedef struct tcc_operand_work {
    int64_t repeats;  /* how often each element is computed, at least 1 */
    int reads;        /* most tensors that it is computed from, beside scalars */
    bool by_channels; /* tensors of other shapes may only be vectors along the last dim */
} tcc_operand_work;

typedef struct tcc_pass_target {
    void *user;
    tcc_costs costs; /* zeroed: those of a usual CPU */
    /* The best way to run `group` of g that measurements or a file know and that agrees with the group's own choice.
     * *out has an implementation or a cut; zeroed: none is known. NULL: select compares predictions. Errors: TCC_EINVAL
     * where a known way does not fit. */
    tcc_status (*choose)(void *user, const tcc_graph *g, const tcc_group *group, tcc_arena *arena, tcc_candidate *out);
    void *choose_user;
    /* All ways to run `group` of `g` on this target, in a fixed order; implementations and names are in `arena`.
     * Errors: TCC_EUNSUPPORTED with the node's line where there is none, TCC_ENOMEM, TCC_EBUG. */
    tcc_status (*candidates)(void *user, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                             tcc_candidates *out);
    /* What runs `group` of g by the choice that it has: the implementation of that name, with those parameters. Missing
     * parameters are chosen; launches are rebuilt. Errors: TCC_EINVAL with the node's line where this target has no
     * such implementation. */
    tcc_status (*follow)(void *user, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                         const tcc_implementation **out);
    /* Whether `follow` would find a way to run the group; `exactly`: one that sets the order of sums, with no parameter
     * left to choose. NULL: yes. */
    bool (*can_follow)(void *user, const tcc_graph *g, const tcc_group *group, bool exactly);
    /* The part of a choice that fixes the order of the group's sums: the implementation, with those parameters, without
     * launches. In `arena`; NULL when memory is short. */
    tcc_implementation *(*order_of)(void *user, const tcc_implementation *x, tcc_arena *arena);
    bool narrow_places; /* a place in a window takes less time where it is a byte in memory */
    int lanes;          /* of a vector of f32 that contractions have along channels; 0: it has no such vectors */
    /* Elements of a row of such a type, a multiple of which contractions read at full speed; 1: any. NULL: as 1. */
    int64_t (*row_elements)(void *user, tcc_dtype dtype);
    /* Elements, of up to 4 bytes, of the longest line that a kernel sorts, a power of two; 0: none does. */
    int64_t longest_sorted;
    /* Kernels of reductions store a value of each point at another place than its own as fast: a transpose of results
     * whose rows are read across memory. */
    bool stores_across;
    /* Elements of the longest column, a reduction's range across memory, that a kernel of several sweeps goes through:
     * caches have it from one sweep to the next. 0: kernels sweep over columns once. */
    int64_t longest_column;
    /* Elements of the longest row that a kernel of reductions of rows may also add up in parts. 0: none does. */
    int64_t longest_parts;
    bool sums_in_stages; /* a sum over rows and what they have takes no longer if its rows are added up first */
    int scan_threads; /* that have a line of running results at once, a vector each, and so go either way; 0: none do */
    /* Whether a library computes `n` of g, batch_norm or its gradient by x, with all that belongs to it; NULL: it
     * computes none. */
    bool (*takes_norm)(void *user, const tcc_graph *g, const tcc_node *n);
    /* Whether the contraction `hero` of g, its operands in memory, would be a kernel of our own that computes operand k
     * as it reads it: fuse may put work in front of it. NULL: no. */
    bool (*computes_operand)(void *user, const tcc_graph *g, tcc_node *hero, int k, tcc_operand_work *out);
    /* Whether a library's call computes the dot `hero` of g and `sum`, that of an operand, at once: fuse may put both
     * into a group. NULL: no. */
    bool (*sums_operands)(void *user, const tcc_graph *g, tcc_node *hero, tcc_node *sum);
} tcc_pass_target;

/* Whether a lane group of the target has a line of so many elements at once, of words of up to so many bytes. */
bool tcc_has_line(const tcc_pass_target *target, int64_t extent, int bytes);

/* What work costs on a target; NULL: on a usual CPU. */
tcc_costs tcc_costs_of(const tcc_pass_target *target);

/* The choice by prediction: the index of the candidate that is taken. */
int tcc_select_best(const tcc_candidate *candidates, int count);

/* Cuts a group at `cut`, one of its values: `first` computes and stores it, with all that leads to it alone; `rest`
 * reads it. At the sum of a dot's operand, `first` is that sum alone, and `rest` the dot with what is behind it. Node
 * lists are in `arena`. *possible is false if `rest` needs what `first` does not store, or if one of them would be
 * empty. */
tcc_status tcc_group_cut(tcc_arena *arena, tcc_diag *diag, const tcc_group *group, tcc_node *cut, tcc_group *first,
                         tcc_group *rest, bool *possible);

#endif
