/* SPDX-License-Identifier: MIT
 * select: chooses the implementation of each group. If tuning has measured the best one, it is taken
 * (pass_target.choose). Else the target is asked for all candidates, and the one with the shortest predicted time is
 * taken. A candidate may run only a part of the group, such as a library's call without the group's epilogue. It cuts
 * the group in two, and the target is asked about each part. After this pass no group is made, cut or widened.
 *
 * A group that has a choice keeps it: missing parameters are chosen, and launches are rebuilt. So a choice can be
 * written by hand, `by "reduce" {parts=4}`, and changed in a text. */
#include "passes/select.h"

#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/pass.h"

#include <string.h>

tcc_costs tcc_costs_of(const tcc_pass_target *target) {
    enum { LANES = 16 };
    tcc_hardware hw;
    tcc_costs usual;
    if (target && target->costs.launch_ns > 0) return target->costs;
    tcc_hardware_of_host(LANES, 0, &hw);
    tcc_costs_of_host(&hw, &usual);
    return usual;
}

bool tcc_has_line(const tcc_pass_target *target, int64_t extent, int bytes) {
    int lanes = bytes > 4 ? 2 : 4;
    while (extent % lanes) lanes /= 2;
    return target && extent <= (int64_t)target->scan_threads * lanes;
}

int tcc_select_best(const tcc_candidate *candidates, int count) {
    int best = 0;
    for (int i = 1; i < count; i++)
        if (candidates[i].ns < candidates[best].ns) best = i;
    return best;
}

/* -- Cutting -- */

static bool contains(tcc_node *const *list, int n, const tcc_node *x) {
    for (int i = 0; i < n; i++)
        if (list[i] == x) return true;
    return false;
}

/* By position in the group: `n` or what it is made of. */
static void mark_sources(const tcc_group *group, const tcc_node *n, bool *marked) {
    for (int i = group->n_nodes - 1; i >= 0; i--) {
        const tcc_node *x = group->nodes[i];
        marked[i] = x == n;
        for (int k = i + 1; k < group->n_nodes && !marked[i]; k++)
            marked[i] = marked[k] && contains(group->nodes[k]->operands, group->nodes[k]->n_operands, x);
    }
}

/* By position: the hero or what is made of it. */
static void mark_behind(const tcc_group *group, bool *marked) {
    for (int i = 0; i < group->n_nodes; i++) {
        const tcc_node *x = group->nodes[i];
        marked[i] = x == group->hero;
        for (int k = 0; k < i && !marked[i]; k++)
            marked[i] = marked[k] && contains(x->operands, x->n_operands, group->nodes[k]);
    }
}

static void add_outputs(const tcc_group *from, const tcc_node *cut, tcc_group *rest) {
    for (int i = 0; i < from->n_outputs; i++)
        if (from->outputs[i] != cut) rest->outputs[rest->n_outputs++] = from->outputs[i];
}

/* Every output is there, and nothing is read that neither part has. */
static bool is_closed(const tcc_group *from, const tcc_node *cut, const tcc_group *rest) {
    for (int i = 0; i < rest->n_outputs; i++)
        if (!contains(rest->nodes, rest->n_nodes, rest->outputs[i])) return false;
    for (int i = 0; i < rest->n_nodes; i++)
        for (int k = 0; k < rest->nodes[i]->n_operands; k++) {
            const tcc_node *x = rest->nodes[i]->operands[k];
            if (x != cut && tcc_group_has(from, x) && !contains(rest->nodes, rest->n_nodes, x)) return false;
        }
    return rest->n_outputs > 0;
}

tcc_status tcc_group_cut(tcc_arena *arena, tcc_diag *diag, const tcc_group *group, tcc_node *cut, tcc_group *first,
                         tcc_group *rest, bool *possible) {
    const int count = group->n_nodes;
    tcc_node **nodes = TCC_ARENA_ARRAY(arena, tcc_node *, 2 * count + 1 + group->n_outputs + 1);
    bool *sources = TCC_ARENA_ARRAY(arena, bool, 2 * count + 1), *behind = sources + count;
    if (!nodes || !sources) return tcc_enomem(diag);
    *first = (tcc_group){.kind = group->kind, .hero = group->hero, .n_outputs = 1, .nodes = nodes};
    *rest = (tcc_group){.kind = TCC_GROUP_POINTWISE, .nodes = nodes + count, .outputs = nodes + 2 * count + 1};
    first->outputs = nodes + 2 * count;
    first->outputs[0] = cut;
    mark_sources(group, cut, sources);
    mark_behind(group, behind);
    const bool sum = tcc_group_summed_operand(group->hero, cut) >= 0;
    for (int i = 0; i < count; i++) {
        tcc_node *n = group->nodes[i];
        if (sum ? n == cut : sources[i]) first->nodes[first->n_nodes++] = n;
        /* Work on other inputs may serve both. */
        if (sum ? n != cut : n != cut && !(sources[i] && behind[i])) rest->nodes[rest->n_nodes++] = n;
    }
    add_outputs(group, cut, rest);
    if (sum) first->kind = TCC_GROUP_REDUCE, first->hero = cut, rest->kind = group->kind, rest->hero = group->hero;
    else if (rest->n_outputs) rest->hero = rest->outputs[0];
    *possible = is_closed(group, cut, rest) && contains(group->nodes, count, cut);
    return TCC_OK;
}

