/* SPDX-License-Identifier: MIT
 * The schedule of scatter_add: one launch writes the base, unless it is there already, a second adds the updates. In
 * the second an item owns some columns (the dims that are not indexed) and visits all index positions in ascending
 * order. So the sums have one order, and no two items write to the same column. Lanes run along the columns. Sums of
 * f16 and bf16 gather in a temporary of f32, which a third launch rounds. On a host, where that takes less memory, they
 * gather in registers (scatter_chains.c). scatter_max takes the larger value where that adds, and scatter_along the
 * update itself: so the last one of a place stays there. On a GPU lines may gather in shared memory, in one launch
 * (scatter_along.c). */
#include "codegen/schedule/items.h"
#include "codegen/schedule/scatter.h"
#include "passes/group.h"

static bool is_along(const tcc_node *hero) {
    return hero->op == TCC_OP_SCATTER_ADD_ALONG || hero->op == TCC_OP_SCATTER_ALONG;
}

/* Where sums gather: in `temporary`, of f32, or, if that is -1, in the hero's own place. */
static int sums_buffer(tcc_body *b, const tcc_node *hero, int temporary) {
    return temporary < 0 ? tcc_body_buffer_of(b, hero, 0, true) : tcc_body_temporary(b, temporary, TCC_F32, true);
}

static tcc_dtype sums_dtype(const tcc_node *hero, int temporary) { return temporary < 0 ? hero->type.dtype : TCC_F32; }

static const tcc_expr *cast(tcc_body *b, const tcc_expr *x, tcc_dtype dtype) {
    return x && x->dtype != dtype ? tcc_expr_point(b, TCC_OP_CAST, dtype, &x, 1) : x;
}

/* A load of the base itself, each element at its own place: where the hero lies over it, there is nothing to copy. */
static bool is_copy(const tcc_body *b, const tcc_node *hero, const tcc_affine *position) {
    const tcc_expr *value = b->stores.data[0].value;
    const tcc_affine expanded = *position;
    return value->kind == TCC_EXPR_LOAD && !value->n_operands &&
           b->buffers.data[value->buffer].node == hero->operands[0] && !b->buffers.data[value->buffer].offset &&
           tcc_affine_equal(&value->affine, &expanded);
}

/* One pass over all of the hero's elements: the base to where sums gather, or, if `rounds`, the sums to the hero's
 * place. */
static tcc_status lower_pass(tcc_lowering *l, int temporary, bool rounds) {
    const tcc_node *hero = l->group->hero;
    tcc_iteration it;
    tcc_iteration_init(&it, hero->type.rank, hero->type.dims);
    for (;;) {
        tcc_affine coordinates[TCC_MAX_RANK];
        tcc_body *b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_iteration_open(b, &it, coordinates);
        tcc_affine position = tcc_affine_linear(b, coordinates, hero->type.rank, hero->type.dims);
        const tcc_expr *value = rounds
                                    ? tcc_expr_load(b, tcc_body_temporary(b, temporary, TCC_F32, false), position, NULL)
                                    : tcc_body_trace(b, hero->operands[0], coordinates);
        const int to = rounds ? -1 : temporary; /* the hero's place, or where sums gather */
        tcc_body_write store = {sums_buffer(b, hero, to), position, cast(b, value, sums_dtype(hero, to)), NULL,
                                .kept = false};
        if (b->status == TCC_OK && !tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
        if (!tcc_iteration_refine(&it, b)) {
            const bool copies = b->status == TCC_OK && temporary < 0 && is_copy(b, hero, &position);
            const int before = l->launches.count;
            TCC_TRY(tcc_schedule_points(l, b));
            for (int i = before; i < l->launches.count; i++) l->launches.data[i].copies = copies;
            return TCC_OK;
        }
        tcc_body_free(b);
    }
}

/* What is there before an update comes. Earlier turns of the loops write it, so it depends on each of them, also where
 * its offset does not: the index may be the same in all. */
static const tcc_expr *load_sum(tcc_body *b, int buffer, tcc_affine offset, const tcc_expr *guard, uint64_t loops) {
    const tcc_expr *sum = tcc_expr_load(b, buffer, offset, guard);
    if (sum) ((tcc_expr *)sum)->loops |= loops;
    return sum;
}

/* What is there before where the base is zeros: a row begins with them, in registers. Its elements differ soon, also
 * where those of an update do not: so it depends on all loops that a load of them would. */
static const tcc_expr *no_sum(tcc_body *b, tcc_dtype dtype, tcc_op op, uint64_t loops) {
    const tcc_expr *zero = tcc_expr_number(b, dtype, 0);
    const tcc_expr *sum = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_REDUCE, .dtype = dtype, .op = op}, &zero, 1);
    if (sum) ((tcc_expr *)sum)->loops |= loops;
    return sum;
}

