/* SPDX-License-Identifier: MIT
 * fuse: groups of a contraction, a window or a sort: which prologue and epilogue it may have. */
#include "passes/fuse/draft.h"

#include "passes/group.h"
#include "passes/select.h"

#include <string.h>

static bool is_window(const tcc_node *n) { return tcc_fusion_of(n) == TCC_FUSION_WINDOW; }

/* Whether `n` is work on elements that is computed again for the backward pass, and can be stored beside the result of
 * dot `hero`, index by index: an activation, beside its gradient, which reads the same. */
static bool is_copy_beside(const tcc_draft *d, const tcc_node *n) {
    return d->hero->op == TCC_OP_DOT && n->marks & TCC_MARK_REMAT && tcc_fusion_of(n) == TCC_FUSION_POINT &&
           tcc_type_same_dims(&n->type, &d->hero->type);
}

/* Elements of a line in memory by the order that the group finds. */
static bool reads_in_order(const tcc_draft *d, const tcc_draft_scratch *s, const tcc_node *n) {
    return d->kind == TCC_GROUP_SORT && n->op == TCC_OP_TAKE_ALONG && n->attrs->axis.axis == n->type.rank - 1 &&
           tcc_draft_loads_table(n, s);
}

/* What the group stores where the order says. */
static bool puts_in_order(const tcc_draft *d, int at) {
    const tcc_node *n = d->nodes[at];
    return d->kind == TCC_GROUP_SORT && d->stored[at] && tcc_is_put_in_order(n) && !tcc_draft_reads(d, n);
}

static bool is_first(const tcc_draft *d, const tcc_node *n) {
    return d->kind == TCC_GROUP_SORT && tcc_is_first_in_order(n) && n->operands[0] == d->hero;
}

/* Where the group has the first places of an order, nothing else reads that, and it is not stored. */
static bool check_first(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    const tcc_node *first = NULL;
    bool others = d->stored[position_of(s, d->hero)];
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (!first && is_first(d, n)) {
            first = n;
            continue;
        }
        for (int k = 0; k < n->n_operands; k++) others |= n->operands[k] == d->hero;
    }
    return !first || !others || fail(reason, "all of an order beside its first places");
}

/* POINT work behind a contraction, window or sort, at the index of its result. */
bool tcc_draft_check_epilogue(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    int hero = position_of(s, d->hero);
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        bool full = tcc_draft_reads_full(n, s);
        s->level[i] = TCC_LEVEL_POINT;
        if (tcc_draft_operand_levels(n, s) >> TCC_LEVEL_KEPT & 1)
            return fail(reason, "work behind the sum of an operand");
        if (tcc_is_reduction(n)) { /* as find_hero lets through */
            s->level[i] = TCC_LEVEL_KEPT;
            continue;
        }
        if (i == hero || (d->kind == TCC_GROUP_WINDOW && is_window(n))) s->level[i] = TCC_LEVEL_FULL;
        else if (full && tcc_fusion_of(n) != TCC_FUSION_POINT && !reads_in_order(d, s, n) && !puts_in_order(d, i) &&
                 !is_first(d, n) && (d->kind == TCC_GROUP_SORT || !tcc_draft_is_last_reshape(d, i)))
            return fail(reason, "a view of the result");
        else if (full) s->level[i] = TCC_LEVEL_FULL;
        else if (!tcc_draft_loads_table(n, s)) return fail(reason, "a table that the kernel computes itself");
        if (d->stored[i] && s->level[i] != TCC_LEVEL_FULL && !is_copy_beside(d, n))
            return fail(reason, "an output that does not depend on the result");
    }
    return d->kind != TCC_GROUP_SORT || check_first(d, s, reason);
}

/* Marks in `front` the nodes that the operands of `heroes` depend on. */
static void mark_front(const tcc_draft *d, const tcc_draft_scratch *s, bool *front, bool (*is_hero)(const tcc_node *)) {
    memset(front, 0, (size_t)d->n_nodes);
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        if (!front[i] && !is_hero(d->nodes[i])) continue;
        for (int k = 0; k < d->nodes[i]->n_operands; k++) {
            int p = position_of(s, d->nodes[i]->operands[k]);
            if (p >= 0 && !is_hero(d->nodes[p])) front[p] = true;
        }
    }
}

static bool is_contraction(const tcc_node *n) { return tcc_fusion_of(n) == TCC_FUSION_CONTRACT; }

/* At most one sum of an operand that is in memory, and then nothing behind the dot. */
static bool check_sums(const tcc_draft *d, const tcc_draft_scratch *s, const char **reason) {
    int full = 0, sums = 0;
    for (int i = 0; i < d->n_nodes; i++) {
        full += s->level[i] == TCC_LEVEL_FULL;
        if (s->level[i] != TCC_LEVEL_KEPT) continue;
        sums++;
        if (position_of(s, d->nodes[i]->operands[0]) >= 0)
            return fail(reason, "the sum of an operand that is not in memory");
    }
    return !sums || (sums == 1 && full == 1) || fail(reason, "more than a dot and the sum of an operand");
}

