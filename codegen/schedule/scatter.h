/* SPDX-License-Identifier: MIT
 * A planned scatter_add: what scatter.c decides, and what it, scatter_rows.c or scatter_chains.c emits. */
#ifndef TCC_CODEGEN_SCHEDULE_SCATTER_H
#define TCC_CODEGEN_SCHEDULE_SCATTER_H

#include "codegen/schedule/items.h"
#include "codegen/schedule/lowering.h"

enum { TCC_SCATTER_LINKS = 3 };

typedef struct tcc_scatter {
    tcc_body *body;
    int n_kept, n_positions;
    int kept[TCC_BODY_MAX_LOOPS], positions[TCC_BODY_MAX_LOOPS];
    int lanes;
    tcc_item_cut cut;
    /* by rows (scatter_rows.c), along lines (scatter_along.c) */
    const tcc_expr *place, *sum; /* the row of an update; it and the element that it is added to together, */
    const tcc_expr *old;         /* and that element. NULL: it is replaced */
    int64_t rows;
    bool whole; /* each row is written, and begins with 0 */
    /* lines in shared memory (scatter_along.c): `sum` is what its loop `along` stores of them */
    int along;
    const tcc_expr *base, *update, *hit;
    int steps;      /* vectors of a lane group that a row has, in an item */
    int64_t chunks; /* items a row */
    /* by chains of positions (scatter_chains.c) */
    int links[TCC_SCATTER_LINKS]; /* temporaries */
    int row;                      /* the loop of rows; -1: there is one */
    tcc_item_cut row_cut;         /* of which each item has all those of `cut` */
} tcc_scatter;

/* One point after another, with all stores of the body. */
tcc_status tcc_scatter_emit_points(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);

/* Each lane group owns a row of the output, looks for it among all index positions and adds their updates in ascending
 * order. False: the work has not the form for that. `b` has its stores without guards, `position_bits` are the loops of
 * the index. */
bool tcc_scatter_finds_rows(tcc_scatter *p, tcc_body *b, uint64_t position_bits, int64_t rows, const tcc_expr *place);
/* Then, before the launch is added: its lanes, and how much of a row an item has. */
tcc_status tcc_scatter_plan_rows(tcc_lowering *l, tcc_scatter *p);
tcc_status tcc_scatter_emit_rows(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);
int64_t tcc_scatter_row_items(const tcc_scatter *p);
tcc_thread_shape tcc_scatter_row_shape(const tcc_lowering *l);

/* A warp owns a line of the output along the indexed dim, which is the innermost. p has its body, with guards, and its
 * loops. */
bool tcc_scatter_plan_along(tcc_scatter *p, const tcc_expr *place, bool replaces);
tcc_status tcc_scatter_emit_along(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);
tcc_thread_shape tcc_scatter_along_shape(void);
/* The same where each element of the output is written anyway: the line gathers in shared memory, so that one launch
 * reads the base, adds the updates and stores the line once. *done: false if the work is made otherwise. */
tcc_status tcc_scatter_lower_lines(tcc_lowering *l, bool rounds, bool *done);

/* Adds the launches that follow where the base lies in the hero's place: of each row that is named the updates are
 * added up in registers, in f32. */
tcc_status tcc_scatter_add_chains(tcc_lowering *l);

#endif
