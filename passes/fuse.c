/* SPDX-License-Identifier: MIT
 * fuse: gathers nodes into groups, one kernel each.
 *
 * A unit is a group in the making: the nodes that it owns. At first every node is a unit of its own. Two kinds of step
 * lower the sum of the costs of all units (fuse_cost.c), as long as each stays a legal group (fuse_check.c) and no two
 * wait for each other:
 * - merging two units, where one reads the other or both read the same: loads, stores and launches fall away;
 * - inlining a node: no unit owns it any more, each user evaluates it for itself. So views never are in memory unless a
 * library or another reader needs it, and cheap work on values that are in memory anyway is done again instead of being
 * stored. Steps are taken greedily, the one that gains most first; that is the scheme of priority fusion, with the two
 * differences that a unit may have several outputs and that the nodes of a unit are inlined one by one. A third kind
 * of step mends what the greedy order left: work of a reader is moved to the unit that it reads (move_work).
 *
 * Optimizer updates are kept apart from the rest of the step: as one pointwise group a parameter, all alike, they run
 * as few multi-tensor kernels, and they may be written over the state that they read. */
#include "ir/support/alloc.h"
#include "passes/fuse.h"
#include "passes/group.h"
#include "passes/pass.h"

#include <stdlib.h>
#include <string.h>

enum {
    NONE = -1,
    MOST_SIBLINGS = 12, /* readers of one tensor that are looked at, on either side */
    MOST_CHAIN = 24,
    LEAST_SHARED = 64,   /* elements that are worth reading together */
    MOST_BETWEEN = 8,    /* units that are merged at once */
    WIDE = 32,           /* operands from which on a concat is a copy: only views go into it. That loses little, for
                          * what is concatenated by dozens is mostly needed elsewhere too; and hundreds of neighbours
                          * that are asked at each step would make compile time quadratic. */
    MOST_SEARCHED = 200, /* units among which those are looked for */
};

typedef tcc_vec(int) int_vec;

typedef struct unit {
    int_vec owned;     /* node ids, ascending */
    tcc_draft draft;   /* of the owned nodes that are needed and what they inline */
    bool dead, update; /* update: of optimizer work */
    int reach;         /* no node of it, nor of a unit that it waits for, has a higher id */
    int version;       /* changes when the unit does */
} unit;

typedef struct candidate {
    double gain;
    int a, b, version_a, version_b;
} candidate;

typedef struct fuser {
    tcc_pass_cx *cx;
    tcc_graph *g;
    int *home;               /* by node: the unit that owns it, or NONE (leaves, inlined nodes) */
    bool *inlined;           /* by node */
    bool *output;            /* by node: an output of the graph */
    int *first_user, *users; /* users of node i: users[first_user[i] .. first_user[i+1]-1] */
    tcc_vec(unit) units;
    tcc_vec(candidate) heap;
    tcc_draft_scratch scratch;
    int *mark, stamp;           /* by node */
    int *member, member_stamp;  /* by unit: those of the draft at hand */
    int *unit_mark, unit_stamp; /* by unit */
    int_vec nodes, others;      /* buffers */
    tcc_node **draft_nodes;
    bool *draft_stored;
    bool out_of_memory;
} fuser;

static void push(fuser *f, int_vec *v, int value) {
    if (!tcc_vec_push(v, value)) f->out_of_memory = true;
}

static bool is_leaf(const tcc_node *n) { return tcc_fusion_of(n) == TCC_FUSION_LEAF; }

/* -- Drafts -- */

/* Names the units that a draft is made of. */
static void set_members(fuser *f, const int *units, int count) {
    f->member_stamp++;
    for (int i = 0; i < count; i++) f->member[units[i]] = f->member_stamp;
}

static bool is_member(const fuser *f, int u) { return u != NONE && f->member[u] == f->member_stamp; }

/* Whether a unit that is no member evaluates a user of node `id` and so must load it. */
static bool loaded_elsewhere(const fuser *f, int id) {
    for (int i = f->first_user[id]; i < f->first_user[id + 1]; i++) {
        int user = f->users[i];
        if (f->home[user] != NONE && !is_member(f, f->home[user])) return true;
        if (f->inlined[user] && loaded_elsewhere(f, user)) return true;
    }
    return false;
}

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Puts into f->nodes what the units own, and all that they inline. */
static void gather(fuser *f, const int *units, int count) {
    int stamp = ++f->stamp;
    f->nodes.count = 0;
    for (int u = 0; u < count; u++) {
        const int_vec *owned = &f->units.data[units[u]].owned;
        for (int i = 0; i < owned->count; i++) {
            f->mark[owned->data[i]] = stamp;
            push(f, &f->nodes, owned->data[i]);
        }
    }
    for (int i = 0; i < f->nodes.count; i++) {
        const tcc_node *n = f->g->nodes.data[f->nodes.data[i]];
        for (int k = 0; k < n->n_operands; k++) {
            int operand = n->operands[k]->id;
            if (!f->inlined[operand] || f->mark[operand] == stamp) continue;
            f->mark[operand] = stamp;
            push(f, &f->nodes, operand);
        }
    }
    if (f->nodes.count) qsort(f->nodes.data, (size_t)f->nodes.count, sizeof(int), ascending);
}

