/* SPDX-License-Identifier: MIT
 * Running results along lines, for the host: a line is taken a vector at a time. The maps of a vector are joined from
 * lane to lane in log2 rounds of shifts. Then each is applied to the value before the vector. So the chain of dependent
 * steps has one step per vector. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/scan.h"

#include <string.h>

static tcc_emit_value shift(tcc_emitter *e, tcc_emit_value x, tcc_emit_value outside, const int *from, int lanes) {
    return x ? tcc_emit_shuffle(e, x, outside, from, lanes) : NULL;
}

/* Each lane behind those before it, which in reverse are the ones above. */
static tcc_scan_map join_lanes(tcc_emitter *e, tcc_scan_map x, int lanes, bool reverse) {
    const tcc_scan_map none = tcc_scan_none(e, x);
    for (int distance = 1; distance < lanes; distance *= 2) {
        int from[64];
        for (int i = 0; i < lanes; i++) {
            const int other = reverse ? i + distance : i - distance;
            from[i] = other >= 0 && other < lanes ? other : lanes;
        }
        tcc_emit_value a = shift(e, x.a, none.a, from, lanes), b = shift(e, x.b, none.b, from, lanes);
        x = tcc_scan_join(e, tcc_scan_with(x, a, b), x);
    }
    return x;
}

/* One element after the other. */
static tcc_emit_value scan_slowly(tcc_emitter *e, const tcc_scan *p, tcc_scan_map x, tcc_emit_value *carry) {
    tcc_emit_value y = tcc_emit_poison(tcc_emit_type_of(x.b ? x.b : x.a));
    for (int i = 0; i < p->lanes; i++) {
        const int lane = p->reverse ? p->lanes - 1 - i : i;
        *carry = tcc_scan_apply(e, tcc_scan_lane(e, x, lane), *carry);
        y = tcc_emit_insert(e, y, *carry, tcc_emit_i32(e, lane));
    }
    return y;
}

/* The values behind each element of a vector, and in *carry behind all of it. Where the product of its a's is not
 * finite, one element after the other: 0 times a product that f64 does not hold would be NaN. */
static tcc_emit_value scan_vector(tcc_emitter *e, const tcc_scan *p, tcc_scan_map x, tcc_emit_value *carry) {
    const tcc_scan_map joined = join_lanes(e, x, p->lanes, p->reverse);
    const tcc_scan_map all = tcc_scan_lane(e, joined, p->reverse ? 0 : p->lanes - 1);
    tcc_emit_value y = tcc_scan_apply(e, joined, tcc_emit_splat(e, *carry, p->lanes));
    tcc_emit_value behind = tcc_scan_apply(e, all, *carry);
    if (p->lanes > 1 && all.a && tcc_emit_is_float(tcc_emit_type_of(all.a))) {
        tcc_emit_if branch;
        tcc_emit_if_begin(e, &branch, tcc_emit_not(e, tcc_scan_is_finite(e, all.a)));
        tcc_emit_value slow = scan_slowly(e, p, x, carry);
        tcc_emit_if_end(e, &branch);
        y = tcc_emit_if_value(e, &branch, slow, y);
        behind = tcc_emit_if_value(e, &branch, *carry, behind);
    }
    *carry = behind;
    return y;
}

/* The vector from `at` on: each running result in order of dependence, then the stores. */
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
        tcc_emit_value y = scan_vector(e, p, tcc_scan_read(r, x, r->mask), &carry[n++]);
        tcc_body_give(r, x, tcc_scan_narrow(e, y, x->dtype));
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
