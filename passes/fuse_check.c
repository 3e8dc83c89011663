/* SPDX-License-Identifier: MIT
 * fuse: may these nodes be one group? The rules are those of passes/group.h.
 *
 * A node is at level POINT when it does not depend on the group's hero: then it can be evaluated at any index, wherever
 * a user needs it. Work on the hero's result is at level FULL (the hero's own index) or, behind a reduction, KEPT. Such
 * values exist once and at their own index only, so no view may ask for them elsewhere. */
#include "passes/fuse.h"

#include "ir/sdpa.h"
#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/select.h"

#include <string.h>

tcc_status tcc_draft_scratch_create(const tcc_graph *g, const tcc_pass_options *options, tcc_draft_scratch *out) {
    size_t count = (size_t)g->nodes.count + 1;
    const tcc_pass_target *target = options ? options->target : NULL;
    *out = (tcc_draft_scratch){tcc__malloc(sizeof *out->position * count),
                               tcc__malloc(sizeof *out->level * count),
                               tcc__malloc(sizeof *out->contexts * count),
                               tcc__malloc(sizeof *out->identity * count),
                               tcc__malloc(sizeof *out->times * count),
                               tcc__malloc(sizeof *out->mark * count),
                               tcc__calloc(count, sizeof *out->loaded),
                               g,
                               target,
                               tcc__calloc(count, sizeof *out->computes),
                               tcc__calloc(count, sizeof *out->summed)};
    if (!out->position || !out->level || !out->contexts || !out->identity || !out->times || !out->mark ||
        !out->loaded || !out->computes || !out->summed) {
        tcc_draft_scratch_free(out);
        return tcc_enomem(g->diag);
    }
    for (size_t i = 0; i < count; i++) out->position[i] = -1;
    return TCC_OK;
}

void tcc_draft_scratch_free(tcc_draft_scratch *s) {
    tcc__free(s->position);
    tcc__free(s->level);
    tcc__free(s->contexts);
    tcc__free(s->identity);
    tcc__free(s->times);
    tcc__free(s->mark);
    tcc__free(s->loaded);
    tcc__free(s->computes);
    tcc__free(s->summed);
    *s = (tcc_draft_scratch){0};
}

/* -- Questions to the target -- */

static bool computes_operands(const tcc_draft_scratch *s, tcc_node *hero) {
    if (!s->target || !s->target->computes_operands) return false;
    signed char *answer = &s->computes[hero->id];
    if (!*answer) *answer = s->target->computes_operands(s->target->user, s->graph, hero) ? 1 : -1;
    return *answer > 0;
}

/* Whether `sum` is that of an operand of `dot`, which one call computes as well. */
static bool sums_operand(const tcc_draft_scratch *s, tcc_node *dot, tcc_node *sum) {
    if (!s->target || !s->target->sums_operands || tcc_group_summed_operand(dot, sum) < 0) return false;
    int *answer = &s->summed[sum->id];
    if (*answer != dot->id + 1 && *answer != -dot->id - 1)
        *answer = s->target->sums_operands(s->target->user, s->graph, dot, sum) ? dot->id + 1 : -dot->id - 1;
    return *answer > 0;
}

/* -- Small questions -- */

static bool has_dim(const tcc_dims *list, int64_t dim) {
    for (int i = 0; i < list->count; i++)
        if (list->v[i] == dim) return true;
    return false;
}

static bool same_dims(const tcc_type *a, const tcc_type *b) {
    return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank);
}

/* Equal but for dims of 1. */
static bool alike(const tcc_type *a, const tcc_type *b) {
    int i = 0, k = 0;
    for (;;) {
        while (i < a->rank && a->dims[i] == 1) i++;
        while (k < b->rank && b->dims[k] == 1) k++;
        if (i == a->rank || k == b->rank) return i == a->rank && k == b->rank;
        if (a->dims[i++] != b->dims[k++]) return false;
    }
}

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

static int position_of(const tcc_draft_scratch *s, const tcc_node *n) { return s->position[n->id]; }

static bool fail(const char **reason, const char *text) {
    *reason = text;
    return false;
}

/* -- Reductions -- */

typedef struct space {
    const tcc_type *dims; /* the iteration space */
    tcc_dims axes;        /* reduced */
    tcc_type kept;        /* dims that stay */
    tcc_type reduced;     /* dims that do not */
} space;

