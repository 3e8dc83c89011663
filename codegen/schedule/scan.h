/* SPDX-License-Identifier: MIT
 * Planned running sums: what scan.c decides, and what scan_steps.c, scan_lines.c or scan_rows.c emits. */
#ifndef TCC_CODEGEN_SCHEDULE_SCAN_H
#define TCC_CODEGEN_SCHEDULE_SCAN_H

#include "codegen/schedule/items.h"
#include "codegen/schedule/lowering.h"

enum { TCC_SCAN_MOST = 8 }; /* running sums of a group */

typedef struct tcc_scan {
    tcc_body *body; /* a running sum is a REDUCE expression */
    int n_kept, n_axis;
    int kept[TCC_BODY_MAX_LOOPS], axis[TCC_BODY_MAX_LOOPS];
    bool reverse;
    int lanes;
    tcc_item_cut cut;
} tcc_scan;

/* Sums of f32, f16 and bf16 gather in f64: in f32 a long line of equal values would stop to grow at 2^24 of them. A
 * value to the type of its sum, and back. */
tcc_emit_value tcc_scan_widen(tcc_emitter *e, tcc_emit_value value);
tcc_emit_value tcc_scan_narrow(tcc_emitter *e, tcc_emit_value sum, tcc_dtype dtype);

/* Marks what the line needs and gives the sums before it, 0, over so many lanes; their number. */
int tcc_scan_begin(tcc_body_run *r, int lanes, tcc_emit_value *carry);

/* One element of the axis at a time. */
tcc_status tcc_scan_emit_steps(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);

/* On a GPU, along the loop in which memory is contiguous: a lane group runs along a line together, many elements at a
 * time. */
tcc_status tcc_scan_emit_rows(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);

/* The same on the host, in vectors. */
tcc_status tcc_scan_emit_lines(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol);

#endif
