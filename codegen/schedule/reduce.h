/* SPDX-License-Identifier: MIT
 * Shared by the files of the reduction schedule: reduce_trace.c makes the scalar program, reduce_sweeps.c and
 * reduce_plan.c plan a launch, in the order of reduce_order.c; reduce_emit.c emits it by the loops of reduce_loops.c,
 * reduce_in_turn.c, reduce_short.c and reduce_together.c for several rows at a time, reduce_strips.c for many columns;
 * reduce_sums.c, reduce_ways.c, reduce_parts.c: their sums.
 * The variants: reduce_split.c cuts the reduced range, reduce_across.c adds column sums, and reduce.c chooses among
 * these. */
#ifndef TCC_CODEGEN_SCHEDULE_REDUCE_H
#define TCC_CODEGEN_SCHEDULE_REDUCE_H

#include "codegen/schedule/items.h"
#include "codegen/schedule/lowering.h"

enum { TCC_REDUCE_ITEM_POINTS = 8192 };

/* --- Tracing */

typedef struct tcc_reduction {
    const tcc_node *node;
    bool across;          /* over the kept loops: a column sum */
    const tcc_expr *expr; /* REDUCE; NULL: loaded */
    int temporary;        /* where its value is loaded from, -1: computed */
    int partial;          /* temporary of partial results, -1: none */
    int means;            /* REDUCE_M2: temporary of the means of these parts */
    int level;            /* number of sweeps that come before its own */
} tcc_reduction;

/* --- The order of sums (reduce_order.c) */

/* In which order a sum adds its terms on the host. It follows from the operand's dims, the target and the parameters
 * PARTS and LANES, and from nothing that is fused with the sum. So every program that has the sum gives the same bits.
 *
 * Neighbouring reduced dims are one loop, a `level`. Of a row (the last dim is reduced), lane l of `lanes` adds the
 * terms l, l + lanes ... of the innermost level, and the lanes are added up as a tree. A column has one chain. A chain
 * that is longer than TCC_CHAIN_TERMS is cut into runs, that of a column at least so. Parts are equally long stretches
 * of the first level. Of columns beside rows a slice is a run.
 *
 * A kernel whose loops over a level cannot be merged keeps to this order where its loops meet the ends of vectors, runs
 * and parts (tcc_reduce_follows). Else its loops are joined: coordinates are then quotients of the one loop. A row that
 * lies across memory is made in columns with a sum for each of its lanes (reduce_ways.c). */
typedef struct tcc_reduce_order {
    bool rows;
    int64_t kept; /* sums that there are */
    int lanes;    /* of rows */
    int n;        /* levels, outermost first */
    struct {
        int n;
        int64_t dims[TCC_MAX_RANK], extent; /* their product */
    } level[TCC_MAX_RANK];
    int64_t parts; /* of the first level; 1: it is whole */
} tcc_reduce_order;

/* The iteration space of a group and its reductions; and, while tracing, the point. */
typedef struct tcc_reduce_trace {
    tcc_lowering *l;
    const tcc_type *space;
    bool reduced[TCC_MAX_RANK];
    int64_t kept_numel, reduced_numel;
    tcc_iteration it;
    bool joined;           /* neighbouring dims that are summed up as one have one loop: see tcc_reduce_join_loops */
    int run[TCC_MAX_RANK]; /* then: the first dim of the loop that the dim is in */
    tcc_reduce_order *order, *order_across; /* NULL: on a GPU; the latter of column sums beside rows */
    uint64_t reduced_bits;
    bool *across;    /* by position in the group */
    bool *moved;     /* of each output: a transpose of a value of each point, which stores it at its place there */
    bool has_parts;  /* there are sums of parts of rows */
    int *full_level; /* of each output: the levels of reductions that it waits for; -1: it is no value of each point */
    int n;
    tcc_reduction all[TCC_GROUP_MAX_REDUCTIONS];
    tcc_affine coordinates[TCC_MAX_RANK]; /* of the hero's operand */
    tcc_affine kept_position, reduced_position;
    /* combining: the value of a reduction at a point is the fold of partial results along the loop `split` */
    bool combine, combine_across;
    int level;            /* reductions of this level are combined */
    tcc_affine split;     /* as a form */
    int64_t split_points; /* of a kept point in a split, but for the last */
    bool has_m2;
    bool one_sweep; /* M2 is made in the sweep that makes the mean; else in a second one, of what is at hand then */
    int slice_var;  /* of the body that has column sums */
} tcc_reduce_trace;