static void open_space(const tcc_node *hero, space *out) {
    *out = (space){.dims = &hero->operands[0]->type, .axes = tcc_reduction_axes(hero)};
    for (int i = 0; i < out->dims->rank; i++) {
        tcc_type *side = has_dim(&out->axes, i) ? &out->reduced : &out->kept;
        side->dims[side->rank++] = out->dims->dims[i];
    }
}

/* The reduced dims are the last ones, but for dims of 1: a kept point's values lie together. */
static bool is_row_space(const space *sp) {
    bool seen = false;
    for (int i = 0; i < sp->dims->rank; i++) {
        if (sp->dims->dims[i] == 1) continue;
        if (has_dim(&sp->axes, i)) seen = true;
        else if (seen) return false;
    }
    return true;
}

static bool same_space(const tcc_node *n, const space *sp) {
    tcc_dims axes = tcc_reduction_axes(n);
    if (!same_dims(&n->operands[0]->type, sp->dims) || axes.count != sp->axes.count) return false;
    for (int i = 0; i < axes.count; i++)
        if (axes.v[i] != sp->axes.v[i]) return false;
    return true;
}

/* A sum over all kept dims and no other: over the rows, one value a column. */
static bool sums_columns(const tcc_node *n, const space *sp) {
    if (n->op != TCC_OP_REDUCE_SUM || !same_dims(&n->operands[0]->type, sp->dims)) return false;
    tcc_dims axes = tcc_reduction_axes(n);
    for (int i = 0; i < sp->dims->rank; i++)
        if (sp->dims->dims[i] != 1 && has_dim(&axes, i) == has_dim(&sp->axes, i)) return false;
    return true;
}

/* A broadcast that puts each kept dim back in its place. */
static bool restores(const tcc_node *n, const space *sp) {
    if (!same_dims(&n->type, sp->dims)) return false;
    const tcc_dims *dims = &n->attrs->broadcast.dims;
    const tcc_type *from = &n->operands[0]->type;
    for (int i = 0; i < sp->dims->rank; i++) {
        if (sp->dims->dims[i] == 1) continue;
        bool covered = false;
        for (int k = 0; k < dims->count; k++) covered |= dims->v[k] == i && from->dims[k] > 1;
        if (covered == has_dim(&sp->axes, i)) return false;
    }
    return true;
}

/* -- Levels -- */

/* What the operands of n make it: bit 1 << level for the level of each that is in the draft. */
static unsigned operand_levels(const tcc_node *n, const tcc_draft_scratch *s) {
    unsigned levels = 0;
    for (int i = 0; i < n->n_operands; i++) {
        int p = position_of(s, n->operands[i]);
        if (p >= 0) levels |= 1U << s->level[p];
    }
    return levels;
}

static bool reads_full(const tcc_node *n, const tcc_draft_scratch *s) {
    return operand_levels(n, s) >> TCC_LEVEL_FULL & 1;
}

/* The table of an INDEX node is loaded, never computed. */
static bool loads_table(const tcc_node *n, const tcc_draft_scratch *s) {
    return tcc_fusion_of(n) != TCC_FUSION_INDEX || position_of(s, n->operands[0]) < 0;
}

/* A stored reshape that nothing in the group reads: its memory is that of its operand. */
static bool is_last_reshape(const tcc_draft *d, int at) {
    if (d->nodes[at]->op != TCC_OP_RESHAPE || !d->stored[at]) return false;
    for (int i = at + 1; i < d->n_nodes; i++)
        for (int k = 0; k < d->nodes[i]->n_operands; k++)
            if (d->nodes[i]->operands[k] == d->nodes[at]) return false;
    return true;
}

/* Sums over the rows beside the rows' own reductions: a kernel keeps the sums of all columns at hand while it goes from
 * row to row. */
static bool check_columns(const space *sp, const char **reason) {
    enum { LEAST_ROWS = 16, LONGEST_ROW = 8192 };
    if (!is_row_space(sp)) return fail(reason, "column sums beside reductions that are not of rows");
    if (tcc_type_numel(&sp->kept) < LEAST_ROWS) return fail(reason, "too few rows for column sums beside");
    int64_t row = tcc_type_numel(&sp->reduced);
    return (row > 1 && row <= LONGEST_ROW) || fail(reason, "rows too long for column sums beside");
}

