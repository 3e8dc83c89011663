/* SPDX-License-Identifier: MIT
 * Emission of one sweep of a reduction: shared by those that emit one row at a time (reduce_emit.c), a block of them
 * (reduce_in_turn.c), vectors of short ones (reduce_short.c) and strips of columns (reduce_strips.c). */
#ifndef TCC_CODEGEN_SCHEDULE_REDUCE_LOOPS_H
#define TCC_CODEGEN_SCHEDULE_REDUCE_LOOPS_H

#include "codegen/schedule/reduce.h"

typedef struct tcc_reduce_sweep {
    const tcc_reduce *p;
    int sweep;
    int n_parts;      /* sums of parts of the row, which come behind the folds */
    int n, n_moments; /* folds of the sweep; means and M2 come first */
    const tcc_expr *reductions[TCC_GROUP_MAX_REDUCTIONS];
    tcc_reduce_ways *ways;        /* of a row in columns; NULL: it is none */
    const tcc_emit_value *states; /* of the moments, before the open segment */
    bool *computes;               /* by expr: evaluated in this sweep for the first time, and cached */
    bool *loads;                  /* by expr: cached earlier */
    tcc_emit_value *kept;         /* p->steps: by step and expr, the cached value */
    const tcc_emit_value *sums;   /* p->steps: by step and store, a place of the thread for the sum of its columns */
    tcc_emit_value *stored;       /* of short rows: by store and element, what is stored; NULL: it is at once */
    int step;
} tcc_reduce_sweep;

/* Lists the folds of sweep s->sweep. */
void tcc_reduce_list_folds(tcc_reduce_sweep *s);
/* Finds what the sweep is the first to evaluate of what is kept for later ones: s->computes, from s->loads. `in` is
 * room for a flag of each expression. */
void tcc_reduce_find_kept(tcc_body_run *r, tcc_reduce_sweep *s, bool *in);
/* Marks what the sweep needs, and emits what of it depends on no loop that is still to be opened. */
void tcc_reduce_need_sweep(tcc_body_run *r, const tcc_reduce_sweep *s);
/* Begins the carries of the sweep's folds, of which `is_sum` says which are sums, and needs the sweep. `has_runs`: the
 * sums are cut into runs. Returns how many carries there are. */
int tcc_reduce_begin_sweep(tcc_body_run *r, const tcc_reduce_sweep *s, bool has_runs, bool *is_sum,
                           tcc_emit_value *carry);
/* The innermost point or vector of points: evaluates, folds, stores. */
void tcc_reduce_emit_inside(tcc_body_run *r, const tcc_reduce_sweep *s, tcc_emit_value *carry);
/* The sweep's loops over the open row. *carry become the folds' carries, whose lanes are not added up yet. */
void tcc_reduce_emit_loops(tcc_body_run *r, tcc_reduce_sweep *s, tcc_emit_value *carry);
/* The lane loop of a row, written out. Where the row ends within a step, the threads that are past it leave that step
 * out. */
void tcc_reduce_emit_steps(tcc_body_run *r, tcc_reduce_sweep *s, tcc_emit_value *carry, int n_carry);
/* The same of short rows, a row for each lane. */
void tcc_reduce_emit_short(tcc_body_run *r, tcc_reduce_sweep *s, tcc_emit_value *carry);

#endif