tcc_status tcc_reduce_trace_begin(tcc_reduce_trace *t, tcc_lowering *l);
/* From now on neighbouring reduced dims have one loop, and with column sums neighbouring kept ones, too. */
void tcc_reduce_join_loops(tcc_reduce_trace *t);
/* A fresh body with the space's loops open and `t` describing the point; NULL when memory is short. */
tcc_body *tcc_reduce_open(tcc_reduce_trace *t);
/* A fresh body that combines `splits` partial results: its loops are the kept dims (`across`: the reduced ones), then
 * the splits, whose loop is *var. */
tcc_body *tcc_reduce_open_combine(tcc_reduce_trace *t, bool across, int64_t splits, int *var);
bool tcc_reduce_is_across(const tcc_reduce_trace *t, const tcc_node *n);
bool tcc_reduce_is_kept(const tcc_reduce_trace *t, const tcc_node *n); /* of outputs */
bool tcc_reduce_is_full(const tcc_reduce_trace *t, const tcc_node *n);
bool tcc_reduce_is_part(const tcc_reduce_trace *t, const tcc_node *n);
/* The place at which the open point stores output number `i`, which is full. */
tcc_affine tcc_reduce_full_position(const tcc_reduce_trace *t, tcc_body *b, int i);
/* Stores the group's kept and full outputs at the open point. */
void tcc_reduce_store_outputs(tcc_reduce_trace *t, tcc_body *b, bool kept, bool full);
/* Of a REDUCE expression of M2: the mean of its operand. */
const tcc_expr *tcc_reduce_mean_beside(tcc_body *b, const tcc_expr *m2);
/* The type that partial results of a reduction have: at least f32. */
tcc_dtype tcc_reduce_partial_dtype(const tcc_node *n);

/* --- A planned reduction */

typedef struct tcc_reduce {
    tcc_body *body;
    const tcc_reduce_order *order; /* that it keeps to; NULL: a GPU's, or that of partial results */
    int n_kept, n_reduced;
    int kept[TCC_BODY_MAX_LOOPS], reduced[TCC_BODY_MAX_LOOPS];
    uint64_t pairs, merged; /* neighbouring reduced loops, and those of them that are one; outermost first */
    bool combines;          /* parts of sums: little work for a row */
    bool columns;           /* lanes along the last kept loop, else along the last reduced one */
    bool turned;            /* so although the last reduced loop is inside it */
    bool is_short;          /* then: rows of a few elements, which are written out (reduce_short.c) */
    int64_t run;            /* of partial results: so many are added up before others are; 0: as many as there may be */
    int ways;               /* then, on the host: the lanes of the row, each of which has a sum of its own; of floats */
    int lanes;
    int abreast; /* vectors of a row that are computed at once, on the host; each is folded by itself */
    bool uneven; /* a row, or a part of it, is no multiple of them */
    tcc_thread_shape shape;
    tcc_item_cut cut;        /* of the kept loops */
    int split_var;           /* a kept loop that counts splits of the first reduced loop, or -1 */
    int64_t split;           /* its length */
    int slice_var;           /* column sums: a variable that counts the items, which are slices of the rows; or -1 */
    int n_parts, part_loops; /* sums of parts of a row; the first reduced loops, which count these */
    int n_sweeps;
    int *level;    /* by expr: the sweep that can evaluate it */
    int64_t *slot; /* by expr: kept for later sweeps, in registers, or in scratch from that byte on; or -1 */
    int n_slots;
    int64_t slots_bytes; /* of all in scratch */
    int n_keepable;      /* values that slots could be for, in order */
    int64_t kept_bits;   /* a bit for each that has one */
    int words;           /* registers that slots take for an element, at most at a time */
    int64_t live;        /* registers that a step's evaluation takes beside them, at most at a time */
    int64_t of_columns;  /* registers of a step's values that are the same in all rows */
    bool narrow;         /* shared memory can hold slots too: at most 4 bytes each */
    int together;        /* rows that are made at a time (reduce_together.c); 0: one */
    int turns;           /* rows of a block, which take turns in each sweep (reduce_in_turn.c); 0: there are none */
    int64_t *place;      /* then: by expr, the byte of scratch from which on the block's values of it lie; or -1 */
    int64_t strip;       /* columns that go through some rows at a time (reduce_strips.c); 0: a vector of them */
    int64_t row_bytes, sums_at; /* then: of a row's slots; the first byte of the sums' lanes */
    int64_t row;                /* elements of a row kept in scratch */
    int64_t scratch_bytes;
    int steps; /* not 0: the one reduced loop is so many vectors of the lane group, each written out, kept values in
                  registers */
} tcc_reduce;

