/* SPDX-License-Identifier: MIT
 * A planned reduction: what schedule_reduce.c decides and reduce_emit.c emits. */
#ifndef TCC_CODEGEN_REDUCE_H
#define TCC_CODEGEN_REDUCE_H

#include "codegen/plan.h"

enum { TCC_REDUCE_MOST = 16 }; /* reductions in a kernel */

typedef struct tcc_reduce {
    tcc_body *body;
    int n_kept, n_reduced;
    int kept[TCC_BODY_MAX_LOOPS], reduced[TCC_BODY_MAX_LOOPS];
    bool columns;       /* lanes along the last kept loop, else along the last reduced one */
    int lanes;
    tcc_thread_shape shape;
    tcc_item_cut cut;   /* of the kept loops */
    int piece_var;      /* a kept loop that counts pieces of the first reduced loop, or -1 */
    int64_t piece;      /* its length */
    int n_sweeps;
    int *level;         /* by expr: the sweep that can evaluate it */
    int *slot;          /* by expr: kept for later sweeps, in scratch or in registers; or -1 */
    int n_slots;
    int64_t row;        /* elements of a row kept in scratch */
    int steps;          /* not 0: the one reduced loop is so many vectors of the lane group, each written out, kept values in registers */
} tcc_reduce;

/* Emits the kernel; plan->data is a tcc_reduce. */
tcc_status tcc_reduce_emit(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);
/* Marks in `in` what a sweep evaluates, down to leaves (NULL: none) and reductions. The last sweep is that of the stores. */
void tcc_reduce_mark_sweep(const tcc_reduce *p, int sweep, const bool *leaf, bool *in);

#endif
