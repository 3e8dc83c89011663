/* SPDX-License-Identifier: MIT
 * Running results one element of the axis after the other, for a single line or neighbouring lines side by side. */
#include "codegen/schedule/scan.h"

#include <string.h>

/* One step: each running result in order of dependence, then the stores. */
static void emit_step(tcc_body_run *r, tcc_emit_value *carry) {
    const tcc_body *b = r->body;
    int n = 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind != TCC_EXPR_REDUCE) continue;
        tcc_body_emit(r, 0);
        carry[n] = tcc_scan_apply(r->e, tcc_scan_read(r, x, NULL), carry[n]);
        tcc_emit_value y = tcc_scan_narrow(r->e, carry[n++], x->dtype);
        if (!tcc_body_varies(r, x) && tcc_emit_lanes_of(tcc_emit_type_of(y)) > 1) /* columns that are all alike */
            y = tcc_emit_extract(r->e, y, tcc_emit_i32(r->e, 0));
        tcc_body_give(r, x, y);
    }
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(r, &b->stores.data[i]);
}

static void emit_line(tcc_body_run *r, const void *data) {
    const tcc_scan *p = data;
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    tcc_emit_value carry[TCC_SCAN_MOST];
    int n = tcc_scan_begin(r, r->lanes, carry);
    for (int i = 0; i < p->n_axis; i++) {
        tcc_emit_loop *loop = &r->nest[p->axis[i]];
        int64_t extent = b->vars.data[p->axis[i]].high + 1;
        tcc_emit_loop_begin(e, loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, extent), 1, carry, n);
        memcpy(carry, loop->carry, sizeof *carry * (size_t)n);
        tcc_emit_value index = loop->index;
        if (p->reverse) index = tcc_emit_sub(e, tcc_emit_i64(e, extent - 1), index);
        tcc_body_enter(r, p->axis[i], index);
    }
    emit_step(r, carry);
    for (int i = p->n_axis - 1; i >= 0; i--) {
        tcc_body_leave(r, p->axis[i]);
        tcc_emit_loop *loop = &r->nest[p->axis[i]];
        tcc_emit_loop_end(e, loop, carry);
        memcpy(carry, loop->carry, sizeof *carry * (size_t)n);
    }
}

tcc_status tcc_scan_emit_steps(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_scan *p = plan->data;
    return tcc_emit_cut_kernel(e, symbol, p->body, &p->cut, p->lanes, emit_line, p);
}
