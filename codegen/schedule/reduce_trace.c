/* SPDX-License-Identifier: MIT
 * Reductions: the scalar program of a group. A reduction of the group, at its own kept point, is a REDUCE expression of
 * its operand at the point. Once it is known, it is loaded; while partial results are combined, it is the fold of
 * those. No expression of the rows' program reads column sums: they are stores that add (tcc_body_write.sum). */
#include "codegen/schedule/reduce.h"

#include <string.h>

static tcc_status too_many(tcc_diag *diag, const tcc_node *n) {
    return tcc_error(diag, TCC_EUNSUPPORTED, n->loc, "more than %d reductions in a group", TCC_GROUP_MAX_REDUCTIONS);
}

/* Values in front of a reduction are known anywhere: a transpose of these is a value of the point. */
static void mark_moved(tcc_reduce_trace *t, bool *behind) {
    const tcc_group *group = t->l->group;
    for (int i = 0; i < group->n_nodes; i++) {
        const tcc_node *n = group->nodes[i];
        behind[i] = tcc_op_get_info(n->op)->fusion == TCC_FUSION_REDUCE;
        for (int k = 0; k < n->n_operands; k++) {
            const int p = tcc_group_position(group, n->operands[k]);
            behind[i] = behind[i] || (p >= 0 && behind[p]);
        }
    }
    for (int i = 0; i < group->n_outputs; i++) {
        const tcc_node *n = group->outputs[i];
        t->moved[i] = n->op == TCC_OP_TRANSPOSE && behind[tcc_group_position(group, n)];
    }
}

tcc_status tcc_reduce_trace_begin(tcc_reduce_trace *t, tcc_lowering *l) {
    const tcc_group *group = l->group;
    *t = (tcc_reduce_trace){.l = l, .space = &group->hero->operands[0]->type, .kept_numel = 1, .reduced_numel = 1};
    tcc_dims axes = tcc_reduction_axes(group->hero);
    for (int i = 0; i < axes.count; i++) t->reduced[axes.v[i]] = true;
    for (int i = 0; i < t->space->rank; i++) *(t->reduced[i] ? &t->reduced_numel : &t->kept_numel) *= t->space->dims[i];
    tcc_iteration_init(&t->it, t->space->rank, t->space->dims);
    t->across = TCC_ARENA_ARRAY(l->arena, bool, group->n_nodes + 1);
    t->full_level = TCC_ARENA_ARRAY(l->arena, int, group->n_outputs + 1);
    t->moved = TCC_ARENA_ARRAY(l->arena, bool, group->n_outputs + 1);
    bool *behind = TCC_ARENA_ARRAY(l->arena, bool, group->n_nodes + 1);
    if (!t->across || !t->full_level || !t->moved || !behind) return tcc_enomem(l->diag);
    tcc_group_mark_across(group, t->across);
    mark_moved(t, behind);
    for (int i = 0; i < group->n_nodes; i++) {
        const tcc_node *n = group->nodes[i];
        t->has_parts |= tcc_sums_parts(group->hero, n);
        if (!t->across[i] || tcc_op_get_info(n->op)->fusion != TCC_FUSION_REDUCE) continue;
        if (t->n == TCC_GROUP_MAX_REDUCTIONS) return too_many(l->diag, n);
        t->all[t->n++] = (tcc_reduction){.node = n, .across = true, .temporary = -1, .partial = -1, .means = -1};
    }
    return tcc_reduce_find_order(t);
}

static tcc_space_axis axis_of(int64_t extent) {
    return (tcc_space_axis){.extent = extent, .n = 1, .factors = {extent}};
}

void tcc_reduce_join_loops(tcc_reduce_trace *t) {
    const bool kept = t->n > 0; /* there are column sums */
    tcc_iteration_init(&t->it, t->space->rank, t->space->dims);
    t->joined = true;
    for (int i = 0, first = -1; i < t->space->rank; i++) {
        t->run[i] = i;
        if (t->space->dims[i] == 1) continue;
        if (first < 0 || t->reduced[i] != t->reduced[first] || (!t->reduced[i] && !kept)) {
            first = i;
            continue;
        }
        t->run[i] = first;
        t->it.axes[first] = axis_of(t->it.axes[first].extent * t->space->dims[i]);
        t->it.axes[i] = axis_of(1);
    }
}

/* The coordinates of dims whose loops are one. */
static void split_runs(tcc_reduce_trace *t, tcc_body *b) {
    for (int first = 0; first < t->space->rank; first++) {
        tcc_affine coordinates[TCC_MAX_RANK];
        int64_t dims[TCC_MAX_RANK];
        int n = 0, k = 0;
        for (int i = first; i < t->space->rank; i++)
            if (t->run[i] == first) dims[n++] = t->space->dims[i];
        if (n < 2) continue;
        const int asked = b->split_var;
        tcc_affine_split(b, t->coordinates[first], n, dims, coordinates);
        b->split_var = asked; /* by others: the loop stays one */
        for (int i = first; i < t->space->rank; i++)
            if (t->run[i] == first) t->coordinates[i] = coordinates[k++];
    }
}

