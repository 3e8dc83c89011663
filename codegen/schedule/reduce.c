/* SPDX-License-Identifier: MIT
 * The schedule of reductions. An item owns some kept points and makes one sweep over their reduced range for each level
 * of dependence among the reductions (softmax: maximum, sum of exponentials, quotient). Lanes run along the innermost
 * loop: along the reduced range (rows; lanes are combined at the end of a sweep, in a fixed order), or along kept
 * points (columns).
 *
 * Mean and M2 (variance) are two dependent sums where a second sweep finds the row in cache or registers. Where it
 * would read memory again, they are one fold of states (moments.c).
 *
 * Too few items for the data: reduce_split.c cuts the reduced range. Sums of columns beside rows: reduce_across.c cuts
 * the kept one. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/reduce.h"

/* The body of the whole group: kept and full outputs at the point, and what column sums add up. NULL when memory is
 * short. */
static tcc_body *trace_group(tcc_reduce_trace *t) {
    int sums = t->n;
    for (;;) { /* refined until reshapes resolve */
        t->n = sums;
        tcc_body *b = tcc_reduce_open(t);
        if (!b) return NULL;
        tcc_reduce_store_outputs(t, b, true, true);
        if (t->has_parts) tcc_reduce_store_parts(t, b);
        if (sums) tcc_reduce_store_sums(t, b);
        const bool of_sum = b->split_var >= 0 && t->reduced_bits >> b->split_var & 1;
        if ((t->joined && (of_sum || sums)) || !tcc_iteration_refine(&t->it, b)) return b;
        tcc_body_free(b);
    }
}

static tcc_status plan_loops(tcc_reduce_trace *t, tcc_reduce **p) {
    tcc_body *b = trace_group(t);
    if (!b) return tcc_enomem(t->l->diag);
    TCC_TRY(tcc_lowering_keep(t->l, b));
    tcc_lowering_mark_far(t->l, b);
    return tcc_reduce_plan_sums(t, b, p);
}

/* With loops that keep to the order of the sums. */
static tcc_status plan_group(tcc_reduce_trace *t, tcc_reduce **p) {
    const int sums = t->n;
    TCC_TRY(plan_loops(t, p));
    if (!tcc_reduce_follows(t, *p)) {
        tcc_logf(t->l->cx, TCC_LOG_FUSION, "loops joined, to keep the order of the sum: %s",
                 tcc_node_text(t->l->group->hero));
        t->n = sums;
        tcc_reduce_join_loops(t);
        TCC_TRY(plan_loops(t, p));
    }
    if (sums == 0) tcc_reduce_shape_loops(t, *p);
    return TCC_OK;
}

/* Should M2 be made in the mean's sweep? A second sweep over a row that is in registers, in shared memory or in a
 * thread's cache costs less than the segments of the first; what has to come from memory again costs most. A mean alone
 * is made as if its M2 were there: whether that is in its group must not change its bits. */
static tcc_status choose_sweeps(tcc_reduce_trace *t, tcc_reduce *p) {
    tcc_lowering *l = t->l;
    int64_t points, sweeps = 0;
    bool moments = false;
    for (int i = 0; i < t->n; i++) {
        t->has_m2 = t->has_m2 || t->all[i].node->op == TCC_OP_REDUCE_M2;
        moments = moments || tcc_is_moment(t->all[i].node->op);
    }
    if (!moments || p->n_reduced == 0) return TCC_OK;
    if (tcc_params_decides(&l->params)) {
        TCC_TRY(tcc_reduce_choose_shape(l, p, &points));
        const bool gpu = l->target->lane_groups;
        bool at_hand = gpu ? p->steps || p->n_slots : t->reduced_numel * 4 <= tcc_reduce_cache_of(l);
        bool columns = gpu ? p->columns : !t->order->rows;
        sweeps = columns || !at_hand || tcc_reduce_choose_splits(t, p) > 1 ? 1 : 2;
    }
    TCC_TRY(tcc_params_settle(&l->params, TCC_PARAM_SWEEPS, tcc_param_between(1, 2), &sweeps));
    t->one_sweep = sweeps == 1;
    return TCC_OK;
}

/* Returns the number of levels. */
static int find_levels(tcc_reduce_trace *t, const tcc_reduce *p) {
    const tcc_group *group = t->l->group;
    const tcc_body *b = p->body;
    int levels = 0;
    for (int i = 0; i < t->n; i++) {
        t->all[i].level = t->all[i].expr ? p->level[t->all[i].expr->operands[0]->id] : 0;
        if (t->all[i].level + 1 > levels) levels = t->all[i].level + 1;
    }
    for (int i = 0; i < group->n_outputs; i++) {
        t->full_level[i] = -1;
        for (int k = 0; tcc_reduce_is_full(t, group->outputs[i]) && k < b->stores.count; k++)
            if (b->buffers.data[b->stores.data[k].buffer].node == group->outputs[i])
                t->full_level[i] = p->level[b->stores.data[k].value->id];
    }
    return levels;
}

tcc_status tcc_lower_reduce(tcc_lowering *l) {
    tcc_reduce_trace t;
    tcc_reduce *p;
    TCC_TRY(tcc_reduce_trace_begin(&t, l));
    bool across = t.n > 0;
    TCC_TRY(plan_group(&t, &p));
    if (across) return tcc_reduce_across(&t, p);
    TCC_TRY(choose_sweeps(&t, p));
    if (t.one_sweep) {
        t.n = 0;
        TCC_TRY(plan_group(&t, &p));
    }
    int64_t splits;
    TCC_TRY(tcc_reduce_settle_splits(&t, p, &splits));
    if (t.order && t.order->parts != splits) { /* what is fused with the sum needs whole rows */
        t.order->parts = splits;
        t.n = 0;
        TCC_TRY(plan_group(&t, &p));
    }
    const int levels = find_levels(&t, p);
    if (splits > 1) {
        TCC_TRY(tcc_reduce_launch_split(&t, levels, splits));
    } else {
        TCC_TRY(tcc_reduce_settle_lanes(l, p));
        TCC_TRY(tcc_reduce_add(l, p));
    }
    for (int i = 0; i < l->group->n_outputs; i++) { /* bystanders of another size have loops of their own */
        const tcc_node *n = l->group->outputs[i];
        bool done = tcc_reduce_is_kept(&t, n) || tcc_reduce_is_full(&t, n) || tcc_reduce_is_part(&t, n);
        for (int k = 0; k < i; k++)
            done = done || tcc_type_numel(&l->group->outputs[k]->type) == tcc_type_numel(&n->type);
        if (!done) TCC_TRY(tcc_lower_space(l, &n->type));
    }
    return TCC_OK;
}
