/* SPDX-License-Identifier: MIT
 * scatter_add along the innermost dim, for a GPU: a warp owns a line of the output and takes the line's index positions
 * 32 at a time. Threads whose positions name one element take turns in ascending order; the others add at once. So the
 * sums have one order, the one of the other schedules, and no two warps meet. Where updates replace the element, only
 * the last of such threads writes.
 *
 * Where the whole output is written anyway, as onto zeros, the line lies in shared memory meanwhile. Of a line that is
 * too long for that, each warp owns a part; where updates are few they are soon looked through for each of these. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/scatter.h"
#include "passes/group.h"

enum {
    THREADS = 256,
    LEAST_POSITIONS = 8,
    WORD = 4,             /* bytes of an element in shared memory */
    LONGEST = 4096,       /* line there: of longer ones a processor holds too few */
    LEAST_PART = 512,     /* of a line */
    BLOCK_BYTES = 1 << 15 /* of lines */
};

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

/* -- Lines in shared memory -- */

static tcc_emit_value element_at(tcc_emitter *e, tcc_emit_value index) {
    return tcc_emit_at(e, e->i32, e->scratch, tcc_emit_sext(e, index, e->i64));
}

/* The threads' updates of the line, those of one element in turns. */
static void add_in_line(tcc_body_run *r, const tcc_scatter *p, tcc_emit_value hit, tcc_emit_value place) {
    tcc_emitter *e = r->e;
    tcc_emit_loop round;
    tcc_emit_value rounds, turn = turn_of(e, hit, place, &rounds), update = r->values[p->update->id];
    const tcc_emit_type type = tcc_emit_type_of(update);
    tcc_emit_loop_begin(e, &round, tcc_emit_i64(e, 0), tcc_emit_zext(e, rounds, e->i64), 1, NULL, 0);
    tcc_emit_if own;
    tcc_emit_value next = tcc_emit_iadd(e, tcc_emit_trunc(e, round.index, e->i32), tcc_emit_i32(e, 1));
    tcc_emit_if_begin(e, &own, tcc_emit_icmp(e, TCC_ICMP_EQ, turn, next));
    tcc_emit_value at = element_at(e, place), old = tcc_emit_load(e, type, at, WORD);
    tcc_emit_store(e, tcc_emit_is_float(type) ? tcc_emit_fadd(e, old, update) : tcc_emit_iadd(e, old, update), at,
                   WORD);
    tcc_emit_if_end(e, &own);
    tcc_emit_warp_barrier(e);
    tcc_emit_loop_end(e, &round, NULL);
}

static void put_in_line(tcc_body_run *r, const tcc_scatter *p, tcc_emit_value hit, tcc_emit_value place) {
    tcc_emit_if last;
    tcc_emit_if_begin(r->e, &last, is_last(r->e, hit, place));
    tcc_emit_store(r->e, r->values[p->update->id], element_at(r->e, place), WORD);
    tcc_emit_if_end(r->e, &last);
    tcc_emit_warp_barrier(r->e);
}

/* The base of each element to where it gathers, or what is there then to the output. */
static void pass_line(tcc_body_run *r, const tcc_scatter *p, bool stores) {
    tcc_emitter *e = r->e;
    const tcc_body_write *store = &p->body->stores.data[0];
    tcc_body_need_none(r);
    tcc_body_need(r, stores ? store->value : p->base);
    tcc_body_emit(r, 0); /* what is the same for all elements, and for the updates, which follow this loop */
    tcc_emit_loop loop;
    tcc_emit_lane_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, p->body->vars.data[p->along].high + 1), 1,
                             NULL, 0);
    tcc_body_enter(r, p->along, loop.index);
    tcc_emit_value at = tcc_emit_at(e, e->i32, e->scratch, loop.index);
    if (stores) tcc_body_give(r, p->sum, tcc_emit_load(e, tcc_scalar_register(e, p->sum->dtype), at, WORD));
    tcc_body_emit(r, 0);
    if (stores) tcc_body_emit_store(r, store);
    else tcc_emit_store(e, r->values[p->base->id], at, WORD);
    tcc_body_leave(r, p->along);
    tcc_emit_loop_end(e, &loop, NULL);
    tcc_emit_warp_barrier(e);
}

/* What is done with 32 updates: which threads have one, and where it goes. */
typedef void take_updates(tcc_body_run *r, const tcc_scatter *p, tcc_emit_value hit, tcc_emit_value place);

