/* SPDX-License-Identifier: MIT
 * remat: recomputes values of the forward pass in the backward pass, so that the planned peak of memory meets a budget
 * at the least added time.
 *
 * The step is planned without recomputation. From that plan a model is made (model.h), by which values to recompute are
 * chosen, one after the other (search.h). Planning finds how many of them are needed: the later passes, from fuse on,
 * run on the graph with the first n of them. This gives the real peak and predicted time. So the plan meets the budget,
 * not an estimate. The list does not depend on the budget: a smaller budget takes more of it. Values that fit after all
 * are kept (relax.h).
 *
 * After Chen et al. 2016 (sublinear memory), Jain et al. 2020 (Checkmate) and XLA's rematerialization, which works on a
 * schedule too. */
#include "passes/remat/remat.h"

#include "ir/support/alloc.h"
#include "ir/support/clock.h"
#include "passes/remat/apply.h"
#include "passes/remat/choose.h"
#include "passes/remat/passing.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

void tcc_remat_report_free(tcc_remat_report *report) {
    tcc_vec_free(&report->frontier);
    tcc_vec_free(&report->values);
    tcc_arena_free(&report->arena);
    *report = (tcc_remat_report){0};
}

/* -- The report -- */

static int by_bytes(const void *a, const void *b) {
    const tcc_remat_value *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    const int what = strcmp(x->what, y->what);
    return what ? what : strcmp(x->where, y->where);
}

static const char *place_of(tcc_arena *arena, const tcc_node *n) {
    tcc_strbuf text = {0};
    if (!n->loc.file) return "";
    tcc_loc_print(&text, n->loc);
    const char *copy = text.failed ? NULL : tcc_arena_strdup(arena, text.text);
    tcc_strbuf_free(&text);
    return copy;
}

/* What may be computed again, and the time that it would take alone. */
static tcc_status list_values(tcc_remat_model *m, tcc_remat_report *r, tcc_diag *diag) {
    for (int v = 0; v < m->plan.values.count; v++) {
        const tcc_node *n = m->plan.values.data[v].node;
        if (!tcc_remat_may_repeat(m, v)) continue;
        const tcc_remat_value value = {
            tcc_arena_printf(&r->arena, "%s %s", tcc_op_get_info(n->op)->text, tcc_type_text(&n->type)),
            place_of(&r->arena, n),
            m->plan.values.data[v].size_bytes,
            (int64_t)tcc_remat_cost(m, &v, 1),
            false,
            false};
        if (!value.what || !value.where || !tcc_vec_push(&r->values, value)) return tcc_enomem(diag);
    }
    return TCC_OK;
}

/* Says what of them is computed again, by the set at hand. */
static void finish_values(const tcc_remat_model *m, tcc_remat_report *r) {
    for (int v = 0, i = 0; v < m->plan.values.count; v++)
        if (tcc_remat_may_repeat(m, v)) r->values.data[i++].again = m->again[m->plan.values.data[v].node->id];
    if (r->values.count) qsort(r->values.data, (size_t)r->values.count, sizeof *r->values.data, by_bytes);
}

/* Flop of the groups that have a value that is computed again for a hero. */
static int64_t added_flop(const tcc_remat_model *m) {
    int64_t flop = 0;
    for (int t = 0; t < m->g->groups.count; t++) {
        const tcc_implementation *x = m->g->groups.data[t].implementation;
        if (!x || m->when[m->g->groups.data[t].hero->id] == INT_MAX) continue;
        for (int i = 0; i < x->n_launches; i++) flop += x->launches[i].flop;
    }
    return flop;
}

/* -- The pass -- */

static tcc_status choose(tcc_pass_cx *cx, const tcc_graph *g, const tcc_graph *planned, tcc_remat_model *m,
                         tcc_remat_report *report, tcc_graph **out) {
    tcc_remat_choice c = {
        .cx = cx, .spec = cx->options->remat, .g = g, .planned = planned, .model = m, .report = report};
    tcc_status status = list_values(m, report, cx->diag);
    if (status == TCC_OK) status = tcc_remat_choose(&c);
    tcc_remat_choice_free(&c);
    TCC_TRY(status);
    finish_values(m, report);
    report->added_flop = added_flop(m);
    if (!report->taken) return tcc_graph_copy_live(g, out); /* which was planned, to the byte */
    return tcc_remat_apply(m, g, cx->options->target, out);
}

static tcc_status remat(tcc_pass_cx *cx, const tcc_graph *g, tcc_remat_report *report, tcc_graph **out) {
    tcc_graph *planned;
    tcc_remat_model model;
    TCC_TRY(cx->plan(cx, g, cx->tried, &planned));
    const tcc_remat_spec *spec = cx->options->remat;
    if (spec->budget == TCC_BUDGET_NONE && !spec->segments && tcc_remat_is_small(planned)) {
        if (cx->tried) cx->tried->made[TCC_PASS_PLAN_MEMORY] = planned;
        else tcc_graph_destroy(planned);
        return tcc_graph_copy_live(g, out);
    }
    if (cx->tried) tcc_tried_clear(cx->tried);
    tcc_status status = tcc_remat_model_create(planned, cx->options->target, cx->diag, &model);
    if (status == TCC_OK) {
        status = choose(cx, g, planned, &model, report, out);
        tcc_remat_model_free(&model);
    }
    tcc_graph_destroy(planned);
    return status;
}

tcc_status tcc_pass_remat(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    const double start = tcc_clock_ms();
    tcc_remat_report own = {0};
    if (!cx->options || !cx->options->remat)
        return tcc_error(cx->diag, TCC_EINVAL, TCC_NOWHERE, "remat needs a budget, or segments to compute again");
    if (!cx->plan) return TCC_BUG(cx->diag, "remat runs without the passes behind it");
    tcc_remat_report *report = cx->options->remat->report ? cx->options->remat->report : &own;
    tcc_remat_report_free(report);
    tcc_graph *g;
    TCC_TRY(tcc_graph_copy_live(in, &g));
    const tcc_status status = remat(cx, g, report, out);
    tcc_graph_destroy(g);
    report->milliseconds = tcc_clock_ms() - start;
    tcc_remat_report_free(&own);
    return status;
}