/* Leaves out what no output of the group needs any more. */
static void drop_unused(tcc_group *group) {
    int kept = group->n_nodes;
    for (int i = group->n_nodes - 1; i >= 0; i--) {
        tcc_node *n = group->nodes[i];
        bool used = tcc_group_stores(group, n);
        for (int k = kept; k < group->n_nodes && !used; k++)
            used = contains(group->nodes[k]->operands, group->nodes[k]->n_operands, n);
        if (used) group->nodes[--kept] = n;
    }
    group->nodes += kept;
    group->n_nodes -= kept;
}

/* -- The pass -- */

typedef struct selection {
    tcc_pass_cx *cx;
    const tcc_pass_target *target;
    tcc_graph *g;      /* the new one, whose groups are made here */
    tcc_arena scratch; /* candidates, and the parts of groups that are cut */
} selection;

static void log_choice(const selection *s, const tcc_group *group, const tcc_candidates *all, int best) {
    if (!tcc_log_on(s->cx->cx, TCC_LOG_FUSION)) return;
    tcc_strbuf b = {0};
    const tcc_candidate *taken = &all->data[best];
    tcc_strbuf_printf(&b, "%s for %s: %.1f us", taken->name, tcc_node_text(group->hero), 1e-3 * (double)taken->ns);
    if (taken->cut) tcc_strbuf_printf(&b, ", cut at %s", tcc_node_text(taken->cut));
    for (int i = 0; i < all->count; i++)
        if (i != best) tcc_strbuf_printf(&b, "; %s %.1f us", all->data[i].name, 1e-3 * (double)all->data[i].ns);
    if (!b.failed) tcc_logf(s->cx->cx, TCC_LOG_FUSION, "%s", b.text);
    tcc_strbuf_free(&b);
}

static tcc_status select_group(selection *s, const tcc_group *group);

static tcc_status take(selection *s, const tcc_group *group, const tcc_candidate *taken) {
    if (taken->implementation) {
        tcc_group chosen = *group;
        chosen.implementation = (tcc_implementation *)taken->implementation; /* copied */
        return tcc_ir_group(s->g, &chosen);
    }
    tcc_group first, rest;
    bool possible;
    TCC_TRY(tcc_group_cut(&s->scratch, s->g->diag, group, taken->cut, &first, &rest, &possible));
    if (!possible) return TCC_BUG(s->g->diag, "%s cannot be cut off its group", tcc_node_text(taken->cut));
    drop_unused(&first);
    drop_unused(&rest);
    TCC_TRY(select_group(s, &first));
    return select_group(s, &rest);
}

/* By prediction. */
static tcc_status take_best(selection *s, const tcc_group *group) {
    tcc_candidates all = {0};
    tcc_status status = s->target->candidates(s->target->user, s->g, group, &s->scratch, &all);
    if (status == TCC_OK && !all.count) status = TCC_BUG(s->g->diag, "nothing runs %s", tcc_node_text(group->hero));
    if (status != TCC_OK) {
        tcc_vec_free(&all);
        return status;
    }
    const int best = tcc_select_best(all.data, all.count);
    const tcc_candidate taken = all.data[best];
    log_choice(s, group, &all, best);
    tcc_vec_free(&all);
    return take(s, group, &taken);
}

static tcc_status select_group(selection *s, const tcc_group *group) {
    const tcc_pass_target *target = s->target;
    tcc_candidate found = {0};
    if (target->choose) TCC_TRY(target->choose(target->choose_user, s->g, group, &s->scratch, &found));
    if (found.implementation || found.cut) return take(s, group, &found);
    if (!group->implementation) return take_best(s, group);
    TCC_TRY(target->follow(target->user, s->g, group, &s->scratch, &found.implementation));
    return take(s, group, &found);
}

static tcc_status select_all(selection *s, const tcc_graph *with_groups) {
    for (int i = 0; i < with_groups->groups.count; i++) TCC_TRY(select_group(s, &with_groups->groups.data[i]));
    return TCC_OK;
}

/* A copy of the graph whose groups are moved to `groups`: they are made anew. */
static tcc_status copy_without_groups(const tcc_graph *in, tcc_graph **out, tcc_graph *groups) {
    TCC_TRY(tcc_group_copy_graph(in, NULL, out));
    memcpy(&groups->groups, &(*out)->groups, sizeof groups->groups);
    memset(&(*out)->groups, 0, sizeof groups->groups);
    (*out)->places.count = 0; /* of other groups */
    (*out)->arena_bytes = 0;
    return TCC_OK;
}

tcc_status tcc_pass_select(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    const tcc_pass_target *target = cx->options ? cx->options->target : NULL;
    if (!target)
        return tcc_error(cx->diag, TCC_EINVAL, TCC_NOWHERE,
                         "select needs a target: host, or a GPU's architecture, as sm_90 (tcc-opt --target)");
    if (in->groups.count && !in->groups.data[0].n_outputs)
        return tcc_error(cx->diag, TCC_EINVAL, TCC_NOWHERE, "select needs groups with outputs: fuse makes them");
    selection s = {.cx = cx, .target = target};
    tcc_graph old = {0}; /* only its groups */
    TCC_TRY(copy_without_groups(in, &s.g, &old));
    tcc_status status = select_all(&s, &old);
    tcc_vec_free(&old.groups);
    tcc_arena_free(&s.scratch);
    if (status != TCC_OK) {
        tcc_graph_destroy(s.g);
        return status;
    }
    *out = s.g;
    return TCC_OK;
}