static void emit_positions(tcc_body_run *r, const tcc_scatter *p, const tcc_expr *guard, const tcc_expr *update,
                           take_updates *take) {
    tcc_emitter *e = r->e;
    const int64_t extent = p->body->vars.data[p->positions[0]].high + 1;
    tcc_body_need_none(r);
    tcc_body_need(r, guard);
    tcc_body_need(r, p->place);
    tcc_body_need(r, update);
    tcc_body_emit(r, 0);
    tcc_emit_loop scan;
    tcc_emit_loop_begin(e, &scan, tcc_emit_i64(e, 0), tcc_emit_i64(e, extent), TCC_EMIT_WARP, NULL, 0);
    tcc_emit_value at = tcc_emit_within(e, tcc_emit_add(e, scan.index, e->thread), extent + TCC_EMIT_WARP),
                   inside = NULL;
    if (extent % TCC_EMIT_WARP) {
        inside = tcc_emit_icmp(e, TCC_ICMP_SLT, at, tcc_emit_i64(e, extent));
        at = tcc_emit_min(e, at, tcc_emit_i64(e, extent - 1));
    }
    tcc_body_enter(r, p->positions[0], at);
    tcc_body_emit(r, 0);
    tcc_emit_value hit = r->values[guard->id], place = r->values[p->place->id];
    if (inside) hit = tcc_emit_and(e, hit, inside);
    if (tcc_emit_type_of(place) != e->i32) place = tcc_emit_trunc(e, place, e->i32);
    take(r, p, hit, place);
    tcc_body_leave(r, p->positions[0]);
    tcc_emit_loop_end(e, &scan, NULL);
}

static void emit_line(tcc_body_run *r, const void *data) {
    const tcc_scatter *p = data;
    emit_positions(r, p, p->body->stores.data[0].guard, p->old ? p->sum->operands[1] : p->sum,
                   p->old ? emit_turns : emit_last);
}

static void emit_gathered_line(tcc_body_run *r, const void *data) {
    const tcc_scatter *p = data;
    pass_line(r, p, false);
    emit_positions(r, p, p->hit, p->update, p->sum->op == TCC_OP_SCATTER_ALONG ? put_in_line : add_in_line);
    pass_line(r, p, true);
}

tcc_status tcc_scatter_emit_along(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_scatter *p = plan->data;
    return tcc_emit_cut_kernel(e, symbol, p->body, &p->cut, 0, emit_line, p);
}

static tcc_status emit_gathered(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_scatter *p = plan->data;
    return tcc_emit_cut_kernel(e, symbol, p->body, &p->cut, 0, emit_gathered_line, p);
}

/* Elements of the line that a warp owns: all, or as many as divide it, where each part's warp may look at all updates:
 * they lie in memory and are fewer than its elements. 0: it is too long. */
static int64_t part_of_line(const tcc_group *group) {
    const tcc_node *hero = group->hero, *index = hero->operands[1], *update = hero->operands[2];
    const int axis = (int)hero->attrs->axis.axis;
    const int64_t line = hero->type.dims[axis], positions = index->type.dims[axis];
    int64_t parts = (line + LONGEST - 1) / LONGEST;
    if (parts == 1) return line;
    while (line % parts && line / parts >= LEAST_PART) parts++;
    const bool wide = index->type.dtype == TCC_I32 || index->type.dtype == TCC_I64;
    const bool in_memory = !tcc_group_has(group, index) && !tcc_group_has(group, update);
    const int64_t part = line / parts;
    return part >= LEAST_PART && positions <= part && wide && in_memory ? part : 0;
}

/* Whether lines gather in shared memory. A base that lies in memory, but for the user's own, may be where the output
 * is: then what no update names is not touched. */
static bool gathers(const tcc_lowering *l, bool rounds) {
    const tcc_node *hero = l->group->hero, *base = hero->operands[0];
    const int axis = (int)hero->attrs->axis.axis;
    const int64_t line = hero->type.dims[axis];
    const tcc_dtype dtype = hero->type.dtype;
    const bool fits = dtype == TCC_F32 || dtype == TCC_I32 || tcc_dtype_is_narrow(dtype);
    const bool own = base->op == TCC_OP_INPUT && base->attrs->input.role == TCC_ROLE_BATCH;
    const bool there = base->op != TCC_OP_CONSTANT && !own && !tcc_group_has(l->group, base);
    return fits && axis == hero->type.rank - 1 && line > 1 && part_of_line(l->group) && (rounds || !there) &&
           hero->operands[1]->type.dims[axis] >= LEAST_POSITIONS;
}

static const tcc_expr *as(tcc_body *b, const tcc_expr *x, tcc_dtype dtype) {
    return x && x->dtype != dtype ? tcc_expr_point(b, TCC_OP_CAST, dtype, &x, 1) : x;
}

/* Counted from where the part begins. */
static const tcc_expr *within_part(tcc_body *b, const tcc_expr *place, tcc_affine begin) {
    if (!place) return NULL;
    const tcc_expr *terms[] = {place, tcc_expr_index(b, begin, place->dtype)};
    return tcc_expr_point(b, TCC_OP_SUB, place->dtype, terms, 2);
}

