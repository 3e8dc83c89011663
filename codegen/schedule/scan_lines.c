/* SPDX-License-Identifier: MIT
 * Running sums along lines, for the host: a line is taken a vector at a time. A vector is summed from lane to lane in
 * log2 rounds of shifts and adds. One further addition adds the sum of all elements before it. So the chain of
 * dependent additions has one addition per vector. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/scan.h"

#include <string.h>

/* Each lane with those before it, which in reverse are the ones above. */
static tcc_emit_value sum_lanes(tcc_emitter *e, tcc_emit_value x, bool reverse) {
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(x));
    tcc_emit_value zero = tcc_emit_null(tcc_emit_type_of(x));
    for (int distance = 1; distance < lanes; distance *= 2) {
        int from[64];
        for (int i = 0; i < lanes; i++) {
            const int other = reverse ? i + distance : i - distance;
            from[i] = other >= 0 && other < lanes ? other : lanes;
        }
        tcc_fold_step(e, TCC_OP_REDUCE_SUM, &x, tcc_emit_shuffle(e, x, zero, from, lanes), NULL, NULL);
    }
    return x;
}

/* The vector from `at` on: each running sum in order of dependence, then the stores. */
static void emit_vector(tcc_body_run *r, const tcc_scan *p, tcc_emit_value at, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    int n = 0;
    r->lane_var = p->lanes > 1 ? p->axis[0] : -1;
    r->lanes = p->lanes;
    tcc_body_enter(r, p->axis[0], at);
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind != TCC_EXPR_REDUCE) continue;
        tcc_body_emit(r, 0);
        tcc_emit_value value = tcc_scan_widen(e, tcc_body_lanes(r, x->operands[0]));
        if (r->mask) value = tcc_emit_select(e, r->mask, value, tcc_emit_null(tcc_emit_type_of(value)));
        value = sum_lanes(e, value, p->reverse);
        tcc_emit_value before = tcc_emit_splat(e, carry[n], p->lanes);
        tcc_fold_step(e, TCC_OP_REDUCE_SUM, &before, value, NULL, NULL);
        if (p->lanes > 1) value = tcc_emit_extract(e, value, tcc_emit_i32(e, p->reverse ? 0 : p->lanes - 1));
        tcc_fold_step(e, TCC_OP_REDUCE_SUM, &carry[n++], value, NULL, NULL);
        tcc_body_give(r, x, tcc_scan_narrow(e, before, x->dtype));
    }
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(r, &b->stores.data[i]);
    tcc_body_leave(r, p->axis[0]);
    r->lane_var = -1;
    r->lanes = 1;
}

/* What the line has beside whole vectors; in reverse it comes first. */
static void emit_tail(tcc_body_run *r, const tcc_scan *p, int64_t whole, int64_t rest, tcc_emit_value *carry) {
    if (!rest) return;
    r->mask = tcc_emit_mask(r->e, p->lanes, tcc_emit_i64(r->e, rest));
    emit_vector(r, p, tcc_emit_i64(r->e, whole), carry);
    r->mask = NULL;
}

static void emit_line(tcc_body_run *r, const void *data) {
    const tcc_scan *p = data;
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    const int64_t extent = b->vars.data[p->axis[0]].high + 1, rest = extent % p->lanes, whole = extent - rest;
    tcc_emit_value carry[TCC_SCAN_MOST];
    int n = tcc_scan_begin(r, 1, carry);
    if (p->reverse) emit_tail(r, p, whole, rest, carry);
    if (whole) {
        tcc_emit_loop loop;
        tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, whole), p->lanes, carry, n);
        memcpy(carry, loop.carry, sizeof *carry * (size_t)n);
        tcc_emit_value at = loop.index;
        if (p->reverse) at = tcc_emit_sub(e, tcc_emit_i64(e, whole - p->lanes), at);
        emit_vector(r, p, at, carry);
        tcc_emit_loop_end(e, &loop, carry);
        memcpy(carry, loop.carry, sizeof *carry * (size_t)n);
    }
    if (!p->reverse) emit_tail(r, p, whole, rest, carry);
}

tcc_status tcc_scan_emit_lines(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_scan *p = plan->data;
    return tcc_emit_cut_kernel(e, symbol, p->body, &p->cut, 0, emit_line, p);
}
