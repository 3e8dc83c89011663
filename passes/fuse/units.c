/* SPDX-License-Identifier: MIT
 * Units, the groups in the making: the nodes that they own, their drafts, and the readers of their stored values. */
#include "passes/fuse/units.h"

#include "ir/support/alloc.h"
#include "passes/backward.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = TCC_FUSE_NO_UNIT };

/* -- Drafts -- */

void tcc_fuser_push(tcc_fuser *f, tcc_fuse_ids *v, int value) {
    if (!tcc_vec_push(v, value)) f->out_of_memory = true;
}

void tcc_fuser_set_members(tcc_fuser *f, const int *units, int count) {
    f->member_stamp++;
    for (int i = 0; i < count; i++) f->member[units[i]] = f->member_stamp;
}

/* What was asked before is not loaded elsewhere, or the walk would have ended. */
static bool is_loaded_elsewhere(const tcc_fuser *f, int id) {
    f->asked[id] = f->question;
    for (int i = f->first_user[id]; i < f->first_user[id + 1]; i++) {
        int user = f->users[i];
        if (f->home[user] != NONE && !tcc_fuser_is_member(f, f->home[user])) return true;
        if (f->inlined[user] && f->asked[user] != f->question && is_loaded_elsewhere(f, user)) return true;
    }
    return false;
}

/* Whether a unit that is no member evaluates a user of node `id` and so must load it. */
bool tcc_fuser_loaded_elsewhere(tcc_fuser *f, int id) {
    f->question++;
    return is_loaded_elsewhere(f, id);
}

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Adds a list to another one; both ascend, and so does what comes of it. */
static void merge_ascending(tcc_fuser *f, tcc_fuse_ids *to, const tcc_fuse_ids *list) {
    int a = to->count, b = list->count;
    for (int i = 0; i < b && !f->out_of_memory; i++) tcc_fuser_push(f, to, 0);
    if (f->out_of_memory) return;
    while (b > 0) {
        const bool first = a > 0 && to->data[a - 1] > list->data[b - 1];
        to->data[a + b - 1] = first ? to->data[a - 1] : list->data[b - 1];
        if (first) a--;
        else b--;
    }
}

/* Adds to f->again what node `id` reads of inlined nodes. */
static void gather_inlined(tcc_fuser *f, int id, int stamp) {
    const tcc_node *n = f->g->nodes.data[id];
    for (int k = 0; k < n->n_operands; k++) {
        const int operand = n->operands[k]->id;
        if (!f->inlined[operand] || f->mark[operand] == stamp) continue;
        f->mark[operand] = stamp;
        tcc_fuser_push(f, &f->again, operand);
    }
}

/* Puts into f->nodes what the units own, and all that they inline. */
static void gather(tcc_fuser *f, const int *units, int count) {
    const int stamp = ++f->stamp;
    f->nodes.count = f->again.count = 0;
    for (int u = 0; u < count; u++) {
        const tcc_fuse_ids *owned = &f->units.data[units[u]].owned;
        for (int i = 0; i < owned->count; i++) f->mark[owned->data[i]] = stamp;
        merge_ascending(f, &f->nodes, owned);
    }
    for (int i = 0; i < f->nodes.count; i++) gather_inlined(f, f->nodes.data[i], stamp);
    for (int i = 0; i < f->again.count; i++) gather_inlined(f, f->again.data[i], stamp);
    if (f->again.count) qsort(f->again.data, (size_t)f->again.count, sizeof(int), ascending);
    merge_ascending(f, &f->nodes, &f->again);
}

/* The draft of some units together: what of their nodes is needed. It lives in the fuser's buffers until the next one.
 */
tcc_draft tcc_fuser_draft_of(tcc_fuser *f, const int *units, int count) {
    tcc_fuser_set_members(f, units, count);
    gather(f, units, count);
    tcc_draft d = {.nodes = f->draft_nodes, .stored = f->draft_stored};
    int stamp = ++f->stamp; /* marks what is needed */
    int from = f->nodes.count;
    for (int i = f->nodes.count - 1; i >= 0; i--) {
        int id = f->nodes.data[i];
        bool stored = tcc_fuser_is_member(f, f->home[id]) && (f->output[id] || tcc_fuser_loaded_elsewhere(f, id));
        if (!stored && f->mark[id] != stamp) continue;
        tcc_node *n = f->g->nodes.data[id];
        for (int k = 0; k < n->n_operands; k++) f->mark[n->operands[k]->id] = stamp;
        from--;
        f->draft_nodes[from] = n;
        f->draft_stored[from] = stored;
    }
    d.n_nodes = f->nodes.count - from;
    d.nodes += from;
    d.stored += from;
    return d;
}

