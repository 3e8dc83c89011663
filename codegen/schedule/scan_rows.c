/* SPDX-License-Identifier: MIT
 * Running results along lines, for a GPU: a lane group runs along a line in tiles of one vector a thread. A thread
 * joins the maps of its vector from lane to lane. Then threads of a warp join those before them in log2 rounds of
 * shuffles, and warps theirs through shared memory in ascending order. So the order depends on the extent alone.
 *
 * Where the group has all of a line in one tile, results both ways and those of a step further share the kernel. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/scan.h"

#include <string.h>

/* Of the thread `distance` before this one, which in a line that is turned is the one behind it. */
static tcc_emit_value thread_before(tcc_emitter *e, tcc_emit_value x, int distance, bool turned) {
    return turned ? tcc_emit_from_after(e, x, distance) : tcc_emit_from_before(e, x, distance);
}

static tcc_scan_map from_before(tcc_emitter *e, tcc_scan_map x, int distance, bool turned) {
    return tcc_scan_with(x, x.a ? thread_before(e, x.a, distance, turned) : NULL,
                         x.b ? thread_before(e, x.b, distance, turned) : NULL);
}

/* What each warp has all in all, in the order of the line. */
static void each_warp(tcc_emitter *e, tcc_scan_map x, int warps, bool turned, tcc_scan_map *all) {
    tcc_emit_value a[TCC_EMIT_WARP] = {0}, b[TCC_EMIT_WARP] = {0};
    if (x.a) tcc_emit_end_threads(e, x.a, turned, a);
    if (x.b) tcc_emit_end_threads(e, x.b, turned, b);
    for (int w = 0; w < warps; w++) {
        const int from = turned ? warps - 1 - w : w;
        all[w] = tcc_scan_with(x, a[from], b[from]);
    }
}

/* What the threads before this one hold, joined, and in *total what all of the group hold. */
static tcc_scan_map join_before(tcc_emitter *e, tcc_scan_map own, bool turned, tcc_scan_map *total) {
    const int group = e->shape.shape.group, part = group < TCC_EMIT_WARP ? group : TCC_EMIT_WARP, warps = group / part;
    const tcc_scan_map none = tcc_scan_none(e, own);
    tcc_emit_value lane = tcc_emit_rem(e, e->thread, part);
    if (turned) lane = tcc_emit_sub(e, tcc_emit_i64(e, part - 1), lane);
    tcc_scan_map before = own;
    for (int distance = 1; distance < part; distance *= 2) {
        const tcc_scan_map other = from_before(e, before, distance, turned);
        tcc_emit_value exists = tcc_emit_icmp(e, TCC_ICMP_UGE, lane, tcc_emit_i64(e, distance));
        before = tcc_scan_choose(e, exists, tcc_scan_join_bounded(e, other, before), before);
    }
    tcc_scan_map through = before, all[TCC_EMIT_WARP] = {0};
    tcc_emit_value first = tcc_emit_icmp(e, TCC_ICMP_EQ, lane, tcc_emit_i64(e, 0));
    before = part > 1 ? tcc_scan_choose(e, first, none, from_before(e, through, 1, turned)) : none;
    each_warp(e, through, warps, turned, all);
    *total = all[0];
    if (warps == 1) return before;
    tcc_emit_value warp = tcc_emit_div(e, e->thread, TCC_EMIT_WARP);
    if (turned) warp = tcc_emit_sub(e, tcc_emit_i64(e, warps - 1), warp);
    tcc_scan_map earlier = none;
    for (int w = 0; w < warps; w++) {
        tcc_emit_value here = tcc_emit_icmp(e, TCC_ICMP_EQ, warp, tcc_emit_i64(e, w));
        earlier = tcc_scan_choose(e, here, w ? *total : none, earlier);
        *total = w ? tcc_scan_join_bounded(e, *total, all[w]) : all[0];
    }
    return tcc_scan_join_bounded(e, earlier, before);
}

/* The values behind each element of the threads' vectors, of `carry` before them, which becomes that behind the whole
 * tile. */
static tcc_emit_value scan_tile(tcc_emitter *e, const tcc_scan *p, bool reverse, tcc_scan_map vector,
                                tcc_emit_value *carry) {
    tcc_scan_map own[64], total;
    for (int i = 0; i < p->lanes; i++) {
        const tcc_scan_map x = tcc_scan_lane(e, vector, reverse ? p->lanes - 1 - i : i);
        own[i] = i ? tcc_scan_join_bounded(e, own[i - 1], x) : x;
    }
    const bool turned = p->whole && reverse; /* else threads go backwards themselves */
    tcc_emit_value before = tcc_scan_apply(e, join_before(e, own[p->lanes - 1], turned, &total), *carry);
    *carry = tcc_scan_apply(e, total, *carry);
    if (p->lanes == 1) return tcc_scan_apply(e, own[0], before);
    tcc_emit_value result = tcc_emit_poison(tcc_emit_type_of(vector.b ? vector.b : vector.a));
    for (int i = 0; i < p->lanes; i++)
        result = tcc_emit_insert(e, result, tcc_scan_apply(e, own[i], before),
                                 tcc_emit_i32(e, reverse ? p->lanes - 1 - i : i));
    return result;
}