/* The values of dims on one side at the open point. */
static void side_position(const tcc_reduce_trace *t, tcc_body *b, bool reduced, tcc_affine *position) {
    tcc_affine coordinates[TCC_MAX_RANK];
    int64_t dims[TCC_MAX_RANK];
    int n = 0;
    for (int i = 0; i < t->space->rank; i++)
        if (t->reduced[i] == reduced) {
            coordinates[n] = t->coordinates[i];
            dims[n++] = t->space->dims[i];
        }
    *position = tcc_affine_linear(b, coordinates, n, dims);
}

tcc_dtype tcc_reduce_partial_dtype(const tcc_node *n) {
    return tcc_dtype_is_float(n->type.dtype) && tcc_dtype_bytes(n->type.dtype) < 4 ? TCC_F32 : n->type.dtype;
}

/* A reduction made here, of the kept point or column `own`: not of the reduced loops, which are the schedule's. */
static const tcc_expr *make_reduce(tcc_body *b, tcc_op op, tcc_dtype dtype, const tcc_expr *operand,
                                   const tcc_affine *own) {
    const tcc_expr *value = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_REDUCE, .dtype = dtype, .op = op}, &operand,
                                          1);
    if (value) ((tcc_expr *)value)->loops = tcc_affine_loops(b, own);
    return value;
}

/* The operand of a reduction at a kept point and the place `reduced` in its range. */
static const tcc_expr *operand_at(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates,
                                  tcc_affine reduced_position) {
    const tcc_type *x = &n->operands[0]->type;
    int64_t dims[TCC_MAX_RANK];
    tcc_affine inner[TCC_MAX_RANK], mapped[TCC_MAX_RANK];
    bool reduced[TCC_MAX_RANK] = {false};
    tcc_dims axes = tcc_reduction_axes(n);
    int n_inner = 0;
    for (int i = 0; i < axes.count; i++) reduced[axes.v[i]] = true;
    for (int i = 0; i < x->rank; i++)
        if (reduced[i]) dims[n_inner++] = x->dims[i];
    tcc_affine_split(b, reduced_position, n_inner, dims, inner);
    for (int i = 0, k = 0, m = 0; i < x->rank; i++) mapped[i] = reduced[i] ? inner[m++] : coordinates[k++];
    return tcc_body_trace(b, n->operands[0], mapped);
}

/* A partial result of the reduction; `at`: its kept point, or, of a column sum, its column. */
static const tcc_expr *partial_of(tcc_reduce_trace *t, tcc_body *b, const tcc_reduction *r, int temporary,
                                  tcc_affine at) {
    tcc_affine offset = tcc_affine_add(b, at,
                                       tcc_affine_scale(b, t->split, r->across ? t->reduced_numel : t->kept_numel));
    return tcc_expr_load(b, tcc_body_temporary(b, temporary, tcc_reduce_partial_dtype(r->node), false), offset, NULL);
}

static const tcc_expr *binary(tcc_body *b, tcc_op op, tcc_dtype dtype, const tcc_expr *x, const tcc_expr *y) {
    return tcc_expr_point(b, op, dtype, (const tcc_expr *[]){x, y}, 2);
}

/* The elements of the split at hand: `split_points`, or what is left. */
static const tcc_expr *points_of_split(tcc_reduce_trace *t, tcc_body *b, tcc_dtype dtype) {
    if (t->reduced_numel % t->split_points == 0) return tcc_expr_number(b, dtype, (double)t->split_points);
    tcc_affine left = tcc_affine_add_constant(tcc_affine_scale(b, t->split, -t->split_points), t->reduced_numel);
    const tcc_expr *rest = tcc_expr_index(b, left, TCC_I64), *whole = tcc_expr_integer(b, TCC_I64, t->split_points);
    const tcc_expr *points = binary(b, TCC_OP_MIN, TCC_I64, rest, whole);
    return tcc_expr_point(b, TCC_OP_CAST, dtype, &points, 1);
}

