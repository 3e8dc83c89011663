/* SPDX-License-Identifier: MIT
 * Inlining: each reader evaluates a node itself, so the node need not be stored. */
#include "passes/fuse/units.h"

#include <math.h>
#include <string.h>

enum { NONE = TCC_FUSE_NO_UNIT, MOST_CHAIN = 24 };

/* x, or what it is made of by work that each reader does for itself already, as a view is. */
static const tcc_node *behind_inlined(const tcc_fuser *f, const tcc_node *x) {
    while (f->inlined[x->id] && x->n_operands == 1) x = x->operands[0];
    return x;
}

/* Collects in `chain` node v and the work before it that its unit does for it alone, up to values in memory, reductions
 * and the like. far: also what lies behind views that are inlined already, but no value of much fewer elements than v,
 * as a row's deviation is: that is stored. False: it is too long, or it cannot be done elsewhere. */
static bool find_chain(tcc_fuser *f, int v, int u, bool far, tcc_fuse_ids *chain) {
    enum { MANY = 16 };
    const int64_t least = far ? tcc_type_numel(&f->g->nodes.data[v]->type) / MANY : 0;
    tcc_fuser_set_members(f, &u, 1);
    chain->count = 0;
    tcc_fuser_push(f, chain, v);
    for (int i = 0; i < chain->count; i++) {
        const tcc_node *n = f->g->nodes.data[chain->data[i]];
        if (chain->count > MOST_CHAIN) return false;
        for (int k = 0; k < n->n_operands; k++) {
            const tcc_node *x = far ? behind_inlined(f, n->operands[k]) : n->operands[k];
            tcc_fusion_class fusion = tcc_fusion_of(x);
            bool known = f->output[x->id] || f->home[x->id] != u || tcc_fuser_loaded_elsewhere(f, x->id);
            if (known || tcc_type_numel(&x->type) < least) continue;
            if (fusion != TCC_FUSION_POINT && fusion != TCC_FUSION_VIEW) continue;
            bool listed = false;
            for (int m = 0; m < chain->count; m++) listed |= chain->data[m] == x->id;
            if (!listed) tcc_fuser_push(f, chain, x->id);
        }
    }
    return true;
}

/* Gives the nodes of `chain` back to unit u, or takes them from it. */
static void set_inlined(tcc_fuser *f, const tcc_fuse_ids *chain, int u, bool inlined) {
    for (int i = 0; i < chain->count; i++) {
        int id = chain->data[i];
        f->inlined[id] = inlined;
        if (inlined && f->output[id]) continue; /* still stored by u, for the graph's sake */
        tcc_fuser_give(f, id, inlined ? NONE : u);
    }
}

/* The sum of costs of unit u and the units in `readers`, each as it would be now; negative if one is no legal group. */
static double cost_of(tcc_fuser *f, int u, const tcc_fuse_ids *readers, const char **reason) {
    double cost = 0;
    for (int i = -1; i < readers->count; i++) {
        int at = i < 0 ? u : readers->data[i];
        tcc_draft d = tcc_fuser_draft_of(f, &at, 1);
        if (d.n_nodes == 0) continue;
        if (f->out_of_memory || !tcc_draft_check(&d, &f->scratch, reason)) return -1;
        cost += d.cost;
    }
    return cost;
}

/* Whether `chain` only casts, from a value that is read in no more bytes than `v` would be. */
static bool only_casts(const tcc_fuser *f, int v, const tcc_fuse_ids *chain) {
    const int64_t bytes = tcc_dtype_bytes(f->g->nodes.data[v]->type.dtype);
    bool casts = true;
    for (int i = 0; i < chain->count && casts; i++) casts = f->g->nodes.data[chain->data[i]]->op == TCC_OP_CAST;
    if (!casts || !chain->count) return false;
    const tcc_node *last = f->g->nodes.data[chain->data[chain->count - 1]];
    return tcc_dtype_bytes(last->operands[0]->type.dtype) <= bytes;
}

/* Whether all readers may be as they would be now, as far as bound ones go. */
static bool readers_take(tcc_fuser *f, const tcc_fuse_ids *readers, const char **reason) {
    for (int i = 0; i < readers->count; i++) {
        const int at = readers->data[i];
        if (!f->units.data[at].bound) continue;
        tcc_draft d = tcc_fuser_draft_of(f, &at, 1);
        if (f->out_of_memory || !tcc_draft_check(&d, &f->scratch, reason) || !tcc_fuser_takes(f, &at, 1, &d, reason))
            return false;
    }
    return true;
}

static bool is_wanted(const tcc_fuser *f, int v) { return f->g->nodes.data[v]->marks & TCC_MARK_PASSES; }

static bool has_product(const tcc_fuser *f, const tcc_fuse_ids *readers) {
    bool found = false;
    for (int i = 0; i < readers->count; i++) found |= f->units.data[readers->data[i]].draft.kind == TCC_GROUP_CONTRACT;
    return found;
}

