/* SPDX-License-Identifier: MIT
 * Runs passes: skip what TCC_SKIP names, run, verify, dump, time, log. */
#include "passes/pipeline/dump.h"
#include "passes/fuse/fuse.h"
#include "passes/group.h"
#include "ir/support/clock.h"
#include "passes/pass.h"
#include "passes/pipeline/pipeline.h"
#include "passes/select.h"

#include <stdlib.h>
#include <string.h>

static const tcc_pass_info pass_infos[] = {
#define TCC_PASS(id, name, function, doc) {name, doc, function},
#include "passes/passes.def"
#undef TCC_PASS
};

const tcc_pass_info *tcc_pass_get_info(tcc_pass_id id) {
    return (unsigned)id < TCC_PASS_COUNT ? &pass_infos[id] : NULL;
}

/* Whether `name` is one of the comma-separated words of `list`. */
static bool listed(const char *list, const char *name) {
    size_t length = strlen(name);
    while (list && *list) {
        size_t word = strcspn(list, ",");
        if (word == length && !memcmp(list, name, length)) return true;
        list += word + (list[word] == ',');
    }
    return false;
}

/* Time of what was tried, and may be taken. */
static double tried_ms(const tcc_tried *tried) {
    double milliseconds = 0;
    for (int i = 0; i < TCC_PASS_COUNT && tried; i++) milliseconds += tried->milliseconds[i];
    return milliseconds;
}

/* What the pass makes of `in`, or made of it already, and the time of that. What one pass tried and others take is in
 * their times, not in its own. */
static tcc_status run_or_take(tcc_pass_cx *cx, tcc_pass_id id, const tcc_graph *in, tcc_graph **out,
                              double *milliseconds) {
    tcc_tried *tried = cx->tried;
    if (tried && tried->made[id]) {
        *out = tried->made[id];
        *milliseconds = tried->milliseconds[id];
        tried->made[id] = NULL;
        return TCC_OK;
    }
    const double start = tcc_clock_ms(), before = tried_ms(tried);
    const tcc_status status = pass_infos[id].run(cx, in, out);
    *milliseconds = tcc_clock_ms() - start - (tried_ms(tried) - before);
    return status;
}

/* One pass from *g to a new *g, with all that the manager does around it. `number` counts the dumps. */
static tcc_status run_pass(tcc_pass_cx *cx, const tcc_manager_options *manager, tcc_pass_id id, int number,
                           tcc_graph **g, tcc_manager_report *report) {
    const tcc_pass_info *pass = &pass_infos[id];
    tcc_graph *old = *g, *new = NULL;
    double milliseconds;
    tcc_status status = run_or_take(cx, id, old, &new, &milliseconds);
    if (status != TCC_OK) {
        tcc_note(cx->diag, TCC_NOWHERE, "in pass %s", pass->name);
        return status;
    }
    if (manager && manager->verify) {
        status = tcc_graph_verify(new, cx->diag);
        if (status != TCC_OK) {
            tcc_note(cx->diag, TCC_NOWHERE, "after pass %s", pass->name);
            tcc_graph_destroy(new);
            return status;
        }
    }
    bool watched = report || tcc_log_on(cx->cx, TCC_LOG_PASSES);
    bool changed = watched && !tcc_graph_equal(old, new);
    tcc_logf(cx->cx, TCC_LOG_PASSES, "%-11s %8.3f ms  %5d -> %5d nodes  %4d groups%s", pass->name, milliseconds,
             old->nodes.count, new->nodes.count, new->groups.count, changed ? "" : "  (unchanged)");
    if (report) {
        tcc_pass_report line = {pass->name, milliseconds, old->nodes.count, new->nodes.count, changed};
        if (!tcc_vec_push(&report->passes, line)) status = tcc_enomem(cx->diag);
    }
    if (status == TCC_OK && manager && manager->dump_dir)
        status = tcc_dump_graph(new, manager->dump_dir, number, pass->name, cx->diag);
    if (status == TCC_OK && manager && manager->dump_dir && id == TCC_PASS_REMAT && cx->options->remat->report &&
        cx->options->remat->report->frontier.count)
        status = tcc_dump_remat(cx->options->remat->report, manager->dump_dir, number, pass->name, cx->diag);
    if (status == TCC_OK && manager && manager->after)
        status = manager->after(manager->after_user, pass->name, old, new);
    if (status != TCC_OK) {
        tcc_graph_destroy(new);
        return status;
    }
    tcc_graph_destroy(old);
    *g = new;
    return TCC_OK;
}

/* The graph as it comes in is dump 00, so that every pass has its `before`. */
static tcc_status dump_input(tcc_pass_cx *cx, const tcc_manager_options *manager, const tcc_graph *g) {
    if (!manager || !manager->dump_dir) return TCC_OK;
    return tcc_dump_graph(g, manager->dump_dir, 0, "input", cx->diag);
}

static bool runs_with(const tcc_pipeline_step *step, const tcc_pass_options *options) {
    if (step->optional && listed(getenv("TCC_SKIP"), pass_infos[step->pass].name)) return false;
    switch (step->when) {
    case TCC_WHEN_ALWAYS: return true;
    case TCC_WHEN_AMP: return options->amp != NULL;
    case TCC_WHEN_TRAINING: return options->train;
    case TCC_WHEN_GRADIENTS: return options->train && options->spec.part != TCC_STEP_UPDATE;
    case TCC_WHEN_RANKS: return options->train && tcc_step_adds_ranks(options->spec.part) && options->spec.ranks > 1;
    case TCC_WHEN_FUSING: return !options->eager;
    case TCC_WHEN_VECTORS: return !options->eager && options->target && options->target->lanes;
    case TCC_WHEN_ALIGNED: return !options->eager && options->target && options->target->row_elements;
    case TCC_WHEN_PLACES: return !options->eager && options->target && options->target->narrow_places;
    case TCC_WHEN_NORMS: return options->target && options->target->takes_norm;
    case TCC_WHEN_STAGES: return !options->eager && options->target && options->target->sums_in_stages;
    case TCC_WHEN_REMAT: return options->train && options->remat;
    case TCC_WHEN_TARGET: return options->target != NULL;
    }
    return false;
}

