/* SPDX-License-Identifier: MIT
 * fuse: groups of reductions over one space, and sums over the rows beside reductions of rows. A reduced value stays at
 * its kept points until a broadcast brings it back to its rows. */
#include "passes/fuse/draft.h"

#include "passes/group.h"

typedef struct space {
    const tcc_type *dims; /* the iteration space */
    tcc_dims axes;        /* reduced */
    tcc_type kept;        /* dims that stay */
    tcc_type reduced;     /* dims that do not */
    const tcc_node *part; /* a sum of a part of each row; NULL: there is none */
} space;

static void open_space(const tcc_node *hero, space *out) {
    *out = (space){.dims = &hero->operands[0]->type, .axes = tcc_reduction_axes(hero)};
    for (int i = 0; i < out->dims->rank; i++) {
        tcc_type *side = tcc_dims_has(&out->axes, i) ? &out->reduced : &out->kept;
        side->dims[side->rank++] = out->dims->dims[i];
    }
}

/* The reduced dims are the last ones, but for dims of 1: a kept point's values lie together. */
static bool is_row_space(const space *sp) {
    bool seen = false;
    for (int i = 0; i < sp->dims->rank; i++) {
        if (sp->dims->dims[i] == 1) continue;
        if (tcc_dims_has(&sp->axes, i)) seen = true;
        else if (seen) return false;
    }
    return true;
}

/* The last dim stays: neighbours in memory belong to different kept points, whose values lie across it. */
static bool is_column_space(const space *sp) {
    int last = sp->dims->rank - 1;
    while (last >= 0 && sp->dims->dims[last] == 1) last--;
    return last >= 0 && !tcc_dims_has(&sp->axes, last);
}

static bool same_space(const tcc_node *n, const space *sp) {
    tcc_dims axes = tcc_reduction_axes(n);
    if (!tcc_type_same_dims(&n->operands[0]->type, sp->dims) || axes.count != sp->axes.count) return false;
    for (int i = 0; i < axes.count; i++)
        if (axes.v[i] != sp->axes.v[i]) return false;
    return true;
}

/* A sum over all kept dims and no other: over the rows, one value a column. */
static bool sums_columns(const tcc_node *n, const space *sp) {
    if (n->op != TCC_OP_REDUCE_SUM || !tcc_type_same_dims(&n->operands[0]->type, sp->dims)) return false;
    tcc_dims axes = tcc_reduction_axes(n);
    for (int i = 0; i < sp->dims->rank; i++)
        if (sp->dims->dims[i] != 1 && tcc_dims_has(&axes, i) == tcc_dims_has(&sp->axes, i)) return false;
    return true;
}

/* A broadcast that puts each kept dim back in its place. */
static bool restores(const tcc_node *n, const space *sp) {
    if (!tcc_type_same_dims(&n->type, sp->dims)) return false;
    const tcc_dims *dims = &n->attrs->broadcast.dims;
    const tcc_type *from = &n->operands[0]->type;
    for (int i = 0; i < sp->dims->rank; i++) {
        if (sp->dims->dims[i] == 1) continue;
        const int k = tcc_dims_find(dims, i);
        const bool covered = k >= 0 && from->dims[k] > 1;
        if (covered == tcc_dims_has(&sp->axes, i)) return false;
    }
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

/* Whether the group reads a value of the whole space that lies in memory in the order of `moved`, the transpose of a
 * value of each point. */
static bool reads_in_order(const tcc_draft *d, const tcc_draft_scratch *s, const tcc_node *moved) {
    const tcc_dims *back = &moved->attrs->perm.perm;
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (n->op != TCC_OP_TRANSPOSE || n == moved || !tcc_type_same_dims(&n->type, &moved->operands[0]->type))
            continue;
        const tcc_node *x = n->operands[0];
        bool inverse = true;
        for (int k = 0; k < back->count; k++) inverse = inverse && n->attrs->perm.perm.v[back->v[k]] == k;
        while (x->op == TCC_OP_CAST && position_of(s, x) >= 0) x = x->operands[0];
        if (inverse && position_of(s, x) < 0 && x->op != TCC_OP_CONSTANT) return true;
    }
    return false;
}

/* A stored transpose of a value of each point, where what that is made from lies in that order too: a point stores it
 * at its place there. */
static bool stores_across(const tcc_draft *d, const tcc_draft_scratch *s, int i, const space *sp) {
    const tcc_node *n = d->nodes[i];
    return s->stores_across && n->op == TCC_OP_TRANSPOSE && d->stored[i] && !tcc_draft_reads(d, n) &&
           tcc_type_same_dims(&n->operands[0]->type, sp->dims) && reads_in_order(d, s, n);
}

/* Sums of parts of rows: a kernel folds the last loops of a row by themselves while it has the row at hand. All parts
 * are equal. */
static bool check_parts(const tcc_draft *d, const tcc_draft_scratch *s, space *sp, int i, const char **reason) {
    const tcc_node *n = d->nodes[i];
    const int64_t parts = tcc_type_numel(&n->type) / tcc_type_numel(&sp->kept), row = tcc_type_numel(&sp->reduced);
    if (row > s->longest_parts || !is_row_space(sp)) return fail(reason, "parts of such rows are not at hand");
    if (tcc_type_numel(&sp->kept) < TCC_PARTS_LEAST_ROWS) return fail(reason, "too few rows for sums of their parts");
    if (row / parts < TCC_PARTS_SHORTEST) return fail(reason, "parts of rows are too short");
    if (sp->part && !tcc_type_same_dims(&sp->part->type, &n->type)) return fail(reason, "unequal parts of rows");
    sp->part = n;
    if (!tcc_dtype_is_float(n->type.dtype) || tcc_dtype_is_narrow(n->type.dtype))
        return fail(reason, "a sum of parts of rows would be rounded");
    return !tcc_draft_reads(d, n) || fail(reason, "work on sums of parts of rows");
}