/* What an update leaves in its place. */
static const tcc_expr *updated(tcc_body *b, const tcc_node *hero, const tcc_expr *before, const tcc_expr *update) {
    const tcc_expr *operands[] = {before, update};
    if (hero->op == TCC_OP_SCATTER_ALONG) return update;
    return tcc_expr_point(b, hero->op == TCC_OP_SCATTER_MAX ? TCC_OP_MAX : TCC_OP_ADD, update->dtype, operands, 2);
}

/* Traces out[place of index] += update over the index positions and the other dims; gives the bits of the position
 * loops and the place. `guarded`: where it is no place at all nothing happens; else that is for the schedule to see to.
 * `whole`: so is that each place is written, once, and begins with 0. */
static tcc_status trace_updates(tcc_lowering *l, int temporary, bool guarded, bool whole, tcc_body **out,
                                uint64_t *position_bits, const tcc_expr **place_out) {
    const tcc_node *hero = l->group->hero, *index = hero->operands[1], *update = hero->operands[2];
    int axis = (int)hero->attrs->axis.axis;
    const bool along = is_along(hero);
    int index_rank = along ? 1 : index->type.rank;
    tcc_iteration it;
    tcc_iteration_init(&it, update->type.rank, update->type.dims);
    for (;;) {
        tcc_affine c[TCC_MAX_RANK], at[TCC_MAX_RANK];
        tcc_body *b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_iteration_open(b, &it, c);
        const tcc_expr *place = tcc_body_trace(b, index, along ? c : c + axis);
        int64_t extent = hero->type.dims[axis];
        const tcc_expr *guard =
            tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_WITHIN, .dtype = TCC_BOOL, .integer = extent}, &place, 1);
        const tcc_dtype dtype = sums_dtype(hero, temporary);
        const tcc_expr *value = cast(b, tcc_body_trace(b, update, c), dtype);
        *position_bits = 0;
        *place_out = place;
        if (!guarded) guard = NULL;
        for (int i = 0; i < index_rank; i++) *position_bits |= tcc_affine_loops(b, &c[axis + i]);
        if (b->status == TCC_OK && place && value && (guard || !guarded)) {
            for (int i = 0; i < hero->type.rank; i++)
                if (i != axis) at[i] = c[i < axis ? i : i - 1 + index_rank];
            at[axis] = extent == 1 ? tcc_affine_constant(0)
                                   : tcc_affine_var(b, tcc_body_value_var(b, place, 0, extent - 1));
            tcc_affine offset = tcc_affine_expand(b, tcc_affine_linear(b, at, hero->type.rank, hero->type.dims));
            int buffer = sums_buffer(b, hero, temporary);
            const tcc_expr *before = NULL;
            if (whole) before = no_sum(b, dtype, hero->op, *position_bits | tcc_affine_loops(b, &offset));
            else if (hero->op != TCC_OP_SCATTER_ALONG) before = load_sum(b, buffer, offset, guard, *position_bits);
            const tcc_body_write store = {.buffer = buffer,
                                          .offset = offset,
                                          .value = updated(b, hero, before, value),
                                          .guard = guard,
                                          .permuted = whole};
            if (store.value && !tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
        }
        if (tcc_iteration_refine(&it, b)) {
            tcc_body_free(b);
            continue;
        }
        *out = b;
        return tcc_lowering_keep(l, b);
    }
}

static tcc_status add_rows(tcc_lowering *l, tcc_scatter *p) {
    TCC_TRY(tcc_scatter_plan_rows(l, p));
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    TCC_TRY(tcc_lowering_use_body(l, launch, p->body));
    launch->items = tcc_scatter_row_items(p);
    launch->kernel.schedule = "scatter";
    launch->kernel.shape = tcc_scatter_row_shape(l);
    launch->kernel.emit = tcc_scatter_emit_rows;
    launch->kernel.in_step = tcc_body_in_step;
    launch->kernel.data = p;
    return tcc_lowering_key(l, launch, p->body, -1, "rows=%lld whole=%d", (long long)p->rows, p->whole);
}