tcc_status tcc_pipeline_plan(const tcc_pass_cx *cx, const tcc_graph *g, tcc_tried *tried, tcc_graph **out) {
    tcc_pass_cx quiet = {.diag = cx->diag, .options = cx->options};
    tcc_graph *at = NULL;
    tcc_pass_id made_by = TCC_PASS_FUSE;
    int first = 0;
    while (tcc_pipeline_steps[first].pass != TCC_PASS_FUSE) first++;
    for (int i = first; i < tcc_pipeline_count; i++) {
        tcc_graph *next;
        if (!runs_with(&tcc_pipeline_steps[i], cx->options)) continue;
        const tcc_pass_id pass = tcc_pipeline_steps[i].pass;
        const double start = tcc_clock_ms();
        const tcc_status status = pass_infos[pass].run(&quiet, at ? at : g, &next);
        if (tried) tried->milliseconds[pass] = tcc_clock_ms() - start;
        if (at && tried) tried->made[made_by] = at;
        else tcc_graph_destroy(at);
        if (status != TCC_OK) return status;
        at = next;
        made_by = pass;
    }
    *out = at;
    return TCC_OK;
}

tcc_status tcc_pipeline_run(tcc_pass_cx *cx, const tcc_manager_options *manager, tcc_graph **g,
                            tcc_manager_report *report) {
    tcc_tried tried = {0};
    const bool logs = tcc_log_on(cx->cx, TCC_LOG_FUSION) || tcc_log_on(cx->cx, TCC_LOG_MEMORY); /* a trial does not */
    TCC_TRY(dump_input(cx, manager, *g));
    cx->plan = tcc_pipeline_plan;
    cx->tried = logs ? NULL : &tried;
    tcc_status status = TCC_OK;
    int number = 0;
    for (int i = 0; i < tcc_pipeline_count && status == TCC_OK; i++) {
        const tcc_pipeline_step *step = &tcc_pipeline_steps[i];
        if (runs_with(step, cx->options)) status = run_pass(cx, manager, step->pass, ++number, g, report);
    }
    cx->tried = NULL;
    tcc_tried_clear(&tried);
    return status;
}

static tcc_status unknown_pass(tcc_diag *diag, const char *name, size_t length) {
    tcc_status status = tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "there is no pass '%.*s'", (int)length, name);
    for (int i = 0; i < TCC_PASS_COUNT; i++)
        tcc_note(diag, TCC_NOWHERE, "%s: %s", pass_infos[i].name, pass_infos[i].doc);
    return status;
}

/* Lines that the target sorts, and norms, about which a library may be asked. */
static bool stays_whole(const tcc_pass_cx *cx, const tcc_node *n) {
    const tcc_pass_target *target = cx->options ? cx->options->target : NULL;
    const bool sorted = target && tcc_is_whole_order(n) && n->attrs->order.count <= target->longest_sorted;
    return sorted || tcc_is_batch_norm(n->op);
}

static bool has_composite(const tcc_pass_cx *cx, const tcc_graph *g) {
    for (int i = 0; i < g->nodes.count; i++)
        if (tcc_fusion_of(g->nodes.data[i]) == TCC_FUSION_COMPOSITE && !stays_whole(cx, g->nodes.data[i])) return true;
    return false;
}

/* A pass that somebody names on a graph that is not ready for it. What is missing and harmless is run first: composite
 * ops are in every graph that was just traced. Else the error says which pass must come before. */
static tcc_status prepare(tcc_pass_cx *cx, const tcc_manager_options *manager, tcc_pass_id id, int *number,
                          tcc_graph **g, tcc_manager_report *report) {
    if (id == TCC_PASS_FUSE && has_composite(cx, *g))
        return run_pass(cx, manager, TCC_PASS_DECOMPOSE, ++*number, g, report);
    if (id == TCC_PASS_SELECT && !(*g)->groups.count && has_composite(cx, *g))
        return tcc_error(cx->diag, TCC_EINVAL, TCC_NOWHERE, "select chooses for groups: fuse must come first");
    return TCC_OK;
}

tcc_status tcc_pipeline_run_named(tcc_pass_cx *cx, const tcc_manager_options *manager, const char *list, tcc_graph **g,
                                  tcc_manager_report *report) {
    TCC_TRY(dump_input(cx, manager, *g));
    cx->plan = tcc_pipeline_plan;
    int number = 0;
    while (*list) {
        size_t length = strcspn(list, ",");
        int id = 0;
        while (id < TCC_PASS_COUNT &&
               (strlen(pass_infos[id].name) != length || memcmp(pass_infos[id].name, list, length) != 0))
            id++;
        if (id == TCC_PASS_COUNT) return unknown_pass(cx->diag, list, length);
        TCC_TRY(prepare(cx, manager, (tcc_pass_id)id, &number, g, report));
        TCC_TRY(run_pass(cx, manager, (tcc_pass_id)id, ++number, g, report));
        list += length + (list[length] == ',');
    }
    return TCC_OK;
}
