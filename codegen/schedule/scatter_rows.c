/* SPDX-License-Identifier: MIT
 * scatter_add by rows, for a GPU: a warp owns one row of the output, or a part of it. It reads all index positions, a
 * few to each thread, and where some name its row it adds their updates in ascending order, in registers. So the sums
 * have one order, the one of the other schedule, and rows without updates are not touched. Sums onto zeros begin in
 * registers, too: then each row is written once, and nothing is read of it. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/scatter.h"

enum {
    THREADS = 128,
    SCANS = 4,      /* positions that a thread looks at before the warp asks whether there was one */
    BATCH = 4,      /* updates that are read side by side */
    STEPS = 8,      /* vectors of a row in a thread's registers */
    ENOUGH = 31,    /* items of a processor that keep it busy */
    REGISTERS = 48, /* of a thread: with fewer, some spill */
};

tcc_thread_shape tcc_scatter_row_shape(const tcc_lowering *l) {
    const int blocks = tcc_hardware_threads(&l->target->hw, REGISTERS) / THREADS;
    return (tcc_thread_shape){.threads = THREADS, .group = TCC_EMIT_WARP, .split = 1, .blocks = blocks};
}

int64_t tcc_scatter_row_items(const tcc_scatter *p) { return p->rows * p->chunks; }

static int64_t row_extent(const tcc_scatter *p) { return p->n_kept ? p->body->vars.data[p->kept[0]].high + 1 : 1; }

bool tcc_scatter_finds_rows(tcc_scatter *p, tcc_body *b, uint64_t position_bits, int64_t rows, const tcc_expr *place) {
    int order[TCC_BODY_MAX_LOOPS], n = b->n_space;
    for (int i = 0; i < n; i++) order[i] = i;
    tcc_body_collapse(b, order, &n, position_bits, NULL);
    *p = (tcc_scatter){.body = b, .rows = rows, .place = place, .lanes = 1};
    for (int i = 0; i < n; i++) {
        if (position_bits >> order[i] & 1) p->positions[p->n_positions++] = order[i];
        else p->kept[p->n_kept++] = order[i];
    }
    const tcc_body_write *s = &b->stores.data[0];
    if (p->n_positions != 1 || p->n_kept > 1 || s->guard || s->value->kind != TCC_EXPR_POINT ||
        s->value->n_operands != 2)
        return false;
    p->sum = s->value;
    p->old = s->value->operands[0];
    p->whole = p->old->kind == TCC_EXPR_REDUCE;
    return (p->whole || (p->old->kind == TCC_EXPR_LOAD && !p->old->n_operands)) && !(place->loops & ~position_bits);
}

tcc_status tcc_scatter_plan_rows(tcc_lowering *l, tcc_scatter *p) {
    const int64_t extent = row_extent(p);
    if (p->n_kept) {
        p->lanes = tcc_choose_lanes(l->target, p->body, p->kept[0], extent, 1);
        TCC_TRY(tcc_settle_lanes(l, p->body, p->kept[0], extent, &p->lanes));
    }
    const int64_t vectors = (extent + p->lanes * TCC_EMIT_WARP - 1) / (p->lanes * TCC_EMIT_WARP);
    const int64_t steps = p->rows >= (int64_t)ENOUGH * l->target->hw.processors ? STEPS : 1;
    p->chunks = (vectors + steps - 1) / steps;
    p->steps = (int)((vectors + p->chunks - 1) / p->chunks); /* even items */
    const tcc_param_range range = tcc_param_between(1, vectors < STEPS ? vectors : STEPS);
    TCC_TRY(tcc_params_settle_int(&l->params, TCC_PARAM_STEPS, range, &p->steps));
    p->chunks = (vectors + p->steps - 1) / p->steps;
    return TCC_OK;
}

typedef struct row_cx {
    const tcc_scatter *p;
    tcc_emit_value row, first; /* the row as the index's type; the thread's first element of it */
} row_cx;

/* Element of step `step`, and whether it is there; past the end the last one again. */
static tcc_emit_value element(tcc_body_run *r, const row_cx *c, int step, tcc_emit_value *inside) {
    tcc_emitter *e = r->e;
    const tcc_scatter *p = c->p;
    int64_t extent = row_extent(p);
    tcc_emit_value at = tcc_emit_add(e, c->first, tcc_emit_i64(e, (int64_t)step * p->lanes * TCC_EMIT_WARP));
    *inside = NULL;
    if (extent % ((int64_t)p->lanes * TCC_EMIT_WARP * p->steps) == 0) return at;
    *inside = tcc_emit_icmp(e, TCC_ICMP_SLT, at, tcc_emit_i64(e, extent));
    return tcc_emit_min(e, at, tcc_emit_i64(e, extent - p->lanes));
}

