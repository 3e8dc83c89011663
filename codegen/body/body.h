/* SPDX-License-Identifier: MIT
 * The scalar program of a kernel: the computation at one point of an iteration space. It is a DAG of scalar expressions
 * whose memory accesses are affine in the loop variables. Graph nodes are traced into it once (trace.c). Then a
 * schedule chooses loops and lanes and has it emitted (emit.c). Two kernels with equal programs and schedules are one
 * kernel.
 *
 * Index arithmetic is symbolic. A coordinate is an affine form over loop variables and over values that are known only
 * at run time. Such a value is a quotient that no refinement of the space resolves, or an index read from memory. */
#ifndef TCC_CODEGEN_BODY_BODY_H
#define TCC_CODEGEN_BODY_BODY_H

#include "codegen/emit/emitter.h"
#include "ir/ir.h"
#include "ir/support/table.h"
#include "passes/group.h"

typedef struct tcc_term {
    int var;
    int64_t coefficient;
} tcc_term;

/* constant + sum of coefficient * variable; terms ascend by variable, none is 0. */
typedef struct tcc_affine {
    int64_t constant;
    int n;
    const tcc_term *terms;
} tcc_affine;

typedef struct tcc_expr tcc_expr;

typedef enum tcc_var_kind {
    TCC_VAR_LOOP,  /* 0 <= v <= high, given by a loop */
    TCC_VAR_VALUE, /* the value of an integer expression */
    TCC_VAR_ALIAS, /* an affine form that lies in [low, high] wherever its guard holds */
} tcc_var_kind;

typedef struct tcc_var {
    tcc_var_kind kind;
    int64_t low, high; /* inclusive */
    const tcc_expr *value;
    tcc_affine alias;
} tcc_var;

enum { TCC_BODY_MAX_LOOPS = 64 };

typedef enum tcc_expr_kind {
    TCC_EXPR_CONST,  /* `number` or `integer`, by dtype */
    TCC_EXPR_INDEX,  /* the affine form as an integer (I32 or I64) */
    TCC_EXPR_DIV,    /* operand 0 / integer, rounding down; operand >= 0 where it matters */
    TCC_EXPR_MOD,    /* operand 0 % integer */
    TCC_EXPR_WITHIN, /* bool: 0 <= operand 0 < integer */
    TCC_EXPR_LOAD,   /* buffer at the affine element offset; 0 where operand 0 (a guard), if there is one, is false */
    TCC_EXPR_POINT,  /* graph op `op` on the operands; `integer` holds the id of a random draw */
    TCC_EXPR_REDUCE, /* the value of a reduction (`op`) that the schedule makes from operand 0, which does not depend on
                        reduced loops; or of a running result, from its operands */
    TCC_EXPR_FOLD,   /* op (REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, ARGMAX) of operand 0 over loops of its own: `fold`;
                        `products`: each of the products that it sums up is added with one rounding */
    TCC_EXPR_PORT,   /* a value that the schedule provides; `integer` numbers it */
} tcc_expr_kind;

struct tcc_expr {
    tcc_expr_kind kind;
    tcc_dtype dtype; /* of the value; f16 and bf16 values are held in f32, where they may have more digits: */
    bool rounded;    /* of f16 or bf16: known to be a value of that type */
    bool products;   /* FOLD of operand 0, a product, which is no value by itself */
    tcc_op op;
    int id; /* index in body->exprs; operands come before users */
    int n_operands;
    const tcc_expr **operands;
    tcc_affine affine;
    int buffer; /* LOAD */
    int64_t integer;
    double number;
    uint64_t loops; /* bit v: depends on loop variable v */
    uint64_t fold;  /* FOLD: the loops it runs */
};

/* Memory that the kernel touches: a value's memory from `offset` elements on, or a temporary that several kernels of
 * one group share (temporary >= 0; node NULL), or a table that is part of the program (literal, in the body's arena).
 */
typedef struct tcc_body_buffer {
    const tcc_node *node;
    int temporary;
    const void *literal;
    int64_t literal_bytes;
    int64_t row; /* elements of a row of a table, of which a vector reads one; 0: all are one row */
    int64_t offset;
    tcc_dtype dtype;
    bool written;
} tcc_body_buffer;

