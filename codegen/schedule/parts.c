/* SPDX-License-Identifier: MIT
 * Which loops a pointwise group has: those of its outputs, of the parts of a concat, or of parts that are woven with
 * other outputs. */
#include "codegen/schedule/row_parts.h"
#include "passes/group.h"

/* The concat that an output is, up to reshapes; NULL: it is none. */
static const tcc_node *as_concat(const tcc_group *group, const tcc_node *n) {
    while (n->op == TCC_OP_RESHAPE && tcc_group_has(group, n)) n = n->operands[0];
    return n->op == TCC_OP_CONCAT && tcc_group_has(group, n) ? n : NULL;
}

/* Stores x, a part of `concat`, from element `start` of it on, at the place of that in the output. */
static tcc_status lower_part(tcc_lowering *l, const tcc_node *output, const tcc_node *concat, tcc_node *x,
                             int64_t start) {
    tcc_iteration it;
    tcc_iteration_init(&it, x->type.rank, x->type.dims);
    for (;;) {
        tcc_affine coordinates[TCC_MAX_RANK];
        tcc_body *b = tcc_lowering_body(l, l->group);
        if (!b) return tcc_enomem(l->diag);
        tcc_iteration_open(b, &it, coordinates);
        const tcc_expr *value = tcc_body_trace(b, x, coordinates);
        tcc_affine position = tcc_affine_linear(b, coordinates, x->type.rank, concat->type.dims);
        /* the part's start is in the buffer's address, so that parts of one shape are one kernel */
        tcc_body_write store = {tcc_body_buffer_of(b, output, start, true), position, value, NULL, .kept = false};
        if (value && !tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
        if (!tcc_iteration_refine(&it, b)) {
            const bool first = l->launches.count == 0;
            TCC_TRY(tcc_schedule_points(l, b));
            l->launches.data[l->launches.count - 1].beside = !first;
            return TCC_OK;
        }
        tcc_body_free(b);
    }
}

static bool is_nested(const tcc_lowering *l, const tcc_node *part) {
    return part->op == TCC_OP_CONCAT && tcc_group_has(l->group, part);
}

/* Whether the parts of a concat are nested ones, all along one dim and of parts of equal extents there. */
static bool are_alike(const tcc_lowering *l, const tcc_node *concat) {
    const tcc_node *first = concat->operands[0];
    for (int k = 0; k < concat->n_operands; k++) {
        const tcc_node *part = concat->operands[k];
        if (!is_nested(l, part) || part->attrs->axis.axis != first->attrs->axis.axis ||
            part->n_operands != first->n_operands)
            return false;
        for (int i = 0; i < part->n_operands; i++)
            if (part->operands[i]->type.dims[part->attrs->axis.axis] !=
                first->operands[i]->type.dims[part->attrs->axis.axis])
                return false;
    }
    return true;
}

/* A concat along the last dim row by row; of nested ones that are alike, those rows first that are of the first part of
 * each, and so on. *done: false if it is made otherwise. */
static tcc_status lower_rows(tcc_lowering *l, const tcc_node *output, const tcc_node *concat, bool *done) {
    const tcc_node *first = concat->operands[0];
    const int n = concat->n_operands;
    tcc_node *parts[TCC_MAX_ROW_PARTS];
    bool plain = true;
    *done = false;
    if (n > TCC_MAX_ROW_PARTS || first->type.rank == 0) return TCC_OK;
    for (int k = 0; k < n; k++) plain = plain && !is_nested(l, concat->operands[k]);
    if (!plain && !are_alike(l, concat)) return TCC_OK;
    for (int i = 0; i < (plain ? 1 : first->n_operands); i++) {
        for (int k = 0; k < n; k++) parts[k] = plain ? concat->operands[k] : concat->operands[k]->operands[i];
        if (!tcc_row_parts_fit(l, concat, parts, n)) return TCC_OK;
    }
    const int launches = l->launches.count;
    int64_t start = 0, inner = 1;
    for (int i = plain ? 0 : (int)first->attrs->axis.axis + 1; i < concat->type.rank; i++)
        inner *= concat->type.dims[i];
    for (int i = 0; i < (plain ? 1 : first->n_operands); i++) {
        for (int k = 0; k < n; k++) parts[k] = plain ? concat->operands[k] : concat->operands[k]->operands[i];
        TCC_TRY(tcc_lower_row_parts(l, output, concat, parts, n, start, done));
        if (!*done) break;
        l->launches.data[l->launches.count - 1].beside = l->launches.count > launches + 1;
        start += parts[0]->type.dims[plain ? 0 : first->attrs->axis.axis] * inner;
    }
    if (!*done) l->launches.count = launches;
    return TCC_OK;
}

/* Each operand of a concat in loops of its own, into its part of the output: no choice at each point, and no lost
 * contiguity. Where an operand is a concat itself, along another dim, so is each of its operands. `x` is `concat` or
 * such an operand, from element `start` on. */
static tcc_status lower_concat(tcc_lowering *l, const tcc_node *output, const tcc_node *concat, const tcc_node *x,
                               int64_t start) {
    const int axis = (int)x->attrs->axis.axis;
    int64_t inner = 1;
    for (int i = axis + 1; i < concat->type.rank; i++) inner *= concat->type.dims[i];
    for (int k = 0; k < x->n_operands; k++) {
        tcc_node *part = x->operands[k];
        TCC_TRY(is_nested(l, part) ? lower_concat(l, output, concat, part, start)
                                   : lower_part(l, output, concat, part, start));
        start += part->type.dims[axis] * inner;
    }
    return TCC_OK;
}

/* The element of parts [from, to) of concat n, which `output` is, that lies `position` elements behind a part's first
 * one. */
static void store_parts(tcc_body *b, const tcc_node *output, const tcc_node *n, int from, int to, tcc_affine position) {
    const tcc_type *part = &n->operands[0]->type;
    const int axis = (int)n->attrs->axis.axis;
    int64_t step = 1; /* from part to part */
    for (int i = axis; i < part->rank; i++) step *= part->dims[i];
    for (int k = from; k < to; k++) {
        tcc_affine coordinates[TCC_MAX_RANK];
        tcc_affine_split(b, position, part->rank, part->dims, coordinates);
        const tcc_expr *value = tcc_body_trace(b, n->operands[k], coordinates);
        const tcc_affine offset = tcc_affine_linear(b, coordinates, part->rank, n->type.dims);
        if (!value) return;
        const tcc_body_write store = {tcc_body_buffer_of(b, output, k * step, true), tcc_affine_whole(b, offset), value,
                                      NULL, .kept = false};
        if (!tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(b->diag);
    }
}

/* One launch over the points of `space`, for all outputs that have as many elements; `woven`: and for the concats of
 * parts that have. */
static tcc_status lower_points(tcc_lowering *l, const tcc_type *space, bool woven) {
    const tcc_group *group = l->group;
    tcc_iteration it;
    tcc_iteration_init(&it, space->rank, space->dims);
    for (;;) { /* refined until reshapes resolve */
        tcc_affine coordinates[TCC_MAX_RANK];
        tcc_body *b = tcc_lowering_body(l, group);
        if (!b) return tcc_enomem(l->diag);
        tcc_iteration_open(b, &it, coordinates);
        tcc_affine position = tcc_affine_linear(b, coordinates, space->rank, space->dims);
        for (int i = 0; i < group->n_outputs; i++) {
            const bool whole = tcc_type_numel(&group->outputs[i]->type) == tcc_type_numel(space);
            if (whole) tcc_body_store(b, group->outputs[i], position, false);
            else if (woven)
                store_parts(b, group->outputs[i], group->outputs[i], 0, group->outputs[i]->n_operands, position);
        }
        if (!tcc_iteration_refine(&it, b)) return tcc_schedule_points(l, b);
        tcc_body_free(b);
    }
}

tcc_status tcc_lower_space(tcc_lowering *l, const tcc_type *space) { return lower_points(l, space, false); }

/* The dims of a part, of outputs that are woven. */
static const tcc_type *part_of(const tcc_group *group, int64_t part) {
    int i = 0;
    while (tcc_type_numel(&group->outputs[i]->type) == part) i++;
    return &group->outputs[i]->operands[0]->type;
}

/* Whether the parts of a concat, of one type, are views of one value, as the positions of a window are. */
static bool are_views(const tcc_lowering *l, const tcc_node *concat) {
    const tcc_node *first = NULL;
    for (int k = 0; k < concat->n_operands; k++) {
        const tcc_node *x = concat->operands[k];
        if (!tcc_type_equal(&x->type, &concat->operands[0]->type)) return false;
        while (tcc_op_get_info(x->op)->fusion == TCC_FUSION_VIEW && x->n_operands == 1 && tcc_group_has(l->group, x))
            x = x->operands[0];
        if (k && x != first) return false;
        first = x;
    }
    return concat->n_operands > 1;
}

/* A concat of such parts on a GPU: a launch for many parts, that reads once what they have in common. */
static tcc_status lower_views(tcc_lowering *l, const tcc_node *output, const tcc_node *concat) {
    enum { MOST = 16 }; /* stores of a point */
    const int n = concat->n_operands, launches = (n + MOST - 1) / MOST;
    const tcc_type *part = &concat->operands[0]->type;
    for (int i = 0; i < launches; i++) {
        tcc_iteration it;
        tcc_iteration_init(&it, part->rank, part->dims);
        for (bool refined = true; refined;) {
            tcc_affine coordinates[TCC_MAX_RANK];
            tcc_body *b = tcc_lowering_body(l, l->group);
            if (!b) return tcc_enomem(l->diag);
            tcc_iteration_open(b, &it, coordinates);
            store_parts(b, output, concat, n * i / launches, n * (i + 1) / launches,
                        tcc_affine_linear(b, coordinates, part->rank, part->dims));
            refined = tcc_iteration_refine(&it, b);
            if (refined) tcc_body_free(b);
            else TCC_TRY(tcc_schedule_points(l, b));
        }
        l->launches.data[l->launches.count - 1].beside = i > 0;
    }
    return TCC_OK;
}

tcc_status tcc_lower_pointwise(tcc_lowering *l) {
    const tcc_group *group = l->group;
    int64_t part;
    if (tcc_group_weaves(group->outputs, group->n_outputs, &part)) return lower_points(l, part_of(group, part), true);
    const tcc_node *concat = group->n_outputs == 1 ? as_concat(group, group->outputs[0]) : NULL;
    bool by_rows = false;
    if (concat && l->target->lane_groups && are_views(l, concat)) return lower_views(l, group->outputs[0], concat);
    if (concat) TCC_TRY(lower_rows(l, group->outputs[0], concat, &by_rows));
    if (concat) return by_rows ? TCC_OK : lower_concat(l, group->outputs[0], concat, concat, 0);
    for (int i = 0; i < group->n_outputs; i++) {
        int64_t numel = tcc_type_numel(&group->outputs[i]->type);
        bool done = false;
        for (int k = 0; k < i; k++) done = done || tcc_type_numel(&group->outputs[k]->type) == numel;
        if (done) continue;
        const tcc_type *hero = &group->hero->type; /* its dims, where they fit: views then need no refinement */
        TCC_TRY(tcc_lower_space(l, tcc_type_numel(hero) == numel ? hero : &group->outputs[i]->type));
    }
    return TCC_OK;
}