static void enter_element(tcc_body_run *r, const row_cx *c, int step, tcc_emit_value *inside) {
    const tcc_scatter *p = c->p;
    tcc_emit_value at = element(r, c, step, inside);
    if (!p->n_kept) return;
    r->lane_var = p->lanes > 1 ? p->kept[0] : -1;
    r->lanes = p->lanes;
    tcc_body_enter(r, p->kept[0], at);
}

static void leave_element(tcc_body_run *r, const row_cx *c) {
    if (c->p->n_kept) tcc_body_leave(r, c->p->kept[0]);
    r->values[c->p->sum->id] = r->values[c->p->old->id] = NULL;
    r->lane_var = -1;
    r->lanes = 1;
}

/* What the row holds before. */
static void read_row(tcc_body_run *r, const row_cx *c, tcc_emit_value *sums) {
    const tcc_scatter *p = c->p;
    tcc_body_enter(r, p->positions[0],
                   tcc_emit_i64(r->e, 0)); /* any: what depends on it is the place, which is given */
    r->values[p->place->id] = c->row;
    r->given[p->old->id] = false;
    tcc_body_need_none(r);
    for (int s = 0; s < p->steps; s++) {
        tcc_emit_value inside;
        enter_element(r, c, s, &inside);
        tcc_body_need(r, p->old);
        tcc_body_emit(r, 0);
        sums[s] = tcc_body_lanes(r, p->old);
        leave_element(r, c);
    }
    tcc_body_leave(r, p->positions[0]);
    r->given[p->old->id] = true;
}

/* The row itself, when the first update comes. */
static void read_row_once(tcc_body_run *r, const row_cx *c, tcc_emit_value *state) {
    tcc_emitter *e = r->e;
    const int steps = c->p->steps;
    tcc_emit_value before[STEPS];
    tcc_emit_if fresh;
    for (int s = 0; s < steps; s++) before[s] = state[s];
    tcc_emit_if_begin(e, &fresh, tcc_emit_not(e, state[steps]));
    read_row(r, c, state);
    tcc_emit_if_end(e, &fresh);
    for (int s = 0; s < steps; s++) state[s] = tcc_emit_if_value(e, &fresh, state[s], before[s]);
}

static void write_row(tcc_body_run *r, const row_cx *c, tcc_emit_value *sums) {
    const tcc_scatter *p = c->p;
    r->values[p->place->id] = c->row;
    for (int s = 0; s < p->steps; s++) {
        tcc_emit_if leader;
        enter_element(r, c, s, &r->inside);
        r->values[p->sum->id] = sums[s];
        leader.join = NULL;
        if (!p->n_kept) tcc_emit_leader_begin(r->e, &leader, false);
        tcc_body_emit_store(r, &p->body->stores.data[0]);
        if (!p->n_kept) tcc_emit_leader_end(r->e, &leader);
        r->inside = NULL;
        leave_element(r, c);
    }
    r->values[p->place->id] = NULL;
}

/* Adds the updates of the positions from `first` whose bits are set. carry: sums, then whether they have been read. */
static void add_hits(tcc_body_run *r, const row_cx *c, tcc_emit_value first, tcc_emit_value bits,
                     tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const tcc_scatter *p = c->p;
    tcc_emit_value state[STEPS + 2], count = tcc_emit_intrinsic(e, "llvm.ctpop", e->i32, &bits, 1);
    for (int s = 0; s <= p->steps; s++) state[s] = carry[s];
    state[p->steps + 1] = bits;
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_zext(e, count, e->i64), BATCH, state, p->steps + 2);
    for (int s = 0; s < p->steps + 2; s++) state[s] = loop.carry[s];
    tcc_emit_value mask = state[p->steps + 1];
    if (!p->whole) read_row_once(r, c, state);
    state[p->steps] = tcc_emit_int(e, e->i1, 1);
    tcc_body_need_none(r);
    tcc_body_need(r, p->sum);
    tcc_emit_value lowest = NULL;
    for (int k = 0; k < BATCH; k++) {
        tcc_emit_value arguments[] = {mask, tcc_emit_int(e, e->i1, 0)}, live = NULL;
        tcc_emit_value bit = tcc_emit_intrinsic(e, "llvm.cttz", e->i32, arguments, 2);
        if (k == 0) lowest = bit;
        else
            live = tcc_emit_icmp(e, TCC_ICMP_NE, mask, tcc_emit_i32(e, 0)), bit = tcc_emit_select(e, live, bit, lowest);
        mask = tcc_emit_and(e, mask, tcc_emit_isub(e, mask, tcc_emit_i32(e, 1)));
        tcc_body_enter(r, p->positions[0], tcc_emit_add(e, first, tcc_emit_zext(e, bit, e->i64)));
        for (int s = 0; s < p->steps; s++) {
            tcc_emit_value inside;
            enter_element(r, c, s, &inside);
            r->values[p->old->id] = state[s];
            tcc_body_emit(r, 0);
            tcc_emit_value sum = tcc_body_lanes(r, p->sum);
            state[s] = live ? tcc_emit_select(e, live, sum, state[s]) : sum;
            leave_element(r, c);
        }
        tcc_body_leave(r, p->positions[0]);
    }
    state[p->steps + 1] = mask;
    tcc_emit_loop_end(e, &loop, state);
    for (int s = 0; s <= p->steps; s++) carry[s] = loop.carry[s];
}