/* The draft of some units together: what of their nodes is needed. It lives in the fuser's buffers until the next one.
 */
static tcc_draft draft_of(fuser *f, const int *units, int count) {
    set_members(f, units, count);
    gather(f, units, count);
    tcc_draft d = {.nodes = f->draft_nodes, .stored = f->draft_stored};
    int stamp = ++f->stamp; /* marks what is needed */
    int from = f->nodes.count;
    for (int i = f->nodes.count - 1; i >= 0; i--) {
        int id = f->nodes.data[i];
        bool stored = is_member(f, f->home[id]) && (f->output[id] || loaded_elsewhere(f, id));
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

/* Recomputes the unit's draft after a change. False: it is no legal group. An empty draft is legal: the unit has
 * nothing to do. */
static bool refresh(fuser *f, int u, const char **reason) {
    unit *unit = &f->units.data[u];
    tcc_draft d = draft_of(f, &u, 1);
    if (f->out_of_memory) return false;
    if (d.n_nodes > 0 && !tcc_draft_check(&d, &f->scratch, reason)) return false;
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
    unit->version++;
    return !f->out_of_memory;
}

/* -- Who reads whom -- */

static void add_readers(fuser *f, int id, int u);

/* Adds to f->others the units that load a node for its user, node `user`. */
static void add_reader(fuser *f, int user, int u) {
    int reader = f->home[user];
    if (reader != NONE && reader != u && f->unit_mark[reader] != f->unit_stamp) {
        f->unit_mark[reader] = f->unit_stamp;
        push(f, &f->others, reader);
    }
    if (f->inlined[user]) add_readers(f, user, u);
}

/* Adds to f->others the units that load node `id`, but u itself; f->unit_stamp tells those that are in already. */
static void add_readers(fuser *f, int id, int u) {
    for (int i = f->first_user[id]; i < f->first_user[id + 1]; i++) add_reader(f, f->users[i], u);
}

/* Those that load node `id` for users next to node `user`: of a tensor that hundreds read, the nearest. */
static void add_siblings(fuser *f, int id, int user, int u) {
    int first = f->first_user[id], end = f->first_user[id + 1], low = first, high = end;
    while (high - low > 1) { /* users ascend */
        int middle = low + (high - low) / 2;
        if (f->users[middle] <= user) low = middle;
        else high = middle;
    }
    if (low - first > MOST_SIBLINGS) first = low - MOST_SIBLINGS;
    if (end - low > MOST_SIBLINGS) end = low + MOST_SIBLINGS;
    for (int i = first; i < end; i++) add_reader(f, f->users[i], u);
}

/* Whether unit u loads what unit `source` stores. */
static bool reads_from(const fuser *f, int u, int source) {
    const tcc_draft *d = &f->units.data[u].draft;
    for (int i = 0; i < d->n_nodes; i++)
        for (int k = 0; k < d->nodes[i]->n_operands; k++) {
            int id = d->nodes[i]->operands[k]->id;
            if (f->home[id] == source && !f->inlined[id]) return true;
        }
    return false;
}

/* Puts into f->others unit `to` and all that it waits for, as far as that may wait for unit `from`; not `from` itself.
 * Whether `to` depends on `from` through a third unit. */
static bool depends(fuser *f, int to, int from) {
    int stamp = ++f->unit_stamp, least = f->units.data[from].owned.data[0];
    bool found = false;
    f->others.count = 0;
    push(f, &f->others, to);
    f->unit_mark[to] = stamp;
    for (int i = 0; i < f->others.count; i++) {
        const tcc_draft *d = &f->units.data[f->others.data[i]].draft;
        for (int n = 0; n < d->n_nodes; n++)
            for (int k = 0; k < d->nodes[n]->n_operands; k++) {
                int id = d->nodes[n]->operands[k]->id, source = f->home[id];
                if (source == NONE || f->inlined[id] || f->unit_mark[source] == stamp) continue;
                if (source == from) {
                    found |= f->others.data[i] != to;
                    continue;
                }
                if (f->units.data[source].reach < least) continue; /* all that it waits for comes before `from` */
                f->unit_mark[source] = stamp;
                push(f, &f->others, source);
            }
    }
    return found;
}

/* After depends(f, to, from) was true: fills `units` with both and all on the ways between them; 0 if these are too
 * many. */
static int units_between(const fuser *f, int to, int from, int *units) {
    int count = 0;
    units[count++] = from;
    for (bool grown = true; grown;) {
        grown = false;
        for (int i = 1; i < f->others.count; i++) {
            int u = f->others.data[i];
            bool listed = false, reads = false;
            for (int k = 0; k < count; k++) {
                listed |= units[k] == u;
                reads |= !listed && reads_from(f, u, units[k]);
            }
            if (listed || !reads) continue;
            if (count == MOST_BETWEEN || f->others.count > MOST_SEARCHED) return 0;
            units[count++] = u;
            grown = true;
        }
    }
    if (count == MOST_BETWEEN) return 0;
    units[count++] = to;
    return count;
}

/* -- Merging -- */

static const char *unit_text(const fuser *f, int u) {
    const tcc_draft *d = &f->units.data[u].draft;
    return d->n_nodes ? tcc_node_text(d->hero) : "nothing";
}

/* Whether one of two update units reads the other, or both read one tensor of their own size: the same parameter's. */
static bool same_parameter(const fuser *f, int a, int b) {
    const tcc_draft *p = &f->units.data[a].draft, *q = &f->units.data[b].draft;
    int64_t size = tcc_type_numel(&p->hero->type);
    for (int i = 0; i < q->n_nodes; i++)
        for (int k = 0; k < q->nodes[i]->n_operands; k++) {
            const tcc_node *x = q->nodes[i]->operands[k];
            if (f->home[x->id] == a && !f->inlined[x->id]) return true;
            if (x->op == TCC_OP_CONSTANT || f->home[x->id] == b || f->inlined[x->id] ||
                tcc_type_numel(&x->type) != size)
                continue;
            for (int j = 0; j < p->n_nodes; j++)
                for (int m = 0; m < p->nodes[j]->n_operands; m++)
                    if (p->nodes[j]->operands[m] == x) return true;
        }
    return false;
}

static bool is_wide_concat(const fuser *f, int u) {
    const tcc_draft *d = &f->units.data[u].draft;
    for (int i = d->n_nodes - 1; i >= 0 && d->kind == TCC_GROUP_POINTWISE; i--)
        if (d->nodes[i]->op == TCC_OP_CONCAT && d->nodes[i]->n_operands >= WIDE) return true;
    return false;
}

/* What merging the units would save; negative when it may not be done, with the reason. */
static double gain_of_merge(fuser *f, const int *units, int count, const char **reason) {
    double cost = 0;
    for (int i = 0; i < count; i++) {
        if (is_wide_concat(f, units[i])) {
            *reason = "a concat of many operands";
            return -1;
        }
        cost += f->units.data[units[i]].draft.cost;
        if (f->units.data[units[i]].update == f->units.data[units[0]].update) continue;
        *reason = "optimizer updates stay apart";
        return -1;
    }
    if (f->units.data[units[0]].update &&
        (count > 2 || (!same_parameter(f, units[0], units[1]) && !same_parameter(f, units[1], units[0])))) {
        *reason = "updates of different parameters";
        return -1;
    }
    tcc_draft d = draft_of(f, units, count);
    if (f->out_of_memory || !tcc_draft_check(&d, &f->scratch, reason)) return -1;
    *reason = "it would cost more";
    return cost - d.cost;
}

static void sift_up(fuser *f, int at) {
    candidate *heap = f->heap.data;
    while (at > 0 && heap[(at - 1) / 2].gain < heap[at].gain) {
        candidate swap = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[at = (at - 1) / 2] = swap;
    }
}

static candidate pop(fuser *f) {
    candidate *heap = f->heap.data, top = heap[0];
    heap[0] = heap[--f->heap.count];
    for (int at = 0;;) {
        int child = 2 * at + 1;
        if (child + 1 < f->heap.count && heap[child + 1].gain > heap[child].gain) child++;
        if (child >= f->heap.count || heap[child].gain <= heap[at].gain) return top;
        candidate swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

static void consider(fuser *f, int a, int b) {
    const char *reason;
    double gain = gain_of_merge(f, (int[]){a, b}, 2, &reason);
    if (gain <= 0) return;
    candidate c = {gain, a, b, f->units.data[a].version, f->units.data[b].version};
    if (!tcc_vec_push(&f->heap, c)) f->out_of_memory = true;
    else sift_up(f, f->heap.count - 1);
}

/* Puts into f->others the units that u reads, that read u, or that read what u reads. */
static void find_neighbours(fuser *f, int u) {
    const tcc_draft *d = &f->units.data[u].draft;
    f->unit_stamp++;
    f->unit_mark[u] = f->unit_stamp;
    f->others.count = 0;
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (d->stored[i]) add_readers(f, n->id, u);
        for (int k = 0; k < n->n_operands; k++) {
            int id = n->operands[k]->id, source = f->home[id];
            if (f->inlined[id] || source == u || n->operands[k]->op == TCC_OP_CONSTANT) continue;
            if (source != NONE && f->unit_mark[source] != f->unit_stamp) {
                f->unit_mark[source] = f->unit_stamp;
                push(f, &f->others, source);
            }
            bool shared = tcc_type_numel(&n->operands[k]->type) >= LEAST_SHARED;
            if (shared && f->others.count < MOST_SIBLINGS) add_siblings(f, id, n->id, u);
        }
    }
}

/* Considers merging u with its neighbours; with `later` set only with those of a higher number, so that all pairs are
 * met once. */
static void consider_neighbours(fuser *f, int u, bool later, int_vec *buffer) {
    find_neighbours(f, u);
    buffer->count = 0;
    for (int i = 0; i < f->others.count; i++) push(f, buffer, f->others.data[i]);
    for (int i = 0; i < buffer->count && !f->out_of_memory; i++)
        if (!later || buffer->data[i] > u) consider(f, u, buffer->data[i]);
}

/* The reach of unit u has grown: so does that of all that wait for it. */
static void raise_reach(fuser *f, int u) {
    int_vec work = {0};
    push(f, &work, u);
    for (int i = 0; i < work.count && !f->out_of_memory; i++) {
        const unit *grown = &f->units.data[work.data[i]];
        f->unit_stamp++;
        f->others.count = 0;
        for (int k = 0; k < grown->owned.count; k++) add_readers(f, grown->owned.data[k], work.data[i]);
        for (int k = 0; k < f->others.count; k++) {
            unit *reader = &f->units.data[f->others.data[k]];
            if (reader->reach >= grown->reach) continue;
            reader->reach = grown->reach;
            push(f, &work, f->others.data[k]);
        }
    }
    tcc_vec_free(&work);
}

/* Makes one unit of several: the first. */
static void merge(fuser *f, const int *units, int count) {
    unit *p = &f->units.data[units[0]];
    for (int u = 1; u < count; u++) {
        unit *q = &f->units.data[units[u]];
        for (int i = 0; i < q->owned.count; i++) {
            f->home[q->owned.data[i]] = units[0];
            push(f, &p->owned, q->owned.data[i]);
        }
        q->owned.count = 0;
        q->dead = true;
        q->version++;
        if (q->reach > p->reach) p->reach = q->reach;
    }
    qsort(p->owned.data, (size_t)p->owned.count, sizeof(int), ascending);
    raise_reach(f, units[0]);
    const char *reason = "";
    if (!refresh(f, units[0], &reason) && !f->out_of_memory)
        TCC_BUG(f->g->diag, "a merge that was legal is not: %s", reason);
}

static bool fine(const fuser *f) { return !f->out_of_memory && f->g->diag->status == TCC_OK; }

/* The units that merging a and b takes: them, and what lies between if one waits for the other through that. 0: not
 * possible. */
static int units_to_merge(fuser *f, int a, int b, int *units) {
    int count = 2;
    units[0] = a;
    units[1] = b;
    if (depends(f, a, b)) count = units_between(f, a, b, units);
    else if (depends(f, b, a)) count = units_between(f, b, a, units);
    const char *reason;
    return count == 2 || (count > 2 && gain_of_merge(f, units, count, &reason) > 0) ? count : 0;
}

static void merge_all(fuser *f) {
    int_vec buffer = {0};
    f->heap.count = 0;
    for (int u = 0; u < f->units.count && fine(f); u++)
        if (!f->units.data[u].dead) consider_neighbours(f, u, true, &buffer);
    while (f->heap.count && fine(f)) {
        candidate c = pop(f);
        const unit *p = &f->units.data[c.a], *q = &f->units.data[c.b];
        if (p->dead || q->dead || p->version != c.version_a || q->version != c.version_b) continue;
        int units[MOST_BETWEEN];
        int count = units_to_merge(f, c.a, c.b, units);
        if (count == 0) continue;
        if (tcc_log_on(f->cx->cx, TCC_LOG_FUSION)) {
            tcc_logf(f->cx->cx, TCC_LOG_FUSION, "merge, saves %.0f bytes%s:", c.gain,
                     count > 2 ? ", with what lies between" : "");
            for (int i = 0; i < count; i++) tcc_logf(f->cx->cx, TCC_LOG_FUSION, "    %s", unit_text(f, units[i]));
        }
        merge(f, units, count);
        if (fine(f)) consider_neighbours(f, units[0], false, &buffer);
    }
    tcc_vec_free(&buffer);
}

/* -- Inlining -- */

/* Collects in `chain` node v and the work before it that its unit does only for it: up to values in memory, reductions
 * and the like. False: too long, or not work that can be done elsewhere. */
static bool find_chain(fuser *f, int v, int u, int_vec *chain) {
    set_members(f, &u, 1);
    chain->count = 0;
    push(f, chain, v);
    for (int i = 0; i < chain->count; i++) {
        const tcc_node *n = f->g->nodes.data[chain->data[i]];
        if (chain->count > MOST_CHAIN) return false;
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *x = n->operands[k];
            tcc_fusion_class fusion = tcc_fusion_of(x);
            bool known = f->output[x->id] || f->home[x->id] != u || loaded_elsewhere(f, x->id);
            if (known || (fusion != TCC_FUSION_POINT && fusion != TCC_FUSION_VIEW)) continue;
            bool listed = false;
            for (int m = 0; m < chain->count; m++) listed |= chain->data[m] == x->id;
            if (!listed) push(f, chain, x->id);
        }
    }
    return true;
}

static void remove_owned(int_vec *owned, int id) {
    int count = 0;
    for (int i = 0; i < owned->count; i++)
        if (owned->data[i] != id) owned->data[count++] = owned->data[i];
    owned->count = count;
}

/* Gives the nodes of `chain` back to unit u, or takes them from it. */
static void set_inlined(fuser *f, const int_vec *chain, int u, bool inlined) {
    unit *p = &f->units.data[u];
    for (int i = 0; i < chain->count; i++) {
        int id = chain->data[i];
        f->inlined[id] = inlined;
        if (inlined && f->output[id]) continue; /* still stored by u, for the graph's sake */
        f->home[id] = inlined ? NONE : u;
        if (inlined) remove_owned(&p->owned, id);
        else {
            remove_owned(&p->owned, id);
            push(f, &p->owned, id);
        }
    }
    if (!inlined) qsort(p->owned.data, (size_t)p->owned.count, sizeof(int), ascending);
}

/* The sum of costs of unit u and the units in `readers`, each as it would be now; negative if one is no legal group. */
static double cost_of(fuser *f, int u, const int_vec *readers, const char **reason) {
    double cost = 0;
    for (int i = -1; i < readers->count; i++) {
        int at = i < 0 ? u : readers->data[i];
        tcc_draft d = draft_of(f, &at, 1);
        if (d.n_nodes == 0) continue;
        if (f->out_of_memory || !tcc_draft_check(&d, &f->scratch, reason)) return -1;
        cost += d.cost;
    }
    return cost;
}

/* Lets all readers of v evaluate it (and what `chain` holds) for themselves, if that costs less. */
static bool try_inline(fuser *f, int v, const int_vec *chain, int_vec *readers) {
    int u = f->home[v];
    const char *reason = "";
    f->unit_stamp++;
    f->others.count = 0;
    add_readers(f, v, u);
    readers->count = 0;
    for (int i = 0; i < f->others.count; i++) push(f, readers, f->others.data[i]);
    if (readers->count == 0) return false;
    for (int i = 0; i < readers->count; i++)
        if (f->units.data[readers->data[i]].update != f->units.data[u].update &&
            tcc_op_cost(f->g->nodes.data[v]->op) > 0)
            return false;
    double before = f->units.data[u].draft.n_nodes ? f->units.data[u].draft.cost : 0;
    for (int i = 0; i < readers->count; i++) before += f->units.data[readers->data[i]].draft.cost;
    set_inlined(f, chain, u, true);
    double after = cost_of(f, u, readers, &reason);
    bool log = tcc_log_on(f->cx->cx, TCC_LOG_FUSION);
    if (!fine(f)) return false;
    if (after < 0 || after > before) {
        if (log)
            tcc_logf(f->cx->cx, TCC_LOG_FUSION, "keep %s: %s", tcc_node_text(f->g->nodes.data[v]),
                     after < 0 ? reason : "evaluating it again would cost more");
        set_inlined(f, chain, u, false);
        return false;
    }
    if (log)
        tcc_logf(f->cx->cx, TCC_LOG_FUSION, "inline in %d readers, saves %.0f bytes: %s", readers->count,
                 before - after, tcc_node_text(f->g->nodes.data[v]));
    refresh(f, u, &reason);
    for (int i = 0; i < readers->count && fine(f); i++) refresh(f, readers->data[i], &reason);
    if (f->units.data[u].draft.n_nodes == 0) f->units.data[u].dead = true;
    return true;
}

/* Views and iota, which cost nothing to evaluate anywhere. */
static void inline_views(fuser *f) {
    int_vec chain = {0}, readers = {0};
    for (int v = 0; v < f->g->nodes.count && fine(f); v++) {
        const tcc_node *n = f->g->nodes.data[v];
        if (f->home[v] == NONE || (tcc_fusion_of(n) != TCC_FUSION_VIEW && n->op != TCC_OP_IOTA)) continue;
        chain.count = 0;
        push(f, &chain, v);
        try_inline(f, v, &chain, &readers);
    }
    tcc_vec_free(&chain);
    tcc_vec_free(&readers);
}

/* Stored arithmetic that its readers can do again from what is in memory. Users come first: a value that they have
 * stopped loading need not be kept for them. */
static void inline_arithmetic(fuser *f) {
    int_vec chain = {0}, readers = {0};
    for (int v = f->g->nodes.count - 1; v >= 0 && fine(f); v--) {
        const tcc_node *n = f->g->nodes.data[v];
        tcc_fusion_class fusion = tcc_fusion_of(n);
        int u = f->home[v];
        if (u == NONE || f->inlined[v] || (fusion != TCC_FUSION_POINT && fusion != TCC_FUSION_VIEW)) continue;
        set_members(f, &u, 1);
        if (f->output[v] || !loaded_elsewhere(f, v)) continue;
        if (find_chain(f, v, u, &chain)) try_inline(f, v, &chain, &readers);
    }
    tcc_vec_free(&chain);
    tcc_vec_free(&readers);
}

/* -- Moving -- */

/* Whether node `id` is a leaf, or has unit `source` to store it, or is marked by f->stamp, or is inlined work on such;
 * *reads: it is no leaf alone. */
static bool comes_from(const fuser *f, int id, int source, bool *reads) {
    const tcc_node *n = f->g->nodes.data[id];
    bool marked = f->mark[id] == f->stamp, stored = !f->inlined[id] && f->home[id] == source;
    *reads |= marked || stored;
    if (marked || stored || is_leaf(n)) return true;
    if (!f->inlined[id]) return false;
    for (int k = 0; k < n->n_operands; k++)
        if (!comes_from(f, n->operands[k]->id, source, reads)) return false;
    return true;
}

/* Puts into `chain` the arithmetic of unit u that reads nothing but leaves and what unit `source` stores. */
static void find_movable(fuser *f, int u, int source, int_vec *chain) {
    const int_vec *owned = &f->units.data[u].owned;
    f->stamp++;
    chain->count = 0;
    for (int i = 0; i < owned->count; i++) {
        const tcc_node *n = f->g->nodes.data[owned->data[i]];
        tcc_fusion_class fusion = tcc_fusion_of(n);
        bool reads = false, movable = (fusion == TCC_FUSION_POINT || fusion == TCC_FUSION_VIEW) && !f->output[n->id];
        for (int k = 0; k < n->n_operands && movable; k++) movable = comes_from(f, n->operands[k]->id, source, &reads);
        if (!movable || !reads) continue;
        f->mark[n->id] = f->stamp;
        push(f, chain, n->id);
    }
}

static int64_t stored_bytes(const tcc_draft *d) {
    int64_t bytes = 0;
    for (int i = 0; i < d->n_nodes; i++)
        if (d->stored[i]) bytes += tcc_type_bytes(&d->nodes[i]->type);
    return bytes;
}

static void set_home(fuser *f, const int_vec *chain, int from, int to) {
    int_vec *owned = &f->units.data[to].owned;
    for (int i = 0; i < chain->count; i++) {
        f->home[chain->data[i]] = to;
        remove_owned(&f->units.data[from].owned, chain->data[i]);
        push(f, owned, chain->data[i]);
    }
    qsort(owned->data, (size_t)owned->count, sizeof(int), ascending);
}

/* Lets unit `source` do the work of `chain`, which is unit u's, if that costs less and stores no more. */
static bool try_move(fuser *f, const int_vec *chain, int u, int source) {
    const unit *from = &f->units.data[u], *to = &f->units.data[source];
    if (chain->count == 0 || chain->count == from->owned.count || from->update != to->update) return false;
    const double before = from->draft.cost + to->draft.cost;
    const int64_t bytes = stored_bytes(&to->draft);
    const char *reason = "";
    set_home(f, chain, u, source);
    tcc_draft d = draft_of(f, &source, 1);
    bool gains = !f->out_of_memory && tcc_draft_check(&d, &f->scratch, &reason) && stored_bytes(&d) <= bytes;
    double after = d.cost;
    if (gains) {
        d = draft_of(f, &u, 1);
        gains = d.n_nodes > 0 && !f->out_of_memory && tcc_draft_check(&d, &f->scratch, &reason) &&
                after + d.cost < before;
        after += d.cost;
    }
    if (!gains) {
        set_home(f, chain, source, u);
        return false;
    }
    if (tcc_log_on(f->cx->cx, TCC_LOG_FUSION))
        tcc_logf(f->cx->cx, TCC_LOG_FUSION, "move, saves %.0f bytes: %s", before - after,
                 tcc_node_text(f->g->nodes.data[chain->data[chain->count - 1]]));
    unit *grown = &f->units.data[source];
    if (grown->reach < chain->data[chain->count - 1]) grown->reach = chain->data[chain->count - 1];
    raise_reach(f, source);
    refresh(f, source, &reason);
    refresh(f, u, &reason);
    return true;
}

/* Work on what one unit stores is done there if less is stored or loaded then: several values that a reader would put
 * together become the one that it makes of them. Which of two units has such work is else a matter of the order in
 * which they were merged. */
static void move_work(fuser *f) {
    int_vec chain = {0}, sources = {0};
    for (int u = 0; u < f->units.count && fine(f); u++) {
        if (f->units.data[u].dead) continue;
        const tcc_draft *d = &f->units.data[u].draft;
        const int stamp = ++f->unit_stamp;
        sources.count = 0;
        for (int i = 0; i < d->n_nodes; i++)
            for (int k = 0; k < d->nodes[i]->n_operands; k++) {
                int id = d->nodes[i]->operands[k]->id, source = f->home[id];
                if (source == NONE || source == u || f->inlined[id] || f->unit_mark[source] == stamp) continue;
                f->unit_mark[source] = stamp;
                push(f, &sources, source);
            }
        for (int i = 0; i < sources.count && fine(f); i++) {
            find_movable(f, u, sources.data[i], &chain);
            try_move(f, &chain, u, sources.data[i]);
        }
    }
    tcc_vec_free(&chain);
    tcc_vec_free(&sources);
}

/* -- Setting up, and the result -- */

/* Users of each node, as one list. */
static bool list_users(fuser *f) {
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

/* Arithmetic whose results go into new states of inputs and nowhere else. */
static bool is_update(const fuser *f, const bool *update, const tcc_node *n) {
    tcc_fusion_class fusion = tcc_fusion_of(n);
    if (fusion != TCC_FUSION_POINT && fusion != TCC_FUSION_VIEW) return false;
    bool any = false;
    for (int i = 0; i < f->g->outputs.count; i++) {
        if (f->g->outputs.data[i].node != n) continue;
        if (f->g->outputs.data[i].alias < 0) return false;
        any = true;
    }
    for (int i = f->first_user[n->id]; i < f->first_user[n->id + 1]; i++) {
        if (!update[f->users[i]]) return false;
        any = true;
    }
    return any;
}

static bool make_units(fuser *f) {
    const tcc_graph *g = f->g;
    bool *update = tcc__calloc((size_t)g->nodes.count + 1, sizeof *update);
    if (!update) return false;
    for (int i = g->nodes.count - 1; i >= 0; i--) update[i] = is_update(f, update, g->nodes.data[i]);
    for (int i = 0; i < g->outputs.count; i++) f->output[g->outputs.data[i].node->id] = true;
    for (int i = 0; i < g->nodes.count; i++) {
        f->home[i] = is_leaf(g->nodes.data[i]) ? NONE : f->units.count;
        if (f->home[i] == NONE) continue;
        unit fresh = {.update = update[i], .reach = i};
        push(f, &fresh.owned, i);
        if (!tcc_vec_push(&f->units, fresh)) {
            tcc_vec_free(&fresh.owned);
            f->out_of_memory = true;
        }
    }
    tcc__free(update);
    for (int u = 0; u < f->units.count && !f->out_of_memory; u++) {
        const char *reason = "";
        if (!refresh(f, u, &reason) && !f->out_of_memory)
            TCC_BUG(g->diag, "a node is no group by itself (%s): %s", reason,
                    tcc_node_text(g->nodes.data[f->units.data[u].owned.data[0]]));
    }
    return fine(f);
}

static bool create(fuser *f, tcc_pass_cx *cx, tcc_graph *g) {
    size_t count = (size_t)g->nodes.count + 1;
    *f = (fuser){.cx = cx, .g = g};
    f->home = tcc__malloc(sizeof(int) * count);
    f->inlined = tcc__calloc(count, sizeof(bool));
    f->output = tcc__calloc(count, sizeof(bool));
    f->mark = tcc__calloc(count, sizeof(int));
    f->unit_mark = tcc__calloc(count, sizeof(int));
    f->member = tcc__calloc(count, sizeof(int));
    f->draft_nodes = tcc__malloc(sizeof(tcc_node *) * count);
    f->draft_stored = tcc__malloc(sizeof(bool) * count);
    return f->home && f->inlined && f->output && f->mark && f->unit_mark && f->member && f->draft_nodes &&
           f->draft_stored && list_users(f) && tcc_draft_scratch_create(g, cx->options, &f->scratch) == TCC_OK &&
           make_units(f);
}

static void destroy(fuser *f) {
    for (int u = 0; u < f->units.count; u++) {
        tcc_vec_free(&f->units.data[u].owned);
        tcc__free(f->units.data[u].draft.nodes);
        tcc__free(f->units.data[u].draft.stored);
    }
    tcc_vec_free(&f->units);
    tcc_vec_free(&f->heap);
    tcc_vec_free(&f->nodes);
    tcc_vec_free(&f->others);
    tcc_draft_scratch_free(&f->scratch);
    void *const arrays[] = {f->home, f->inlined,   f->output, f->first_user,  f->users,
                            f->mark, f->unit_mark, f->member, f->draft_nodes, f->draft_stored};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) tcc__free(arrays[i]);
}

/* Adds a unit as a group of the graph. */
static tcc_status add_group(fuser *f, int u) {
    const tcc_draft *d = &f->units.data[u].draft;
    tcc_node **outputs = f->draft_nodes;
    tcc_group group = {.kind = d->kind, .hero = d->hero, .n_nodes = d->n_nodes, .nodes = d->nodes, .outputs = outputs};
    for (int i = 0; i < d->n_nodes; i++)
        if (d->stored[i]) outputs[group.n_outputs++] = d->nodes[i];
    return tcc_ir_group(f->g, &group);
}

/* The groups in an order in which each comes after those that it reads: by the first node that each owns, as far as
 * that goes. */
static tcc_status add_groups(fuser *f) {
    int added = 0, alive = 0;
    bool *done = tcc__calloc((size_t)f->units.count + 1, sizeof *done);
    if (!done) return tcc_enomem(f->g->diag);
    for (int u = 0; u < f->units.count; u++)
        alive += !(done[u] = f->units.data[u].dead || f->units.data[u].draft.n_nodes == 0);
    tcc_status status = TCC_OK;
    for (bool progress = true; progress && added < alive && status == TCC_OK;) {
        progress = false;
        for (int u = 0; u < f->units.count && status == TCC_OK; u++) {
            if (done[u]) continue;
            const tcc_draft *d = &f->units.data[u].draft;
            bool ready = true;
            for (int i = 0; i < d->n_nodes && ready; i++)
                for (int k = 0; k < d->nodes[i]->n_operands && ready; k++) {
                    int id = d->nodes[i]->operands[k]->id, source = f->home[id];
                    ready = source == NONE || source == u || f->inlined[id] || done[source];
                }
            if (!ready) continue;
            status = add_group(f, u);
            done[u] = progress = true;
            added++;
        }
    }
    tcc__free(done);
    if (status == TCC_OK && added < alive) return TCC_BUG(f->g->diag, "%d groups wait for each other", alive - added);
    return status;
}

/* Why units that read one another were not merged. */
static void log_borders(fuser *f) {
    if (!tcc_log_on(f->cx->cx, TCC_LOG_FUSION)) return;
    for (int u = 0; u < f->units.count; u++) {
        if (f->units.data[u].dead) continue;
        const tcc_draft *d = &f->units.data[u].draft;
        f->unit_stamp++;
        f->others.count = 0;
        for (int i = 0; i < d->n_nodes; i++)
            if (d->stored[i]) add_readers(f, d->nodes[i]->id, u);
        int_vec readers = {0};
        for (int i = 0; i < f->others.count; i++) push(f, &readers, f->others.data[i]);
        for (int i = 0; i < readers.count; i++) {
            const char *reason;
            double gain = gain_of_merge(f, (int[]){u, readers.data[i]}, 2, &reason);
            if (gain > 0) reason = "they would wait for each other";
            tcc_logf(f->cx->cx, TCC_LOG_FUSION, "apart, %s:", reason);
            tcc_logf(f->cx->cx, TCC_LOG_FUSION, "    %s", unit_text(f, u));
            tcc_logf(f->cx->cx, TCC_LOG_FUSION, "    %s", unit_text(f, readers.data[i]));
        }
        tcc_vec_free(&readers);
    }
}

static tcc_status fuse_greedily(tcc_pass_cx *cx, tcc_graph *g) {
    fuser f;
    tcc_status status = TCC_OK;
    if (create(&f, cx, g)) {
        inline_views(&f);
        merge_all(&f);
        inline_arithmetic(&f);
        merge_all(&f); /* inlining makes new neighbours */
        move_work(&f);
        log_borders(&f);
        if (fine(&f)) status = add_groups(&f);
    } else {
        f.out_of_memory = true; /* unless an error was reported */
    }
    destroy(&f);
    return g->diag->status != TCC_OK ? g->diag->status : f.out_of_memory ? tcc_enomem(g->diag) : status;
}

/* Every node a group of its own. */
static tcc_status fuse_nothing(tcc_graph *g) {
    tcc_draft_scratch scratch;
    TCC_TRY(tcc_draft_scratch_create(g, NULL, &scratch));
    tcc_status status = TCC_OK;
    for (int i = 0; i < g->nodes.count && status == TCC_OK; i++) {
        tcc_node *n = g->nodes.data[i];
        if (is_leaf(n)) continue;
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

tcc_status tcc_pass_fuse(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    for (int i = 0; i < in->nodes.count; i++)
        if (rw.live[i] && !rw.map[i]) tcc_rewrite_copy(&rw, in->nodes.data[i]);
    tcc_graph *g;
    TCC_TRY(tcc_rewrite_end(&rw, &g));
    tcc_status status = cx->options && cx->options->eager ? fuse_nothing(g) : fuse_greedily(cx, g);
    if (status != TCC_OK) {
        tcc_graph_destroy(g);
        return status;
    }
    *out = g;
    return TCC_OK;
}
