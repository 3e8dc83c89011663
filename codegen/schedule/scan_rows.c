/* SPDX-License-Identifier: MIT
 * Running sums along lines, for a GPU: a lane group runs along a line in tiles of one vector a thread. A thread sums
 * its vector from lane to lane. Then threads of a warp add the sums before them in log2 rounds of shuffles, and warps
 * add theirs through shared memory in ascending order. So the order of additions depends on the extent alone. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/scan.h"

#include <string.h>

static tcc_emit_value sum(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    tcc_fold_step(e, TCC_OP_REDUCE_SUM, &a, b, NULL, NULL);
    return a;
}

static tcc_emit_value zero_of(tcc_emit_value v) { return tcc_emit_null(tcc_emit_type_of(v)); }

/* What the threads before this one hold in sum, and in *total what all of the group hold. */
static tcc_emit_value sum_before(tcc_emitter *e, tcc_emit_value own, tcc_emit_value *total) {
    const int group = e->shape.shape.group, part = group < TCC_EMIT_WARP ? group : TCC_EMIT_WARP, warps = group / part;
    tcc_emit_value lane = tcc_emit_rem(e, e->thread, part), before = own;
    for (int distance = 1; distance < part; distance *= 2) {
        tcc_emit_value other = tcc_emit_from_before(e, before, distance);
        tcc_emit_value exists = tcc_emit_icmp(e, TCC_ICMP_UGE, lane, tcc_emit_i64(e, distance));
        before = tcc_emit_select(e, exists, sum(e, other, before), before);
    }
    tcc_emit_value through = before, all[TCC_EMIT_WARP];
    tcc_emit_value first = tcc_emit_icmp(e, TCC_ICMP_EQ, lane, tcc_emit_i64(e, 0));
    before = part > 1 ? tcc_emit_select(e, first, zero_of(own), tcc_emit_from_before(e, through, 1)) : zero_of(own);
    tcc_emit_last_threads(e, through, all);
    *total = all[0];
    if (warps == 1) return before;
    tcc_emit_value warp = tcc_emit_div(e, e->thread, TCC_EMIT_WARP), earlier = zero_of(own);
    for (int w = 0; w < warps; w++) {
        earlier = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_EQ, warp, tcc_emit_i64(e, w)), w ? *total : zero_of(own),
                                  earlier);
        if (w) *total = sum(e, *total, all[w]);
        else *total = all[0];
    }
    return sum(e, earlier, before);
}

/* The running sums of the threads' vectors after `carry`, which becomes that of the whole tile. */
static tcc_emit_value scan_tile(tcc_emitter *e, const tcc_scan *p, tcc_emit_value vector, tcc_emit_value *carry) {
    tcc_emit_value own[64], total;
    for (int i = 0; i < p->lanes; i++) {
        int at = p->reverse ? p->lanes - 1 - i : i;
        tcc_emit_value x = p->lanes == 1 ? vector : tcc_emit_extract(e, vector, tcc_emit_i32(e, at));
        own[i] = i ? sum(e, own[i - 1], x) : x;
    }
    tcc_emit_value before = sum_before(e, own[p->lanes - 1], &total);
    before = sum(e, *carry, before);
    *carry = sum(e, *carry, total);
    if (p->lanes == 1) return sum(e, before, own[0]);
    tcc_emit_value result = tcc_emit_poison(tcc_emit_type_of(vector));
    for (int i = 0; i < p->lanes; i++)
        result = tcc_emit_insert(e, result, sum(e, before, own[i]), tcc_emit_i32(e, p->reverse ? p->lanes - 1 - i : i));
    return result;
}

/* One vector of each thread: each running sum in order of dependence, then the stores. */
static void emit_tile(tcc_body_run *r, const tcc_scan *p, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    int n = 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind != TCC_EXPR_REDUCE) continue;
        tcc_body_emit(r, 0);
        tcc_emit_value value = tcc_body_lanes(r, x->operands[0]);
        if (r->inside) value = tcc_emit_select(e, r->inside, value, zero_of(value));
        tcc_emit_value sums = scan_tile(e, p, tcc_scan_widen(e, value), &carry[n++]);
        tcc_body_give(r, x, tcc_scan_narrow(e, sums, x->dtype));
    }
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(r, &b->stores.data[i]);
}

static void emit_line(tcc_body_run *r, const void *data) {
    const tcc_scan *p = data;
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    const int64_t extent = b->vars.data[p->axis[0]].high + 1, tile = tcc_emit_group_lanes(e, p->lanes);
    tcc_emit_value carry[TCC_SCAN_MOST];
    int n = tcc_scan_begin(r, 1, carry);
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, extent), tile, carry, n);
    memcpy(carry, loop.carry, sizeof *carry * (size_t)n);
    tcc_emit_value at = tcc_emit_add(e, loop.index, tcc_emit_mul(e, e->thread, tcc_emit_i64(e, p->lanes)));
    at = tcc_emit_within(e, at, extent + tile);
    if (extent % tile) { /* all threads stay, for the others of the group count on them */
        r->inside = tcc_emit_icmp(e, TCC_ICMP_SLT, at, tcc_emit_i64(e, extent));
        at = tcc_emit_min(e, at, tcc_emit_i64(e, extent - p->lanes));
    }
    if (p->reverse) at = tcc_emit_sub(e, tcc_emit_i64(e, extent - p->lanes), at);
    r->lane_var = p->lanes > 1 ? p->axis[0] : -1;
    r->lanes = p->lanes;
    tcc_body_enter(r, p->axis[0], at);
    emit_tile(r, p, carry);
    tcc_body_leave(r, p->axis[0]);
    r->inside = NULL;
    r->lane_var = -1;
    r->lanes = 1;
    if (e->shape.shape.group > TCC_EMIT_WARP)
        tcc_emit_barrier(e); /* the next tile's warps leave their sums in the same place */
    tcc_emit_loop_end(e, &loop, carry);
}

tcc_status tcc_scan_emit_rows(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_scan *p = plan->data;
    return tcc_emit_cut_kernel(e, symbol, p->body, &p->cut, 0, emit_line, p);
}
