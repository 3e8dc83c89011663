/* SPDX-License-Identifier: MIT
 * scatter_add along the innermost dim, for a GPU: a warp owns a line of the output and takes the line's index positions
 * 32 at a time. Threads whose positions name one element take turns in ascending order; the others add at once. So the
 * sums have one order, the one of the other schedules, and no two warps meet. Where updates replace the element, only
 * the last of such threads writes. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/scatter.h"

enum { THREADS = 256, LEAST_POSITIONS = 8 };

tcc_thread_shape tcc_scatter_along_shape(void) {
    return (tcc_thread_shape){.threads = THREADS, .group = TCC_EMIT_WARP};
}

bool tcc_scatter_plan_along(tcc_scatter *p, const tcc_expr *place, bool replaces) {
    const tcc_body_write *s = &p->body->stores.data[0];
    if (p->n_positions != 1 || p->body->vars.data[p->positions[0]].high + 1 < LEAST_POSITIONS || !s->guard)
        return false;
    if (!replaces &&
        (s->value->kind != TCC_EXPR_POINT || s->value->n_operands != 2 || s->value->operands[0]->kind != TCC_EXPR_LOAD))
        return false;
    p->place = place;
    p->sum = s->value;
    p->old = replaces ? NULL : s->value->operands[0];
    p->lanes = 1;
    p->cut = tcc_cut_items(p->body, p->kept, p->n_kept, 1, 1);
    return true;
}

/* A key that no other thread has where it is no hit, so that none takes part there. */
static tcc_emit_value own_key(tcc_emitter *e, tcc_emit_value hit, tcc_emit_value key, tcc_emit_value lane) {
    return tcc_emit_select(e, hit, key, tcc_emit_not(e, lane)); /* keys are not negative */
}

/* Whether it is a hit, and no thread behind this one has its key. */
static tcc_emit_value is_last(tcc_emitter *e, tcc_emit_value hit, tcc_emit_value key) {
    tcc_emit_value lane = tcc_emit_trunc(e, e->thread, e->i32);
    tcc_emit_value behind = tcc_emit_shl(e, tcc_emit_i32(e, -2), lane);
    tcc_emit_value same = tcc_emit_and(e, tcc_emit_match(e, own_key(e, hit, key, lane)), behind);
    return tcc_emit_and(e, hit, tcc_emit_icmp(e, TCC_ICMP_EQ, same, tcc_emit_i32(e, 0)));
}

/* One more than how many threads before this one have its key, and in *rounds the most that any has; 0 where it is no
 * hit. i32 */
static tcc_emit_value turn_of(tcc_emitter *e, tcc_emit_value hit, tcc_emit_value key, tcc_emit_value *rounds) {
    tcc_emit_value lane = tcc_emit_trunc(e, e->thread, e->i32);
    tcc_emit_value before = tcc_emit_isub(e, tcc_emit_shl(e, tcc_emit_i32(e, 1), lane), tcc_emit_i32(e, 1));
    tcc_emit_value same = tcc_emit_and(e, tcc_emit_match(e, own_key(e, hit, key, lane)), before);
    tcc_emit_value turn = tcc_emit_iadd(e, tcc_emit_intrinsic(e, "llvm.ctpop", e->i32, &same, 1), tcc_emit_i32(e, 1));
    turn = tcc_emit_select(e, hit, turn, tcc_emit_i32(e, 0));
    *rounds = turn;
    for (int bit = 1; bit < TCC_EMIT_WARP; bit *= 2) {
        tcc_emit_value other = tcc_emit_exchange(e, *rounds, bit);
        *rounds = tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SGT, other, *rounds), other, *rounds);
    }
    return turn;
}

/* The threads' updates, those of one element in turns. */
static void emit_turns(tcc_body_run *r, const tcc_scatter *p, tcc_emit_value hit, tcc_emit_value place) {
    tcc_emitter *e = r->e;
    tcc_emit_loop round;
    tcc_emit_value rounds, turn = turn_of(e, hit, place, &rounds);
    tcc_emit_loop_begin(e, &round, tcc_emit_i64(e, 0), tcc_emit_zext(e, rounds, e->i64), 1, NULL, 0);
    tcc_emit_if own;
    tcc_emit_value next = tcc_emit_iadd(e, tcc_emit_trunc(e, round.index, e->i32), tcc_emit_i32(e, 1));
    tcc_emit_if_begin(e, &own, tcc_emit_icmp(e, TCC_ICMP_EQ, turn, next));
    tcc_body_need_none(r);
    tcc_body_need(r, p->sum);
    tcc_body_emit(r, 0);
    tcc_body_emit_store(r, &p->body->stores.data[0]);
    tcc_emit_if_end(e, &own);
    r->values[p->sum->id] = r->values[p->old->id] = NULL;
    tcc_emit_warp_barrier(e);
    tcc_emit_loop_end(e, &round, NULL);
}

static void emit_last(tcc_body_run *r, const tcc_scatter *p, tcc_emit_value hit, tcc_emit_value place) {
    tcc_emit_if last;
    tcc_emit_if_begin(r->e, &last, is_last(r->e, hit, place));
    tcc_body_emit_store(r, &p->body->stores.data[0]);
    tcc_emit_if_end(r->e, &last);
    tcc_emit_warp_barrier(r->e);
}

static void emit_line(tcc_body_run *r, const void *data) {
    const tcc_scatter *p = data;
    tcc_emitter *e = r->e;
    const tcc_expr *guard = p->body->stores.data[0].guard;
    const int64_t extent = p->body->vars.data[p->positions[0]].high + 1;
    tcc_emit_loop scan;
    tcc_emit_loop_begin(e, &scan, tcc_emit_i64(e, 0), tcc_emit_i64(e, extent), TCC_EMIT_WARP, NULL, 0);
    tcc_emit_value at = tcc_emit_within(e, tcc_emit_add(e, scan.index, e->thread), extent + TCC_EMIT_WARP),
                   inside = NULL;
    if (extent % TCC_EMIT_WARP) {
        inside = tcc_emit_icmp(e, TCC_ICMP_SLT, at, tcc_emit_i64(e, extent));
        at = tcc_emit_min(e, at, tcc_emit_i64(e, extent - 1));
    }
    tcc_body_enter(r, p->positions[0], at);
    tcc_body_need_none(r);
    tcc_body_need(r, guard);
    tcc_body_need(r, p->place);
    tcc_body_need(r, p->old ? p->sum->operands[1] : p->sum);
    tcc_body_emit(r, 0);
    tcc_emit_value hit = r->values[guard->id], place = r->values[p->place->id];
    if (inside) hit = tcc_emit_and(e, hit, inside);
    if (tcc_emit_type_of(place) != e->i32) place = tcc_emit_trunc(e, place, e->i32);
    (p->old ? emit_turns : emit_last)(r, p, hit, place);
    tcc_body_leave(r, p->positions[0]);
    tcc_emit_loop_end(e, &scan, NULL);
}

tcc_status tcc_scatter_emit_along(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_scatter *p = plan->data;
    return tcc_emit_cut_kernel(e, symbol, p->body, &p->cut, 0, emit_line, p);
}