/* The level of a node of a reduction's group by the levels of its operands. False: it may not be there. */
static bool find_level(const tcc_draft *d, tcc_draft_scratch *s, int i, const space *sp, const char **reason) {
    const tcc_node *n = d->nodes[i];
    unsigned levels = operand_levels(n, s);
    bool full = levels >> TCC_LEVEL_FULL & 1, kept = levels >> TCC_LEVEL_KEPT & 1,
         across = levels >> TCC_LEVEL_ACROSS & 1;
    bool keeps_place = n->op == TCC_OP_RESHAPE && alike(&n->type, &n->operands[0]->type);
    tcc_draft_level *level = &s->level[i];
    *level = full ? TCC_LEVEL_FULL : kept ? TCC_LEVEL_KEPT : across ? TCC_LEVEL_ACROSS : TCC_LEVEL_POINT;
    switch (tcc_fusion_of(n)) {
    case TCC_FUSION_REDUCE:
        *level = TCC_LEVEL_KEPT;
        if (!kept && !across && same_space(n, sp)) return true;
        *level = TCC_LEVEL_ACROSS;
        return (!kept && !across && sums_columns(n, sp)) || fail(reason, "reductions over different spaces");
    case TCC_FUSION_POINT:
        if (across && (full || kept)) return fail(reason, "a column sum meets the rows that it is made from");
        return !full || !kept || fail(reason, "full and kept values meet without a broadcast");
    case TCC_FUSION_VIEW:
        if (full) return is_last_reshape(d, i) || fail(reason, "a view of work behind the reduction");
        if (across) return keeps_place || fail(reason, "a view of a column sum");
        if (kept && n->op == TCC_OP_BROADCAST && restores(n, sp)) *level = TCC_LEVEL_FULL;
        else if (kept && !keeps_place) return fail(reason, "a reduced value goes elsewhere than back to its rows");
        return true;
    case TCC_FUSION_INDEX:
        if (full || kept || across || !loads_table(n, s))
            return fail(reason, "a table that the kernel computes itself");
        return true;
    default: return fail(reason, "two heroes of different kinds");
    }
}

static bool check_reduce(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    space sp;
    open_space(d->hero, &sp);
    int depth[TCC_FUSE_MAX_NODES]; /* sweeps before the value is known */
    int deepest = 0;
    bool has_full = false, has_across = false;
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (!find_level(d, s, i, &sp, reason)) return false;
        depth[i] = 0;
        for (int k = 0; k < n->n_operands; k++) {
            int p = position_of(s, n->operands[k]);
            if (p >= 0 && depth[p] > depth[i]) depth[i] = depth[p];
        }
        if (tcc_is_reduction(n) && s->level[i] == TCC_LEVEL_KEPT && ++depth[i] > deepest) deepest = depth[i];
        has_full |= s->level[i] == TCC_LEVEL_FULL;
        has_across |= s->level[i] == TCC_LEVEL_ACROSS;
    }
    if (deepest > TCC_FUSE_MAX_LEVELS) return fail(reason, "too many dependent reductions");
    int64_t rows = tcc_type_numel(&sp.kept), points = tcc_type_numel(sp.dims);
    if (has_full || deepest > 1) {
        enum { FEW_ROWS = 4, LARGE_ROW = 16384 };
        if (!is_row_space(&sp)) return fail(reason, "a column would be read twice");
        if (rows < FEW_ROWS && points / rows > LARGE_ROW) return fail(reason, "too few rows to read them twice");
    }
    if (has_across && !check_columns(&sp, reason)) return false;
    for (int i = 0; i < d->n_nodes; i++) {
        if (!d->stored[i]) continue;
        const tcc_type *type = &d->nodes[i]->type;
        bool last = s->level[i] == TCC_LEVEL_FULL && d->nodes[i]->op == TCC_OP_RESHAPE;
        bool fits = s->level[i] == TCC_LEVEL_KEPT     ? alike(type, &sp.kept)
                    : s->level[i] == TCC_LEVEL_ACROSS ? alike(type, &sp.reduced)
                                                      : alike(type, sp.dims) || last;
        if (!fits) return fail(reason, "an output is neither full nor kept nor a column sum");
    }
    return true;
}