/* The mean or M2 from those of the splits, each of n_p elements: sum n_p m_p / n and sum M2_p + n_p (m_p - mean)^2. */
static const tcc_expr *combine_moment(tcc_reduce_trace *t, tcc_body *b, tcc_reduction *r, tcc_affine own) {
    tcc_dtype dtype = tcc_reduce_partial_dtype(r->node);
    bool m2 = r->node->op == TCC_OP_REDUCE_M2;
    const tcc_expr *points = points_of_split(t, b, dtype), *mean = partial_of(t, b, r, m2 ? r->means : r->partial, own);
    r->expr = make_reduce(b, TCC_OP_REDUCE_SUM, dtype, binary(b, TCC_OP_MUL, dtype, mean, points), &own);
    const tcc_expr *total = tcc_expr_mean(b, r->expr, t->reduced_numel);
    if (!m2) return total;
    const tcc_expr *between = binary(b, TCC_OP_MUL, dtype, tcc_expr_deviation(b, mean, total), points);
    return r->expr = make_reduce(b, TCC_OP_REDUCE_SUM, dtype,
                                 binary(b, TCC_OP_ADD, dtype, partial_of(t, b, r, r->partial, own), between), &own);
}

/* In one sweep: of x less its first element, so that a mean that is large against the differences costs no digits of
 * these. */
static const tcc_expr *moment_of_shifted(tcc_reduce_trace *t, tcc_body *b, tcc_reduction *r,
                                         const tcc_affine *coordinates, tcc_affine own) {
    const tcc_node *n = r->node;
    const tcc_expr *first = operand_at(b, n, coordinates, tcc_affine_constant(0)), *value;
    if (t->combine && r->level == t->level) {
        value = combine_moment(t, b, r, own);
    } else {
        const tcc_expr *x = binary(b, TCC_OP_SUB, n->type.dtype, operand_at(b, n, coordinates, t->reduced_position),
                                   first);
        value = r->expr = make_reduce(b, n->op, n->type.dtype, x, &own);
    }
    return n->op == TCC_OP_REDUCE_MEAN ? binary(b, TCC_OP_ADD, n->type.dtype, first, value) : value;
}

/* M2 by a sum behind the mean's. The mean is the first element plus that of the differences from it: so that of equal
 * elements is exactly what they are, and that of nearly equal ones as good as their type. */
static const tcc_expr *moment_by_sums(tcc_reduce_trace *t, tcc_body *b, tcc_reduction *r, const tcc_affine *coordinates,
                                      tcc_affine own) {
    const tcc_node *n = r->node;
    const tcc_dtype dtype = n->type.dtype;
    const tcc_expr *first = operand_at(b, n, coordinates, tcc_affine_constant(0)), *x = NULL, *differences;
    if (t->combine && r->level == t->level) {
        differences = partial_of(t, b, r, r->partial, own);
    } else {
        x = operand_at(b, n, coordinates, t->reduced_position);
        differences = binary(b, TCC_OP_SUB, dtype, x, first);
    }
    r->expr = make_reduce(b, TCC_OP_REDUCE_SUM, dtype, differences, &own);
    const tcc_expr *mean = binary(b, TCC_OP_ADD, dtype, first, tcc_expr_mean(b, r->expr, t->reduced_numel));
    if (n->op == TCC_OP_REDUCE_MEAN) return mean;
    return r->expr = make_reduce(b, TCC_OP_REDUCE_SUM, dtype, tcc_expr_deviation(b, x, mean), &own);
}

/* A reduction of the group at the kept point itself, or a column sum at the column. */
static const tcc_expr *special(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates, void *user) {
    tcc_reduce_trace *t = user;
    if (tcc_op_get_info(n->op)->fusion != TCC_FUSION_REDUCE) return NULL;
    int at = 0;
    while (at < t->n && t->all[at].node != n) at++;
    bool across = at < t->n && t->all[at].across;
    if (across && !t->combine_across) {
        b->status = TCC_BUG(b->diag, "a column sum is wanted in its rows: %s", tcc_node_text(n));
        return NULL;
    }
    tcc_affine own = tcc_affine_whole(b, across ? t->reduced_position : t->kept_position);
    tcc_affine position = tcc_affine_whole(b, tcc_affine_linear(b, coordinates, n->type.rank, n->type.dims));
    int64_t folded = tcc_type_numel(&n->operands[0]->type) / tcc_type_numel(&n->type);
    if (!tcc_affine_equal(&position, &own) || folded != (across ? t->kept_numel : t->reduced_numel)) return NULL;
    if (at == t->n) {
        if (at == TCC_GROUP_MAX_REDUCTIONS) {
            b->status = too_many(b->diag, n);
            return NULL;
        }
        t->all[t->n++] = (tcc_reduction){.node = n, .temporary = -1, .partial = -1, .means = -1};
    }
    tcc_reduction *r = &t->all[at];
    const tcc_expr *outer = b->guard, *value;
    bool partial = r->across || (t->combine && r->level == t->level);
    b->guard = NULL;
    if (r->temporary >= 0) {
        value = tcc_expr_load(b, tcc_body_temporary(b, r->temporary, n->type.dtype, false), own, NULL);
    } else if (tcc_is_moment(n->op)) {
        value = t->one_sweep ? moment_of_shifted(t, b, r, coordinates, own) : moment_by_sums(t, b, r, coordinates, own);
    } else {
        const tcc_expr *operand = partial ? partial_of(t, b, r, r->partial, own)
                                          : operand_at(b, n, coordinates, t->reduced_position);
        value = r->expr = make_reduce(b, n->op, n->type.dtype, operand, &own);
    }
    b->guard = outer;
    return value;
}

