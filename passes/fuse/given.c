/* SPDX-License-Identifier: MIT
 * fuse: groups that the graph came with. Remat gives the groups of the step without recomputation, each with the
 * parameters that fix the order of its sums. The steps of fuse begin with one unit per given group. A unit with a sum
 * is bound: it keeps all of its nodes and its choice. A bound contraction accepts any further work, because its choice
 * alone fixes the order of its sum. A bound reduction accepts only work that leaves the loops of the sum unchanged.
 * Other bound units accept nothing. A group may have lost nodes that nothing needs any more, its hero among them. It is
 * bound as long as a sum of it is left, and has to run by the same choice. */
#include "ir/support/alloc.h"
#include "passes/fuse/draft.h"
#include "passes/fuse/units.h"
#include "passes/group.h"
#include "passes/select.h"

#include <string.h>

enum { NONE = TCC_FUSE_NO_UNIT };

/* -- What a bound unit takes -- */

/* A run is of neighbouring dims that are all reduced, or all kept. Whether the broadcast to the dims of the sum adds
 * whole runs: then loops over a run stay one loop. */
static bool adds_whole_runs(const tcc_node *n, const tcc_node *hero) {
    const tcc_type *space = &hero->operands[0]->type, *x = &n->operands[0]->type;
    const tcc_dims axes = tcc_reduction_axes(hero), *dims = &n->attrs->broadcast.dims;
    bool reduced[TCC_MAX_RANK] = {false}, present[TCC_MAX_RANK] = {false};
    if (!tcc_type_same_dims(&n->type, space)) return false;
    for (int i = 0; i < axes.count; i++) reduced[axes.v[i]] = true;
    for (int i = 0; i < x->rank; i++) present[dims->v[i]] = x->dims[i] > 1;
    for (int i = 0, last = -1; i < space->rank; i++) {
        if (space->dims[i] == 1) continue;
        if (last >= 0 && reduced[i] == reduced[last] && present[i] != present[last]) return false;
        last = i;
    }
    return true;
}

static bool leaves_loops(const tcc_node *n, const tcc_node *hero) {
    if (tcc_fusion_of(n) == TCC_FUSION_POINT) return n->op != TCC_OP_IOTA;
    if (n->op == TCC_OP_RESHAPE) return tcc_dims_alike(&n->type, &n->operands[0]->type);
    return n->op == TCC_OP_BROADCAST && adds_whole_runs(n, hero);
}

/* Whether the target runs the draft by the choice that is given. A reduction's loops follow from all that it does, so
 * there nothing may be left to decide; a contraction's other launches have parameters that order no sum. */
static bool follows(tcc_fuser *f, const tcc_group *bound, const tcc_draft *d) {
    const tcc_pass_target *target = f->scratch.target;
    if (!bound->implementation || !target || !target->can_follow) return true;
    tcc_node **outputs = tcc__malloc(sizeof *outputs * (size_t)(d->n_nodes + 1));
    tcc_group group = {.kind = d->kind, .hero = d->hero, .n_nodes = d->n_nodes, .nodes = d->nodes, .outputs = outputs};
    group.implementation = bound->implementation;
    f->out_of_memory |= !outputs;
    for (int i = 0; outputs && i < d->n_nodes; i++)
        if (d->stored[i]) outputs[group.n_outputs++] = d->nodes[i];
    const bool exactly = d->kind == TCC_GROUP_REDUCE;
    const bool follows = outputs && target->can_follow(target->user, f->g, &group, exactly);
    tcc__free(outputs);
    return follows;
}

bool tcc_fuser_takes(tcc_fuser *f, const int *units, int count, const tcc_draft *d, const char **reason) {
    const tcc_group *bound = NULL;
    for (int i = 0; i < count; i++) {
        const tcc_group *own = f->units.data[units[i]].bound;
        *reason = "each of them is given, and bound";
        if (own && bound) return false;
        if (own) bound = own;
    }
    if (!bound || !d->n_nodes) return true;
    *reason = "it would change the order of a sum that is given";
    if (d->kind != bound->kind) return false;
    bool grown = false;
    for (int i = 0; i < d->n_nodes; i++) {
        if (tcc_group_has(bound, d->nodes[i])) continue;
        grown = true;
        if (d->kind != TCC_GROUP_CONTRACT && (d->kind != TCC_GROUP_REDUCE || !leaves_loops(d->nodes[i], bound->hero)))
            return false;
    }
    *reason = "the choice that is given does not run it";
    return !grown || follows(f, bound, d);
}

/* -- The units to begin with -- */

/* Nodes that several groups have are inlined, and the others get the unit of their group's first one. `uses` counts by
 * node. Returns the unit of the group, or NONE. */
static int take(tcc_fuser *f, const tcc_group *group, const int *uses) {
    int unit = NONE;
    for (int i = 0; i < group->n_nodes; i++) {
        const int id = group->nodes[i]->id, from = f->home[id];
        if (from == NONE || uses[id] > 1 || from == unit) continue;
        if (unit == NONE) {
            unit = from;
            continue;
        }
        tcc_fuser_give(f, id, unit);
        f->units.data[from].dead = true;
    }
    return unit;
}

