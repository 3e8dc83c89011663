/* SPDX-License-Identifier: MIT
 * fuse: may these nodes be one group? The rules are those of passes/group.h.
 *
 * A node is at level POINT when it does not depend on the group's hero: then it can be evaluated at any index, wherever
 * a user needs it. Work on the hero's result is at level FULL (the hero's own index) or, behind a reduction, KEPT. Such
 * values exist only at their own index, so no view may read them at another one. */
#include "passes/fuse/draft.h"

#include "ir/support/alloc.h"
#include "passes/fuse/evaluations.h"
#include "passes/group.h"

#include <limits.h>
#include <string.h>

/* The same row-major order, one of them with some neighbouring dims merged. */
static bool merges_to(const tcc_type *a, const tcc_type *b) {
    int i = 0, k = 0;
    while (i < a->rank || k < b->rank) {
        int64_t p = i < a->rank ? a->dims[i++] : 1, q = k < b->rank ? b->dims[k++] : 1;
        int merged_a = 0, merged_b = 0;
        while (p != q) {
            if (p < q && i < a->rank) p *= a->dims[i++], merged_a++;
            else if (q < p && k < b->rank) q *= b->dims[k++], merged_b++;
            else return false;
        }
        if (merged_a && merged_b) return false;
    }
    return true;
}

static bool check_scatter(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    for (int i = 0; i < d->n_nodes; i++) {
        if (tcc_draft_reads_full(d->nodes[i], s)) return fail(reason, "work behind a scatter");
        if (!tcc_draft_loads_table(d->nodes[i], s)) return fail(reason, "a table that the kernel computes itself");
        s->level[i] = d->nodes[i] == d->hero ? TCC_LEVEL_FULL : TCC_LEVEL_POINT;
        if (d->stored[i] != (d->nodes[i] == d->hero)) return fail(reason, "an output beside a scatter");
    }
    return true;
}

/* Norms whose inputs are in memory, all of one call. */
static bool check_norm(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    for (int i = 0; i < d->n_nodes; i++) {
        s->level[i] = TCC_LEVEL_FULL;
        if (!tcc_is_batch_norm(d->nodes[i]->op) || tcc_draft_reads_full(d->nodes[i], s))
            return fail(reason, "other work beside a norm");
        if (!tcc_same_batch_norm(d->nodes[i], d->hero)) return fail(reason, "norms of other tensors");
    }
    return true;
}

/* By itself. */
static bool check_collective(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    s->level[0] = TCC_LEVEL_FULL;
    return d->n_nodes == 1 || fail(reason, "other work beside a collective");
}

/* A pointwise output that another output reads elsewhere than at its own index would be computed twice. */
static bool check_outputs(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    if (d->kind != TCC_GROUP_POINTWISE) return true;
    memset(s->identity, 0, sizeof *s->identity * (size_t)d->n_nodes);
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const tcc_node *n = d->nodes[i];
        if (d->stored[i]) s->identity[i] = true;
        const bool shares = tcc_fusion_of(n) == TCC_FUSION_POINT || n->op == TCC_OP_RESHAPE ||
                            tcc_draft_weaves(d, s, i);
        for (int k = 0; k < n->n_operands; k++) {
            const int p = position_of(s, n->operands[k]);
            if (p < 0) continue;
            if (shares && s->identity[i]) s->identity[p] = true;
            else if (d->stored[p]) return fail(reason, "one output reads another at a different place");
        }
    }
    return true;
}

static bool count_places(const tcc_draft *d, tcc_draft_scratch *s, const tcc_node *parts, int most_visits,
                         const char **reason) {
    return tcc_draft_count_places(d, s, parts, TCC_FUSE_MAX_CONTEXTS, most_visits) ||
           fail(reason, "values would be computed at too many places");
}

/* Finds out whether the outputs are woven. */
static void find_weave(const tcc_draft *d, tcc_draft_scratch *s) {
    tcc_node *outputs[TCC_FUSE_MAX_OUTPUTS];
    int count = 0;
    s->part = 0;
    for (int i = 0; i < d->n_nodes && d->kind == TCC_GROUP_POINTWISE; i++) {
        if (!d->stored[i]) continue;
        if (count == TCC_FUSE_MAX_OUTPUTS) return;
        outputs[count++] = d->nodes[i];
    }
    if (!tcc_group_weaves(outputs, count, &s->part)) s->part = 0;
}

