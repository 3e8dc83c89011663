/* SPDX-License-Identifier: MIT */
#include "passes/remat/groups.h"

#include "passes/group.h"

#include <stdlib.h>

typedef struct giver {
    const tcc_remat_model *m;
    const tcc_pass_target *target;
    const tcc_graph *from;
    tcc_node *const *map, *const *copies;
    tcc_graph *to;
    tcc_arena scratch;
} giver;

static int by_id(const void *a, const void *b) {
    const tcc_node *const *x = a, *const *y = b;
    return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

static bool is_late(const giver *v, const tcc_group *group) {
    for (int i = 0; i < group->n_nodes; i++)
        if (v->m->late[group->nodes[i]->id]) return true;
    return false;
}

/* What late work evaluates where it evaluated `n`; NULL: fuse had added that. */
static tcc_node *late_node(const giver *v, const tcc_node *n) {
    if (n->id >= v->from->nodes.count) return NULL;
    return !v->m->late[n->id] && v->m->stale[n->id] && v->copies[n->id] ? v->copies[n->id] : v->map[n->id];
}

static tcc_node *early_node(const giver *v, const tcc_node *n) {
    return n->id < v->from->nodes.count ? v->map[n->id] : NULL;
}

static tcc_node *copied_node(const giver *v, const tcc_node *n) {
    return n->id < v->from->nodes.count ? v->copies[n->id] : NULL;
}

/* A group of what the planned group's nodes have become; none if that is nothing. */
static tcc_status give(giver *v, const tcc_group *planned, tcc_node *(*become)(const giver *v, const tcc_node *n)) {
    tcc_group group = {.kind = planned->kind};
    group.nodes = TCC_ARENA_ARRAY(&v->scratch, tcc_node *, planned->n_nodes + 1);
    if (!group.nodes) return tcc_enomem(v->to->diag);
    for (int i = 0; i < planned->n_nodes; i++) group.nodes[i] = become(v, planned->nodes[i]);
    group.hero = tcc_group_hero_among(planned, group.nodes);
    for (int i = 0; i < planned->n_nodes; i++)
        if (group.nodes[i]) group.nodes[group.n_nodes++] = group.nodes[i];
    if (!group.n_nodes) return TCC_OK;
    qsort(group.nodes, (size_t)group.n_nodes, sizeof *group.nodes, by_id);
    int distinct = 1; /* what was two nodes may be one now */
    for (int i = 1; i < group.n_nodes; i++)
        if (group.nodes[i] != group.nodes[distinct - 1]) group.nodes[distinct++] = group.nodes[i];
    group.n_nodes = distinct;
    if (!group.hero) { /* only work around the hero is computed again */
        group.kind = TCC_GROUP_POINTWISE;
        group.hero = group.nodes[group.n_nodes - 1];
    } else if (planned->implementation && v->target && tcc_group_sums(planned->kind)) {
        group.implementation = v->target->order_of(v->target->user, planned->implementation, &v->scratch);
        if (!group.implementation) return tcc_enomem(v->to->diag);
    }
    return tcc_ir_group(v->to, &group);
}

static tcc_status give_all(giver *v) {
    const tcc_graph *planned = v->m->g;
    for (int i = 0; i < planned->groups.count; i++) {
        const tcc_group *group = &planned->groups.data[i];
        const bool late = is_late(v, group);
        TCC_TRY(give(v, group, late ? late_node : early_node));
        if (!late) TCC_TRY(give(v, group, copied_node));
    }
    return TCC_OK;
}

tcc_status tcc_remat_give_groups(const tcc_remat_model *m, const tcc_pass_target *target, const tcc_graph *from,
                                 tcc_node *const *map, tcc_node *const *copies, tcc_graph *to) {
    giver v = {.m = m, .target = target, .from = from, .map = map, .copies = copies, .to = to};
    const tcc_status status = give_all(&v);
    tcc_arena_free(&v.scratch);
    return status;
}