/* POINT work behind a contraction, window or scan, at the index of its result. */
static bool check_epilogue(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    int hero = position_of(s, d->hero);
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        bool full = reads_full(n, s);
        s->level[i] = TCC_LEVEL_POINT;
        if (operand_levels(n, s) >> TCC_LEVEL_KEPT & 1) return fail(reason, "work behind the sum of an operand");
        if (tcc_is_reduction(n)) { /* as find_hero lets through */
            s->level[i] = TCC_LEVEL_KEPT;
            continue;
        }
        if (i == hero) s->level[i] = TCC_LEVEL_FULL;
        else if (full && tcc_fusion_of(n) != TCC_FUSION_POINT && (d->kind == TCC_GROUP_SCAN || !is_last_reshape(d, i)))
            return fail(reason, "a view of the result");
        else if (full) s->level[i] = TCC_LEVEL_FULL;
        else if (!loads_table(n, s)) return fail(reason, "a table that the kernel computes itself");
        if (d->stored[i] && s->level[i] != TCC_LEVEL_FULL)
            return fail(reason, "an output that does not depend on the result");
    }
    return true;
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
static bool is_window(const tcc_node *n) { return tcc_fusion_of(n) == TCC_FUSION_WINDOW; }
static bool is_attention(const tcc_node *n) { return tcc_fusion_of(n) == TCC_FUSION_ATTENTION; }

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

/* Counts nodes and tensors that operand n of a contraction is computed from; `seen` by position. */
static void count_front(const tcc_draft *d, const tcc_draft_scratch *s, const tcc_node *n, bool *seen,
                        const tcc_node **reads, int *n_nodes, int *n_reads) {
    const int p = position_of(s, n);
    if (p < 0) {
        int at = 0;
        while (at < *n_reads && reads[at] != n) at++;
        bool one = tcc_type_numel(&n->type) == 1 || (n->op == TCC_OP_CONSTANT && n->attrs->constant.values.count == 1);
        if (at == *n_reads && !one && at <= TCC_GROUP_MAX_READS) reads[(*n_reads)++] = n;
        return;
    }
    if (seen[p]) return;
    seen[p] = true;
    ++*n_nodes;
    for (int k = 0; k < n->n_operands; k++) count_front(d, s, n->operands[k], seen, reads, n_nodes, n_reads);
}

/* Work in front of a contraction that its kernel can do while it reads. */
static bool check_front(const tcc_draft *d, const tcc_draft_scratch *s, const bool *front, const char **reason) {
    const bool dot = d->hero->op == TCC_OP_DOT;
    bool works = false;
    for (int i = 0; i < d->n_nodes; i++) {
        if (!front[i]) continue;
        const tcc_node *n = d->nodes[i];
        bool moves = n->op == TCC_OP_RESHAPE || n->op == TCC_OP_TRANSPOSE || n->op == TCC_OP_SLICE;
        if (dot && moves) continue;
        works = true;
        if (!computes_operands(s, d->hero))
            return fail(reason, "work in front of a contraction that reads its operands from memory");
        if (tcc_fusion_of(n) != TCC_FUSION_POINT && n->op != TCC_OP_BROADCAST)
            return fail(reason, "work in front of a contraction at other indices");
    }
    if (!works) return true;
    if (!dot && d->hero->attrs->conv.groups > 1) return fail(reason, "work in front of a convolution in groups");
    for (int k = 0; k < 2; k++) {
        const tcc_node *operand = d->hero->operands[k], *reads[TCC_GROUP_MAX_READS + 1];
        const tcc_dtype dtype = operand->type.dtype;
        bool seen[TCC_FUSE_MAX_NODES] = {0};
        int n_nodes = 0, n_reads = 0;
        if (dtype != TCC_F32 && dtype != TCC_F16 && dtype != TCC_BF16 && dtype != TCC_F64)
            return fail(reason, "work in front of a contraction of other types");
        count_front(d, s, operand, seen, reads, &n_nodes, &n_reads);
        if (n_nodes > TCC_FUSE_MAX_FRONT || n_reads > TCC_GROUP_MAX_READS)
            return fail(reason, "much work in front of a contraction");
    }
    return true;
}

static bool check_contract(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    if (!check_epilogue(d, s, reason)) return false;
    bool front[TCC_FUSE_MAX_NODES];
    mark_front(d, s, front, is_contraction);
    for (int i = 0; i < d->n_nodes; i++)
        if (!front[i] && tcc_fusion_of(d->nodes[i]) == TCC_FUSION_INDEX)
            return fail(reason, "indexing beside a contraction");
    return check_front(d, s, front, reason) && check_sums(d, s, reason);
}

static bool check_window(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    if (!check_epilogue(d, s, reason)) return false;
    bool front[TCC_FUSE_MAX_NODES];
    mark_front(d, s, front, is_window);
    for (int i = 0; i < d->n_nodes; i++)
        if (front[i]) return fail(reason, "work in front of a window");
    return true;
}

