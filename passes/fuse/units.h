/* SPDX-License-Identifier: MIT
 * The units that the steps of fuse work on. A unit is a group in the making: the nodes that it owns. No unit owns an
 * inlined node; each unit that uses it evaluates it. A unit's draft is the group that it would be: the nodes that it
 * owns and those that it inlines, if they are needed. */
#ifndef TCC_PASSES_FUSE_UNITS_H
#define TCC_PASSES_FUSE_UNITS_H

#include "ir/support/vec.h"
#include "passes/fuse/fuse.h"

enum {
    TCC_FUSE_NO_UNIT = -1,
    TCC_FUSE_MOST_SEARCHED = 200, /* units among which those that lie between two are looked for */
    TCC_FUSE_MOST_POSTS = 64,     /* nodes of which is known what waits for them, and what they wait for */
};

typedef tcc_vec(int) tcc_fuse_ids;

typedef struct tcc_fuse_unit {
    tcc_fuse_ids owned;     /* node ids, ascending */
    tcc_draft draft;        /* of the owned nodes that are needed and what they inline */
    tcc_fuse_ids loads;     /* nodes that the draft reads and does not have, but leaves: distinct, ascending */
    tcc_fuse_ids stored;    /* nodes of the draft that others load, or outputs; ascending */
    int needed;             /* those of the draft's nodes that are owned: no merge does without them */
    bool concat;            /* and one of them is a concat, whose parts are counted each by itself */
    bool dead, update;      /* update: of optimizer work */
    uint64_t behind, ahead; /* posts that it waits for, and that wait for it: those of the owned nodes */
    int64_t place;          /* in the order of units (order.c): above that of all units that it waits for */
    int before, after;      /* its neighbours in that order, or TCC_FUSE_NO_UNIT */
    int version;            /* changes when the unit does */
    const tcc_group *bound; /* a given group that adds values up, whose nodes and choice this unit keeps; or NULL */
} tcc_fuse_unit;

/* A group that the graph came with, of those of its nodes that something still needs. */
typedef struct tcc_fuse_given {
    tcc_group group; /* of a sum, if it has one: hero NULL, if not */
    bool lost;       /* some are not needed any more */
} tcc_fuse_given;

typedef struct tcc_fuse_candidate {
    double gain;
    int a, b, version_a, version_b;
} tcc_fuse_candidate;

typedef struct tcc_fuser {
    tcc_pass_cx *cx;
    tcc_graph *g;
    int *home;                /* by node: the unit that owns it, or TCC_FUSE_NO_UNIT (leaves, inlined nodes) */
    bool *inlined;            /* by node */
    bool *output;             /* by node: an output of the graph */
    bool *sum_of_products;    /* by node: an addition that is a product's epilogue */
    bool *backward;           /* by node, where values are computed again: tcc_backward_nodes; else NULL */
    uint64_t *behind, *ahead; /* by node: posts that it waits for, and that wait for it (posts.c) */
    int posts[TCC_FUSE_MOST_POSTS], n_posts;
    int *first_user, *users; /* users of node i: users[first_user[i] .. first_user[i+1]-1] */
    tcc_vec(tcc_fuse_unit) units;
    int first_unit;                   /* in the order */
    tcc_vec(tcc_fuse_candidate) heap; /* of merges */
    tcc_draft_scratch scratch;
    int *mark, stamp;                         /* by node */
    int *asked, question;                     /* by node: what a walk through inlined work has found out there */
    int *told;                                /* by node: f->unit_stamp when the units that load it were added */
    int *member, member_stamp;                /* by unit: those of the draft at hand */
    int *unit_mark, *later_mark, unit_stamp;  /* by unit */
    tcc_fuse_ids nodes, again, others, later; /* buffers */
    tcc_node **draft_nodes;
    bool *draft_stored;
    bool out_of_memory;
} tcc_fuser;

/* The unit that stores node `id`; TCC_FUSE_NO_UNIT: none does. */
static inline int tcc_fuser_source(const tcc_fuser *f, int id) {
    return f->inlined[id] ? TCC_FUSE_NO_UNIT : f->home[id];
}

/* Every node a unit of its own. False: out of memory, or an error was reported; destroy it all the same. */
bool tcc_fuser_create(tcc_fuser *f, tcc_pass_cx *cx, tcc_graph *g);
void tcc_fuser_destroy(tcc_fuser *f);
static inline bool tcc_fuser_fine(const tcc_fuser *f) { return !f->out_of_memory && f->g->diag->status == TCC_OK; }