static bool is_move(const tcc_node *n) {
    return n->op == TCC_OP_RESHAPE || n->op == TCC_OP_TRANSPOSE || n->op == TCC_OP_SLICE;
}

bool tcc_is_operand_work(const tcc_operand_work *work, const tcc_node *n, const char **reason) {
    const tcc_type *from = n->op == TCC_OP_BROADCAST ? &n->operands[0]->type : NULL;
    if (!from)
        return tcc_fusion_of(n) == TCC_FUSION_POINT || fail(reason, "work in front of a contraction at other indices");
    if (!work->by_channels || tcc_type_numel(from) == 1) return true;
    return (from->rank == 1 && n->attrs->broadcast.dims.v[0] == n->type.rank - 1) ||
           fail(reason, "work in front of a contraction with other vectors than of channels");
}

/* Counts nodes and tensors that operand n of a contraction is computed from; `seen` by position. */
static void count_front(const tcc_draft *d, const tcc_draft_scratch *s, const tcc_node *n, bool *seen,
                        const tcc_node **reads, int *n_nodes, int *n_reads) {
    const int p = position_of(s, n);
    if (p < 0) {
        int at = 0;
        while (at < *n_reads && reads[at] != n) at++;
        bool one = tcc_type_numel(&n->type) == 1 || (n->op == TCC_OP_CONSTANT && n->attrs->constant.values.count == 1);
        if (at == *n_reads && !one && at <= TCC_GROUP_MAX_ACCESSES) reads[(*n_reads)++] = n;
        return;
    }
    if (seen[p]) return;
    seen[p] = true;
    ++*n_nodes;
    for (int k = 0; k < n->n_operands; k++) count_front(d, s, n->operands[k], seen, reads, n_nodes, n_reads);
}

/* Work in front of operand k. `works`: there is other work than views. */
static bool check_operand(const tcc_draft *d, const tcc_draft_scratch *s, int k, bool *works, const char **reason) {
    const bool dot = d->hero->op == TCC_OP_DOT;
    const tcc_node *operand = d->hero->operands[k], *reads[TCC_GROUP_MAX_ACCESSES + 1];
    const tcc_dtype dtype = operand->type.dtype;
    bool seen[TCC_FUSE_MAX_NODES] = {0}, moves = true;
    int n_nodes = 0, n_reads = 0;
    count_front(d, s, operand, seen, reads, &n_nodes, &n_reads);
    for (int i = 0; i < d->n_nodes; i++) moves = moves && (!seen[i] || (dot && is_move(d->nodes[i])));
    if (moves) return true;
    *works = true;
    const tcc_operand_work *work = tcc_draft_operand_work(s, d->hero, k);
    if (work->repeats < 0) return fail(reason, "work in front of a contraction that reads its operands from memory");
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (!seen[i] || (dot && is_move(n))) continue;
        if (!tcc_is_operand_work(work, n, reason)) return false;
    }
    if (!tcc_dtype_is_float(dtype)) return fail(reason, "work in front of a contraction of other types");
    if (n_nodes > TCC_FUSE_MAX_FRONT || n_reads > work->reads)
        return fail(reason, "much work in front of a contraction");
    return true;
}

/* Work in front of a contraction that its kernel can do while it reads. */
static bool check_front(const tcc_draft *d, const tcc_draft_scratch *s, const char **reason) {
    bool works = false;
    for (int k = 0; k < 2; k++)
        if (!check_operand(d, s, k, &works, reason)) return false;
    if (works && d->hero->op != TCC_OP_DOT && d->hero->attrs->conv.groups > 1)
        return fail(reason, "work in front of a convolution in groups");
    return true;
}

bool tcc_draft_check_contract(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    if (!tcc_draft_check_epilogue(d, s, reason)) return false;
    bool front[TCC_FUSE_MAX_NODES];
    mark_front(d, s, front, is_contraction);
    for (int i = 0; i < d->n_nodes; i++)
        if (!front[i] && tcc_fusion_of(d->nodes[i]) == TCC_FUSION_INDEX)
            return fail(reason, "indexing beside a contraction");
    return check_front(d, s, reason) && check_sums(d, s, reason);
}

/* A cast of a value in memory to a type that has all of its values: free wherever they are read. */
static bool widens(const tcc_draft_scratch *s, const tcc_node *n) {
    const tcc_node *x = n->operands[0];
    return n->op == TCC_OP_CAST && s->position[x->id] < 0 && tcc_dtype_is_narrow(x->type.dtype) &&
           tcc_dtype_is_float(n->type.dtype);
}

bool tcc_draft_check_window(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    if (!tcc_draft_check_epilogue(d, s, reason)) return false;
    bool front[TCC_FUSE_MAX_NODES];
    mark_front(d, s, front, is_window);
    for (int i = 0; i < d->n_nodes; i++)
        if (front[i] && !widens(s, d->nodes[i])) return fail(reason, "work in front of a window");
    return true;
}