typedef struct tcc_body_write {
    int buffer;
    tcc_affine offset;
    const tcc_expr *value;
    const tcc_expr *guard; /* where it is false nothing is stored; NULL: stored everywhere */
    bool kept;             /* REDUCE groups: one value a kept point */
    bool sum;              /* REDUCE groups: added to what earlier kept points left there */
    bool part;             /* REDUCE groups: added up over the last reduced loops, which its place does not move with */
    bool permuted;         /* a value in its offset takes each value of its range once */
    bool past_caches;      /* whole vectors that begin at multiples of their size go to memory at once */
} tcc_body_write;

/* A node's value at one of the points where it is wanted. */
typedef struct tcc_traced {
    int position; /* of the node among those of the body */
    const tcc_expr *value;
} tcc_traced;

typedef struct tcc_body {
    tcc_arena *arena; /* borrowed; owns everything here */
    tcc_diag *diag;
    tcc_node *const *nodes; /* evaluated here, by id: those of the group, and */
    int n_nodes;
    const tcc_node *also;  /* this one; NULL: none. Others are loaded */
    int n_space;           /* the first loops, which tcc_iteration_open made; folds make more */
    int n_loops;           /* made so far */
    tcc_vec(tcc_var) vars; /* loops below TCC_BODY_MAX_LOOPS, the others behind */
    tcc_vec(tcc_expr *) exprs;
    tcc_vec(tcc_body_buffer) buffers;
    tcc_vec(tcc_body_write) stores;
    tcc_vec(tcc_traced) traced;     /* arithmetic of the group */
    tcc_vec(tcc_expr *) reductions; /* REDUCE expressions in order of dependence */
    const tcc_expr *guard;          /* while tracing: where the value is wanted at all */
    /* while tracing: what makes a node that is not evaluated by the usual rules (a group's hero). NULL: nothing */
    const tcc_expr *(*special)(struct tcc_body *b, const tcc_node *n, const tcc_affine *coordinates, void *user);
    void *special_user;
    /* by op: the rule of a node (body.c) */
    const tcc_expr *(*rule)(struct tcc_body *b, const tcc_node *n, const tcc_affine *coordinates);
    tcc_table memo;             /* values that were traced (trace.c) */
    int *table, table_capacity; /* hash-consing of exprs: id + 1 */
    int split_var;              /* a loop variable that a reshape wants split, or -1 */
    int64_t split_inner;        /* into (extent / split_inner, split_inner) */
    tcc_status status;
} tcc_body;

/* `group` and its list outlive the tracing; NULL: no node is evaluated here. */
tcc_body *tcc_body_create(tcc_arena *arena, tcc_diag *diag, const tcc_group *group);
/* The number of a node among those that are evaluated here, below n_nodes + 1; -1: it is loaded. */
int tcc_body_position(const tcc_body *b, const tcc_node *n);
static inline bool tcc_body_has(const tcc_body *b, const tcc_node *n) { return tcc_body_position(b, n) >= 0; }
void tcc_body_seal(tcc_body *b); /* tracing is over: frees what only it needs */
void tcc_body_free(tcc_body *b); /* what is not in the arena; NULL is allowed */

/* --- Affine forms (affine.c) */
tcc_affine tcc_affine_constant(int64_t value);
tcc_affine tcc_affine_var(tcc_body *b, int var);
tcc_affine tcc_affine_add(tcc_body *b, tcc_affine a, tcc_affine c);
tcc_affine tcc_affine_scale(tcc_body *b, tcc_affine a, int64_t factor);
tcc_affine tcc_affine_add_constant(tcc_affine a, int64_t value);
bool tcc_affine_equal(const tcc_affine *a, const tcc_affine *c);
int64_t tcc_affine_coefficient(const tcc_affine *a, int var);
void tcc_affine_range(const tcc_body *b, const tcc_affine *a, int64_t *low, int64_t *high);
/* The range with a term more. */
void tcc_affine_add_range(const tcc_body *b, tcc_term t, int64_t *low, int64_t *high);
/* Aliases replaced by what they stand for: only LOOP and VALUE variables remain. */
tcc_affine tcc_affine_expand(tcc_body *b, tcc_affine a);
/* The same; and a quotient and its remainder that make up what was divided are that again. */
tcc_affine tcc_affine_whole(tcc_body *b, tcc_affine a);
uint64_t tcc_affine_loops(const tcc_body *b, const tcc_affine *a);
/* Row-major position of `coordinates` in `dims`, and back. */
tcc_affine tcc_affine_linear(tcc_body *b, const tcc_affine *coordinates, int rank, const int64_t *dims);
void tcc_affine_split(tcc_body *b, tcc_affine position, int rank, const int64_t *dims, tcc_affine *coordinates);
int tcc_body_loop(tcc_body *b, int64_t extent);