/* Whether the position of this thread in part `scan` names the row. */
static tcc_emit_value is_hit(tcc_body_run *r, const row_cx *c, tcc_emit_value first) {
    tcc_emitter *e = r->e;
    const tcc_scatter *p = c->p;
    int64_t extent = p->body->vars.data[p->positions[0]].high + 1;
    tcc_emit_value at = tcc_emit_add(e, first, e->thread), inside = NULL;
    if (extent % (TCC_EMIT_WARP * SCANS)) {
        inside = tcc_emit_icmp(e, TCC_ICMP_SLT, at, tcc_emit_i64(e, extent));
        at = tcc_emit_min(e, at, tcc_emit_i64(e, extent - 1));
    }
    tcc_body_need_none(r);
    tcc_body_need(r, p->place);
    tcc_body_enter(r, p->positions[0], at);
    tcc_body_emit(r, 0);
    tcc_emit_value hit = tcc_emit_icmp(e, TCC_ICMP_EQ, r->values[p->place->id], c->row);
    tcc_body_leave(r, p->positions[0]);
    r->values[p->place->id] = NULL;
    return inside ? tcc_emit_and(e, hit, inside) : hit;
}

static void emit_row(tcc_body_run *r, const tcc_scatter *p, tcc_emit_value item) {
    tcc_emitter *e = r->e;
    row_cx c = {.p = p, .row = tcc_emit_div(e, item, p->chunks)};
    tcc_emit_value part = tcc_emit_mul(e, tcc_emit_rem(e, item, p->chunks),
                                       tcc_emit_i64(e, (int64_t)p->steps * p->lanes * TCC_EMIT_WARP));
    c.first = tcc_emit_add(e, part, tcc_emit_mul(e, e->thread, tcc_emit_i64(e, p->lanes)));
    tcc_emit_type index = tcc_scalar_register(e, p->place->dtype);
    if (index != e->i64) c.row = tcc_emit_trunc(e, c.row, index);
    tcc_emit_value carry[STEPS + 1], before[STEPS + 1], hits[SCANS], any = NULL;
    tcc_emit_type type = tcc_emit_vector_type(tcc_scalar_register(e, p->sum->dtype), p->lanes);
    for (int s = 0; s < p->steps; s++) carry[s] = tcc_emit_null(type);
    carry[p->steps] = tcc_emit_int(e, e->i1, 0);
    tcc_emit_loop scan;
    int64_t extent = p->body->vars.data[p->positions[0]].high + 1;
    tcc_emit_loop_begin(e, &scan, tcc_emit_i64(e, 0), tcc_emit_i64(e, extent), TCC_EMIT_WARP * SCANS, carry,
                        p->steps + 1);
    for (int s = 0; s <= p->steps; s++) before[s] = carry[s] = scan.carry[s];
    for (int k = 0; k < SCANS; k++) {
        hits[k] = is_hit(r, &c, tcc_emit_add(e, scan.index, tcc_emit_i64(e, k * TCC_EMIT_WARP)));
        any = any ? tcc_emit_or(e, any, hits[k]) : hits[k];
    }
    tcc_emit_if found;
    tcc_emit_if_begin(e, &found, tcc_emit_icmp(e, TCC_ICMP_NE, tcc_emit_ballot(e, any), tcc_emit_i32(e, 0)));
    for (int k = 0; k < SCANS; k++)
        add_hits(r, &c, tcc_emit_add(e, scan.index, tcc_emit_i64(e, k * TCC_EMIT_WARP)), tcc_emit_ballot(e, hits[k]),
                 carry);
    tcc_emit_if_end(e, &found);
    for (int s = 0; s <= p->steps; s++) carry[s] = tcc_emit_if_value(e, &found, carry[s], before[s]);
    tcc_emit_loop_end(e, &scan, carry);
    tcc_emit_if touched;
    if (!p->whole) tcc_emit_if_begin(e, &touched, scan.carry[p->steps]);
    write_row(r, &c, scan.carry);
    if (!p->whole) tcc_emit_if_end(e, &touched);
}

tcc_status tcc_scatter_emit_rows(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_scatter *p = plan->data;
    tcc_body_run run;
    tcc_emit_kernel_begin(e, symbol);
    TCC_TRY(tcc_body_run_begin(&run, e, p->body, 0));
    run.given[p->old->id] = true;
    tcc_body_need(&run, p->sum);
    tcc_body_need(&run, p->place);
    tcc_body_emit(&run, 0);
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    emit_row(&run, p, items.index);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
    tcc_body_run_end(&run);
    return TCC_OK;
}