/* Lists what draft d of the unit loads and stores. */
static void list_edges(tcc_fuser *f, tcc_fuse_unit *unit, const tcc_draft *d) {
    const int stamp = ++f->stamp;
    for (int i = 0; i < d->n_nodes; i++) f->mark[d->nodes[i]->id] = stamp;
    unit->loads.count = unit->stored.count = 0;
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (d->stored[i]) tcc_fuser_push(f, &unit->stored, n->id);
        for (int k = 0; k < n->n_operands; k++) {
            const int id = n->operands[k]->id;
            if (f->mark[id] == stamp || tcc_is_leaf(n->operands[k])) continue;
            f->mark[id] = stamp;
            tcc_fuser_push(f, &unit->loads, id);
        }
    }
    if (unit->loads.count > 1) qsort(unit->loads.data, (size_t)unit->loads.count, sizeof(int), ascending);
}

bool tcc_fuser_refresh(tcc_fuser *f, int u, const char **reason) {
    tcc_fuse_unit *unit = &f->units.data[u];
    tcc_draft d = tcc_fuser_draft_of(f, &u, 1);
    if (f->out_of_memory) return false;
    if (d.n_nodes > 0 && !tcc_draft_check(&d, &f->scratch, reason)) return false;
    list_edges(f, unit, &d);
    tcc__free(unit->draft.nodes);
    tcc__free(unit->draft.stored);
    tcc_node **nodes = tcc__malloc(sizeof *nodes * (size_t)(d.n_nodes + 1));
    bool *stored = tcc__malloc(sizeof *stored * (size_t)(d.n_nodes + 1));
    if (nodes && d.n_nodes) memcpy(nodes, d.nodes, sizeof *nodes * (size_t)d.n_nodes);
    if (stored && d.n_nodes) memcpy(stored, d.stored, sizeof *stored * (size_t)d.n_nodes);
    f->out_of_memory |= !nodes || !stored;
    d.nodes = nodes;
    d.stored = stored;
    unit->draft = d;
    unit->needed = 0;
    unit->concat = false;
    unit->behind = unit->ahead = 0;
    for (int i = 0; i < d.n_nodes && nodes; i++) {
        const int id = nodes[i]->id;
        if (f->home[id] == u) unit->needed++, unit->behind |= f->behind[id], unit->ahead |= f->ahead[id];
        unit->concat |= nodes[i]->op == TCC_OP_CONCAT;
    }
    unit->version++;
    return !f->out_of_memory;
}

/* Adds to f->others the units that load a node for its user, node `user`. */
void tcc_fuser_add_reader(tcc_fuser *f, int user, int u) {
    int reader = f->home[user];
    if (reader != NONE && reader != u && f->unit_mark[reader] != f->unit_stamp) {
        f->unit_mark[reader] = f->unit_stamp;
        tcc_fuser_push(f, &f->others, reader);
    }
    if (!f->inlined[user] || f->told[user] == f->unit_stamp) return;
    f->told[user] = f->unit_stamp;
    tcc_fuser_add_readers(f, user, u);
}

/* Adds to f->others the units that load node `id`, but u itself; f->unit_stamp tells those that are in already. */
void tcc_fuser_add_readers(tcc_fuser *f, int id, int u) {
    for (int i = f->first_user[id]; i < f->first_user[id + 1]; i++) tcc_fuser_add_reader(f, f->users[i], u);
}

void tcc_fuser_give(tcc_fuser *f, int id, int to) {
    if (f->home[id] != NONE) {
        tcc_fuse_ids *owned = &f->units.data[f->home[id]].owned;
        int count = 0;
        for (int i = 0; i < owned->count; i++)
            if (owned->data[i] != id) owned->data[count++] = owned->data[i];
        owned->count = count;
    }
    f->home[id] = to;
    if (to == NONE) return;
    tcc_fuse_ids *owned = &f->units.data[to].owned;
    tcc_fuser_push(f, owned, id);
    if (f->out_of_memory) return;
    for (int i = owned->count - 1; i > 0 && owned->data[i - 1] > id; i--) {
        owned->data[i] = owned->data[i - 1];
        owned->data[i - 1] = id;
    }
}

bool tcc_fuser_too_early(const tcc_fuser *f, int id, int u) {
    if (!f->backward || !(f->g->nodes.data[id]->marks & TCC_MARK_REMAT)) return false;
    const tcc_fuse_ids *owned = &f->units.data[u].owned;
    for (int i = 0; i < owned->count; i++)
        if (!f->backward[owned->data[i]]) return true;
    return false;
}

/* Users of each node, as one list. */
static bool list_users(tcc_fuser *f) {
    const tcc_graph *g = f->g;
    int total = 0;
    f->first_user = tcc__calloc((size_t)g->nodes.count + 2, sizeof(int));
    for (int i = 0; i < g->nodes.count; i++) total += g->nodes.data[i]->n_operands;
    f->users = tcc__malloc(sizeof(int) * (size_t)(total + 1));
    if (!f->first_user || !f->users) return false;
    for (int i = 0; i < g->nodes.count; i++)
        for (int k = 0; k < g->nodes.data[i]->n_operands; k++) f->first_user[g->nodes.data[i]->operands[k]->id + 2]++;
    for (int i = 2; i < g->nodes.count + 2; i++) f->first_user[i] += f->first_user[i - 1];
    for (int i = 0; i < g->nodes.count; i++)
        for (int k = 0; k < g->nodes.data[i]->n_operands; k++)
            f->users[f->first_user[g->nodes.data[i]->operands[k]->id + 1]++] = i;
    return true;
}