const tcc_expr *tcc_reduce_mean_beside(tcc_body *b, const tcc_expr *m2) {
    const tcc_expr *value = tcc_expr_make(
        b, (tcc_expr){.kind = TCC_EXPR_REDUCE, .dtype = m2->dtype, .op = TCC_OP_REDUCE_MEAN}, m2->operands, 1);
    if (value) ((tcc_expr *)value)->loops = m2->loops;
    return value;
}

static tcc_body *begin_body(tcc_reduce_trace *t) {
    tcc_body *b = tcc_lowering_body(t->l, t->l->group);
    if (!b) return NULL;
    for (int i = 0; i < t->n; i++) t->all[i].expr = NULL;
    t->combine = t->combine_across = false;
    b->special = special;
    b->special_user = t;
    return b;
}

tcc_body *tcc_reduce_open(tcc_reduce_trace *t) {
    tcc_body *b = begin_body(t);
    if (!b) return NULL;
    tcc_iteration_open(b, &t->it, t->coordinates);
    t->reduced_bits = 0;
    for (int i = 0; i < t->space->rank; i++)
        if (t->reduced[i]) t->reduced_bits |= tcc_affine_loops(b, &t->coordinates[i]);
    if (t->joined) split_runs(t, b);
    side_position(t, b, false, &t->kept_position);
    side_position(t, b, true, &t->reduced_position);
    return b;
}

tcc_body *tcc_reduce_open_combine(tcc_reduce_trace *t, bool across, int64_t splits, int *var) {
    tcc_body *b = begin_body(t);
    if (!b) return NULL;
    tcc_iteration it = {0};
    tcc_affine coordinates[TCC_MAX_RANK];
    int64_t dims[TCC_MAX_RANK];
    for (int i = 0; i < t->space->rank; i++)
        if (t->reduced[i] == across) {
            dims[it.rank] = t->space->dims[i];
            it.axes[it.rank++] = t->it.axes[i].extent == t->space->dims[i] ? t->it.axes[i] : axis_of(t->space->dims[i]);
        }
    /* Splits come first in memory and are the outer loop; numbering wants the space's loops first. */
    tcc_iteration_open(b, &it, coordinates);
    *var = tcc_body_loop(b, splits);
    b->n_space = b->n_loops;
    *(across ? &t->reduced_position : &t->kept_position) = tcc_affine_linear(b, coordinates, it.rank, dims);
    t->split = tcc_affine_var(b, *var);
    t->combine = !across;
    t->combine_across = across;
    return b;
}

bool tcc_reduce_is_across(const tcc_reduce_trace *t, const tcc_node *n) {
    for (int i = 0; i < t->l->group->n_nodes; i++)
        if (t->l->group->nodes[i] == n) return t->across[i];
    return false;
}

bool tcc_reduce_is_kept(const tcc_reduce_trace *t, const tcc_node *n) {
    return tcc_type_numel(&n->type) == t->kept_numel && !tcc_reduce_is_across(t, n);
}

bool tcc_reduce_is_full(const tcc_reduce_trace *t, const tcc_node *n) {
    return tcc_type_numel(&n->type) == t->kept_numel * t->reduced_numel && !tcc_reduce_is_kept(t, n) &&
           !tcc_reduce_is_across(t, n) && !tcc_reduce_is_part(t, n);
}

bool tcc_reduce_is_part(const tcc_reduce_trace *t, const tcc_node *n) {
    return t->has_parts && tcc_sums_parts(t->l->group->hero, n);
}

tcc_affine tcc_reduce_full_position(const tcc_reduce_trace *t, tcc_body *b, int i) {
    if (!t->moved[i]) return tcc_affine_linear(b, t->coordinates, t->space->rank, t->space->dims);
    const tcc_node *n = t->l->group->outputs[i];
    tcc_affine moved[TCC_MAX_RANK];
    for (int k = 0; k < n->type.rank; k++) moved[k] = t->coordinates[n->attrs->perm.perm.v[k]];
    return tcc_affine_linear(b, moved, n->type.rank, n->type.dims);
}

void tcc_reduce_store_outputs(tcc_reduce_trace *t, tcc_body *b, bool kept, bool full) {
    for (int i = 0; i < t->l->group->n_outputs; i++) {
        const tcc_node *n = t->l->group->outputs[i];
        if (kept && tcc_reduce_is_kept(t, n)) tcc_body_store(b, n, t->kept_position, true);
        if (full && tcc_reduce_is_full(t, n)) tcc_body_store(b, n, tcc_reduce_full_position(t, b, i), false);
    }
}