/* What is a step further along the line. */
static tcc_emit_value read_step(tcc_body_run *r, const tcc_scan *p, const tcc_expr *x) {
    tcc_emitter *e = r->e;
    const bool after = x->integer > 0;
    tcc_emit_value own = tcc_body_lanes(r, x->operands[0]);
    if (p->lanes == 1) return tcc_emit_neighbour(e, own, after);
    tcc_emit_value edge = tcc_emit_extract(e, own, tcc_emit_i32(e, after ? 0 : p->lanes - 1));
    tcc_emit_value result = tcc_emit_poison(tcc_emit_type_of(own));
    edge = tcc_emit_neighbour(e, edge, after);
    for (int i = 0; i < p->lanes; i++) {
        const int from = after ? i + 1 : i - 1;
        tcc_emit_value one = from < 0 || from == p->lanes ? edge : tcc_emit_extract(e, own, tcc_emit_i32(e, from));
        result = tcc_emit_insert(e, result, one, tcc_emit_i32(e, i));
    }
    return result;
}

/* The end of a line is stored by the thread that has it. */
static void store_end(tcc_body_run *r, const tcc_scan *p, const tcc_body_write *s, tcc_emit_value at) {
    tcc_emitter *e = r->e;
    const int64_t lane = p->end % p->lanes;
    tcc_emit_value one = tcc_body_stored(r, s),
                   here = tcc_emit_icmp(e, TCC_ICMP_EQ, at, tcc_emit_i64(e, p->end - lane));
    if (r->inside) here = tcc_emit_and(e, here, r->inside);
    if (p->lanes > 1) one = tcc_emit_extract(e, one, tcc_emit_i32(e, (int32_t)lane));
    tcc_emit_if branch;
    tcc_emit_if_begin(e, &branch, here);
    tcc_emit_store(e, one, tcc_emit_at(e, tcc_emit_type_of(one), r->bases[s->buffer], tcc_body_offset(r, &s->offset)),
                   0);
    tcc_emit_if_end(e, &branch);
}

/* One vector of each thread, at `at`: each running result in order of dependence, then the stores. */
static void emit_tile(tcc_body_run *r, const tcc_scan *p, tcc_emit_value at, tcc_emit_value *carry) {
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
        if (tcc_scan_is_step(x)) {
            tcc_body_give(r, x, read_step(r, p, x));
            continue;
        }
        tcc_emit_value y = scan_tile(e, p, x->integer, tcc_scan_read(r, x, r->inside), &carry[n++]);
        tcc_body_give(r, x, tcc_scan_narrow(e, y, x->dtype));
    }
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++) {
        if (b->stores.data[i].kept) store_end(r, p, &b->stores.data[i], at);
        else tcc_body_emit_store(r, &b->stores.data[i]);
    }
    tcc_body_leave(r, p->axis[0]);
    r->inside = NULL;
    r->lane_var = -1;
    r->lanes = 1;
}

/* Threads whose vector from `at` on lies behind the end do the last one again, and store nothing: all stay, for the
 * others of the group count on them. */
static tcc_emit_value keep_inside(tcc_body_run *r, const tcc_scan *p, tcc_emit_value at, int64_t extent) {
    tcc_emitter *e = r->e;
    r->inside = tcc_emit_icmp(e, TCC_ICMP_SLT, at, tcc_emit_i64(e, extent));
    return tcc_emit_min(e, at, tcc_emit_i64(e, extent - p->lanes));
}

static void emit_line(tcc_body_run *r, const void *data) {
    const tcc_scan *p = data;
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    const int64_t extent = b->vars.data[p->axis[0]].high + 1, tile = tcc_emit_group_lanes(e, p->lanes);
    tcc_emit_value carry[TCC_SCAN_MOST];
    int n = tcc_scan_begin(r, 1, carry);
    if (p->whole) {
        tcc_emit_value own = tcc_emit_within(e, tcc_emit_mul(e, e->thread, tcc_emit_i64(e, p->lanes)), tile);
        emit_tile(r, p, tile > extent ? keep_inside(r, p, own, extent) : own, carry);
        return;
    }
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, extent), tile, carry, n);
    memcpy(carry, loop.carry, sizeof *carry * (size_t)n);
    tcc_emit_value at = tcc_emit_add(e, loop.index, tcc_emit_mul(e, e->thread, tcc_emit_i64(e, p->lanes)));
    at = tcc_emit_within(e, at, extent + tile);
    if (extent % tile) at = keep_inside(r, p, at, extent);
    if (p->reverse) at = tcc_emit_sub(e, tcc_emit_i64(e, extent - p->lanes), at);
    emit_tile(r, p, at, carry);
    if (e->shape.shape.group > TCC_EMIT_WARP)
        tcc_emit_barrier(e); /* the next tile's warps leave theirs in the same place */
    tcc_emit_loop_end(e, &loop, carry);
}

tcc_status tcc_scan_emit_rows(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_scan *p = plan->data;
    return tcc_emit_cut_kernel(e, symbol, p->body, &p->cut, 0, emit_line, p);
}