/* --- Expressions (expr.c): equal ones are one */
const tcc_expr *tcc_expr_make(tcc_body *b, tcc_expr like, const tcc_expr *const *operands, int n);
const tcc_expr *tcc_expr_integer(tcc_body *b, tcc_dtype dtype, int64_t value);
const tcc_expr *tcc_expr_number(tcc_body *b, tcc_dtype dtype, double value);
const tcc_expr *tcc_expr_index(tcc_body *b, tcc_affine a, tcc_dtype dtype);
const tcc_expr *tcc_expr_point(tcc_body *b, tcc_op op, tcc_dtype dtype, const tcc_expr *const *operands, int n);
const tcc_expr *tcc_expr_load(tcc_body *b, int buffer, tcc_affine offset, const tcc_expr *guard);
/* x rounded to its own type: a cast to that. x itself where that changes nothing. */
const tcc_expr *tcc_expr_round(tcc_body *b, const tcc_expr *x);
static inline bool tcc_expr_rounds(const tcc_expr *x) {
    return x->kind == TCC_EXPR_POINT && x->op == TCC_OP_CAST && x->dtype == x->operands[0]->dtype;
}
/* What gives x when it is rounded: without the roundings that can wait until then, as below a choice. */
const tcc_expr *tcc_expr_before_rounding(tcc_body *b, const tcc_expr *x);
static inline const tcc_expr *tcc_expr_unrounded(const tcc_expr *x) { return tcc_expr_rounds(x) ? x->operands[0] : x; }
static inline bool tcc_expr_is_and(const tcc_expr *x) {
    return x->kind == TCC_EXPR_POINT && x->op == TCC_OP_AND && x->dtype == TCC_BOOL;
}
/* a and b, either of which may be NULL for true. */
const tcc_expr *tcc_expr_and(tcc_body *b, const tcc_expr *a, const tcc_expr *c);
/* 0 <= a < limit; NULL if that is always so. */
const tcc_expr *tcc_expr_within(tcc_body *b, tcc_affine a, int64_t limit);
/* sum / count, and (x - mean)^2. */
const tcc_expr *tcc_expr_mean(tcc_body *b, const tcc_expr *sum, int64_t count);
const tcc_expr *tcc_expr_deviation(tcc_body *b, const tcc_expr *x, const tcc_expr *mean);
const tcc_expr *tcc_expr_fold(tcc_body *b, tcc_op op, tcc_dtype dtype, const tcc_expr *value, uint64_t loops);
/* The sum of x y, a contraction's: its products are no values of the graph, so they are not rounded by themselves. */
const tcc_expr *tcc_expr_fold_products(tcc_body *b, tcc_dtype dtype, const tcc_expr *x, const tcc_expr *y,
                                       uint64_t loops);
int tcc_body_buffer_of(tcc_body *b, const tcc_node *n, int64_t offset, bool written);
/* After tracing: what all loads of a buffer have in common moves into its address, so that kernels that differ in it
 * alone (those of a recurrent network's steps, each of which reads its slice) are one. */
void tcc_body_rebase(tcc_body *b);
int tcc_body_temporary(tcc_body *b, int temporary, tcc_dtype dtype, bool written);
int tcc_body_literal(tcc_body *b, tcc_dtype dtype, const void *table, int64_t count); /* equal tables are one */
int tcc_body_places(tcc_body *b, const int32_t *table, int64_t rows, int64_t row);    /* [rows, row] */
int tcc_body_value_var(tcc_body *b, const tcc_expr *value, int64_t low, int64_t high);
int tcc_body_alias_var(tcc_body *b, tcc_affine alias, int64_t high); /* which lies in [0, high] under its guard */

