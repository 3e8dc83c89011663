/* SPDX-License-Identifier: MIT
 * fuse: gathers nodes into groups, one kernel each.
 *
 * A unit is a group in the making: the nodes that it owns. At first every node is a unit of its own. Two kinds of step
 * lower the sum of the costs of all units (cost.c). Each unit stays a legal group (check.c), and no two units
 * wait for each other.
 *
 * - Merging two units (merge.c), where one reads the other or both read the same value. This saves loads, stores
 *   and launches. Sums of products come first (accumulate.c).
 * - Inlining a node (inline.c): no unit owns it any more, and each user evaluates it for itself. So a view is in
 *   memory only if a library or another reader needs it, and cheap work on values that are in memory anyway is
 *   recomputed instead of stored.
 *
 * Steps are taken greedily, the one with the largest gain first. That is the scheme of priority fusion, with two
 * differences: a unit may have several outputs, and the nodes of a unit are inlined one by one. A third kind of step
 * corrects what the greedy order missed: work of a reader moves to the unit that it reads (move.c).
 *
 * Optimizer updates are kept apart from the rest of the step, as one pointwise group a parameter. All of these are
 * alike, so they run as a few multi-tensor kernels, and they may be written over the state that they read. */
#include "ir/build.h"
#include "ir/support/alloc.h"
#include "passes/fuse/units.h"
#include "passes/group.h"
#include "passes/pass.h"

/* Adds a unit as a group of the graph. */
static tcc_status add_group(tcc_fuser *f, int u) {
    const tcc_draft *d = &f->units.data[u].draft;
    tcc_node **outputs = f->draft_nodes;
    const tcc_group *bound = f->units.data[u].bound;
    tcc_group group = {.kind = d->kind, .hero = d->hero, .n_nodes = d->n_nodes, .nodes = d->nodes, .outputs = outputs};
    if (bound) group.implementation = bound->implementation; /* what of it is decided */
    for (int i = 0; i < d->n_nodes; i++)
        if (d->stored[i]) outputs[group.n_outputs++] = d->nodes[i];
    return tcc_ir_group(f->g, &group);
}

/* The round in which unit u is added, by those of the units that it waits for; -1: one of them has none. */
static int round_of(const tcc_fuser *f, const int *rounds, int u) {
    const tcc_fuse_ids *loads = &f->units.data[u].loads;
    int round = 0;
    for (int i = 0; i < loads->count; i++) {
        const int source = tcc_fuser_source(f, loads->data[i]);
        if (source == TCC_FUSE_NO_UNIT || source == u) continue;
        if (rounds[source] < 0) return -1;
        const int after = rounds[source] + (source > u);
        if (after > round) round = after;
    }
    return round;
}

/* Adds the groups so that each comes after those that it reads; otherwise by the first node that each owns: in rounds
 * over all units, each of which adds what waits for nothing else. */
static tcc_status add_groups(tcc_fuser *f) {
    const size_t count = (size_t)f->units.count + 1;
    int *rounds = tcc__malloc(2 * count * sizeof *rounds), *first = tcc__calloc(count + 1, sizeof *first), alive = 0;
    int *sorted = rounds ? rounds + count : NULL; /* by round; equal ones by their number */
    tcc_status status = rounds && first ? TCC_OK : tcc_enomem(f->g->diag);
    for (int u = 0; u < f->units.count && status == TCC_OK; u++) rounds[u] = -1;
    for (int u = f->first_unit; u != TCC_FUSE_NO_UNIT && status == TCC_OK; u = f->units.data[u].after) {
        if (f->units.data[u].dead || !f->units.data[u].draft.n_nodes) continue;
        rounds[u] = round_of(f, rounds, u);
        if (rounds[u] < 0) status = TCC_BUG(f->g->diag, "groups wait for each other");
        else first[rounds[u] + 1]++, alive++;
    }
    for (size_t i = 0; i < count && status == TCC_OK; i++) first[i + 1] += first[i];
    for (int u = 0; u < f->units.count && status == TCC_OK; u++)
        if (rounds[u] >= 0) sorted[first[rounds[u]]++] = u;
    for (int i = 0; i < alive && status == TCC_OK; i++) status = add_group(f, sorted[i]);
    tcc__free(rounds);
    tcc__free(first);
    return status;
}

/* Starting from the given groups, *possible: they are groups as things are. */
static tcc_status fuse_from(tcc_pass_cx *cx, tcc_graph *g, const tcc_fuse_given *given, int count, bool *possible) {
    tcc_fuser f;
    tcc_status status = TCC_OK;
    const bool created = tcc_fuser_create(&f, cx, g);
    *possible = !created || tcc_fuser_take_given(&f, given, count);
    if (created && *possible) {
        tcc_fuser_inline_views(&f);
        tcc_fuser_accumulate(&f);
        tcc_fuser_inline_wanted(&f); /* before units grow to what they cannot take any more */
        tcc_fuser_merge(&f);
        tcc_fuser_inline_arithmetic(&f);
        tcc_fuser_merge(&f);                         /* inlining makes new neighbours */
        if (tcc_fuser_move(&f)) tcc_fuser_merge(&f); /* and so does moving */
        tcc_fuser_log_borders(&f);
        if (tcc_fuser_fine(&f)) status = add_groups(&f);
    } else if (!created) {
        f.out_of_memory = true; /* unless an error was reported */
    }
    tcc_fuser_destroy(&f);
    return g->diag->status != TCC_OK ? g->diag->status : f.out_of_memory ? tcc_enomem(g->diag) : status;
}