/* The space has the dims of the updates, and behind them the parts of a line, and the elements of one. */
static tcc_status trace_lines(tcc_lowering *l, tcc_scatter *p, bool rounds, uint64_t *position_bits,
                              uint64_t *along_bits) {
    const tcc_node *hero = l->group->hero;
    const int rank = hero->type.rank;
    const int64_t part = part_of_line(l->group), parts = hero->type.dims[rank - 1] / part;
    const tcc_dtype dtype = rounds ? TCC_F32 : hero->type.dtype;
    int64_t dims[TCC_MAX_RANK + 1];
    tcc_iteration it;
    for (int i = 0; i < rank; i++) dims[i] = hero->operands[1]->type.dims[i];
    const int last = parts > 1 ? rank + 1 : rank;
    dims[rank] = parts;
    dims[last] = part;
    tcc_iteration_init(&it, last + 1, dims);
    for (;;) {
        tcc_affine c[TCC_MAX_RANK + 1], at[TCC_MAX_RANK];
        tcc_body *b = p->body = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_iteration_open(b, &it, c);
        const tcc_affine begin = parts > 1 ? tcc_affine_scale(b, c[rank], part) : tcc_affine_constant(0);
        for (int i = 0; i < rank; i++) at[i] = i < rank - 1 ? c[i] : tcc_affine_add(b, begin, c[last]);
        *position_bits = tcc_affine_loops(b, &c[rank - 1]);
        *along_bits = tcc_affine_loops(b, &c[last]);
        p->place = tcc_body_trace(b, hero->operands[1], c);
        if (parts > 1) p->place = within_part(b, p->place, begin);
        p->hit = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_WITHIN, .dtype = TCC_BOOL, .integer = part}, &p->place,
                               1);
        p->update = as(b, tcc_body_trace(b, hero->operands[2], c), dtype);
        p->base = as(b, tcc_body_trace(b, hero->operands[0], at), dtype);
        const tcc_expr *operands[] = {p->base, p->update, p->hit};
        p->sum = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_REDUCE, .dtype = dtype, .op = hero->op}, operands, 3);
        if (p->sum) ((tcc_expr *)p->sum)->loops = (p->sum->loops | *along_bits) & ~*position_bits;
        const tcc_body_write store = {tcc_body_buffer_of(b, hero, 0, true),
                                      tcc_affine_linear(b, at, rank, hero->type.dims), as(b, p->sum, hero->type.dtype),
                                      NULL, .kept = false};
        if (store.value && !tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
        if (!tcc_iteration_refine(&it, b)) return tcc_lowering_keep(l, b);
        tcc_body_free(b);
    }
}

tcc_status tcc_scatter_lower_lines(tcc_lowering *l, bool rounds, bool *done) {
    const tcc_node *hero = l->group->hero;
    uint64_t position_bits = 0, along_bits = 0;
    *done = false;
    if (!gathers(l, rounds)) return TCC_OK;
    const int64_t part = part_of_line(l->group), line = part * WORD;
    if (hero->type.rank + (part < hero->type.dims[hero->type.rank - 1]) >= TCC_MAX_RANK) return TCC_OK;
    tcc_scatter *p = TCC_ARENA_NEW(l->arena, tcc_scatter);
    if (!p) return tcc_enomem(l->diag);
    TCC_TRY(trace_lines(l, p, rounds, &position_bits, &along_bits));
    int order[TCC_BODY_MAX_LOOPS], others[TCC_BODY_MAX_LOOPS], along[TCC_BODY_MAX_LOOPS];
    int n = p->body->n_space, n_others = 0, n_along = 0;
    for (int i = 0; i < n; i++) order[i] = i;
    tcc_body_collapse(p->body, order, &n, position_bits | along_bits, NULL);
    tcc_part_loops(p->body, order, n, along_bits, along, &n_along, others, &n_others);
    tcc_part_loops(p->body, others, n_others, position_bits, p->positions, &p->n_positions, p->kept, &p->n_kept);
    if (n_along != 1 || p->n_positions != 1) return TCC_OK;
    p->along = along[0];
    p->lanes = 1;
    p->cut = tcc_cut_items(p->body, p->kept, p->n_kept, 1, 1);
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    TCC_TRY(tcc_lowering_use_body(l, launch, p->body));
    launch->items = p->cut.items;
    launch->grain = 1;
    launch->kernel.schedule = "scatter";
    launch->kernel.shape = tcc_scatter_along_shape();
    while (launch->kernel.shape.threads > TCC_EMIT_WARP &&
           launch->kernel.shape.threads / TCC_EMIT_WARP * line > BLOCK_BYTES)
        launch->kernel.shape.threads /= 2;
    launch->kernel.scratch_bytes = (line + 15) / 16 * 16;
    launch->kernel.emit = emit_gathered;
    launch->kernel.data = p;
    *done = true;
    return tcc_lowering_key(l, launch, p->body, -1, "line=%lld", (long long)line);
}