/* The level of a node of a reduction's group by the levels of its operands. False: it may not be there. */
static bool find_level(const tcc_draft *d, tcc_draft_scratch *s, int i, space *sp, const char **reason) {
    const tcc_node *n = d->nodes[i];
    unsigned levels = tcc_draft_operand_levels(n, s);
    bool full = levels >> TCC_LEVEL_FULL & 1, kept = levels >> TCC_LEVEL_KEPT & 1,
         across = levels >> TCC_LEVEL_ACROSS & 1;
    bool keeps_place = n->op == TCC_OP_RESHAPE && tcc_dims_alike(&n->type, &n->operands[0]->type);
    tcc_draft_level *level = &s->level[i];
    *level = full ? TCC_LEVEL_FULL : kept ? TCC_LEVEL_KEPT : across ? TCC_LEVEL_ACROSS : TCC_LEVEL_POINT;
    switch (tcc_fusion_of(n)) {
    case TCC_FUSION_REDUCE:
        *level = TCC_LEVEL_KEPT;
        if (!kept && !across && same_space(n, sp)) return true;
        *level = TCC_LEVEL_PARTS;
        if (!kept && !across && tcc_sums_parts(d->hero, n)) return check_parts(d, s, sp, i, reason);
        *level = TCC_LEVEL_ACROSS;
        return (!kept && !across && sums_columns(n, sp)) || fail(reason, "reductions over different spaces");
    case TCC_FUSION_POINT:
        if (across && (full || kept)) return fail(reason, "a column sum meets the rows that it is made from");
        return !full || !kept || fail(reason, "full and kept values meet without a broadcast");
    case TCC_FUSION_VIEW:
        if (full)
            return tcc_draft_is_last_reshape(d, i) || stores_across(d, s, i, sp) ||
                   fail(reason, "a view of work behind the reduction");
        if (across) return keeps_place || fail(reason, "a view of a column sum");
        if (kept && n->op == TCC_OP_BROADCAST && restores(n, sp)) *level = TCC_LEVEL_FULL;
        else if (kept && !keeps_place) return fail(reason, "a reduced value goes elsewhere than back to its rows");
        return true;
    case TCC_FUSION_INDEX:
        if (full || kept || across || !tcc_draft_loads_table(n, s))
            return fail(reason, "a table that the kernel computes itself");
        return true;
    default: return fail(reason, "two heroes of different kinds");
    }
}

bool tcc_draft_check_reduce(const tcc_draft *d, tcc_draft_scratch *s, const char **reason) {
    space sp;
    open_space(d->hero, &sp);
    int depth[TCC_FUSE_MAX_NODES]; /* sweeps before the value is known */
    int deepest = 0, reductions = 0;
    bool has_full = false, has_across = false;
    for (int i = 0; i < d->n_nodes; i++) {
        const tcc_node *n = d->nodes[i];
        if (!find_level(d, s, i, &sp, reason)) return false;
        reductions += tcc_is_reduction(n);
        depth[i] = 0;
        for (int k = 0; k < n->n_operands; k++) {
            int p = position_of(s, n->operands[k]);
            if (p >= 0 && depth[p] > depth[i]) depth[i] = depth[p];
        }
        if (tcc_is_reduction(n) && s->level[i] == TCC_LEVEL_KEPT && ++depth[i] > deepest) deepest = depth[i];
        has_full |= s->level[i] == TCC_LEVEL_FULL;
        has_across |= s->level[i] == TCC_LEVEL_ACROSS;
    }
    s->levels = deepest;
    if (reductions > TCC_GROUP_MAX_REDUCTIONS) return fail(reason, "too many reductions");
    if (deepest > TCC_FUSE_MAX_LEVELS) return fail(reason, "too many dependent reductions");
    int64_t rows = tcc_type_numel(&sp.kept), points = tcc_type_numel(sp.dims);
    if (has_full || deepest > 1) {
        enum { FEW_ROWS = 4, LARGE_ROW = 16384 };
        const bool near = is_column_space(&sp) && tcc_type_numel(&sp.reduced) <= s->longest_column;
        if (!near && !is_row_space(&sp)) return fail(reason, "a column would be read twice");
        if (rows < FEW_ROWS && points / rows > LARGE_ROW) return fail(reason, "too few rows to read them twice");
    }
    if (has_across && !check_columns(&sp, reason)) return false;
    if (has_across && sp.part) return fail(reason, "column sums beside sums of parts of rows");
    for (int i = 0; i < d->n_nodes; i++) {
        if (!d->stored[i]) continue;
        const tcc_type *type = &d->nodes[i]->type;
        const tcc_op op = d->nodes[i]->op;
        bool last = s->level[i] == TCC_LEVEL_FULL && (op == TCC_OP_RESHAPE || op == TCC_OP_TRANSPOSE);
        bool fits = s->level[i] == TCC_LEVEL_KEPT     ? tcc_dims_alike(type, &sp.kept)
                    : s->level[i] == TCC_LEVEL_ACROSS ? tcc_dims_alike(type, &sp.reduced)
                    : s->level[i] == TCC_LEVEL_PARTS  ? true
                                                      : tcc_dims_alike(type, sp.dims) || last;
        if (!fits) return fail(reason, "an output is neither full nor kept nor a column sum");
    }
    return true;
}

bool tcc_draft_reduces_rows(const tcc_node *n) {
    space sp;
    open_space(n, &sp);
    return is_row_space(&sp);
}
