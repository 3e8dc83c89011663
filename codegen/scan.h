/* SPDX-License-Identifier: MIT
 * Planned running sums: what schedule_scan.c decides, and what it or scan_rows.c emits. */
#ifndef TCC_CODEGEN_SCAN_H
#define TCC_CODEGEN_SCAN_H

#include "codegen/plan.h"

enum { TCC_SCAN_MOST = 8 }; /* running sums of a group */

typedef struct tcc_scan {
    tcc_body *body; /* a running sum is a REDUCE expression */
    int n_kept, n_axis;
    int kept[TCC_BODY_MAX_LOOPS], axis[TCC_BODY_MAX_LOOPS];
    bool reverse;
    int lanes;
    tcc_item_cut cut;
} tcc_scan;

/* On a GPU, along the loop in which memory is contiguous: a lane group walks a line together, many elements at a time.
 * Sets what is planned but for the kept loops and the axis, of which there is one; gives the shape of the threads. */
tcc_thread_shape tcc_scan_plan_rows(const tcc_llvm_target *t, tcc_scan *p);
tcc_status tcc_scan_emit_rows(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);

#endif