/* Lanes along `var` (-1: none) and threads; an item has one vector of columns. */
static tcc_status plan_items(tcc_lowering *l, tcc_scatter *p, int var, tcc_thread_shape *shape) {
    enum { WIDE = 4 };
    const int64_t extent = var < 0 ? 1 : p->body->vars.data[var].high + 1;
    p->lanes = var < 0 ? 1 : tcc_choose_lanes(l->target, p->body, var, extent, WIDE);
    if (var >= 0) TCC_TRY(tcc_settle_lanes(l, p->body, var, extent, &p->lanes));
    *shape = tcc_choose_threads(l->target, extent, p->lanes);
    if (var >= 0) TCC_TRY(tcc_settle_threads(l, shape));
    const int vector = tcc_group_lanes(*shape, p->lanes);
    p->cut = tcc_cut_items(p->body, p->kept, p->n_kept, vector, vector);
    return TCC_OK;
}

/* Where chains of positions take less than a table of f32 does; they count in 32 bits. */
static bool has_chains(const tcc_lowering *l) {
    const tcc_node *hero = l->group->hero;
    if (l->target->lane_groups || is_along(hero)) return false;
    const int64_t positions = tcc_type_numel(&hero->operands[1]->type);
    const int64_t rows = hero->type.dims[hero->attrs->axis.axis];
    return positions <= INT32_MAX && positions + 2 * rows < tcc_type_numel(&hero->type);
}

tcc_status tcc_lower_scatter(tcc_lowering *l) {
    const tcc_node *hero = l->group->hero;
    tcc_body *b = NULL;
    uint64_t position_bits = 0;
    tcc_scatter *p = TCC_ARENA_NEW(l->arena, tcc_scatter);
    if (!p) return tcc_enomem(l->diag);
    const tcc_expr *place;
    if (l->target->lane_groups && !is_along(hero)) {
        const bool whole = tcc_is_zeros(hero->operands[0]);
        TCC_TRY(trace_updates(l, -1, false, whole, &b, &position_bits, &place));
        if (tcc_scatter_finds_rows(p, b, position_bits, hero->type.dims[hero->attrs->axis.axis], place)) {
            if (!p->whole) TCC_TRY(lower_pass(l, -1, false));
            return add_rows(l, p);
        }
        *p = (tcc_scatter){0};
    }
    int temporary = -1;
    const bool rounds = !(tcc_op_get_info(hero->op)->flags & TCC_FLAG_EXACT) && tcc_dtype_is_narrow(hero->type.dtype);
    if (l->target->lane_groups && is_along(hero)) {
        bool done;
        TCC_TRY(tcc_scatter_lower_lines(l, rounds, &done));
        if (done) return TCC_OK;
    }
    if (rounds && has_chains(l)) {
        TCC_TRY(lower_pass(l, -1, false));
        return tcc_scatter_add_chains(l);
    }
    if (rounds) {
        temporary = tcc_lowering_temporary(l, tcc_type_numel(&hero->type) * tcc_dtype_bytes(TCC_F32));
        if (temporary < 0) return TCC_ENOMEM;
    }
    TCC_TRY(lower_pass(l, temporary, false));
    TCC_TRY(trace_updates(l, temporary, true, false, &b, &position_bits, &place));
    p->body = b;
    int order[TCC_BODY_MAX_LOOPS], n = b->n_space;
    for (int i = 0; i < n; i++) order[i] = i;
    tcc_body_collapse(b, order, &n, position_bits, NULL);
    const double points = tcc_part_loops(b, order, n, position_bits, p->positions, &p->n_positions, p->kept,
                                         &p->n_kept);
    bool columns = n > 0 && !(position_bits >> order[n - 1] & 1);
    const bool along = l->target->lane_groups && is_along(hero) && !columns &&
                       tcc_scatter_plan_along(p, place, hero->op == TCC_OP_SCATTER_ALONG);
    tcc_thread_shape shape = tcc_scatter_along_shape();
    if (!along) TCC_TRY(plan_items(l, p, columns ? order[n - 1] : -1, &shape));
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    TCC_TRY(tcc_lowering_use_body(l, launch, b));
    launch->items = p->cut.items;
    launch->grain = tcc_choose_grain(b, points / (double)launch->items);
    launch->kernel.schedule = "scatter";
    launch->kernel.shape = shape;
    launch->kernel.emit = along ? tcc_scatter_emit_along : tcc_scatter_emit_points;
    launch->kernel.in_step = tcc_body_in_step;
    launch->kernel.data = p;
    TCC_TRY(tcc_lowering_key(l, launch, b, -1, "lanes=%d along=%d", p->lanes, along));
    return temporary < 0 ? TCC_OK : lower_pass(l, temporary, true);
}