/* The units of groups that the graph came with (given.c), and the order of all units; the groups are the caller's,
 * and outlive the fuser. False: one that adds values up is no group as things are, and the fuser is good for nothing
 * more. */
bool tcc_fuser_take_given(tcc_fuser *f, const tcc_fuse_given *given, int count);
/* Whether the units may be, together, the draft d, as far as bound ones go; otherwise *reason says why not. */
bool tcc_fuser_takes(tcc_fuser *f, const int *units, int count, const tcc_draft *d, const char **reason);

/* The steps. Each logs what it does under TCC_LOG=fusion. */
void tcc_fuser_inline_views(tcc_fuser *f);  /* views and iota, which cost nothing to evaluate anywhere */
void tcc_fuser_accumulate(tcc_fuser *f);    /* additions of products, each with its product */
void tcc_fuser_inline_wanted(tcc_fuser *f); /* what has the mark PASSES, whatever it costs */
void tcc_fuser_merge(tcc_fuser *f);
void tcc_fuser_inline_arithmetic(tcc_fuser *f);
bool tcc_fuser_move(tcc_fuser *f);        /* true: something moved */
void tcc_fuser_log_borders(tcc_fuser *f); /* why units that read one another were not merged */

/* Merges the units if they may be one group and that gains. None may depend on another through a third one. */
bool tcc_fuser_try_merge(tcc_fuser *f, const int *units, int count);

/* Names the units that a draft is made of. */
void tcc_fuser_set_members(tcc_fuser *f, const int *units, int count);
static inline bool tcc_fuser_is_member(const tcc_fuser *f, int u) {
    return u != TCC_FUSE_NO_UNIT && f->member[u] == f->member_stamp;
}
/* Whether a unit that is no member evaluates a user of node `id` and so must load it. */
bool tcc_fuser_loaded_elsewhere(tcc_fuser *f, int id);
/* The draft of some units together. It lives in the fuser's buffers until the next one. */
tcc_draft tcc_fuser_draft_of(tcc_fuser *f, const int *units, int count);
/* Recomputes the unit's draft after a change. False: it is no legal group, *reason says why, or out of memory. */
bool tcc_fuser_refresh(tcc_fuser *f, int u, const char **reason);

/* The order of units (order.c). Inlining a node and moving one to the unit that it reads keep it. */

/* Orders them, anew. False: some wait for each other, or out of memory. */
bool tcc_fuser_order_all(tcc_fuser *f);
/* To be called before the units, none of which waits for another through a third, become one, units[0]. */
void tcc_fuser_order_merged(tcc_fuser *f, const int *units, int count);
/* Whether `to` waits for `from` through a third unit. Then f->others has `to`, and of what it waits for all that may
 * wait for unit `from`, not `from` itself; or more than TCC_FUSE_MOST_SEARCHED of them. The search goes back from `to`
 * and, as long as that is not known to be in vain, also forth from `from`: where one of them is soon through, so is
 * the search. */
bool tcc_fuser_depends(tcc_fuser *f, int to, int from);

/* Posts (posts.c): some nodes of the graph's longest path. */
bool tcc_fuser_set_posts(tcc_fuser *f); /* false: out of memory */
/* Whether unit `to` waits for unit `from` by way of a post in a third unit. False if that is not known. */
bool tcc_fuser_post_between(const tcc_fuser *f, int to, int from);

/* Adds to f->others the units that load node `id`, but u itself; f->unit_stamp tells those that are in already. */
void tcc_fuser_add_readers(tcc_fuser *f, int id, int u);
/* Those that load a node for its user, node `user`. */
void tcc_fuser_add_reader(tcc_fuser *f, int user, int u);

void tcc_fuser_push(tcc_fuser *f, tcc_fuse_ids *v, int value); /* sets out_of_memory */

/* Lets unit `to` own a node, or none if that is TCC_FUSE_NO_UNIT. Drafts stay as they are until a refresh. */
void tcc_fuser_give(tcc_fuser *f, int id, int to);

/* Whether node `id` is a value that is computed again and unit u has work of the forward pass: there the value would be
 * there early, and kept. */
bool tcc_fuser_too_early(const tcc_fuser *f, int id, int u);

#endif
