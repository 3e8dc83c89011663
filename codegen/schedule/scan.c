/* SPDX-License-Identifier: MIT
 * The schedule of running sums and linear scans: an item owns lines along the axis and runs along each from its start.
 * Lanes are neighbouring lines where the axis is not the innermost dim; along the innermost one they run along the line
 * (scan_lines.c; on a GPU scan_rows.c). Where neither is so, a line is a chain of steps, one element at a time. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/scan.h"

enum {
    ITEM_POINTS = 8192,
    MOST_LINES = 1 << 24,
    MOST_THREADS = 512, /* that have a line at once: of more, each has too few registers */
};

int tcc_scan_threads(const tcc_llvm_target *t) { return t->lane_groups ? MOST_THREADS : 0; }

typedef struct trace_cx {
    const tcc_node *hero;
    tcc_affine coordinates[TCC_MAX_RANK];
    bool whole;  /* there are running results both ways, or they are read a step further along the line */
    int64_t end; /* the element of a line that is read by itself; -1: none is */
} trace_cx;

/* Where on its line a running result is read: a step further than the point, 0, or at an element that is the same for
 * all points of the line; of two elements only the other one is a step further. False: elsewhere. */
static bool find_step(tcc_body *b, trace_cx *cx, tcc_affine at, tcc_affine own, int64_t *step) {
    at = tcc_affine_expand(b, at);
    const tcc_affine from = tcc_affine_add(b, at, tcc_affine_scale(b, tcc_affine_expand(b, own), -1));
    *step = from.n ? 0 : from.constant;
    if (*step) cx->whole = true;
    if (!from.n) return *step >= -1 && *step <= 1;
    if (!at.n && cx->hero->type.dims[cx->hero->attrs->scan.axis] == 2) {
        *step = at.constant ? 1 : -1;
        cx->whole = true;
        return true;
    }
    if (at.n || (cx->end >= 0 && cx->end != at.constant)) return false;
    cx->end = at.constant;
    cx->whole = true;
    return true;
}

/* A running result at the point itself, along the hero's axis, or a step further. */
static const tcc_expr *special(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates, void *user) {
    trace_cx *cx = user;
    if (tcc_op_get_info(n->op)->fusion != TCC_FUSION_SCAN) return NULL;
    const tcc_attrs_scan *scan = &n->attrs->scan, *hero = &cx->hero->attrs->scan;
    bool same = scan->axis == hero->axis && n->type.rank == cx->hero->type.rank;
    int64_t step = 0;
    for (int i = 0; same && i < n->type.rank; i++)
        same = i == scan->axis ? find_step(b, cx, coordinates[i], cx->coordinates[i], &step)
                               : tcc_affine_equal(&coordinates[i], &cx->coordinates[i]);
    if (!same) {
        b->status = TCC_BUG(b->diag, "a running result is read elsewhere than where it is made: %s", tcc_node_text(n));
        return NULL;
    }
    if (scan->reverse != hero->reverse) cx->whole = true;
    const tcc_expr *operands[2] = {0}, *outer = b->guard;
    b->guard = NULL; /* it goes on past those that are not read */
    for (int k = 0; k < n->n_operands; k++) operands[k] = tcc_body_trace(b, n->operands[k], cx->coordinates);
    b->guard = outer;
    tcc_expr like = {.kind = TCC_EXPR_REDUCE, .dtype = n->type.dtype, .op = n->op, .integer = scan->reverse};
    const tcc_expr *y = tcc_expr_make(b, like, operands, n->n_operands);
    /* it changes along the axis also where its operands do not */
    if (y) ((tcc_expr *)y)->loops |= tcc_affine_loops(b, &cx->coordinates[scan->axis]);
    if (!step) return y;
    like = (tcc_expr){.kind = TCC_EXPR_REDUCE, .dtype = n->type.dtype, .op = TCC_OP_SLICE, .integer = step};
    return tcc_expr_make(b, like, &y, 1);
}

/* Lanes along `var` (-1: none), threads, and lines of an item. Left to itself the assembler aims at more threads on a
 * GPU's processor than a product's gradient has registers for. */
