/* SPDX-License-Identifier: MIT
 * The graph IR: SSA, functional, statically shaped. This is the central header; everything in ir/, passes/ and codegen/
 * reads it.
 *
 * A graph is a list of nodes in a topological order (operands before users). A node has one result. Nodes are built
 * through tcc_ir_build, which infers and checks the type and returns the node that is already there if an equal one
 * exists: equal op, operands, attributes, type and marks is identity, so common subexpressions never arise. Nodes are
 * immutable once built; a pass makes a new graph (see tcc_rewrite). State enters as inputs and leaves as outputs that
 * alias them.
 *
 * Life of a graph: trace -> autodiff, train-step, simplify, ... on the plain graph -> fuse adds groups -> select says
 * what runs each -> order sorts them -> plan-memory gives places. All of it prints to text and parses back, byte for
 * byte (print.c, parse.c). */
#ifndef TCC_IR_IR_H
#define TCC_IR_IR_H

#include "ir/support/arena.h"
#include "ir/support/diag.h"
#include "ir/support/dtype.h"
#include "ir/support/role.h"
#include "ir/support/vec.h"

#include <stdbool.h>
#include <stdint.h>

/* -- Operations -- */

typedef enum tcc_op {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) TCC_OP_##id,
#include "ir/ops.def"
#undef TCC_OP
    TCC_OP_COUNT
} tcc_op;

typedef enum tcc_fusion_class {
    TCC_FUSION_LEAF,
    TCC_FUSION_POINT,
    TCC_FUSION_VIEW,
    TCC_FUSION_INDEX,
    TCC_FUSION_REDUCE,
    TCC_FUSION_SCAN,
    TCC_FUSION_SCATTER,
    TCC_FUSION_CONTRACT,
    TCC_FUSION_WINDOW,
    TCC_FUSION_ATTENTION,
    TCC_FUSION_COMPOSITE,
    TCC_FUSION_COLLECTIVE,
} tcc_fusion_class;

/* What the pass amp does with an op whose operands are f32; passes/amp.c says it in full. */
typedef enum tcc_amp_class { TCC_AMP_LOW, TCC_AMP_FP32, TCC_AMP_OPMATH, TCC_AMP_PROMOTE, TCC_AMP_NONE } tcc_amp_class;

enum { TCC_FLAG_COMM = 1, TCC_FLAG_TYPED = 2, TCC_FLAG_COMPARE = 4, TCC_FLAG_EXACT = 8, TCC_FLAG_WIDE = 16 };
#define TCC_FLAG_WIDE_OPERAND(k) ((unsigned)TCC_FLAG_WIDE << (k))

/* -- Attributes -- */

typedef struct tcc_dims {
    int count;
    int64_t v[TCC_MAX_RANK];
} tcc_dims;

/* Where `d` stands in the list, -1 where it does not. */
static inline int tcc_dims_find(const tcc_dims *list, int64_t d) {
    for (int i = 0; i < list->count; i++)
        if (list->v[i] == d) return i;
    return -1;
}
static inline bool tcc_dims_has(const tcc_dims *list, int64_t d) { return tcc_dims_find(list, d) >= 0; }

typedef struct tcc_doubles {
    int64_t count;
    const double *v;
} tcc_doubles;

#define TCC_CTYPE_I64 int64_t
#define TCC_CTYPE_F64 double
#define TCC_CTYPE_BOOL bool
#define TCC_CTYPE_DIMS tcc_dims
#define TCC_CTYPE_F64S tcc_doubles
#define TCC_CTYPE_STR const char *
#define TCC_CTYPE_ROLE tcc_role

#include "ir/attrs.def"

typedef enum tcc_attr_class {
#define C(name) TCC_ATTR_CLASS_##name,
    TCC_ATTR_CLASSES(C)
#undef C
        TCC_ATTR_CLASS_COUNT
} tcc_attr_class;

/* struct tcc_attrs_conv { tcc_dims stride; ... }, one a class. The unnamed int keeps `none` a valid struct. */
#define F(kind, name) TCC_CTYPE_##kind name;
#define C(name)                       \
    typedef struct tcc_attrs_##name { \
        int unused_;                  \
        TCC_ATTRS_##name(F)           \
    } tcc_attrs_##name;
TCC_ATTR_CLASSES(C)
#undef C
#undef F

typedef union tcc_attrs {
#define C(name) tcc_attrs_##name name;
    TCC_ATTR_CLASSES(C)
#undef C
} tcc_attrs;