/* --- Tracing (trace.c): the value of `n` at `coordinates`, one a dim of n. A node's value at a point is its operands'
 * values at the points that its op maps it to. Views vanish here. The value is one of the node's type: what a rule
 * computes in f32 for f16 or bf16 is rounded, so that bits do not depend on which nodes run together. */
const tcc_expr *tcc_body_trace(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates);
/* Stores n, evaluated at the point whose row-major position is `position`. */
void tcc_body_store(tcc_body *b, const tcc_node *n, tcc_affine position, bool kept);

/* --- Refinement of an iteration space. Axes are the dims of the hero; an axis is one or more loops. */
typedef struct tcc_space_axis {
    int64_t extent;
    int n;
    int64_t factors[16]; /* outermost first; their product is extent */
} tcc_space_axis;
typedef struct tcc_iteration {
    int rank;
    tcc_space_axis axes[TCC_MAX_RANK];
} tcc_iteration;
void tcc_iteration_init(tcc_iteration *it, int rank, const int64_t *dims);
/* Makes the loops of the axes in order, and the coordinates as forms of them. */
void tcc_iteration_open(tcc_body *b, const tcc_iteration *it, tcc_affine *coordinates);
/* If tracing asked for a split, apply it and say so: trace again in a fresh body. */
bool tcc_iteration_refine(tcc_iteration *it, const tcc_body *b);

/* Merges neighbouring loops whose every access is contiguous across both, when `same_class` (by bit) agrees; rewrites
 * the body. `order` lists the loops outermost first and is shortened. *pairs has a bit for each loop of `order` but the
 * last: it may be merged with the next one; and then: it was. NULL: all may. */
void tcc_body_collapse(tcc_body *b, int *order, int *n_order, uint64_t class_bits, uint64_t *pairs);

/* The distinct loop parts (constants and values left out) of all offsets, at most `most`; their number, or -1 if there
 * are more. */
int tcc_body_forms(tcc_body *b, tcc_affine *out, int most);

/* Appends a canonical text of the program, equal for equal programs. The extent of loop `any_extent`, if not -1, is
 * left out. */
void tcc_body_describe(const tcc_body *b, int any_extent, tcc_strbuf *out);
/* And what the code of a load has from tables of the program by which it is addressed, and from where that begins and
 * ends (near.c). */
void tcc_body_describe_near(const tcc_body *b, const tcc_expr *x, tcc_strbuf *out);
/* Arithmetic operations, about (work.c). */
double tcc_body_flop(const tcc_body *b);
/* Adds, by position, how often each node that is arithmetic is evaluated. False: memory is short. */
bool tcc_body_count_evaluations(const tcc_body *b, double *evaluations);

/* --- Emission (run.c, emit.c, memory.c, offset.c) */
typedef struct tcc_body_run {
    tcc_emitter *e;
    const tcc_body *body;
    tcc_emit_value *values;                   /* by expr; NULL: not emitted in the open scopes */
    bool *needed;                             /* by expr */
    bool *aside;                              /* by expr: room for `needed`, while something else is */
    bool *given;                              /* by expr: the schedule provides the value itself, in tcc_body_give */
    bool *alike;                              /* by expr: the same in all lanes, though it depends on their loop */
    tcc_emit_value *bases;                    /* by buffer: pointer */
    tcc_emit_value loops[TCC_BODY_MAX_LOOPS]; /* value of lane 0, i64 */
    tcc_emit_loop *nest; /* by loop: a place for the one that runs it, which is too large for a frame */
    uint64_t open;
    int lane_var, lanes;   /* lane l has loop value + l; lane_var -1: no lanes */
    tcc_emit_value mask;   /* lanes that exist; NULL: all */
    bool begins_whole;     /* vectors begin at multiples of their lanes */
    bool any_extent;       /* loops may run further than the body says */
    bool unguarded;        /* what all lanes have in common of the guards of loads is known to hold */
    tcc_emit_value inside; /* false in threads that repeat another's lanes and must not store; NULL: there are none */
    /* A schedule with index maps of its own gives the values of whole affine forms instead of loops. Each is the
     * loop part of some offset: its value in lane 0, and its step from lane to lane. */
    int n_forms;
    const tcc_affine *forms;
    const tcc_emit_value *form_values;
    const int64_t *form_steps;
    const int64_t *form_multiples; /* elements that each value is a multiple of; NULL: unknown */
    uint64_t lane_loops;           /* with forms: loops that may differ from lane to lane */
    bool called[TCC_OP_COUNT];     /* long ones that the body has often: each is a function of the module */
} tcc_body_run;

