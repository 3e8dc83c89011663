/* SPDX-License-Identifier: MIT
 * Planned running results: what scan.c decides, and what scan_steps.c, scan_lines.c or scan_rows.c emits. */
#ifndef TCC_CODEGEN_SCHEDULE_SCAN_H
#define TCC_CODEGEN_SCHEDULE_SCAN_H

#include "codegen/schedule/items.h"
#include "codegen/schedule/lowering.h"

enum { TCC_SCAN_MOST = 8 }; /* running results of a group */

typedef struct tcc_scan {
    /* A running result is a REDUCE expression; its integer is 1 in reverse. So is one that is read a step further along
     * the line: of op slice, by its integer, which is 1 or -1. Stores of the end of a line are kept. */
    tcc_body *body;
    int n_kept, n_axis;
    int kept[TCC_BODY_MAX_LOOPS], axis[TCC_BODY_MAX_LOOPS];
    bool reverse; /* the hero's way */
    bool whole;   /* a lane group has all of a line at once, a vector a thread: so it goes along it either way */
    int64_t end;  /* the element of a line whose value kept stores have */
    int lanes;
    tcc_item_cut cut;
} tcc_scan;

static inline bool tcc_scan_is_step(const tcc_expr *x) { return x->kind == TCC_EXPR_REDUCE && x->op == TCC_OP_SLICE; }

/* What an element of a line makes of the value before it: a y + b. NULL a: 1; NULL b: 0. An a that is a condition: y or
 * 0. All elements of a running result have the same parts. Values of f32, f16 and bf16 are in f64: in f32 the sum of a
 * long line of equal values would stop to grow at 2^24 of them, and a product would leave the range on its way. */
typedef struct tcc_scan_map {
    tcc_emit_value a, b;
    bool largest; /* the larger of y and b instead, in the result's own type; there is no a */
} tcc_scan_map;

/* Marks what the line needs and gives what is before it, over so many lanes, of each running result; their number. */
int tcc_scan_begin(tcc_body_run *r, int lanes, tcc_emit_value *carry);
/* The elements at hand of running result x; where `exists`, unless NULL, is false those that change nothing. */
tcc_scan_map tcc_scan_read(tcc_body_run *r, const tcc_expr *x, tcc_emit_value exists);
/* The value behind elements, in f64, as the result's type holds it in a register. */
tcc_emit_value tcc_scan_narrow(tcc_emitter *e, tcc_emit_value y, tcc_dtype dtype);

/* a y + b; and one map that does what two do one after the other. */
tcc_emit_value tcc_scan_apply(tcc_emitter *e, tcc_scan_map map, tcc_emit_value y);
tcc_scan_map tcc_scan_join(tcc_emitter *e, tcc_scan_map first, tcc_scan_map then);
/* The same, but a product of finite a's that f64 does not hold is its largest number. So 0 times it is 0, as it is one
 * factor after the other. */
tcc_scan_map tcc_scan_join_bounded(tcc_emitter *e, tcc_scan_map first, tcc_scan_map then);
/* A map of the kind of `like` with these parts. */
tcc_scan_map tcc_scan_with(tcc_scan_map like, tcc_emit_value a, tcc_emit_value b);
/* Maps like that one which change nothing; either of two; one lane's, or the only one's. */
tcc_scan_map tcc_scan_none(tcc_emitter *e, tcc_scan_map like);
tcc_scan_map tcc_scan_choose(tcc_emitter *e, tcc_emit_value condition, tcc_scan_map yes, tcc_scan_map no);
tcc_scan_map tcc_scan_lane(tcc_emitter *e, tcc_scan_map map, int lane);
tcc_emit_value tcc_scan_is_finite(tcc_emitter *e, tcc_emit_value x); /* of floats */

/* One element of the axis at a time. */
tcc_status tcc_scan_emit_steps(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);

/* On a GPU, along the loop in which memory is contiguous: a lane group runs along a line together, many elements at a
 * time. */
tcc_status tcc_scan_emit_rows(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);

/* Threads that have a line at once, a vector each; 0: none do. */
int tcc_scan_threads(const tcc_llvm_target *t);

/* The same on the host, in vectors. */
tcc_status tcc_scan_emit_lines(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);

#endif