/* Lets all readers of v evaluate it (and what `chain` holds) for themselves, if that costs less, or is wanted. far: a
 * long chain, which no product has time for: its arithmetic does not hide behind memory. */
static bool try_inline(tcc_fuser *f, int v, const tcc_fuse_ids *chain, bool far, tcc_fuse_ids *readers) {
    int u = f->home[v];
    const char *reason = "";
    if (f->units.data[u].bound) return false;
    f->unit_stamp++;
    f->others.count = 0;
    tcc_fuser_add_readers(f, v, u);
    readers->count = 0;
    for (int i = 0; i < f->others.count; i++) tcc_fuser_push(f, readers, f->others.data[i]);
    if (readers->count == 0 || (far && has_product(f, readers))) return false;
    /* Updates are kept apart, but they widen a gradient of 16 bits that others read as well: no copy is stored. */
    for (int i = 0; i < readers->count; i++)
        if (f->units.data[readers->data[i]].update != f->units.data[u].update &&
            tcc_op_cost(&f->scratch.costs, f->g->nodes.data[v]->op) > 0 && !only_casts(f, v, chain))
            return false;
    double before = f->units.data[u].draft.n_nodes ? f->units.data[u].draft.cost : 0;
    for (int i = 0; i < readers->count; i++) before += f->units.data[readers->data[i]].draft.cost;
    set_inlined(f, chain, u, true);
    double after = cost_of(f, u, readers, &reason);
    const double most = is_wanted(f, v) ? INFINITY : before;
    if (after >= 0 && after <= most && !readers_take(f, readers, &reason)) after = -1;
    bool log = tcc_log_on(f->cx->cx, TCC_LOG_FUSION);
    if (!tcc_fuser_fine(f)) return false;
    if (after < 0 || after > most) {
        if (log)
            tcc_logf(f->cx->cx, TCC_LOG_FUSION, "keep %s: %s", tcc_node_text(f->g->nodes.data[v]),
                     after < 0 ? reason : "evaluating it again would cost more");
        set_inlined(f, chain, u, false);
        return false;
    }
    if (log)
        tcc_logf(f->cx->cx, TCC_LOG_FUSION, "inline in %d readers, saves %.0f bytes: %s", readers->count,
                 before - after, tcc_node_text(f->g->nodes.data[v]));
    tcc_fuser_refresh(f, u, &reason);
    for (int i = 0; i < readers->count && tcc_fuser_fine(f); i++) tcc_fuser_refresh(f, readers->data[i], &reason);
    if (f->units.data[u].draft.n_nodes == 0) f->units.data[u].dead = true;
    return true;
}

/* Views and iota, which cost nothing to evaluate anywhere. */
void tcc_fuser_inline_views(tcc_fuser *f) {
    tcc_fuse_ids chain = {0}, readers = {0};
    for (int v = 0; v < f->g->nodes.count && tcc_fuser_fine(f); v++) {
        const tcc_node *n = f->g->nodes.data[v];
        if (f->home[v] == NONE || f->inlined[v] || (tcc_fusion_of(n) != TCC_FUSION_VIEW && n->op != TCC_OP_IOTA))
            continue;
        chain.count = 0;
        tcc_fuser_push(f, &chain, v);
        try_inline(f, v, &chain, false, &readers);
    }
    tcc_vec_free(&chain);
    tcc_vec_free(&readers);
}

static bool same_ids(const tcc_fuse_ids *a, const tcc_fuse_ids *b) {
    return a->count == b->count && !memcmp(a->data, b->data, (size_t)a->count * sizeof *a->data);
}

/* Users come first: a value that they no longer load need not be kept for them. */
static void inline_stored(tcc_fuser *f, bool wanted) {
    tcc_fuse_ids chain = {0}, further = {0}, readers = {0};
    for (int v = f->g->nodes.count - 1; v >= 0 && tcc_fuser_fine(f); v--) {
        const tcc_node *n = f->g->nodes.data[v];
        tcc_fusion_class fusion = tcc_fusion_of(n);
        int u = f->home[v];
        if (u == NONE || f->inlined[v] || (fusion != TCC_FUSION_POINT && fusion != TCC_FUSION_VIEW)) continue;
        if (wanted && !is_wanted(f, v)) continue;
        tcc_fuser_set_members(f, &u, 1);
        if (f->output[v] || f->sum_of_products[v] || !tcc_fuser_loaded_elsewhere(f, v)) continue;
        const bool found = find_chain(f, v, u, false, &chain);
        if (found && try_inline(f, v, &chain, false, &readers)) continue;
        if (!wanted && find_chain(f, v, u, true, &further) && !(found && same_ids(&chain, &further)))
            try_inline(f, v, &further, true, &readers);
    }
    tcc_vec_free(&chain);
    tcc_vec_free(&further);
    tcc_vec_free(&readers);
}

void tcc_fuser_inline_wanted(tcc_fuser *f) { inline_stored(f, true); }

/* Stored arithmetic that its readers can recompute from what is in memory. */
void tcc_fuser_inline_arithmetic(tcc_fuser *f) { inline_stored(f, false); }