/* Loads the buffer pointers, the kernel's buffers from `first_buffer` on. Everything that no loop enters is emitted by
 * the first tcc_body_emit. */
tcc_status tcc_body_run_begin(tcc_body_run *r, tcc_emitter *e, const tcc_body *b, int first_buffer);
void tcc_body_run_end(tcc_body_run *r);
/* What the following emission is for: `needed` is cleared, and then marked from each root through operands not yet
 * emitted. */
void tcc_body_need_none(tcc_body_run *r);
void tcc_body_need(tcc_body_run *r, const tcc_expr *root);
void tcc_body_give(tcc_body_run *r, const tcc_expr *x, tcc_emit_value value);
/* A condition that differs from lane to lane is false in all lanes, until the loop is left. */
void tcc_body_set_false(tcc_body_run *r, const tcc_expr *x);
/* Enters a loop: its variable has this value. tcc_body_leave forgets all values that depend on it. */
void tcc_body_enter(tcc_body_run *r, int var, tcc_emit_value value);
void tcc_body_leave(tcc_body_run *r, int var);
/* The next loop is run by vectors of `lanes`. If each begins at a multiple of it (`whole`), quotients that then cannot
 * differ from lane to lane are scalars, with all that depends on the loop by them alone. */
void tcc_body_lanes_begin(tcc_body_run *r, int var, int lanes, bool whole);
void tcc_body_lanes_end(tcc_body_run *r);
/* Emits every needed expression that the open loops allow and that depends on one of `loops` (0: any). */
void tcc_body_emit(tcc_body_run *r, uint64_t loops);
/* The values of a fold in all `turns` turns of loop `jam`, which is not open, made in one walk: what does not depend on
 * that loop is loaded once. */
void tcc_body_emit_turns(tcc_body_run *r, const tcc_expr *fold, int jam, int turns, tcc_emit_value *values);
/* The value as it is (uniform: scalar), or over all lanes. */
tcc_emit_value tcc_body_lanes(tcc_body_run *r, const tcc_expr *x);
bool tcc_body_varies(const tcc_body_run *r, const tcc_expr *x);
void tcc_body_emit_store(tcc_body_run *r, const tcc_body_write *s);
/* What a store writes of the open point, and the store of `phases` such vectors, whose lanes are `phases` elements
 * apart and which come one element after the other: the first one is open. `mask` is of all elements, NULL: all. */
tcc_emit_value tcc_body_stored(tcc_body_run *r, const tcc_body_write *s);
void tcc_body_store_phases(tcc_body_run *r, const tcc_body_write *s, tcc_emit_value *values, int phases,
                           tcc_emit_value mask);
/* Fetches what vectors at the given forms will load and store, where it lies one element after the other. */
void tcc_body_emit_prefetch(tcc_body_run *r);
tcc_emit_value tcc_body_offset(tcc_body_run *r, const tcc_affine *a); /* of lane 0 */
/* Bytes that the address of a vector of lanes is a multiple of, for tcc_emit_load; 0: of an element. Only a GPU's
 * accesses of several elements depend on it, and there a vector begins at a multiple of its lanes. */
int tcc_body_alignment(const tcc_body_run *r, int buffer, const tcc_affine *a);
/* The register type of a dtype, with the run's lanes if `lanes`. */
tcc_emit_type tcc_body_type(tcc_body_run *r, tcc_dtype dtype, bool lanes);

/* --- Reductions (fold.c): the identity, one step, and the combination of lanes. ARGMAX carries a value and a position;
 * REDUCE_MEAN and REDUCE_M2 a state (moments.c), which takes segments of elements instead of steps. */
int tcc_fold_carries(tcc_op op);
void tcc_fold_initial(tcc_emitter *e, tcc_op op, tcc_emit_type type, tcc_emit_type index_type, tcc_emit_value *carry);
void tcc_fold_step(tcc_emitter *e, tcc_op op, tcc_emit_value *carry, tcc_emit_value value, tcc_emit_value index,
                   tcc_emit_value mask);