/* Arithmetic whose results go into new states of inputs and nowhere else. `result` by node: an output that is none. */
static bool is_update(const tcc_fuser *f, const bool *update, const bool *result, const tcc_node *n) {
    tcc_fusion_class fusion = tcc_fusion_of(n);
    if ((fusion != TCC_FUSION_POINT && fusion != TCC_FUSION_VIEW) || result[n->id]) return false;
    bool any = f->output[n->id];
    for (int i = f->first_user[n->id]; i < f->first_user[n->id + 1]; i++) {
        if (!update[f->users[i]]) return false;
        any = true;
    }
    return any;
}

static bool make_units(tcc_fuser *f) {
    const tcc_graph *g = f->g;
    bool *update = tcc__calloc(2 * (size_t)g->nodes.count + 1, sizeof *update);
    if (!update) return false;
    bool *result = update + g->nodes.count;
    for (int i = 0; i < g->outputs.count; i++) {
        const int id = g->outputs.data[i].node->id;
        f->output[id] = true;
        result[id] |= g->outputs.data[i].alias < 0;
    }
    for (int i = g->nodes.count - 1; i >= 0; i--) update[i] = is_update(f, update, result, g->nodes.data[i]);
    for (int i = 0; i < g->nodes.count; i++) {
        f->home[i] = tcc_is_leaf(g->nodes.data[i]) ? NONE : f->units.count;
        if (f->home[i] == NONE) continue;
        tcc_fuse_unit fresh = {.update = update[i]};
        tcc_fuser_push(f, &fresh.owned, i);
        if (!tcc_vec_push(&f->units, fresh)) {
            tcc_vec_free(&fresh.owned);
            f->out_of_memory = true;
        }
    }
    tcc__free(update);
    for (int u = 0; u < f->units.count && !f->out_of_memory; u++) {
        const char *reason = "";
        if (!tcc_fuser_refresh(f, u, &reason) && !f->out_of_memory)
            TCC_BUG(g->diag, "a node is no group by itself (%s): %s", reason,
                    tcc_node_text(g->nodes.data[f->units.data[u].owned.data[0]]));
    }
    return tcc_fuser_fine(f);
}

bool tcc_fuser_create(tcc_fuser *f, tcc_pass_cx *cx, tcc_graph *g) {
    size_t count = (size_t)g->nodes.count + 1;
    *f = (tcc_fuser){.cx = cx, .g = g};
    f->home = tcc__malloc(sizeof(int) * count);
    f->inlined = tcc__calloc(count, sizeof(bool));
    f->output = tcc__calloc(count, sizeof(bool));
    f->sum_of_products = tcc__calloc(count, sizeof(bool));
    f->mark = tcc__calloc(count, sizeof(int));
    f->asked = tcc__calloc(count, sizeof(int));
    f->told = tcc__calloc(count, sizeof(int));
    f->unit_mark = tcc__calloc(count, sizeof(int));
    f->later_mark = tcc__calloc(count, sizeof(int));
    f->member = tcc__calloc(count, sizeof(int));
    f->draft_nodes = tcc__malloc(sizeof(tcc_node *) * count);
    f->draft_stored = tcc__malloc(sizeof(bool) * count);
    bool again = false;
    for (int i = 0; i < g->nodes.count; i++) again |= (g->nodes.data[i]->marks & TCC_MARK_REMAT) != 0;
    if (again && !(f->backward = tcc_backward_nodes(g))) return false;
    return f->home && f->inlined && f->output && f->sum_of_products && f->mark && f->asked && f->told && f->unit_mark &&
           f->later_mark && f->member && f->draft_nodes && f->draft_stored && list_users(f) && tcc_fuser_set_posts(f) &&
           tcc_draft_scratch_create(g, cx->options, &f->scratch) && make_units(f);
}

void tcc_fuser_destroy(tcc_fuser *f) {
    for (int u = 0; u < f->units.count; u++) {
        tcc_vec_free(&f->units.data[u].owned);
        tcc_vec_free(&f->units.data[u].loads);
        tcc_vec_free(&f->units.data[u].stored);
        tcc__free(f->units.data[u].draft.nodes);
        tcc__free(f->units.data[u].draft.stored);
    }
    tcc_vec_free(&f->units);
    tcc_vec_free(&f->heap);
    tcc_vec_free(&f->nodes);
    tcc_vec_free(&f->again);
    tcc_vec_free(&f->others);
    tcc_vec_free(&f->later);
    tcc_draft_scratch_free(&f->scratch);
    void *const arrays[] = {f->home,   f->inlined,     f->output,       f->first_user,      f->users,
                            f->mark,   f->asked,       f->told,         f->unit_mark,       f->later_mark,
                            f->member, f->draft_nodes, f->draft_stored, f->sum_of_products, f->backward,
                            f->behind, f->ahead};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) tcc__free(arrays[i]);
}