static void inline_shared(tcc_fuser *f, const int *uses) {
    for (int id = 0; id < f->g->nodes.count; id++) {
        if (uses[id] < 2 || f->home[id] == NONE) continue;
        f->inlined[id] = true;
        if (f->output[id]) continue; /* still stored by its unit, for the graph's sake */
        f->units.data[f->home[id]].dead = true;
        tcc_fuser_give(f, id, NONE);
    }
}

/* Every node of the unit has its own unit again, as it had in the beginning. */
static void break_up(tcc_fuser *f, int unit, const int *own) {
    const char *reason = "";
    for (int i = f->units.data[unit].owned.count - 1; i >= 0; i--) {
        const int id = f->units.data[unit].owned.data[i];
        if (own[id] == unit) continue;
        tcc_fuser_give(f, id, own[id]);
        f->units.data[own[id]].dead = false;
    }
    for (int i = 0; i < f->g->nodes.count; i++)
        if (own[i] != NONE && own[i] != unit && f->home[i] == own[i]) tcc_fuser_refresh(f, own[i], &reason);
    tcc_fuser_refresh(f, unit, &reason);
}

/* Whether the draft has not the same nodes as the group that it was in the plan, or one of them reads what is computed
 * again. What left it may be what decided about its loops, too. */
static bool is_changed(const tcc_fuse_given *given, const tcc_draft *d) {
    const tcc_group *group = &given->group;
    for (int i = 0; i < d->n_nodes; i++)
        for (int k = 0; k < d->nodes[i]->n_operands; k++)
            if (d->nodes[i]->operands[k]->marks & TCC_MARK_REMAT) return true;
    return given->lost || d->n_nodes != group->n_nodes || (group->hero->marks & TCC_MARK_REMAT);
}

/* Of a contraction, whose choice alone says in which order it adds, the hero is bound without what was around it: an
 * operand that it computed may be read by others here, and cannot be stored by it. */
static bool settle_hero(tcc_fuser *f, const tcc_group *group, int unit, const int *own) {
    const char *reason = "";
    const int hero = own[group->hero->id];
    if (group->kind != TCC_GROUP_CONTRACT) return false;
    break_up(f, unit, own);
    tcc_fuse_unit *u = &f->units.data[hero];
    if (!tcc_fuser_refresh(f, hero, &reason) || u->draft.kind != group->kind || !follows(f, group, &u->draft))
        return false;
    u->bound = group;
    return true;
}

/* False: a bound group is no group as things are. */
static bool settle(tcc_fuser *f, const tcc_fuse_given *given, int unit, const int *own) {
    const tcc_group *group = &given->group;
    const char *reason = "";
    bool legal = tcc_fuser_refresh(f, unit, &reason);
    tcc_fuse_unit *u = &f->units.data[unit];
    if (f->out_of_memory) return true;
    const bool sums = tcc_group_sums(group->kind) && group->hero;
    if (legal && sums && u->draft.n_nodes && is_changed(given, &u->draft) && !follows(f, group, &u->draft)) {
        legal = false;
        reason = "the choice that is given does not run it";
    }
    if (legal && (!sums || !u->draft.n_nodes || u->draft.kind == group->kind)) {
        u->bound = sums ? group : NULL;
        return true;
    }
    tcc_logf(f->cx->cx, TCC_LOG_FUSION, "a given group is none here, %s: %s", legal ? "it is of another kind" : reason,
             tcc_node_text(group->nodes[0]));
    if (sums) return settle_hero(f, group, unit, own);
    break_up(f, unit, own);
    return true;
}

bool tcc_fuser_take_given(tcc_fuser *f, const tcc_fuse_given *given, int count) {
    const size_t nodes = (size_t)f->g->nodes.count + 1;
    int *uses = tcc__calloc(nodes, sizeof *uses), *own = tcc__malloc(nodes * sizeof *own),
        *unit = tcc__malloc(((size_t)count + 1) * sizeof *unit);
    bool fine = uses && own && unit;
    f->out_of_memory |= !fine;
    if (fine) memcpy(own, f->home, (nodes - 1) * sizeof *own);
    for (int i = 0; i < count && fine; i++)
        for (int k = 0; k < given[i].group.n_nodes; k++) uses[given[i].group.nodes[k]->id]++;
    if (fine) inline_shared(f, uses);
    for (int i = 0; i < count && fine; i++) unit[i] = take(f, &given[i].group, uses);
    for (int i = 0; i < count && fine; i++)
        if (unit[i] != NONE) fine = settle(f, &given[i], unit[i], own);
    for (int u = 0; u < f->units.count && fine && tcc_fuser_fine(f); u++) {
        const char *reason = "";
        tcc_fuse_unit *x = &f->units.data[u];
        if (x->dead) continue;
        if (!tcc_fuser_refresh(f, u, &reason) && !f->out_of_memory) fine = false;
    }
    fine = fine && tcc_fuser_order_all(f);
    tcc__free(uses);
    tcc__free(own);
    tcc__free(unit);
    return fine || f->out_of_memory;
}