static bool check_scatter(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    for (int i = 0; i < d->n_nodes; i++) {
        if (reads_full(d->nodes[i], s)) return fail(reason, "work behind a scatter");
        if (!loads_table(d->nodes[i], s)) return fail(reason, "a table that the kernel computes itself");
        s->level[i] = d->nodes[i] == d->hero ? TCC_LEVEL_FULL : TCC_LEVEL_POINT;
        if (d->stored[i] != (d->nodes[i] == d->hero)) return fail(reason, "an output beside a scatter");
    }
    return true;
}

/* Heroes of one kernel work on the same operands. */
static bool same_attention(const tcc_node *a, const tcc_node *b) {
    static const tcc_op forward[] = {TCC_OP_SDPA, TCC_OP_SDPA_LSE};
    bool forward_a = a->op == forward[0] || a->op == forward[1], forward_b = b->op == forward[0] || b->op == forward[1];
    const tcc_attrs_sdpa *x = &a->attrs->sdpa, *y = &b->attrs->sdpa;
    if (forward_a != forward_b || x->scale != y->scale || x->causal != y->causal) return false;
    if (!forward_a) {
        if (x->p != y->p || x->id != y->id) return false;
        for (int i = 0; i < a->n_operands; i++)
            if (i >= b->n_operands || a->operands[i] != b->operands[i]) return false;
        return a->n_operands == b->n_operands;
    }
    return a->operands[0] == b->operands[0] && a->operands[1] == b->operands[1] && tcc_sdpa_mask(a) == tcc_sdpa_mask(b);
}

/* A stored concat of all that the group makes: of each hero once, its rows whole, so that it is written where it
 * belongs. */
static bool packs_heroes(const tcc_draft *d, const tcc_draft_scratch *s, int at) {
    const tcc_node *concat = d->nodes[at];
    int heroes = 0, stored = 0;
    for (int i = 0; i < d->n_nodes; i++) {
        heroes += is_attention(d->nodes[i]);
        stored += d->stored[i];
    }
    if (!d->stored[at] || stored != 1 || heroes != concat->n_operands) return false;
    for (int i = 0; i < concat->n_operands; i++) {
        const tcc_node *n = concat->operands[i];
        for (int k = 0; k < i; k++)
            if (concat->operands[k] == n) return false;
        if (n->op == TCC_OP_RESHAPE) n = n->operands[0];
        if (n->op == TCC_OP_TRANSPOSE && n->attrs->perm.perm.v[n->type.rank - 1] == n->type.rank - 1)
            n = n->operands[0];
        if (!is_attention(n) || position_of(s, n) < 0) return false;
    }
    return true;
}

static bool check_attention(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    int forward = 0;
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        bool full = reads_full(n, s);
        s->level[i] = full || is_attention(n) ? TCC_LEVEL_FULL : TCC_LEVEL_POINT;
        if (is_attention(n)) {
            if (full) return fail(reason, "attention behind attention");
            if (!same_attention(n, d->hero)) return fail(reason, "attention on other operands");
            forward += n->op == TCC_OP_SDPA; /* values and dropout are not compared with those of sdpa_lse */
            if (forward > 1) return fail(reason, "attention to other values, or with other dropout");
            continue;
        }
        if (n->op == TCC_OP_CONCAT && packs_heroes(d, s, i)) continue;
        bool moves = n->op == TCC_OP_RESHAPE || n->op == TCC_OP_TRANSPOSE ||
                     ((n->op == TCC_OP_SLICE || n->op == TCC_OP_BROADCAST) && !full);
        if (!moves) return fail(reason, "other work than views beside attention");
        if (d->stored[i] && !full) return fail(reason, "an output in front of attention");
    }
    return true;
}

/* Norms whose inputs are in memory, all of one call. */
static bool check_norm(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    for (int i = 0; i < d->n_nodes; i++) {
        s->level[i] = TCC_LEVEL_FULL;
        if (!tcc_is_batch_norm(d->nodes[i]->op) || reads_full(d->nodes[i], s))
            return fail(reason, "other work beside a norm");
        if (!tcc_same_batch_norm(d->nodes[i], d->hero)) return fail(reason, "norms of other tensors");
    }
    return true;
}

/* Counts the indices at which each node is evaluated, and marks those evaluated at the index of an output. Arithmetic
 * and reshapes share the index of their user; any other view asks at an index of its own. */
