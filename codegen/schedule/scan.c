/* SPDX-License-Identifier: MIT
 * The schedule of running sums and linear scans: an item owns lines along the axis and runs along each from its start.
 * Lanes are neighbouring lines where the axis is not the innermost dim; along the innermost one they run along the line
 * (scan_lines.c; on a GPU scan_rows.c). Where neither is so, a line is a chain of steps, one element at a time. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/scan.h"

enum { ITEM_POINTS = 8192, MOST_LINES = 1 << 24 };

typedef struct trace_cx {
    const tcc_node *hero;
    tcc_affine coordinates[TCC_MAX_RANK];
} trace_cx;

/* A running result at the point itself, along the hero's axis. */
static const tcc_expr *special(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates, void *user) {
    const trace_cx *cx = user;
    if (tcc_op_get_info(n->op)->fusion != TCC_FUSION_SCAN) return NULL;
    bool same = tcc_attrs_equal(TCC_ATTR_CLASS_scan, n->attrs, cx->hero->attrs) && n->type.rank == cx->hero->type.rank;
    for (int i = 0; same && i < n->type.rank; i++) same = tcc_affine_equal(&coordinates[i], &cx->coordinates[i]);
    if (!same) {
        b->status = TCC_BUG(b->diag, "a running result is read elsewhere than where it is made: %s", tcc_node_text(n));
        return NULL;
    }
    const tcc_expr *operands[2] = {0};
    for (int k = 0; k < n->n_operands; k++) operands[k] = tcc_body_trace(b, n->operands[k], coordinates);
    const tcc_expr *y = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_REDUCE, .dtype = n->type.dtype, .op = n->op},
                                      operands, n->n_operands);
    /* it changes along the axis also where its operands do not */
    if (y) ((tcc_expr *)y)->loops |= tcc_affine_loops(b, &cx->coordinates[n->attrs->scan.axis]);
    return y;
}

/* Lanes along `var` (-1: none), threads, and lines of an item. Left to itself the assembler aims at more threads on a
 * GPU's processor than a product's gradient has registers for. */
static tcc_status plan_items(tcc_lowering *l, tcc_scan *p, int var, bool along, tcc_thread_shape *shape) {
    enum { REGISTERS = 85 };
    const tcc_body *b = p->body;
    const int64_t extent = var < 0 ? 1 : b->vars.data[var].high + 1;
    double line = 1;
    for (int i = 0; i < p->n_axis; i++) line *= (double)(b->vars.data[p->axis[i]].high + 1);
    p->lanes = var < 0 ? 1 : tcc_choose_lanes(l->target, b, var, extent, 1);
    if (var >= 0) TCC_TRY(tcc_settle_lanes(l, b, var, extent, &p->lanes));
    *shape = tcc_choose_threads(l->target, extent, p->lanes);
    if (var >= 0) TCC_TRY(tcc_settle_threads(l, shape));
    if (shape->group) shape->blocks = tcc_hardware_threads(&l->target->hw, REGISTERS) / shape->threads;
    int64_t lines = shape->group ? along ? 1 : tcc_group_lanes(*shape, p->lanes) : (int64_t)(ITEM_POINTS / line);
    if (lines < 1) lines = 1;
    if (!shape->group && p->n_kept)
        TCC_TRY(tcc_params_settle(&l->params, TCC_PARAM_LINES, tcc_param_between(1, MOST_LINES), &lines));
    p->cut = tcc_cut_items(b, p->kept, p->n_kept, lines, along ? 1 : tcc_group_lanes(*shape, p->lanes));
    return TCC_OK;
}

tcc_status tcc_lower_scan(tcc_lowering *l) {
    const tcc_node *hero = l->group->hero;
    const tcc_type *space = &hero->type;
    int axis = (int)hero->attrs->scan.axis;
    tcc_iteration it;
    tcc_iteration_init(&it, space->rank, space->dims);
    trace_cx cx = {.hero = hero};
    tcc_body *b;
    for (;;) {
        b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_iteration_open(b, &it, cx.coordinates);
        b->special = special;
        b->special_user = &cx;
        tcc_affine position = tcc_affine_linear(b, cx.coordinates, space->rank, space->dims);
        for (int i = 0; i < l->group->n_outputs; i++) tcc_body_store(b, l->group->outputs[i], position, false);
        if (!tcc_iteration_refine(&it, b)) break;
        tcc_body_free(b);
    }
    uint64_t axis_bits = tcc_affine_loops(b, &cx.coordinates[axis]);
    TCC_TRY(tcc_lowering_keep(l, b));
    int scans = 0;
    for (int i = 0; i < b->exprs.count; i++) scans += b->exprs.data[i]->kind == TCC_EXPR_REDUCE;
    if (scans > TCC_SCAN_MOST)
        return tcc_error(l->diag, TCC_EUNSUPPORTED, hero->loc, "a fused group has %d running results", scans);
    tcc_scan *p = TCC_ARENA_NEW(l->arena, tcc_scan);
    if (!p) return tcc_enomem(l->diag);
    p->body = b;
    p->reverse = hero->attrs->scan.reverse;
    int order[TCC_BODY_MAX_LOOPS], n = b->n_space;
    for (int i = 0; i < n; i++) order[i] = i;
    tcc_body_collapse(b, order, &n, axis_bits, NULL);
    const double points = tcc_part_loops(b, order, n, axis_bits, p->axis, &p->n_axis, p->kept, &p->n_kept);
    bool columns = n > 0 && !(axis_bits >> order[n - 1] & 1);
    const bool along = !columns && p->n_axis == 1, host = !l->target->lane_groups;
    tcc_thread_shape shape = {0};
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
    return tcc_lowering_key(l, launch, b, -1, "lanes=%d reverse=%d axis=%llx", p->lanes, p->reverse,
                            (unsigned long long)axis_bits);
}