typedef struct tcc_op_info {
    const char *text;
    int least, most; /* operands; most < 0: any number */
    tcc_attr_class attrs;
    tcc_fusion_class fusion;
    unsigned flags;
    tcc_amp_class amp;
    double cost; /* of an element, in simple vector instructions, about */
    const char *doc;
} tcc_op_info;

extern const tcc_op_info tcc__op_infos[TCC_OP_COUNT];
static inline const tcc_op_info *tcc_op_get_info(tcc_op op) { return &tcc__op_infos[op]; }
/* Operand k is a sum that stays f32 where the others are f16 or bf16. */
static inline bool tcc_op_is_wide(tcc_op op, int k) {
    return tcc_op_get_info(op)->flags >= TCC_FLAG_WIDE && tcc_op_get_info(op)->flags & TCC_FLAG_WIDE_OPERAND(k);
}
/* Of random numbers. */
static inline bool tcc_op_draws(tcc_op op) { return tcc_op_get_info(op)->attrs == TCC_ATTR_CLASS_rng; }
bool tcc_op_parse(const char *text, size_t length, tcc_op *out);

/* -- Nodes and graphs -- */

enum {
    TCC_MARK_FULL = 1,   /* amp leaves it in f32: the user said so */
    TCC_MARK_REMAT = 2,  /* a value of the forward pass, computed again for the backward pass (passes/remat/remat.c) */
    TCC_MARK_PASSES = 4, /* of those, one that its readers evaluate where they can, even if that takes longer, so that
                            it is not stored */
};

typedef struct tcc_node tcc_node;
struct tcc_node {
    tcc_op op;
    int id; /* index in graph->nodes: dense, so that side tables are arrays */
    tcc_type type;
    int n_operands;
    tcc_node *const *operands;
    const tcc_attrs *attrs;                /* member of the op's class: n->attrs->conv.stride; never NULL */
    tcc_loc loc;                           /* the user's line */
    bool backward;                         /* made by autodiff for the op at that line */
    int segment;                           /* of the user's (tcc_checkpoint_segment), from 1; 0: in none */
    unsigned marks;                        /* TCC_MARK_*; part of a node's identity */
    const struct tcc_positions *positions; /* of attention in a sample of a graph (sample.h), for the interpreter; NULL
                                              anywhere else */
};

typedef struct tcc_output {
    const char *name;
    tcc_node *node;
    int alias;     /* index in graph->inputs whose state this is the next value of, or -1 */
    bool in_place; /* set by plan-memory: written over the aliased input, no copy at the end */
    bool staged;   /* set by plan-memory: one state becomes another, by way of the arena at stage_bytes, in case they
                      trade places */
    int64_t stage_bytes;
} tcc_output;

typedef enum tcc_group_kind {
    TCC_GROUP_POINTWISE,
    TCC_GROUP_REDUCE,
    TCC_GROUP_SCAN,
    TCC_GROUP_SCATTER,
    TCC_GROUP_SORT,
    TCC_GROUP_CONTRACT,
    TCC_GROUP_WINDOW,
    TCC_GROUP_ATTENTION,
    TCC_GROUP_NORM,
    TCC_GROUP_COLLECTIVE,
    TCC_GROUP_KIND_COUNT
} tcc_group_kind;

/* A group: nodes that one kernel computes. `nodes` are all that it evaluates, in topological order, the cheap producers
 * that it recomputes for itself included; `outputs` are those of them that it stores. A node is an output of at most
 * one group, and every value that crosses groups is an output of one or a graph input; what each kind may hold is in
 * passes/group.h.
 *
 * Before fuse, a graph may have groups that have no outputs yet: given ones, from which fuse starts. They need not name
 * all nodes, and those that several of them name are evaluated by each. */
typedef struct tcc_group {
    tcc_group_kind kind;
    tcc_node *hero; /* gives the iteration space */
    int n_nodes, n_outputs;
    tcc_node **nodes, **outputs;
    struct tcc_implementation *implementation; /* set by select: what runs it; NULL: not chosen yet */
} tcc_group;

/* -- What runs a group --
 * One or more launches, in order, each of a kernel of ours or a call of a library. A launch sees what earlier ones
 * wrote. Memory is planned by them: a value lives from the first launch that writes it to the last that reads it. */

/* A value of the graph, or, where node is NULL, a temporary of the group. */
typedef struct tcc_launch_value {
    tcc_node *node;
    int temporary;
} tcc_launch_value;

/* The launch reads `old` only at the element that it writes of `written` at the same time, so that both may be the
 * same memory. */
typedef struct tcc_overwrite {
    tcc_node *old, *written;
} tcc_overwrite;