/* The lanes of a vector and of all threads of the lane group, for several reductions whose carries follow each other.
 */
void tcc_fold_lanes(tcc_emitter *e, const tcc_op *ops, int n_ops, tcc_emit_value *carry);

/* The same across the lane groups of an item. The first one has the results; `all`: each has. */
void tcc_fold_split(tcc_emitter *e, const tcc_op *ops, int n_ops, tcc_emit_value *carry, bool all);

/* --- Mean and M2 in one sweep (moments.c). A state is a count, a mean and an M2, all of the element's type; at first
 * 0. A segment is two sums, of x - mean and of its square, and the number of its elements. */
enum { TCC_MOMENT_STATE = 3, TCC_MOMENT_SUMS = 2 };
static inline bool tcc_is_moment(tcc_op op) { return op == TCC_OP_REDUCE_MEAN || op == TCC_OP_REDUCE_M2; }
/* Adds x to the sums. */
void tcc_moment_step(tcc_emitter *e, const tcc_emit_value *state, tcc_emit_value *sums, tcc_emit_value x,
                     tcc_emit_value mask);
/* Takes in a segment of `count` elements (of the state's type). Of the first one, a single element, M2 is 0. */
void tcc_moment_settle(tcc_emitter *e, tcc_emit_value *state, const tcc_emit_value *sums, tcc_emit_value count);
/* a from a and b. */
void tcc_moment_merge(tcc_emitter *e, tcc_emit_value *a, const tcc_emit_value *b);
/* A loop over segments of [from, to): their bounds. Of `stride` elements each thread has one; there are at most
 * `length`, below `high`. */
void tcc_moment_segments_begin(tcc_emitter *e, tcc_emit_loop *loop, tcc_emit_value *from, tcc_emit_value *to,
                               int64_t stride, int64_t length, int64_t high, const tcc_emit_value *initial,
                               int n_carry);

/* --- Scalar operations (scalar.c) */
tcc_emit_value tcc_scalar_emit(tcc_emitter *e, tcc_op op, tcc_dtype result, tcc_dtype operand,
                               tcc_emit_value *operands);
/* The same by a call of a function of the module, of which there is one for all kernels. All have element type `dtype`,
 * of floats. */
tcc_emit_value tcc_scalar_call(tcc_emitter *e, tcc_op op, tcc_dtype dtype, tcc_emit_value *operands, int n);
tcc_emit_value tcc_scalar_convert(tcc_emitter *e, tcc_emit_value value, tcc_dtype from, tcc_dtype to);
/* A result of arithmetic in f32 as the nearest value of f16 or bf16. */
tcc_emit_value tcc_scalar_round(tcc_emitter *e, tcc_emit_value value, tcc_dtype dtype);
/* Between memory and registers. */
tcc_emit_type tcc_scalar_register(tcc_emitter *e, tcc_dtype dtype);
tcc_emit_value tcc_scalar_from_memory(tcc_emitter *e, tcc_emit_value value, tcc_dtype dtype);
tcc_emit_value tcc_scalar_to_memory(tcc_emitter *e, tcc_emit_value value, tcc_dtype dtype);
/* The same of a value that is one of the type already. */
tcc_emit_value tcc_scalar_rounded_to_memory(tcc_emitter *e, tcc_emit_value value, tcc_dtype dtype);
/* Random draw `op` of element numbers, seed, step and id (i64). `fours`: the lanes are consecutive elements from a
 * multiple of 4, of which each four come from one evaluation of the generator. And the same as a call. */
tcc_emit_value tcc_scalar_random(tcc_emitter *e, tcc_op op, bool fours, const tcc_emit_value operands[4]);
tcc_emit_value tcc_scalar_random_call(tcc_emitter *e, tcc_op op, bool fours, tcc_emit_value operands[4]);
/* The four words (i32) of counters `block` (i64) of the draws `id` under a seed and a step: i64, one for all lanes or
 * one a lane. */
void tcc_scalar_philox(tcc_emitter *e, tcc_emit_value block, tcc_emit_value id, tcc_emit_value seed,
                       tcc_emit_value step, tcc_emit_value out[4]);

#endif