/* All other outputs have the shape of the parts, and nothing reads the concats. */
static bool check_woven(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    const tcc_type *like = NULL;
    for (int i = 0; i < d->n_nodes; i++) {
        s->level[i] = TCC_LEVEL_POINT;
        if (!tcc_draft_loads_table(d->nodes[i], s)) return fail(reason, "a table that the kernel computes itself");
        if (!like && tcc_draft_weaves(d, s, i)) like = &d->nodes[i]->operands[0]->type;
        for (int k = 0; k < d->nodes[i]->n_operands; k++) {
            const int p = position_of(s, d->nodes[i]->operands[k]);
            if (p >= 0 && tcc_draft_weaves(d, s, p)) return fail(reason, "a concat is read beside its parts");
        }
    }
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (!d->stored[i]) continue;
        const tcc_type *type = tcc_draft_weaves(d, s, i) ? &n->operands[0]->type : &n->type;
        if (!tcc_dims_alike(type, like) && !merges_to(type, like)) return fail(reason, "outputs of different shapes");
    }
    return true;
}

static bool check_pointwise(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    if (s->part) return check_woven(d, s, reason);
    for (int i = 0; i < d->n_nodes; i++) {
        s->level[i] = TCC_LEVEL_POINT;
        if (!tcc_draft_loads_table(d->nodes[i], s)) return fail(reason, "a table that the kernel computes itself");
        if (d->stored[i] && !tcc_dims_alike(&d->nodes[i]->type, &d->hero->type) &&
            !merges_to(&d->nodes[i]->type, &d->hero->type))
            return fail(reason, "outputs of different shapes");
    }
    return true;
}

/* -- What one kernel may hold -- */

/* The concat that the draft's only output is, up to reshapes; NULL: it is none. Each operand of such a concat is a
 * launch of its own, into its part of the output. So the bounds hold for each operand, and their number has none. */
static const tcc_node *concat_in_parts(const tcc_draft *d, const tcc_draft_scratch *s) {
    const tcc_node *n = d->hero;
    int stored = 0;
    if (d->kind != TCC_GROUP_POINTWISE) return NULL;
    while (n->op == TCC_OP_RESHAPE && position_of(s, n->operands[0]) >= 0) n = n->operands[0];
    if (n->op != TCC_OP_CONCAT) return NULL;
    for (int i = 0; i < d->n_nodes; i++) stored += d->stored[i];
    return stored == 1 ? n : NULL;
}

/* What a kernel evaluates and loads. */
typedef struct needs {
    int n_nodes, n_inputs;
    const tcc_node *inputs[TCC_FUSE_MAX_INPUTS + 1]; /* the last one is too many */
} needs;

static bool need_input(needs *out, const tcc_node *x) {
    int at = 0;
    while (at < out->n_inputs && out->inputs[at] != x) at++;
    if (at == out->n_inputs) out->inputs[out->n_inputs++] = x;
    return out->n_inputs <= TCC_FUSE_MAX_INPUTS;
}

/* Adds what value x needs that is not marked with `mark`. False: too much. */
static bool need_value(const tcc_draft *d, tcc_draft_scratch *s, const tcc_node *x, int mark, needs *out) {
    const int p = position_of(s, x);
    if (x->op == TCC_OP_CONSTANT) return true;
    if (p < 0) return need_input(out, x);
    if (s->mark[p] == mark) return true;
    s->mark[p] = mark;
    if (++out->n_nodes > TCC_FUSE_MAX_NODES) return false;
    for (int k = 0; k < x->n_operands; k++)
        if (!need_value(d, s, x->operands[k], mark, out)) return false;
    return true;
}

static bool check_parts(const tcc_draft *d, tcc_draft_scratch *s, const tcc_node *concat, const char **reason) {
    memset(s->mark, 0, sizeof *s->mark * (size_t)d->n_nodes);
    for (int k = 0; k < concat->n_operands; k++) {
        needs part = {0};
        if (!need_value(d, s, concat->operands[k], k + 1, &part)) return fail(reason, "a part of a concat takes much");
    }
    return true;
}