typedef struct tcc_launch {
    const char *name; /* "pointwise", "contract", "cublaslt.matmul" */
    bool beside;      /* may run together with the launch before it */
    bool copies;      /* only copies what it reads to what it writes: nothing to do where both are the same memory */
    int n_reads, n_writes, n_overwrites;
    tcc_launch_value *reads, *writes; /* all but constants; what is added to stands in `writes` */
    tcc_overwrite *overwrites;
    int64_t bytes, flop, ns; /* predicted: moved from and to memory, computed, and the time that takes */
} tcc_launch;

/* Scratch that a group needs for itself: parts of sums, copies of operands, a library's workspace. Plans add the sizes
 * up, so each has a limit. */
#define TCC_MAX_TEMPORARY_BYTES (INT64_C(1) << 44)
typedef struct tcc_temporary {
    int64_t size_bytes;
    int first, last;      /* launches that use it */
    bool placed;          /* by plan-memory, at */
    int64_t offset_bytes; /* in the arena */
} tcc_temporary;

typedef struct tcc_choice_param {
    const char *name; /* "split", "lanes"; again for each launch that has it, in their order */
    int64_t value;
} tcc_choice_param;

typedef struct tcc_implementation {
    const char *name; /* a row of the target's table: "reduce", "winograd", "cublaslt.matmul" */
    int n_params, n_launches, n_temporaries;
    tcc_choice_param *params;
    tcc_launch *launches;
    tcc_temporary *temporaries;
} tcc_implementation;

/* Its predicted time, of all launches. */
int64_t tcc_implementation_ns(const tcc_implementation *x);
/* A copy with its nodes mapped by `map` (by id; NULL: the same nodes), all of it in `arena`; NULL when memory is
 * short. */
tcc_implementation *tcc_implementation_copy(tcc_arena *arena, const tcc_implementation *x, tcc_node *const *map);

/* Where a value lives during a run: bytes from the start of the arena. */
typedef struct tcc_place {
    tcc_node *node;
    int64_t offset_bytes;
} tcc_place;

typedef struct tcc_graph {
    tcc_arena arena; /* owns nodes, attributes, names */
    const char *name;
    tcc_diag *diag; /* where building reports errors; borrowed */
    tcc_vec(tcc_node *) nodes;
    tcc_vec(tcc_node *) inputs; /* INPUT nodes in signature order */
    tcc_vec(tcc_output) outputs;
    /* After fuse: every node but leaves is evaluated by at least one group; groups are in execution order. */
    tcc_vec(tcc_group) groups;
    /* After plan-memory: one entry for each value that a group stores outside the bindings. */
    tcc_vec(tcc_place) places;
    int64_t arena_bytes;
    struct tcc_node_table *table; /* hash-consing */
} tcc_graph;

/* An empty graph; NULL when memory is short. `name` is copied. `diag` must outlive the graph or be replaced. */
tcc_graph *tcc_graph_create(const char *name, tcc_diag *diag);
void tcc_graph_destroy(tcc_graph *g); /* NULL is allowed */

/* -- Building --
 * Errors are sticky: the first one is kept in g->diag, the call returns NULL, and a NULL operand makes every later call
 * return NULL without a further message. So a rule builds a whole expression and its caller checks g->diag->status (or
 * one NULL). */

/* The node for `op`. `attrs` may be NULL for class none; it is copied. `type` is needed for TYPED ops, else NULL. */
tcc_node *tcc_ir_build(tcc_graph *g, tcc_op op, tcc_node *const *operands, int n_operands, const tcc_attrs *attrs,
                       const tcc_type *type, tcc_loc loc);
/* Where the nodes come from that are built from now on: loc, backward and segment, none of which is identity. The
 * convenience functions (build.h) take all of it, tcc_ir_build all but the location. A pass says for which node it
 * builds, autodiff and train-step for which place, and the frontend alone gives the user's line and segment. */
void tcc_ir_set_origin(tcc_graph *g, const tcc_node *n);
void tcc_ir_set_backward(tcc_graph *g, tcc_loc loc); /* in no segment */
void tcc_ir_set_loc(tcc_graph *g, tcc_loc loc);
void tcc_ir_set_segment(tcc_graph *g, int segment);
/* The marks of the nodes that are built from now on; inputs have none. */
void tcc_ir_set_marks(tcc_graph *g, unsigned marks);