static bool count_contexts(const tcc_draft *d, tcc_draft_scratch *s, int most_work, const char **reason) {
    memset(s->contexts, 0, sizeof *s->contexts * (size_t)d->n_nodes);
    memset(s->identity, 0, sizeof *s->identity * (size_t)d->n_nodes);
    int work = 0;
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const tcc_node *n = d->nodes[i];
        if (d->stored[i]) s->identity[i] = true;
        if (s->contexts[i] == 0) s->contexts[i] = 1;
        bool computes = tcc_fusion_of(n) != TCC_FUSION_VIEW;
        if (computes && s->contexts[i] > TCC_FUSE_MAX_CONTEXTS)
            return fail(reason, "a value would be computed at too many places");
        work += s->contexts[i];
        bool shares = tcc_fusion_of(n) == TCC_FUSION_POINT || n->op == TCC_OP_RESHAPE || tcc_is_reduction(n);
        for (int k = 0; k < n->n_operands; k++) {
            int p = position_of(s, n->operands[k]);
            if (p < 0) continue;
            if (shares && s->contexts[p] < s->contexts[i]) s->contexts[p] = s->contexts[i];
            if (!shares) s->contexts[p] += s->contexts[i];
            if (shares && s->identity[i]) s->identity[p] = true;
            /* A pointwise output that another output reads elsewhere would be computed twice. */
            if (d->kind == TCC_GROUP_POINTWISE && d->stored[p] && !(shares && s->identity[i]))
                return fail(reason, "one output reads another at a different place");
        }
    }
    return work <= most_work || fail(reason, "too much work");
}

static bool check_pointwise(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    for (int i = 0; i < d->n_nodes; i++) {
        s->level[i] = TCC_LEVEL_POINT;
        if (!loads_table(d->nodes[i], s)) return fail(reason, "a table that the kernel computes itself");
        if (d->stored[i] && !alike(&d->nodes[i]->type, &d->hero->type) &&
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

static bool reduces_rows(const tcc_node *n) {
    space sp;
    open_space(n, &sp);
    return is_row_space(&sp);
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
        if (dot && sums_operand(s, dot, n)) continue;
        switch (tcc_fusion_of(n)) {
        case TCC_FUSION_REDUCE: kind = TCC_GROUP_REDUCE; break;
        case TCC_FUSION_SCAN: kind = TCC_GROUP_SCAN; break;
        case TCC_FUSION_SCATTER: kind = TCC_GROUP_SCATTER; break;
        case TCC_FUSION_CONTRACT: kind = TCC_GROUP_CONTRACT; break;
        case TCC_FUSION_WINDOW: kind = TCC_GROUP_WINDOW; break;
        case TCC_FUSION_ATTENTION: kind = TCC_GROUP_ATTENTION; break;
        case TCC_FUSION_COMPOSITE:
            if (!tcc_is_batch_norm(n->op)) return fail(reason, "a composite");
            kind = TCC_GROUP_NORM;
            break;
        default: continue;
        }
        bool many = kind == TCC_GROUP_REDUCE || kind == TCC_GROUP_ATTENTION || kind == TCC_GROUP_NORM;
        if (d->hero && (d->kind != kind || !many)) return fail(reason, "two heroes");
        if (!d->hero || (kind == TCC_GROUP_REDUCE && !reduces_rows(d->hero) && reduces_rows(n))) d->hero = n;
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
    case TCC_GROUP_REDUCE: return check_reduce(d, s, reason);
    case TCC_GROUP_SCAN: return check_epilogue(d, s, reason);
    case TCC_GROUP_SCATTER: return check_scatter(d, s, reason);
    case TCC_GROUP_CONTRACT: return check_contract(d, s, reason);
    case TCC_GROUP_WINDOW: return check_window(d, s, reason);
    case TCC_GROUP_ATTENTION: return check_attention(d, s, reason);
    case TCC_GROUP_NORM: return check_norm(d, s, reason);
    case TCC_GROUP_KIND_COUNT: break;
    }
    return false;
}

bool tcc_draft_check(tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    if (!find_hero(d, s, reason)) return false;
    for (int i = 0; i < d->n_nodes; i++) s->position[d->nodes[i]->id] = i;
    const tcc_node *concat = concat_in_parts(d, s);
    const int most = TCC_FUSE_MAX_NODES + (concat ? 4 * concat->n_operands : 0);
    bool fits = d->n_nodes <= most || fail(reason, "too many nodes");
    fits = fits && check_kind(d, s, reason) && count_contexts(d, s, 2 * most, reason);
    fits = fits && (concat ? check_parts(d, s, concat, reason) : check_size(d, s, reason));
    if (fits) d->cost = tcc_draft_cost(d, s);
    for (int i = 0; i < d->n_nodes; i++) s->position[d->nodes[i]->id] = -1;
    return fits;
}
