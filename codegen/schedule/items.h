/* SPDX-License-Identifier: MIT
 * How schedules cut loops into work items, lanes and threads. */
#ifndef TCC_CODEGEN_SCHEDULE_ITEMS_H
#define TCC_CODEGEN_SCHEDULE_ITEMS_H

#include "codegen/body/body.h"
#include "codegen/emit/emitter.h"
#include "codegen/schedule/lowering.h"

/* Loop `order[cut]` is cut into chunks; the
 * loops before it are wholly in the items, those after it wholly inside an item. */
typedef struct tcc_item_cut {
    int n; /* loops, outermost first */
    int order[TCC_BODY_MAX_LOOPS];
    int cut; /* -1: no loop at all, one item */
    int64_t chunk, chunks, items;
} tcc_item_cut;
/* Items of about `points` points each, out of loops `order`, of which the last is vectorized with `lanes` (of the lane
 * group). */
tcc_item_cut tcc_cut_items(const tcc_body *b, const int *order, int n, int64_t points, int lanes);
/* Appends the loops of `order` that have a bit to `in`, the others to `rest`; gives the points of all together. */
double tcc_part_loops(const tcc_body *b, const int *order, int n, uint64_t bits, int *in, int *n_in, int *rest,
                      int *n_rest);
/* About how many simple instructions an expression takes, without its operands. */
int tcc_expr_cost(const tcc_expr *x);
int tcc_body_cost(const tcc_body *b); /* of one point */
/* Vectors of several registers where few values are live, so that there is independent work to overlap: 4, 2 or 1. */
int tcc_choose_width(const tcc_body *b);
/* Of a kernel for so many points in all. Of a long chain of operations a core sees one at a time, each of which waits
 * for the one before; two or four vectors are as many chains. The kernel's code gets longer: this is for long ones. */
int tcc_choose_width_of_points(const tcc_body *b, double points);
/* Of rows that are folded, so many points in all: one where they are soon done. */
int tcc_choose_width_of_rows(const tcc_body *b, double points);
/* Of columns that are added up: an addition waits for the one before, so four of them are made meanwhile where there
 * are registers. */
int tcc_choose_width_of_sums(const tcc_llvm_target *target, const tcc_body *b, double points);
double tcc_points_of(const tcc_body *b, const int *order, int n); /* of the n loops of `order` */
/* Items that make a share worth a thread of its own, given the points of an item. */
int64_t tcc_choose_grain(const tcc_body *b, double points);
/* Sets the loops before the cut from the item's index and gives the bounds of the cut loop. */
void tcc_emit_cut(tcc_body_run *r, const tcc_item_cut *cut, tcc_emit_value item, tcc_emit_value *from,
                  tcc_emit_value *to);
/* The same, and the loops of an item from the cut on. The lane group shares the last of them in vectors of `lanes`, 0:
 * it does not. r has lane_var, lanes and mask set inside. */
typedef struct tcc_emit_cut_loops {
    bool one;   /* the last loop is one vector of the lane group: no loop at all */
    bool lanes; /* the lane group shares the last loop */
} tcc_emit_cut_loops;
void tcc_emit_cut_begin(tcc_body_run *r, const tcc_item_cut *cut, tcc_emit_value item, int lanes,
                        tcc_emit_cut_loops *loops);
/* The same on the host, where each turn of the last loop is a block of up to `points` of its points: from `first` on,
 * and before `end`. The loop's variable is not set. */
typedef struct tcc_emit_cut_block {
    tcc_emit_value first, end; /* the block's first point; the end of the item's, not of the block's */
    bool whole;                /* no block has less than `points` */
} tcc_emit_cut_block;
void tcc_emit_cut_blocks_begin(tcc_body_run *r, const tcc_item_cut *cut, tcc_emit_value item, int points,
                               tcc_emit_cut_block *block, tcc_emit_cut_loops *loops);
void tcc_emit_cut_end(tcc_body_run *r, const tcc_item_cut *cut, tcc_emit_cut_loops *loops);
/* A whole kernel: `line` is emitted inside the cut's loops, with `data`. */
tcc_status tcc_emit_cut_kernel(tcc_emitter *e, const char *symbol, const tcc_body *b, const tcc_item_cut *cut,
                               int lanes, void (*line)(tcc_body_run *r, const void *data), const void *data);
/* Sums that a host's kernel has in registers at once: of 32, or of 16. */
static inline int tcc_most_sums(const tcc_llvm_target *t) { return t->lanes >= 16 ? 16 : 8; }
/* Lanes for loop `var` of the body: the target's, times `wide`, or fewer if the extent is small; a power of two. CUDA:
 * so many that the widest access along the loop is one of 16 bytes, and that the extent is a multiple. */
int tcc_choose_lanes(const tcc_llvm_target *t, const tcc_body *b, int var, int64_t extent, int wide);
/* Settles the parameter of those that were chosen. */
tcc_status tcc_settle_lanes(tcc_lowering *l, const tcc_body *b, int var, int64_t extent, int *lanes);
/* Settles lanes and threads of a lane group that has all of loop `var` at once, a vector a thread; at most so many
 * threads. */
tcc_status tcc_settle_whole_line(tcc_lowering *l, const tcc_body *b, int var, int64_t extent, int most_threads,
                                 int *lanes, tcc_thread_shape *shape);
/* A length for parts of a loop that runs in vectors: on CUDA none may reach past its part. */
int64_t tcc_whole_vectors(const tcc_llvm_target *t, int64_t length, int lanes);
/* Threads for a loop of that extent which the lane group shares in vectors of `lanes`; 1: each thread has items of its
 * own. */
tcc_thread_shape tcc_choose_threads(const tcc_llvm_target *t, int64_t extent, int lanes);
/* Settles the parameters of that shape; none on the host. */
tcc_status tcc_settle_threads(tcc_lowering *l, tcc_thread_shape *shape);
/* Of `threads` alone: in lane groups of a part of a warp a block may have any number of warps. */
tcc_status tcc_settle_block(tcc_lowering *l, tcc_thread_shape *shape);
/* Points of an item: `host` of them, or as many as the lane group does in `steps`. */
int64_t tcc_choose_points(tcc_thread_shape shape, int lanes, int64_t host, int steps);
/* Lanes of a lane group. */
int tcc_group_lanes(tcc_thread_shape shape, int lanes);

#endif