/* A graph that came with groups has their sums, in their order, or it is an error: nobody finds other bits. */
static tcc_status fuse_greedily(tcc_pass_cx *cx, tcc_graph *g, const tcc_fuse_given *given, int count) {
    bool possible;
    TCC_TRY(fuse_from(cx, g, given, count, &possible));
    if (possible) return TCC_OK;
    return tcc_error(cx->diag, TCC_EINVAL, TCC_NOWHERE, "a given group is none in this graph");
}

/* Every node a group of its own. */
static tcc_status fuse_nothing(tcc_graph *g) {
    tcc_draft_scratch scratch;
    if (!tcc_draft_scratch_create(g, NULL, &scratch)) return tcc_enomem(g->diag);
    tcc_status status = TCC_OK;
    for (int i = 0; i < g->nodes.count && status == TCC_OK; i++) {
        tcc_node *n = g->nodes.data[i];
        if (tcc_is_leaf(n)) continue;
        bool stored = true;
        const char *reason = "";
        tcc_draft d = {.nodes = &n, .stored = &stored, .n_nodes = 1};
        if (!tcc_draft_check(&d, &scratch, &reason)) {
            status = TCC_BUG(g->diag, "a node is no group by itself (%s): %s", reason, tcc_node_text(n));
            break;
        }
        tcc_group group = {.kind = d.kind, .hero = n, .n_nodes = 1, .n_outputs = 1, .nodes = &n, .outputs = &n};
        status = tcc_ir_group(g, &group);
    }
    tcc_draft_scratch_free(&scratch);
    return status;
}

/* The given groups of the graph, on the nodes of the new one that are left of them; in its arena. */
static tcc_fuse_given *map_given(const tcc_rewrite *rw, int count) {
    const tcc_graph *from = rw->from;
    tcc_arena *arena = &rw->to->arena;
    tcc_fuse_given *given = TCC_ARENA_ARRAY(arena, tcc_fuse_given, count + 1);
    for (int i = 0; given && i < count; i++) {
        const tcc_group *old = &from->groups.data[i];
        tcc_group *group = &given[i].group;
        *group = (tcc_group){.kind = old->kind};
        group->nodes = TCC_ARENA_ARRAY(arena, tcc_node *, old->n_nodes + 1);
        if (!group->nodes) return NULL;
        for (int k = 0; k < old->n_nodes; k++) group->nodes[k] = rw->map[old->nodes[k]->id];
        group->hero = tcc_group_hero_among(old, group->nodes);
        for (int k = 0; k < old->n_nodes; k++)
            if (group->nodes[k]) group->nodes[group->n_nodes++] = group->nodes[k];
        given[i].lost = group->n_nodes < old->n_nodes;
        if (old->implementation) group->implementation = tcc_implementation_copy(arena, old->implementation, rw->map);
        if (!group->implementation != !old->implementation) return NULL;
    }
    return given;
}

static bool is_read(const tcc_graph *g, const tcc_node *input) {
    for (int i = 0; i < g->nodes.count; i++)
        for (int k = 0; k < g->nodes.data[i]->n_operands; k++)
            if (g->nodes.data[i]->operands[k] == input) return true;
    return false;
}

static bool is_copy(const tcc_output *o) { return o->alias < 0 && o->node->op == TCC_OP_INPUT; }

/* An output that is an input, such as a gradient that is that of a sum, is a node of its own where others read the
 * input: then the group that reads it stores it too. Of several such outputs each is a cast of the one before, so that
 * one kernel reads the input and stores them all. Else it is a copy of memory, and needs no kernel. */
static tcc_status store_inputs(tcc_graph *g) {
    const int inputs = g->nodes.count;
    tcc_node **stored = tcc__calloc((size_t)inputs + 1, sizeof *stored); /* by input: what the last output stores */
    int *count = tcc__calloc((size_t)inputs + 1, sizeof *count);         /* of outputs */
    bool fine = stored && count;
    for (int i = 0; i < g->outputs.count && fine; i++)
        if (is_copy(&g->outputs.data[i])) count[g->outputs.data[i].node->id]++;
    for (int i = 0; i < g->outputs.count && fine; i++) {
        tcc_output *o = &g->outputs.data[i];
        tcc_node *input = o->node;
        if (!is_copy(o) || (count[input->id] == 1 && !is_read(g, input))) continue;
        tcc_node **last = &stored[input->id];
        *last = tcc_ir_build(g, TCC_OP_CAST, *last ? last : &input, 1, NULL, &input->type, input->loc);
        o->node = *last;
        fine = *last != NULL;
    }
    tcc__free(stored);
    tcc__free(count);
    return fine ? TCC_OK : g->diag->status == TCC_OK ? tcc_enomem(g->diag) : g->diag->status;
}

tcc_status tcc_pass_fuse(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    tcc_rewrite_copy_live(&rw);
    const int count = in->groups.count && !in->groups.data[0].n_outputs ? in->groups.count : 0;
    const tcc_fuse_given *given = map_given(&rw, count);
    tcc_graph *g;
    if (!given) tcc_rewrite_abort(&rw);
    if (!given) return tcc_enomem(in->diag);
    TCC_TRY(tcc_rewrite_end(&rw, &g));
    const bool eager = cx->options && cx->options->eager;
    tcc_status status = eager ? TCC_OK : store_inputs(g);
    if (status == TCC_OK) status = eager ? fuse_nothing(g) : fuse_greedily(cx, g, given, count);
    if (status != TCC_OK) {
        tcc_graph_destroy(g);
        return status;
    }
    *out = g;
    return TCC_OK;
}