tcc_status tcc_reduce_find_order(tcc_reduce_trace *t); /* on the host */
bool tcc_reduce_has_sums(const tcc_body *b);           /* of floats: others are the same in any order */
/* Steps of the first level in a part. */
int64_t tcc_reduce_part_of(const tcc_reduce_order *o);
/* The loop that is cut into runs of *length steps; -1: none. */
int tcc_reduce_find_cut(const tcc_reduce *p, int64_t *length);
/* Rows of a slice, beside whose rows there are column sums; on the host, where that follows from the shape. */
int64_t tcc_reduce_host_slice(const tcc_reduce_trace *t);
/* How many slices are added up before others are, to keep the order of column sums; 0: any. */
int64_t tcc_reduce_slices_of_part(const tcc_reduce_trace *t, int64_t slice);
/* Whether the plan's loops keep to the order. */
bool tcc_reduce_follows(const tcc_reduce_trace *t, const tcc_reduce *p);

/* Whether rows lie one behind the other, and are short enough to be written out. */
enum { TCC_REDUCE_MOST_SHORT = 4, TCC_REDUCE_MOST_SHORT_LANES = 64 /* of all elements */ };
bool tcc_reduce_is_short(const tcc_reduce *p);

/* --- Sweeps */

/* The level of each expression: how many sweeps must have ended before it can be evaluated; and their number. */
void tcc_reduce_find_levels(tcc_reduce *p);
int tcc_reduce_sweep_of_stores(const tcc_reduce *p);
/* The expression whose fold gives the value of REDUCE expression x too: the first mean or M2 of its operand, which
 * share a state. */
const tcc_expr *tcc_reduce_fold_of(const tcc_body *b, const tcc_expr *x);
/* Marks in `in` what a sweep evaluates, down to leaves (NULL: none) and reductions. The last sweep is that of the
 * stores. */
void tcc_reduce_mark_sweep(const tcc_reduce *p, int sweep, const bool *leaf, bool *in);
/* Loaded, and another value in each row: what is the same in all rows is in a GPU's first cache. */
bool tcc_reduce_is_of_row(const tcc_reduce *p, const tcc_expr *x);
/* Which values of one sweep the next ones should find; and settles that. On a GPU the first is what registers may hold;
 * the latter, what fits shared memory: all of that, or what is loaded, or nothing. */
tcc_status tcc_reduce_choose_slots(tcc_lowering *l, tcc_reduce *p);
tcc_status tcc_reduce_choose_shared_slots(tcc_lowering *l, tcc_reduce *p);
tcc_status tcc_reduce_settle_slots(tcc_lowering *l, tcc_reduce *p);
/* Whether shared memory holds what later sweeps find again. */
bool tcc_reduce_has_room(const tcc_lowering *l, const tcc_reduce *p);
/* Bytes of a core's cache that kept values may take. */
int64_t tcc_reduce_cache_of(const tcc_lowering *l);

/* --- Registers of a GPU's thread, by estimate (reduce_registers.c) */

/* Counts what a step takes; slots are known. */
tcc_status tcc_reduce_count_registers(tcc_lowering *l, tcc_reduce *p);
/* Those of the sums of an element's column. */
int64_t tcc_reduce_words_of_sums(const tcc_reduce *p);
/* Of a thread whose row is so many steps, written out; 0: a loop. */
int64_t tcc_reduce_registers(const tcc_reduce *p, int64_t steps);
/* Whether each thread of such a block can have them. A block too small to leave a thread fewer than it can have at all
 * fits always. */
bool tcc_reduce_fits_registers(const tcc_lowering *l, const tcc_reduce *p, int64_t threads, int64_t steps);

/* --- The plan */

