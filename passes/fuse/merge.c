/* SPDX-License-Identifier: MIT
 * Merging units, the pair with the largest gain first. */
#include "ir/support/alloc.h"
#include "passes/fuse/draft.h"
#include "passes/fuse/units.h"

enum {
    NONE = TCC_FUSE_NO_UNIT,
    MOST_SIBLINGS = 12,   /* readers of one tensor that are looked at, on either side */
    LEAST_SHARED = 64,    /* elements that are worth reading together */
    MOST_BETWEEN = 8,     /* units that are merged at once */
    MUCH_BYTES = 1 << 20, /* from which on memory counts more than a launch */
    WIDE = 32,            /* operands from which on a concat is a copy: only views go into it. That loses little, for
                          * what is concatenated by dozens is mostly needed elsewhere too; and hundreds of neighbours
                          * that are asked at each step would make compile time quadratic. */
};

/* Those that load node `id` for users next to node `user`: of a tensor that hundreds read, the nearest. Of the users of
 * one that is inlined, those next to node `near`. */
static void add_siblings(tcc_fuser *f, int id, int user, int near, int u) {
    int first = f->first_user[id], end = f->first_user[id + 1], low = first, high = end;
    while (high - low > 1) { /* users ascend */
        int middle = low + (high - low) / 2;
        if (f->users[middle] <= user) low = middle;
        else high = middle;
    }
    if (low - first > MOST_SIBLINGS) first = low - MOST_SIBLINGS;
    if (end - low > MOST_SIBLINGS) end = low + MOST_SIBLINGS;
    for (int i = first; i < end; i++) {
        const int reader = f->users[i];
        if (!f->inlined[reader]) {
            tcc_fuser_add_reader(f, reader, u);
        } else if (f->told[reader] != f->unit_stamp && f->asked[reader] != f->question) {
            f->asked[reader] = f->question;
            add_siblings(f, reader, near, near, u);
        }
    }
}

/* Whether unit u loads what unit `source` stores. */
static bool reads_from(const tcc_fuser *f, int u, int source) {
    const tcc_fuse_ids *loads = &f->units.data[u].loads;
    for (int i = 0; i < loads->count; i++)
        if (tcc_fuser_source(f, loads->data[i]) == source) return true;
    return false;
}

/* Whether unit u loads what a member stores. */
static bool reads_member(const tcc_fuser *f, int u) {
    const tcc_fuse_ids *loads = &f->units.data[u].loads;
    for (int i = 0; i < loads->count; i++)
        if (tcc_fuser_is_member(f, tcc_fuser_source(f, loads->data[i]))) return true;
    return false;
}

/* After tcc_fuser_depends(f, to, from) was true: fills `units` with both and all on the ways between them; 0 if these
 * are too many. Those found last stand nearest to `from`. */
static int units_between(tcc_fuser *f, int to, int from, int *units) {
    int count = 0;
    units[count++] = from;
    if (f->others.count > TCC_FUSE_MOST_SEARCHED) return 0;
    tcc_fuser_set_members(f, units, 1);
    for (bool grown = true; grown;) {
        grown = false;
        for (int i = f->others.count - 1; i >= 1; i--) {
            const int u = f->others.data[i];
            if (tcc_fuser_is_member(f, u) || !reads_member(f, u)) continue;
            if (count == MOST_BETWEEN) return 0;
            f->member[u] = f->member_stamp;
            units[count++] = u;
            grown = true;
        }
    }
    if (count == MOST_BETWEEN) return 0;
    units[count++] = to;
    return count;
}

static const char *unit_text(const tcc_fuser *f, int u) {
    const tcc_draft *d = &f->units.data[u].draft;
    return d->n_nodes ? tcc_node_text(d->hero) : "nothing";
}