/* Inputs and outputs fit the kernel's interface. */
static bool check_size(const tcc_draft *d, const tcc_draft_scratch *s, const char **reason) {
    needs all = {0};
    int n_outputs = 0;
    for (int i = 0; i < d->n_nodes; i++) {
        n_outputs += d->stored[i];
        for (int k = 0; k < d->nodes[i]->n_operands; k++) {
            const tcc_node *x = d->nodes[i]->operands[k];
            if (x->op == TCC_OP_CONSTANT || position_of(s, x) >= 0) continue;
            if (!need_input(&all, x)) return fail(reason, "too many inputs");
        }
    }
    if (n_outputs > TCC_FUSE_MAX_OUTPUTS) return fail(reason, "too many outputs");
    if (d->kind == TCC_GROUP_CONTRACT && all.n_inputs + n_outputs > TCC_GROUP_MAX_ACCESSES)
        return fail(reason, "too many tensors");
    return true;
}

/* The kind, and the node that gives it. Of several heroes the first; of reductions the first of rows; the sum of a
 * dot's operand is none. */
static bool find_hero(tcc_draft *d, const tcc_draft_scratch *s, const char **reason) {
    tcc_node *dot = NULL;
    for (int i = 0; i < d->n_nodes; i++)
        if (d->nodes[i]->op == TCC_OP_DOT) dot = d->nodes[i];
    d->hero = NULL;
    for (int i = 0; i < d->n_nodes; i++) {
        tcc_node *n = d->nodes[i];
        tcc_group_kind kind;
        if (dot && tcc_draft_sums_operand(s, dot, n)) continue;
        if (d->kind == TCC_GROUP_SORT && d->hero && tcc_is_put_in_order(n) && n->operands[1] == d->hero) continue;
        switch (tcc_fusion_of(n)) {
        case TCC_FUSION_REDUCE: kind = TCC_GROUP_REDUCE; break;
        case TCC_FUSION_SCAN: kind = TCC_GROUP_SCAN; break;
        case TCC_FUSION_SCATTER: kind = TCC_GROUP_SCATTER; break;
        case TCC_FUSION_CONTRACT: kind = TCC_GROUP_CONTRACT; break;
        case TCC_FUSION_WINDOW: kind = TCC_GROUP_WINDOW; break;
        case TCC_FUSION_ATTENTION: kind = TCC_GROUP_ATTENTION; break;
        case TCC_FUSION_COMPOSITE:
            if (!tcc_is_batch_norm(n->op) && !tcc_is_whole_order(n)) return fail(reason, "a composite");
            kind = n->op == TCC_OP_ARGSORT ? TCC_GROUP_SORT : TCC_GROUP_NORM;
            break;
        case TCC_FUSION_COLLECTIVE: kind = TCC_GROUP_COLLECTIVE; break;
        default: continue;
        }
        bool many = kind == TCC_GROUP_REDUCE || kind == TCC_GROUP_ATTENTION || kind == TCC_GROUP_NORM ||
                    (kind == TCC_GROUP_SCAN && s->target && s->target->scan_threads) ||
                    (d->hero && tcc_same_maxima(d->hero, n));
        if (d->hero && (d->kind != kind || !many)) return fail(reason, "two heroes");
        const bool rows = kind == TCC_GROUP_REDUCE && d->hero && tcc_draft_reduces_rows(n);
        if (!d->hero || (rows && (!tcc_draft_reduces_rows(d->hero) || tcc_sums_parts(n, d->hero)))) d->hero = n;
        d->kind = kind;
    }
    if (d->hero) return true;
    d->kind = TCC_GROUP_POINTWISE;
    for (int i = 0; i < d->n_nodes; i++)
        if (d->stored[i]) d->hero = d->nodes[i];
    return d->hero || fail(reason, "nothing is stored");
}

static bool check_kind(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    switch (d->kind) {
    case TCC_GROUP_POINTWISE: return check_pointwise(d, s, reason);
    case TCC_GROUP_REDUCE: return tcc_draft_check_reduce(d, s, reason);
    case TCC_GROUP_SCAN: return tcc_draft_check_scan(d, s, reason);
    case TCC_GROUP_SORT: return tcc_draft_check_epilogue(d, s, reason);
    case TCC_GROUP_SCATTER: return check_scatter(d, s, reason);
    case TCC_GROUP_CONTRACT: return tcc_draft_check_contract(d, s, reason);
    case TCC_GROUP_WINDOW: return tcc_draft_check_window(d, s, reason);
    case TCC_GROUP_ATTENTION: return tcc_draft_check_attention(d, s, reason);
    case TCC_GROUP_NORM: return check_norm(d, s, reason);
    case TCC_GROUP_COLLECTIVE: return check_collective(d, s, reason);
    case TCC_GROUP_KIND_COUNT: break;
    }
    return false;
}