/* Loops by class, lanes and levels of a sealed body. */
tcc_status tcc_reduce_plan(tcc_lowering *l, tcc_body *b, uint64_t reduced_bits, tcc_reduce **out);
/* The same of a body that makes sums, which on the host keep to their order. */
static inline tcc_status tcc_reduce_plan_sums(tcc_reduce_trace *t, tcc_body *b, tcc_reduce **out) {
    TCC_TRY(tcc_reduce_plan(t->l, b, t->reduced_bits, out));
    (*out)->order = t->order;
    return TCC_OK;
}
/* Iterations of a reduced loop of the plan, by its place in p->reduced. */
static inline int64_t tcc_reduce_extent(const tcc_reduce *p, int loop) {
    return p->body->vars.data[p->reduced[loop]].high + 1;
}
/* Makes columns of rows where memory is contiguous along those, and orders the reduced loops for parts. */
void tcc_reduce_shape_loops(const tcc_reduce_trace *t, tcc_reduce *p);
/* Threads for rows that are too long for registers. */
tcc_status tcc_reduce_shape_long_rows(tcc_lowering *l, tcc_reduce *p);
/* Threads for columns side by side: up to a warp; fewer where they then come out even. */
int64_t tcc_reduce_columns_group(const tcc_reduce *p);
/* Fewer lanes, where columns are so few that threads would be. */
void tcc_reduce_narrow_columns(const tcc_lowering *l, tcc_reduce *p);
/* Chooses slots and threads; *points: kept points of an item. */
tcc_status tcc_reduce_choose_shape(tcc_lowering *l, tcc_reduce *p, int64_t *points);
/* Settles the loops and lanes of a plan. */
tcc_status tcc_reduce_settle_lanes(tcc_lowering *l, tcc_reduce *p);
/* Settles slots, group and steps of rows on a GPU that were chosen. */
tcc_status tcc_reduce_settle_rows(tcc_lowering *l, tcc_reduce *p);
/* Then the threads of a block whose lane groups have rows of their own. */
tcc_status tcc_reduce_settle_block(tcc_lowering *l, tcc_reduce *p);
/* Chooses and settles slots, threads and items, and adds the launch. Lanes are settled. */
tcc_status tcc_reduce_add(tcc_lowering *l, tcc_reduce *p);
/* Adds the launch of a plan that has them. */
tcc_status tcc_reduce_launch(tcc_lowering *l, tcc_reduce *p);
double tcc_reduce_points(const tcc_body *b, const int *loops, int n); /* product of extents */

/* --- Rows in columns (reduce_ways.c), while a sweep is emitted */

typedef struct tcc_reduce_ways {
    int count, n_carry;
    tcc_emit_type type[TCC_EMIT_MAX_CARRY];                           /* by carry; those of sums alone have places: */
    tcc_emit_value all[TCC_EMIT_MAX_CARRY], open[TCC_EMIT_MAX_CARRY]; /* the sums, and those that take terms now */
} tcc_reduce_ways;
/* `has_runs`: the chains are cut. */
void tcc_reduce_ways_begin(tcc_body_run *r, const tcc_reduce *p, bool has_runs, const bool *is_sum,
                           const tcc_emit_value *carry, int n_carry, tcc_reduce_ways *w);
/* Adds a term to sum k. False: it is in a register (w may be NULL). */
bool tcc_reduce_ways_step(tcc_body_run *r, const tcc_reduce *p, const tcc_reduce_ways *w, int k, tcc_emit_value value);
void tcc_reduce_ways_end_run(tcc_body_run *r, const tcc_reduce_ways *w);
void tcc_reduce_ways_end_runs(tcc_reduce_ways *w); /* what follows is in no run */
void tcc_reduce_ways_end(tcc_body_run *r, const tcc_reduce_ways *w, tcc_emit_value *carry);

/* --- Split reductions */

/* How many splits to cut the first reduced loop into; 1: none. And settles that. */
int64_t tcc_reduce_choose_splits(const tcc_reduce_trace *t, const tcc_reduce *p);
tcc_status tcc_reduce_settle_splits(const tcc_reduce_trace *t, tcc_reduce *p, int64_t *splits);
tcc_status tcc_reduce_launch_split(tcc_reduce_trace *t, int levels, int64_t splits);
/* Plans and launches a traced body of tcc_reduce_open_combine. `run`: of the plan. */
tcc_status tcc_reduce_combine(tcc_lowering *l, tcc_body *b, int var, int64_t run);

/* --- Column sums */

