/* SPDX-License-Identifier: MIT
 * Split reductions, where there are too few items for the data. One launch makes partial results for each split of the
 * reduced range, and a second combines them. Work on every point that depends on these follows in a third launch; what
 * does not depend on them, as the gradient of a mean, is done by the first. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/reduce.h"

#include <string.h>

/* A temporary of partial results, and a store of one there; the same for the same value. */
static int store_partial(tcc_reduce_trace *t, tcc_body *b, const tcc_node *n, const tcc_expr *value, tcc_affine offset,
                         int64_t splits) {
    tcc_dtype dtype = tcc_reduce_partial_dtype(n);
    for (int i = 0; i < b->stores.count; i++)
        if (b->stores.data[i].value == value) return b->buffers.data[b->stores.data[i].buffer].temporary;
    int temporary = tcc_lowering_temporary(t->l, splits * t->kept_numel * tcc_dtype_bytes(dtype));
    if (temporary < 0 || !value) return temporary;
    tcc_body_write store = {tcc_body_temporary(b, temporary, dtype, true), offset, value, NULL, .kept = true};
    if (!tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(t->l->diag);
    return temporary;
}

/* Stores the outputs of every point that are known when so many levels of reductions are. */
static void store_full(const tcc_reduce_trace *t, tcc_body *b, int level) {
    for (int i = 0; i < t->l->group->n_outputs; i++)
        if (t->full_level[i] == level)
            tcc_body_store(b, t->l->group->outputs[i], tcc_reduce_full_position(t, b, i), false);
}

/* Partial results of the reductions of one level, each over a split of the first reduced loop. */
static tcc_status launch_partial(tcc_reduce_trace *t, int level, int64_t splits) {
    tcc_lowering *l = t->l;
    tcc_body *b = tcc_reduce_open(t);
    if (!b) return tcc_enomem(l->diag);
    int var = tcc_body_loop(b, splits);
    tcc_affine offset = tcc_affine_add(b, t->kept_position, tcc_affine_scale(b, tcc_affine_var(b, var), t->kept_numel));
    for (int i = 0; i < t->n; i++) {
        tcc_reduction *r = &t->all[i];
        if (r->level != level) continue;
        tcc_affine coordinates[TCC_MAX_RANK];
        tcc_affine_split(b, t->kept_position, r->node->type.rank, r->node->type.dims, coordinates);
        /* Not the value itself: that is rounded, and a mean's is of the shifted operand. */
        const tcc_expr *value = tcc_body_trace(b, r->node, coordinates) ? r->expr : NULL;
        r->partial = store_partial(t, b, r->node, value, offset, splits);
        if (r->partial < 0 || !value) break;
        if (r->node->op == TCC_OP_REDUCE_M2)
            r->means = store_partial(t, b, r->node, tcc_reduce_mean_beside(b, value), offset, splits);
    }
    store_full(t, b, level);
    tcc_reduce *p;
    TCC_TRY(tcc_lowering_keep(l, b));
    TCC_TRY(tcc_reduce_plan_sums(t, b, &p));
    tcc_reduce_shape_loops(t, p);
    TCC_TRY(tcc_reduce_settle_lanes(l, p));
    int64_t extent = tcc_reduce_extent(p, 0);
    p->split_var = var;
    p->split = (extent + splits - 1) / splits;
    if (p->order) {
        const int64_t inside = p->order->level[0].extent / extent; /* of the level's loops */
        p->split = tcc_reduce_part_of(p->order) / inside;
    } else if (!p->columns && p->n_reduced == 1) {
        p->split = tcc_whole_vectors(l->target, p->split, p->lanes);
    }
    if ((splits - 1) * p->split >= extent)
        return tcc_params_refuse(&l->params, TCC_PARAM_PARTS, splits, "%lld, so that none is empty",
                                 (long long)((extent + p->split - 1) / p->split));
    t->split_points = p->split * (int64_t)tcc_reduce_points(b, p->reduced + 1, p->n_reduced - 1);
    memmove(p->kept + 1, p->kept, sizeof *p->kept * (size_t)p->n_kept);
    p->kept[0] = var;
    p->n_kept++;
    return tcc_reduce_add(l, p);
}

tcc_status tcc_reduce_combine(tcc_lowering *l, tcc_body *b, int var, int64_t run) {
    tcc_reduce *p;
    TCC_TRY(tcc_lowering_keep(l, b));
    TCC_TRY(tcc_reduce_plan(l, b, UINT64_C(1) << var, &p));
    p->combines = true;
    p->run = run;
    if (p->n_kept > 0 && !p->columns) { /* lanes along the kept loops: they are contiguous, splits are not */
        p->columns = true;
        p->lanes = tcc_choose_lanes(l->target, b, p->kept[p->n_kept - 1], b->vars.data[p->kept[p->n_kept - 1]].high + 1,
                                    tcc_choose_width(b));
        tcc_reduce_narrow_columns(l, p);
    }
    TCC_TRY(tcc_reduce_settle_lanes(l, p));
    return tcc_reduce_add(l, p);
}

/* The reductions of one level from their partial results, into temporaries; with the last level the kept outputs too.
 */
static tcc_status launch_combine(tcc_reduce_trace *t, int level, bool last, bool keep, int64_t splits) {
    tcc_lowering *l = t->l;
    int var, made[TCC_GROUP_MAX_REDUCTIONS];
    tcc_body *b = tcc_reduce_open_combine(t, false, splits, &var);
    if (!b) return tcc_enomem(l->diag);
    t->level = level;
    for (int i = 0; i < t->n; i++) {
        const tcc_node *n = t->all[i].node;
        made[i] = -1;
        if (t->all[i].level != level || (last && !keep)) continue;
        tcc_affine coordinates[TCC_MAX_RANK];
        tcc_affine_split(b, t->kept_position, n->type.rank, n->type.dims, coordinates);
        const tcc_expr *value = tcc_body_trace(b, n, coordinates);
        made[i] = tcc_lowering_temporary(l, t->kept_numel * tcc_dtype_bytes(n->type.dtype));
        if (made[i] < 0 || !value) break;
        tcc_body_write store = {tcc_body_temporary(b, made[i], n->type.dtype, true), t->kept_position, value, NULL,
                                .kept = true};
        if (!tcc_vec_push(&b->stores, store)) b->status = tcc_enomem(l->diag);
    }
    for (int i = 0; last && i < l->group->n_outputs; i++)
        if (tcc_reduce_is_kept(t, l->group->outputs[i]))
            tcc_body_store(b, l->group->outputs[i], t->kept_position, true);
    TCC_TRY(tcc_reduce_combine(l, b, var, 0));
    for (int i = 0; i < t->n; i++)
        if (made[i] >= 0) t->all[i].temporary = made[i];
    return TCC_OK;
}

tcc_status tcc_reduce_launch_split(tcc_reduce_trace *t, int levels, int64_t splits) {
    bool follows = false; /* work on every point */
    for (int i = 0; i < t->l->group->n_outputs; i++) follows = follows || t->full_level[i] == levels;
    for (int level = 0; level < levels; level++) {
        TCC_TRY(launch_partial(t, level, splits));
        TCC_TRY(launch_combine(t, level, level == levels - 1, follows, splits));
    }
    if (!follows) return TCC_OK;
    tcc_body *b = tcc_reduce_open(t);
    if (!b) return tcc_enomem(t->l->diag);
    store_full(t, b, levels);
    return tcc_schedule_points(t->l, b);
}

/* For a GPU: so many that most of it is busy, while each thread still has a few elements. */
static int64_t choose_splits_for_blocks(const tcc_hardware *hw, const tcc_reduce *p) {
    enum { BLOCK = 256, STEPS = 8, BUSY = 2, MOST = 4 }; /* the latter: blocks of a processor */
    int64_t most_blocks = 1; /* a power of two, so that parts of such extents are whole lines of memory */
    while (2 * most_blocks <= MOST * hw->processors) most_blocks *= 2;
    const tcc_body *b = p->body;
    double kept = tcc_reduce_points(b, p->kept, p->n_kept), points = tcc_reduce_points(b, p->reduced, p->n_reduced);
    int64_t extent = tcc_reduce_extent(p, 0), columns = 1;
    if (p->columns) {
        int64_t last = b->vars.data[p->kept[p->n_kept - 1]].high + 1, group = tcc_reduce_columns_group(p);
        columns = group;
        kept = kept / (double)last * (double)((last + group * p->lanes - 1) / (group * p->lanes));
    }
    if (kept >= BUSY * hw->processors) return 1;
    double least = (double)STEPS * (p->columns ? BLOCK / (double)columns : BLOCK * p->lanes); /* points of a split */
    int64_t splits = (int64_t)(points / least), most = (int64_t)((double)most_blocks / kept);
    if (splits > most) splits = most;
    if (splits > extent) splits = extent;
    if (splits < 2) return 1;
    int64_t split = (extent + splits - 1) / splits;
    if (!p->columns && p->n_reduced == 1) split = (split + p->lanes - 1) / p->lanes * p->lanes;
    return (extent + split - 1) / split;
}

static bool can_split(const tcc_reduce_trace *t, const tcc_reduce *p) {
    for (int i = 0; i < t->n; i++)
        if (t->all[i].node->op == TCC_OP_ARGMAX) return false;
    return p->n_reduced > 0 && !p->n_parts;
}

/* Whether a later sweep finds the row in the registers or the shared memory of a GPU's block, or short columns in a
 * cache. Such a row is soon read: its parts would be read twice, in launches one after another. */
static tcc_status stays_in_block(const tcc_reduce_trace *t, tcc_reduce *p, bool *stays) {
    int64_t points;
    *stays = false;
    if (!t->l->target->lane_groups || p->n_sweeps < 2) return TCC_OK;
    *stays = p->columns && t->reduced_numel <= TCC_REDUCE_LONGEST_COLUMN;
    if (p->columns) return TCC_OK;
    TCC_TRY(tcc_reduce_choose_shape(t->l, p, &points));
    *stays = p->n_slots > 0;
    return TCC_OK;
}

/* The mean that a second sweep wants is of the whole row. */
tcc_status tcc_reduce_settle_splits(const tcc_reduce_trace *t, tcc_reduce *p, int64_t *splits) {
    *splits = 1;
    if (!can_split(t, p)) return TCC_OK;
    const bool whole = t->has_m2 && !t->one_sweep;
    if (!whole && tcc_params_decides(&t->l->params)) {
        bool stays = false;
        *splits = tcc_reduce_choose_splits(t, p);
        if (*splits > 1) TCC_TRY(stays_in_block(t, p, &stays));
        if (stays) *splits = 1;
    }
    const int64_t extent = p->order ? p->order->level[0].extent : tcc_reduce_extent(p, 0);
    return tcc_params_settle(&t->l->params, TCC_PARAM_PARTS, tcc_param_between(1, whole ? 1 : extent), splits);
}

int64_t tcc_reduce_choose_splits(const tcc_reduce_trace *t, const tcc_reduce *p) {
    if (!can_split(t, p)) return 1;
    return p->order ? p->order->parts : choose_splits_for_blocks(&t->l->target->hw, p);
}