bool tcc_draft_check(tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    if (!find_hero(d, s, reason)) return false;
    for (int i = 0; i < d->n_nodes; i++) s->position[d->nodes[i]->id] = i;
    find_weave(d, s);
    const tcc_node *concat = concat_in_parts(d, s);
    const int most = TCC_FUSE_MAX_NODES + (concat ? 4 * concat->n_operands : 0);
    bool fits = d->n_nodes <= most || fail(reason, "too many nodes");
    fits = fits && check_kind(d, s, reason) && check_outputs(d, s, reason) &&
           count_places(d, s, concat, 2 * most, reason);
    fits = fits && (concat ? check_parts(d, s, concat, reason) : check_size(d, s, reason));
    if (fits) d->cost = tcc_draft_cost(d, s);
    for (int i = 0; i < d->n_nodes; i++) s->position[d->nodes[i]->id] = -1;
    return fits;
}

/* -- Groups -- */

tcc_draft_scratch *tcc_evaluations_create(const tcc_graph *g) {
    tcc_draft_scratch *s = tcc__malloc(sizeof *s);
    if (s && tcc_draft_scratch_create(g, NULL, s)) {
        s->stores_across = true;
        s->longest_column = s->longest_parts = INT64_MAX;
        return s;
    }
    tcc__free(s);
    return NULL;
}

void tcc_evaluations_free(tcc_draft_scratch *s) {
    if (s) tcc_draft_scratch_free(s);
    tcc__free(s);
}

/* A reduction sweeps over its rows once for each level, and once more for results. A sweep may evaluate what is cheap
 * again, and the first element of each row (codegen/schedule/reduce_sweeps.c); splits are sweeps, too. */
static int64_t sweeps_of(const tcc_draft *d, const tcc_draft_scratch *s) {
    return d->kind == TCC_GROUP_REDUCE ? s->levels + 2 : 1;
}

/* Marks in front of a contraction, which is paid for by how often its kernel repeats it (cost.c), and casts in front of
 * a window, which widen what it loads. */
static void mark_unbounded(const tcc_draft *d, const tcc_draft_scratch *s, int64_t *evaluations) {
    const bool window = d->kind == TCC_GROUP_WINDOW;
    if (!window && d->kind != TCC_GROUP_CONTRACT) return;
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const tcc_node *n = d->nodes[i];
        const bool repeats = window ? tcc_fusion_of(n) == TCC_FUSION_WINDOW : n == d->hero;
        const bool front = repeats || evaluations[i] == INT64_MAX;
        for (int k = 0; front && k < n->n_operands; k++) {
            const int p = position_of(s, n->operands[k]);
            if (p >= 0) evaluations[p] = INT64_MAX;
        }
    }
}

/* What a library, or select's cut, made of a group need not follow the rules of a draft; the levels of the values of a
 * reduction are all that counting needs. */
void tcc_evaluations_count(tcc_draft_scratch *s, const tcc_group *group, int64_t *evaluations) {
    const char *reason = "";
    tcc_draft d = {.nodes = group->nodes, .n_nodes = group->n_nodes, .kind = group->kind, .hero = group->hero};
    d.stored = s->stored;
    for (int i = 0; i < d.n_nodes; i++) {
        s->position[d.nodes[i]->id] = i;
        s->level[i] = TCC_LEVEL_POINT;
        d.stored[i] = tcc_group_stores(group, d.nodes[i]);
    }
    find_weave(&d, s);
    bool counted = d.kind != TCC_GROUP_REDUCE || tcc_draft_check_reduce(&d, s, &reason);
    counted = counted && tcc_draft_count_places(&d, s, concat_in_parts(&d, s), INT_MAX, INT_MAX);
    for (int i = 0; i < d.n_nodes; i++) evaluations[i] = counted ? s->times[i] * sweeps_of(&d, s) : 0;
    mark_unbounded(&d, s, evaluations);
    for (int i = 0; i < d.n_nodes; i++) s->position[d.nodes[i]->id] = -1;
}