/* Stores of the open point that add to partial sums, which are temporaries. */
void tcc_reduce_store_sums(tcc_reduce_trace *t, tcc_body *b);
/* Launches the group; `p` is the plan of its body. */
tcc_status tcc_reduce_across(tcc_reduce_trace *t, tcc_reduce *p);

/* --- Sums of parts of rows (reduce_parts.c). They are folded in the sweep of the stores, by loops of their own. */

/* Stores of the open point that are added up in parts. */
void tcc_reduce_store_parts(tcc_reduce_trace *t, tcc_body *b);
/* Finds the plan's parts, from its loops. */
tcc_status tcc_reduce_find_parts(tcc_lowering *l, tcc_reduce *p);
/* The sums of a part begin at nothing; they are p->n_parts. */
void tcc_reduce_begin_parts(tcc_body_run *r, const tcc_reduce *p, tcc_emit_value *sums);
void tcc_reduce_add_to_parts(tcc_body_run *r, tcc_emit_value *sums); /* the open point or vector */
/* Behind a part's loops: its threads' sums are added up and stored. */
void tcc_reduce_end_parts(tcc_body_run *r, const tcc_reduce *p, tcc_emit_value *sums);

/* --- Emission */

/* How many of the plan's rows can be made at a time, 0: one; and how many such blocks there are for one turn of the
 * other kept loops. */
int tcc_reduce_rows_together(const tcc_reduce *p);
int64_t tcc_reduce_blocks(const tcc_reduce *p);
tcc_status tcc_reduce_emit_together(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);
/* Decides whether rows take turns, and settles the scratch of those. */
tcc_status tcc_reduce_plan_in_turn(tcc_lowering *l, tcc_reduce *p);
/* Emits the open block of them, of the last kept loop. */
tcc_status tcc_reduce_emit_in_turn(tcc_body_run *r, const tcc_reduce *p, const tcc_emit_cut_block *block);
/* Decides whether columns are taken in strips, and settles their scratch. */
void tcc_reduce_plan_strips(const tcc_lowering *l, tcc_reduce *p);
/* Emits the open one, of the last kept loop. */
tcc_status tcc_reduce_emit_strip(tcc_body_run *r, const tcc_reduce *p, const tcc_emit_cut_block *block);
/* Adds up the lanes of each of `lanes` rows, of which sums[i * stride] has row i's, in the order that a row by itself
 * has: lane i of the result is row i's. Halves of the lanes of each row are added to one another, of two vectors at a
 * time, until each row has one lane (reduce_fold.c). */
tcc_emit_value tcc_reduce_fold_rows(tcc_emitter *e, tcc_op op, tcc_emit_value *sums, int stride, int lanes);
/* Emits the kernel; plan->data is a tcc_reduce. */
tcc_status tcc_reduce_emit(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);
/* A value that a later sweep finds in scratch, at the open reduced point (reduce_slots.c). */
tcc_emit_value tcc_reduce_load_slot(tcc_body_run *r, const tcc_reduce *p, const tcc_expr *x);
void tcc_reduce_store_slot(tcc_body_run *r, const tcc_reduce *p, const tcc_expr *x, tcc_emit_value value);
/* The loop over the runs of [*from, *to), which become the bounds of one. `carry` becomes that of a run, whose sums,
 * those of `is_sum`, begin at nothing. */
void tcc_reduce_runs_begin(tcc_emitter *e, const bool *is_sum, tcc_emit_loop *runs, int64_t step, int64_t high,
                           tcc_emit_value *from, tcc_emit_value *to, tcc_emit_value *carry, int n_carry);
/* Takes a run's sums in. `carry` becomes that of all runs. */
void tcc_reduce_runs_end(tcc_emitter *e, const bool *is_sum, tcc_emit_loop *runs, tcc_emit_value *carry, int n_carry);
/* Column sums of an item: `sums` are its thread's places by step and store, made at first; unused unless p->steps. */
void tcc_reduce_begin_sums(tcc_body_run *r, const tcc_reduce *p, tcc_emit_value *sums); /* 0 */
/* Adds the open point, or vector, of store number `store`: to a place of the thread, or in memory if it is NULL. */
void tcc_reduce_add_to_sum(tcc_body_run *r, const tcc_reduce *p, int store, tcc_emit_value place);
void tcc_reduce_end_sums(tcc_body_run *r, const tcc_reduce *p, const tcc_emit_value *sums); /* they are in memory */

#endif