static tcc_status plan_items(tcc_lowering *l, tcc_scan *p, int var, bool along, tcc_thread_shape *shape) {
    enum { REGISTERS = 85 };
    const tcc_body *b = p->body;
    const int64_t extent = var < 0 ? 1 : b->vars.data[var].high + 1;
    double line = 1;
    for (int i = 0; i < p->n_axis; i++) line *= (double)(b->vars.data[p->axis[i]].high + 1);
    if (p->whole) {
        TCC_TRY(tcc_settle_whole_line(l, b, var, extent, MOST_THREADS, &p->lanes, shape));
    } else {
        p->lanes = var < 0 ? 1 : tcc_choose_lanes(l->target, b, var, extent, 1);
        if (var >= 0) TCC_TRY(tcc_settle_lanes(l, b, var, extent, &p->lanes));
        *shape = tcc_choose_threads(l->target, extent, p->lanes);
        if (var >= 0) TCC_TRY(tcc_settle_threads(l, shape));
    }
    if (shape->group) shape->blocks = tcc_hardware_threads(&l->target->hw, REGISTERS) / shape->threads;
    int64_t lines = shape->group ? along ? 1 : tcc_group_lanes(*shape, p->lanes) : (int64_t)(ITEM_POINTS / line);
    if (lines < 1) lines = 1;
    if (!shape->group && p->n_kept)
        TCC_TRY(tcc_params_settle(&l->params, TCC_PARAM_LINES, tcc_param_between(1, MOST_LINES), &lines));
    p->cut = tcc_cut_items(b, p->kept, p->n_kept, lines, along ? 1 : tcc_group_lanes(*shape, p->lanes));
    return TCC_OK;
}

/* Full ones at each point, those of the end of a line once for the line. */
static void store_outputs(const tcc_group *group, tcc_body *b, const trace_cx *cx) {
    const tcc_type *space = &cx->hero->type;
    const int axis = (int)cx->hero->attrs->scan.axis;
    tcc_affine kept[TCC_MAX_RANK];
    int64_t dims[TCC_MAX_RANK];
    int n = 0;
    for (int i = 0; i < space->rank; i++)
        if (i != axis) kept[n] = cx->coordinates[i], dims[n++] = space->dims[i];
    const tcc_affine position = tcc_affine_linear(b, cx->coordinates, space->rank, space->dims),
                     line = tcc_affine_linear(b, kept, n, dims);
    for (int i = 0; i < group->n_outputs; i++) {
        const bool full = tcc_type_numel(&group->outputs[i]->type) == tcc_type_numel(space);
        tcc_body_store(b, group->outputs[i], full ? position : line, !full);
    }
}

tcc_status tcc_lower_scan(tcc_lowering *l) {
    const tcc_node *hero = l->group->hero;
    const tcc_type *space = &hero->type;
    int axis = (int)hero->attrs->scan.axis;
    tcc_iteration it;
    tcc_iteration_init(&it, space->rank, space->dims);
    trace_cx cx = {.hero = hero, .end = -1};
    tcc_body *b;
    for (;;) {
        b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_iteration_open(b, &it, cx.coordinates);
        b->special = special;
        b->special_user = &cx;
        store_outputs(l->group, b, &cx);
        if (!tcc_iteration_refine(&it, b)) break;
        tcc_body_free(b);
    }
    uint64_t axis_bits = tcc_affine_loops(b, &cx.coordinates[axis]);
    TCC_TRY(tcc_lowering_keep(l, b));
    int scans = 0;
    for (int i = 0; i < b->exprs.count; i++)
        scans += b->exprs.data[i]->kind == TCC_EXPR_REDUCE && !tcc_scan_is_step(b->exprs.data[i]);
    if (scans > TCC_SCAN_MOST)
        return tcc_error(l->diag, TCC_EUNSUPPORTED, hero->loc, "a fused group has %d running results", scans);
    tcc_scan *p = TCC_ARENA_NEW(l->arena, tcc_scan);
    if (!p) return tcc_enomem(l->diag);
    p->body = b;
    p->reverse = hero->attrs->scan.reverse;
    p->whole = cx.whole;
    p->end = cx.end;
    int order[TCC_BODY_MAX_LOOPS], n = b->n_space;
    for (int i = 0; i < n; i++) order[i] = i;
    tcc_body_collapse(b, order, &n, axis_bits, NULL);
    const double points = tcc_part_loops(b, order, n, axis_bits, p->axis, &p->n_axis, p->kept, &p->n_kept);
    bool columns = n > 0 && !(axis_bits >> order[n - 1] & 1);
    const bool along = !columns && p->n_axis == 1, host = !l->target->lane_groups;
    tcc_thread_shape shape = {0};
    if (p->whole && !along) return TCC_BUG(l->diag, "lines of several loops both ways: %s", tcc_node_text(hero));
    TCC_TRY(plan_items(l, p, columns ? order[n - 1] : along ? p->axis[0] : -1, along, &shape));
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    TCC_TRY(tcc_lowering_use_body(l, launch, b));
    launch->items = p->cut.items;
    launch->grain = tcc_choose_grain(b, points / (double)launch->items);
    launch->kernel.schedule = "scan";
    launch->kernel.shape = shape;
    launch->kernel.emit = !along ? tcc_scan_emit_steps : host ? tcc_scan_emit_lines : tcc_scan_emit_rows;
    launch->kernel.in_step = tcc_body_in_step;
    launch->kernel.data = p;
    return tcc_lowering_key(l, launch, b, -1, "lanes=%d reverse=%d axis=%llx whole=%d end=%lld", p->lanes, p->reverse,
                            (unsigned long long)axis_bits, p->whole, (long long)p->end);
}
