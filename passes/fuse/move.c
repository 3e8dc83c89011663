/* SPDX-License-Identifier: MIT
 * Moving work of a reader to the unit that it reads. */
#include "passes/fuse/units.h"

enum { NONE = TCC_FUSE_NO_UNIT };

/* Where a value comes from: SOURCE if unit `source` stores it, or it is marked by f->stamp, or is inlined work on such
 * and on leaves; LEAVES if it is a leaf, or marked by f->stamp - 1, or inlined work on such alone. */
typedef enum origin { ELSEWHERE, LEAVES, SOURCE, N_ORIGINS } origin;

static origin origin_of(const tcc_fuser *f, int id, int source);

static origin origin_of_operands(const tcc_fuser *f, const tcc_node *n, int source) {
    origin all = LEAVES;
    for (int k = 0; k < n->n_operands && all != ELSEWHERE; k++) {
        const origin one = origin_of(f, n->operands[k]->id, source);
        if (one != LEAVES) all = one;
    }
    return all;
}

/* Nodes before the one at hand are marked already or never, so an answer lasts. */
static origin origin_of(const tcc_fuser *f, int id, int source) {
    const tcc_node *n = f->g->nodes.data[id];
    if (f->mark[id] == f->stamp || (!f->inlined[id] && f->home[id] == source)) return SOURCE;
    if (tcc_is_leaf(n) || f->mark[id] == f->stamp - 1) return LEAVES;
    if (!f->inlined[id]) return ELSEWHERE;
    const bool known = f->asked[id] > f->question - N_ORIGINS;
    if (!known) f->asked[id] = f->question - (int)origin_of_operands(f, n, source);
    return (origin)(f->question - f->asked[id]);
}

/* Marks by f->stamp what has the mark f->stamp - 1 and is read by node n, itself or through inlined work. */
static void mark_read(tcc_fuser *f, const tcc_node *n) {
    for (int k = 0; k < n->n_operands; k++) {
        const int id = n->operands[k]->id;
        if (f->mark[id] == f->stamp - 1) f->mark[id] = f->stamp;
        if (!f->inlined[id] || f->asked[id] == f->question) continue;
        f->asked[id] = f->question;
        mark_read(f, n->operands[k]);
    }
}

/* Puts into `chain` the arithmetic of unit u that reads nothing but leaves and what unit `source` stores, and that on
 * leaves alone which the former reads. */
static void find_movable(tcc_fuser *f, int u, int source, tcc_fuse_ids *chain) {
    const tcc_fuse_ids *owned = &f->units.data[u].owned;
    f->stamp += 2;
    f->question += N_ORIGINS;
    chain->count = 0;
    for (int i = 0; i < owned->count; i++) {
        const tcc_node *n = f->g->nodes.data[owned->data[i]];
        tcc_fusion_class fusion = tcc_fusion_of(n);
        if ((fusion != TCC_FUSION_POINT && fusion != TCC_FUSION_VIEW) || f->output[n->id]) continue;
        const origin from = origin_of_operands(f, n, source);
        if (from != ELSEWHERE) f->mark[n->id] = from == SOURCE ? f->stamp : f->stamp - 1;
    }
    f->question++;
    for (int i = owned->count - 1; i >= 0; i--)
        if (f->mark[owned->data[i]] == f->stamp) mark_read(f, f->g->nodes.data[owned->data[i]]);
    for (int i = 0; i < owned->count; i++)
        if (f->mark[owned->data[i]] == f->stamp) tcc_fuser_push(f, chain, owned->data[i]);
}

static int64_t stored_bytes(const tcc_draft *d) {
    int64_t bytes = 0;
    for (int i = 0; i < d->n_nodes; i++)
        if (d->stored[i]) bytes += tcc_type_bytes(&d->nodes[i]->type);
    return bytes;
}

static void give_all(tcc_fuser *f, const tcc_fuse_ids *chain, int to) {
    for (int i = 0; i < chain->count; i++) tcc_fuser_give(f, chain->data[i], to);
}

/* Lets unit `source` do the work of `chain`, which is unit u's, if both cost less then, and store no more. */
static bool try_move(tcc_fuser *f, const tcc_fuse_ids *chain, int u, int source) {
    const tcc_fuse_unit *from = &f->units.data[u], *to = &f->units.data[source];
    if (chain->count == 0 || chain->count == from->owned.count || from->update != to->update) return false;
    if (from->bound || to->bound) return false;
    for (int i = 0; i < chain->count; i++)
        if (tcc_fuser_too_early(f, chain->data[i], source)) return false;
    const double before = from->draft.cost + to->draft.cost;
    const int64_t bytes = stored_bytes(&from->draft) + stored_bytes(&to->draft);
    const char *reason = "";
    give_all(f, chain, source);
    tcc_draft d = tcc_fuser_draft_of(f, &source, 1);
    bool gains = !f->out_of_memory && tcc_draft_check(&d, &f->scratch, &reason);
    double after = d.cost;
    int64_t left = bytes - stored_bytes(&d);
    if (gains) {
        d = tcc_fuser_draft_of(f, &u, 1);
        gains = d.n_nodes > 0 && !f->out_of_memory && tcc_draft_check(&d, &f->scratch, &reason) &&
                stored_bytes(&d) <= left && after + d.cost < before;
        after += d.cost;
    }
    if (!gains) {
        give_all(f, chain, u);
        return false;
    }
    if (tcc_log_on(f->cx->cx, TCC_LOG_FUSION))
        tcc_logf(f->cx->cx, TCC_LOG_FUSION, "move, saves %.0f bytes: %s", before - after,
                 tcc_node_text(f->g->nodes.data[chain->data[chain->count - 1]]));
    tcc_fuser_refresh(f, source, &reason);
    tcc_fuser_refresh(f, u, &reason);
    return true;
}

/* Work on what one unit stores is done in that unit if less is stored or loaded then: it stores the one value that a
 * reader would make of several. Without this step the order of merging would decide which of two units has such
 * work: the rows' gradients of a loss would belong to its sum over the rows, and wait for that. */
bool tcc_fuser_move(tcc_fuser *f) {
    bool moved = false;
    tcc_fuse_ids chain = {0}, sources = {0};
    for (int u = 0; u < f->units.count && tcc_fuser_fine(f); u++) {
        if (f->units.data[u].dead) continue;
        const tcc_draft *d = &f->units.data[u].draft;
        const int stamp = ++f->unit_stamp;
        sources.count = 0;
        for (int i = 0; i < d->n_nodes; i++)
            for (int k = 0; k < d->nodes[i]->n_operands; k++) {
                int id = d->nodes[i]->operands[k]->id, source = f->home[id];
                if (source == NONE || source == u || f->inlined[id] || f->unit_mark[source] == stamp) continue;
                f->unit_mark[source] = stamp;
                tcc_fuser_push(f, &sources, source);
            }
        for (int i = 0; i < sources.count && tcc_fuser_fine(f); i++) {
            find_movable(f, u, sources.data[i], &chain);
            moved |= try_move(f, &chain, u, sources.data[i]);
        }
    }
    tcc_vec_free(&chain);
    tcc_vec_free(&sources);
    return moved;
}
