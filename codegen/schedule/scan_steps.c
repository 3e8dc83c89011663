/* SPDX-License-Identifier: MIT
 * Running sums as chains of additions, one element of the axis at a time, for a single line or neighbouring lines side
 * by side. Also the parts that scan_lines.c and scan_rows.c share: the type of the sums, and the start of a line. */
#include "codegen/schedule/scan.h"

#include <string.h>

static tcc_emit_type sum_type(tcc_emitter *e, tcc_dtype dtype, int lanes) {
    return tcc_emit_vector_type(tcc_scalar_register(e, tcc_dtype_is_float(dtype) ? TCC_F64 : dtype), lanes);
}

tcc_emit_value tcc_scan_widen(tcc_emitter *e, tcc_emit_value value) {
    tcc_emit_type type = tcc_emit_type_of(value), wide = tcc_emit_type_like(e, e->f64, type);
    tcc_emit_type scalar = tcc_emit_scalar_of(type);
    return scalar == e->f32 ? tcc_emit_fpext(e, value, wide) : value;
}

tcc_emit_value tcc_scan_narrow(tcc_emitter *e, tcc_emit_value sum, tcc_dtype dtype) {
    tcc_emit_type scalar = tcc_scalar_register(e, dtype);
    if (scalar != e->f32) return sum;
    return tcc_emit_fptrunc(e, sum, tcc_emit_type_like(e, scalar, tcc_emit_type_of(sum)));
}

int tcc_scan_begin(tcc_body_run *r, int lanes, tcc_emit_value *carry) {
    const tcc_body *b = r->body;
    int n = 0;
    for (int i = 0; i < b->stores.count; i++) tcc_body_need(r, b->stores.data[i].value);
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind != TCC_EXPR_REDUCE) continue;
        tcc_body_need(r, x->operands[0]);
        tcc_fold_initial(r->e, TCC_OP_REDUCE_SUM, sum_type(r->e, x->dtype, lanes), NULL, &carry[n++]);
    }
    return n;
}

/* One step: each running sum in order of dependence, then the stores. */
static void emit_step(tcc_body_run *r, tcc_emit_value *carry) {
    const tcc_body *b = r->body;
    int n = 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind != TCC_EXPR_REDUCE) continue;
        tcc_body_emit(r, 0);
        tcc_emit_value value = tcc_scan_widen(r->e, tcc_body_lanes(r, x->operands[0]));
        tcc_fold_step(r->e, TCC_OP_REDUCE_SUM, &carry[n], value, NULL, NULL);
        tcc_emit_value sum = tcc_scan_narrow(r->e, carry[n++], x->dtype);
        if (!tcc_body_varies(r, x) && tcc_emit_lanes_of(tcc_emit_type_of(sum)) > 1) /* columns that are all alike */
            sum = tcc_emit_extract(r->e, sum, tcc_emit_i32(r->e, 0));
        tcc_body_give(r, x, sum);
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