/* Whether one of two update units reads the other, or both read one tensor of their own size: the same parameter's. */
static bool same_parameter(const tcc_fuser *f, int a, int b) {
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

static bool is_wide_concat(const tcc_fuser *f, int u) {
    const tcc_draft *d = &f->units.data[u].draft;
    for (int i = d->n_nodes - 1; i >= 0 && f->units.data[u].concat && d->kind == TCC_GROUP_POINTWISE; i--)
        if (d->nodes[i]->op == TCC_OP_CONCAT && d->nodes[i]->n_operands >= WIDE) return true;
    return false;
}

/* Bytes that unit u loads of what others store: those that unit `other` does not load, and those that it does too. */
static void count_loads(tcc_fuser *f, int u, int other, int64_t *own, int64_t *shared) {
    const tcc_draft *d = &f->units.data[u].draft;
    const int stamp = ++f->stamp;
    *own = *shared = 0;
    for (int i = 0; i < d->n_nodes; i++)
        for (int k = 0; k < d->nodes[i]->n_operands; k++) {
            const tcc_node *x = d->nodes[i]->operands[k];
            if (f->home[x->id] == NONE || f->home[x->id] == u || f->mark[x->id] == stamp) continue;
            f->mark[x->id] = stamp;
            *(tcc_draft_reads(&f->units.data[other].draft, x) ? shared : own) += tcc_type_bytes(&x->type);
        }
}

/* Two units of which neither reads the other, which load much each by itself, and less together. As one they would keep
 * all of that alive at once: the logits of two chunks of rows. */
static bool better_apart(tcc_fuser *f, int a, int b) {
    int64_t of_a, of_b, shared;
    if (reads_from(f, a, b) || reads_from(f, b, a)) return false;
    count_loads(f, a, b, &of_a, &shared);
    count_loads(f, b, a, &of_b, &shared);
    const int64_t own = of_a < of_b ? of_a : of_b;
    return own >= MUCH_BYTES && own > shared;
}

/* Whether one of the units computes a value again and another one is early. */
static bool too_early(const tcc_fuser *f, const int *units, int count) {
    for (int i = 0; f->backward && i < count; i++) {
        const tcc_fuse_ids *owned = &f->units.data[units[i]].owned;
        for (int n = 0; n < owned->count; n++)
            for (int k = 0; k < count; k++)
                if (k != i && tcc_fuser_too_early(f, owned->data[n], units[k])) return true;
    }
    return false;
}

/* What merging the units would save; negative when it may not be done, with the reason. */
static double gain_of_merge(tcc_fuser *f, const int *units, int count, const char **reason) {
    double cost = 0;
    int needed = 0;
    bool concat = false;
    for (int i = 0; i < count; i++) {
        needed += f->units.data[units[i]].needed;
        concat |= f->units.data[units[i]].concat;
        if (is_wide_concat(f, units[i])) {
            *reason = "a concat of many operands";
            return -1;
        }
        cost += f->units.data[units[i]].draft.cost;
        if (f->units.data[units[i]].update == f->units.data[units[0]].update) continue;
        *reason = "optimizer updates stay apart";
        return -1;
    }
    if (needed > TCC_FUSE_MAX_NODES && !concat) { /* what tcc_draft_check would find out, slowly */
        *reason = "too many nodes";
        return -1;
    }
    if (f->units.data[units[0]].update &&
        (count > 2 || (!same_parameter(f, units[0], units[1]) && !same_parameter(f, units[1], units[0])))) {
        *reason = "updates of different parameters";
        return -1;
    }
    if (too_early(f, units, count)) {
        *reason = "a value that is computed again for the backward pass waits for it";
        return -1;
    }
    tcc_draft d = tcc_fuser_draft_of(f, units, count);
    if (f->out_of_memory || !tcc_draft_check(&d, &f->scratch, reason)) return -1;
    *reason = "it would cost more";
    const double gain = cost - d.cost;
    if (gain <= 0) return gain;
    if (count == 2 && better_apart(f, units[0], units[1])) {
        *reason = "together they would keep the inputs of both alive";
        return -1;
    }
    return tcc_fuser_takes(f, units, count, &d, reason) ? gain : -1;
}

static void sift_up(tcc_fuser *f, int at) {
    tcc_fuse_candidate *heap = f->heap.data;
    while (at > 0 && heap[(at - 1) / 2].gain < heap[at].gain) {
        tcc_fuse_candidate swap = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[at = (at - 1) / 2] = swap;
    }
}

static tcc_fuse_candidate pop(tcc_fuser *f) {
    tcc_fuse_candidate *heap = f->heap.data, top = heap[0];
    heap[0] = heap[--f->heap.count];
    for (int at = 0;;) {
        int child = 2 * at + 1;
        if (child + 1 < f->heap.count && heap[child + 1].gain > heap[child].gain) child++;
        if (child >= f->heap.count || heap[child].gain <= heap[at].gain) return top;
        tcc_fuse_candidate swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

static void consider(tcc_fuser *f, int a, int b) {
    const char *reason;
    double gain = gain_of_merge(f, (int[]){a, b}, 2, &reason);
    if (gain <= 0) return;
    tcc_fuse_candidate c = {gain, a, b, f->units.data[a].version, f->units.data[b].version};
    if (!tcc_vec_push(&f->heap, c)) f->out_of_memory = true;
    else sift_up(f, f->heap.count - 1);
}

/* Puts into f->others the units that u reads, that read u, or that read what u reads. */
static void find_neighbours(tcc_fuser *f, int u) {
    const tcc_draft *d = &f->units.data[u].draft;
    f->unit_stamp++;
    f->unit_mark[u] = f->unit_stamp;
    f->others.count = 0;
    f->question++;
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (d->stored[i]) tcc_fuser_add_readers(f, n->id, u);
        for (int k = 0; k < n->n_operands; k++) {
            int id = n->operands[k]->id, source = f->home[id];
            if (f->inlined[id] || source == u || n->operands[k]->op == TCC_OP_CONSTANT) continue;
            if (source != NONE && f->unit_mark[source] != f->unit_stamp) {
                f->unit_mark[source] = f->unit_stamp;
                tcc_fuser_push(f, &f->others, source);
            }
            bool shared = tcc_type_numel(&n->operands[k]->type) >= LEAST_SHARED;
            if (shared && f->others.count < MOST_SIBLINGS) add_siblings(f, id, n->id, d->nodes[d->n_nodes - 1]->id, u);
        }
    }
}

/* Considers merging u with its neighbours; with `later` only with those of a higher number, so that each pair is
 * considered once. */
static void consider_neighbours(tcc_fuser *f, int u, bool later, tcc_fuse_ids *buffer) {
    find_neighbours(f, u);
    buffer->count = 0;
    for (int i = 0; i < f->others.count; i++) tcc_fuser_push(f, buffer, f->others.data[i]);
    for (int i = 0; i < buffer->count && !f->out_of_memory; i++)
        if (!later || buffer->data[i] > u) consider(f, u, buffer->data[i]);
}

/* Makes one unit of several: the first. */
static void merge(tcc_fuser *f, const int *units, int count) {
    tcc_fuse_unit *p = &f->units.data[units[0]];
    tcc_fuser_order_merged(f, units, count);
    for (int u = 1; u < count; u++) {
        tcc_fuse_unit *q = &f->units.data[units[u]];
        while (q->owned.count) tcc_fuser_give(f, q->owned.data[q->owned.count - 1], units[0]);
        q->dead = true;
        q->version++;
        if (q->bound) p->bound = q->bound;
    }
    const char *reason = "";
    if (!tcc_fuser_refresh(f, units[0], &reason) && !f->out_of_memory)
        TCC_BUG(f->g->diag, "a merge that was legal is not: %s", reason);
}

/* The units that merging a and b involves: both, and the units between them if one waits for the other through those.
 * 0: not possible. What one loads of the other does not wait for it. */
static int units_to_merge(tcc_fuser *f, int a, int b, int *units) {
    int count = 2;
    units[0] = a;
    units[1] = b;
    if (!reads_from(f, b, a) && tcc_fuser_depends(f, a, b)) count = units_between(f, a, b, units);
    else if (!reads_from(f, a, b) && tcc_fuser_depends(f, b, a)) count = units_between(f, b, a, units);
    const char *reason;
    return count == 2 || (count > 2 && gain_of_merge(f, units, count, &reason) > 0) ? count : 0;
}

bool tcc_fuser_try_merge(tcc_fuser *f, const int *units, int count) {
    const char *reason;
    const double gain = gain_of_merge(f, units, count, &reason);
    if (gain <= 0) return false;
    tcc_logf(f->cx->cx, TCC_LOG_FUSION, "sum of products, saves %.0f bytes:", gain);
    for (int i = 0; i < count; i++) tcc_logf(f->cx->cx, TCC_LOG_FUSION, "    %s", unit_text(f, units[i]));
    merge(f, units, count);
    return tcc_fuser_fine(f);
}

void tcc_fuser_merge(tcc_fuser *f) {
    tcc_fuse_ids buffer = {0};
    f->heap.count = 0;
    for (int u = 0; u < f->units.count && tcc_fuser_fine(f); u++)
        if (!f->units.data[u].dead) consider_neighbours(f, u, true, &buffer);
    while (f->heap.count && tcc_fuser_fine(f)) {
        tcc_fuse_candidate c = pop(f);
        const tcc_fuse_unit *p = &f->units.data[c.a], *q = &f->units.data[c.b];
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
        if (tcc_fuser_fine(f)) consider_neighbours(f, units[0], false, &buffer);
    }
    tcc_vec_free(&buffer);
}

/* Why units that read one another were not merged. */
void tcc_fuser_log_borders(tcc_fuser *f) {
    if (!tcc_log_on(f->cx->cx, TCC_LOG_FUSION)) return;
    for (int u = 0; u < f->units.count; u++) {
        if (f->units.data[u].dead) continue;
        const tcc_draft *d = &f->units.data[u].draft;
        f->unit_stamp++;
        f->others.count = 0;
        for (int i = 0; i < d->n_nodes; i++)
            if (d->stored[i]) tcc_fuser_add_readers(f, d->nodes[i]->id, u);
        tcc_fuse_ids readers = {0};
        for (int i = 0; i < f->others.count; i++) tcc_fuser_push(f, &readers, f->others.data[i]);
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