tcc_node *tcc_ir_input(tcc_graph *g, const char *name, tcc_role role, const tcc_type *type, tcc_loc loc);
/* A state that begins as `begin` everywhere, rounded to its type. */
tcc_node *tcc_ir_state(tcc_graph *g, const char *name, const tcc_type *type, double begin, tcc_loc loc);
/* A derived state: a copy of input `of`, a parameter or a state that is no copy, in another element type. It is no
 * memory of its own: it is in no checkpoint, and it is made again whenever the host writes `of`. A graph that updates
 * `of` updates the copy too. */
tcc_node *tcc_ir_state_copy(tcc_graph *g, const char *name, tcc_dtype dtype, const tcc_node *of, tcc_loc loc);
static inline bool tcc_input_is_copy(const tcc_node *input) {
    return input->attrs->input.copy_of && *input->attrs->input.copy_of;
}
/* Adds an output; alias -1 for none. Names of outputs are unique. */
tcc_status tcc_ir_output(tcc_graph *g, const char *name, tcc_node *node, int alias);
/* Appends a group; its node lists and its implementation are copied. */
tcc_status tcc_ir_group(tcc_graph *g, const tcc_group *group);

/* -- Rewriting: from one graph to a new one --
 * A pass walks from->nodes in order and, for each, either copies it (tcc_rewrite_copy) or builds something else,
 * storing the replacement in map[old->id]. Nodes that nothing needs are simply not copied: tcc_rewrite_live marks what
 * outputs reach. */
typedef struct tcc_rewrite {
    const tcc_graph *from;
    tcc_graph *to;
    tcc_node **map; /* by old id; NULL: not copied */
    bool *live;     /* by old id: an output depends on it */
} tcc_rewrite;

/* Starts a rewrite: a new empty graph, with the inputs of `from` copied, all of them, in order. */
tcc_status tcc_rewrite_begin(tcc_rewrite *rw, const tcc_graph *from);
/* The same op on the mapped operands, with the old origin and marks. */
tcc_node *tcc_rewrite_copy(tcc_rewrite *rw, const tcc_node *old);
/* The same of all that is live. */
void tcc_rewrite_copy_live(tcc_rewrite *rw);
/* Gives the new graph as it is, or frees it when anything went wrong. */
tcc_status tcc_rewrite_take(tcc_rewrite *rw, tcc_graph **out);
/* Copies the outputs through the map, and gives the new graph, or frees it when anything went wrong. */
tcc_status tcc_rewrite_end(tcc_rewrite *rw, tcc_graph **out);
void tcc_rewrite_abort(tcc_rewrite *rw);
/* A copy without what no output depends on. */
tcc_status tcc_graph_copy_live(const tcc_graph *g, tcc_graph **out);
/* idle[i], for each input: it is a parameter that no output depends on and that has no next value. What is computed
 * knows a weight by its copies alone, then (tcc_ir_state_copy). */
tcc_status tcc_graph_find_idle(const tcc_graph *g, bool *idle);

/* -- Text, checks, meaning -- */

typedef struct tcc_print_options {
    bool locs; /* print loc("file":line), loc("layer") */
} tcc_print_options;

void tcc_graph_print(tcc_strbuf *b, const tcc_graph *g, tcc_print_options options);
const char *tcc_group_kind_text(tcc_group_kind kind); /* "pointwise" */
/* What runs a group, as it stands in the text, without the launches' values: for dumps and logs. */
void tcc_implementation_print_name(tcc_strbuf *b, const tcc_implementation *x);
/* Reads that, `by "NAME" {PARAMETER=NUMBER, ...}`, and nothing behind it. It lies in `arena`. `at` is where the text
 * stands; errors, EPARSE and ENOMEM, have it. */
tcc_status tcc_implementation_parse(const char *text, tcc_loc at, tcc_arena *arena, tcc_diag *diag,
                                    tcc_implementation **out);
/* "%12 = add(%3, %4) : f32[2,3]", for messages; rotating thread-local buffer. */
const char *tcc_node_text(const tcc_node *n);
/* Parses one graph. `file` names the text in messages. Errors carry the line and what was expected. */
tcc_status tcc_graph_parse(const char *text, size_t length, const char *file, tcc_diag *diag, tcc_graph **out);
/* Checks everything that holds for a well-formed graph: operand counts, attributes, re-inferred types, order, outputs,
 * groups, places. All errors are reported, as notes after the first. */
tcc_status tcc_graph_verify(const tcc_graph *g, tcc_diag *diag);
/* Equal up to node numbers; groups and places are compared too. */
bool tcc_graph_equal(const tcc_graph *a, const tcc_graph *b);

bool tcc_attrs_equal(tcc_attr_class c, const tcc_attrs *a, const tcc_attrs *b);
uint64_t tcc_attrs_hash(tcc_attr_class c, const tcc_attrs *a);

#endif
