/* SPDX-License-Identifier: MIT
 * Views and indexed reads: the index maps of ops that move elements. */
#include "codegen/body/trace.h"

#include <math.h>

/* An alias for `a` that is known to lie in [0, extent) where the guard holds. */
static tcc_affine bounded(tcc_body *b, tcc_affine a, int64_t extent) {
    int64_t low, high;
    tcc_affine_range(b, &a, &low, &high);
    if (low >= 0 && high < extent) return a;
    return tcc_affine_var(b, tcc_body_alias_var(b, a, extent - 1));
}

/* Whether `turns` more than the quotient lie outside of [0, extent) wherever the rest is that many steps. The two forms
 * bound each other: the quotient is the sum of it and a multiple of the rest, less that multiple. */
static bool is_outside(tcc_body *b, tcc_affine quotient, tcc_affine rest, int64_t step, int64_t extent, int turns) {
    for (int times = -1; times <= 1; times++) {
        tcc_affine sum = tcc_affine_add(b, quotient, tcc_affine_scale(b, rest, times));
        int64_t low, high;
        tcc_affine_range(b, &sum, &low, &high);
        const int64_t more = turns - times * turns * step;
        if (high + more < 0 || low + more >= extent) return true;
    }
    return false;
}

/* An index as step * quotient + rest, where only its multiples within [0, step * extent) are wanted and are those whose
 * rest is 0, as in a diagonal of a matrix's rows. False: there are no such forms. */
static bool split_whole(tcc_body *b, tcc_affine at, int64_t step, int64_t extent, tcc_affine *quotient,
                        tcc_affine *rest) {
    int64_t low, high;
    at = tcc_affine_expand(b, at);
    *quotient = *rest = tcc_affine_constant(0);
    for (int i = 0; i < at.n; i++) {
        const tcc_affine one = tcc_affine_var(b, at.terms[i].var);
        const int64_t c = at.terms[i].coefficient, left = ((c % step) + step) % step,
                      near = 2 * left > step ? left - step : left;
        *rest = tcc_affine_add(b, *rest, tcc_affine_scale(b, one, near));
        *quotient = tcc_affine_add(b, *quotient, tcc_affine_scale(b, one, (c - near) / step));
    }
    int64_t left = ((at.constant % step) + step) % step;
    left = 2 * left > step ? left - step : left;
    *rest = tcc_affine_add_constant(*rest, left);
    *quotient = tcc_affine_add_constant(*quotient, (at.constant - left) / step);
    tcc_affine_range(b, rest, &low, &high);
    return low > -2 * step && high < 2 * step && (low > -step || is_outside(b, *quotient, *rest, step, extent, -1)) &&
           (high < step || is_outside(b, *quotient, *rest, step, extent, 1));
}

/* An index of a padded dim as one of what is padded, of whose elements each but the last has `step` - 1 places behind
 * it. Narrows *inside to where there is one. */
static tcc_affine trace_apart(tcc_body *b, tcc_affine at, int64_t step, int64_t extent, const tcc_expr **inside) {
    tcc_affine whole, left;
    if (split_whole(b, at, step, extent, &whole, &left)) {
        *inside = tcc_expr_and(b, *inside, tcc_expr_within(b, left, 1));
        return bounded(b, whole, extent);
    }
    const tcc_expr *index = tcc_expr_index(b, at, TCC_I64);
    tcc_expr like = {.kind = TCC_EXPR_MOD, .dtype = TCC_I64, .integer = step};
    const tcc_expr *rest = tcc_expr_make(b, like, &index, 1);
    like.kind = TCC_EXPR_DIV;
    const tcc_expr *quotient = tcc_expr_make(b, like, &index, 1);
    const tcc_expr *pair[] = {rest, tcc_expr_integer(b, TCC_I64, 0)};
    if (!rest || !quotient || !pair[1]) return tcc_affine_constant(0);
    *inside = tcc_expr_and(b, *inside, tcc_expr_point(b, TCC_OP_EQ, TCC_BOOL, pair, 2));
    return tcc_affine_var(b, tcc_body_value_var(b, quotient, 0, extent - 1));
}

static const tcc_expr *trace_pad(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_attrs_pad *pad = &n->attrs->pad;
    const tcc_node *x = n->operands[0];
    const tcc_expr *outer = b->guard, *inside = NULL;
    tcc_affine mapped[TCC_MAX_RANK];
    for (int i = 0; i < n->type.rank; i++) {
        int64_t step = pad->interior.v[i] + 1, extent = x->type.dims[i];
        tcc_affine at = tcc_affine_add_constant(coordinates[i], -pad->lo.v[i]);
        const bool apart = step > 1 && extent > 1;
        /* between the last element and the next multiple there is none */
        inside = tcc_expr_and(b, inside, tcc_expr_within(b, at, apart ? extent * step : extent));
        if (apart) mapped[i] = trace_apart(b, at, step, extent, &inside);
        else mapped[i] = extent == 1 ? tcc_affine_constant(0) : bounded(b, at, extent);
    }
    if (b->status != TCC_OK) return NULL;
    if (!inside) return tcc_body_trace(b, x, mapped);
    b->guard = tcc_expr_and(b, outer, inside);
    const tcc_expr *value = tcc_body_trace(b, x, mapped);
    b->guard = outer;
    if (value && value->kind == TCC_EXPR_LOAD && value->n_operands && pad->value == 0 && !signbit(pad->value))
        return value; /* a guarded load gives 0 by itself */
    const tcc_expr *operands[] = {inside, value, tcc_expr_number(b, n->type.dtype, pad->value)};
    return tcc_expr_point(b, TCC_OP_SELECT, n->type.dtype, operands, 3);
}

static const tcc_expr *trace_concat(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    int axis = (int)n->attrs->axis.axis;
    const tcc_expr *outer = b->guard, *value = NULL;
    tcc_affine mapped[TCC_MAX_RANK];
    for (int i = 0; i < n->type.rank; i++) mapped[i] = coordinates[i];
    int64_t end = n->type.dims[axis];
    for (int k = n->n_operands - 1; k >= 0; k--) {
        const tcc_node *x = n->operands[k];
        int64_t extent = x->type.dims[axis];
        end -= extent;
        tcc_affine at = tcc_affine_add_constant(coordinates[axis], -end);
        const tcc_expr *inside = tcc_expr_within(b, at, extent);
        if (b->status != TCC_OK) return NULL;
        mapped[axis] = extent == 1 ? tcc_affine_constant(0) : bounded(b, at, extent);
        b->guard = tcc_expr_and(b, outer, inside);
        const tcc_expr *part = tcc_body_trace(b, x, mapped);
        b->guard = outer;
        if (!inside) return part; /* the whole range falls into this operand */
        const tcc_expr *operands[] = {inside, part, value};
        value = value ? tcc_expr_point(b, TCC_OP_SELECT, n->type.dtype, operands, 3) : part;
        if (!value) return NULL;
    }
    return value;
}

const tcc_expr *tcc_body_trace_view(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_node *x = n->operands[0];
    const tcc_attrs *a = n->attrs;
    tcc_affine mapped[TCC_MAX_RANK];
    switch (n->op) {
    case TCC_OP_RESHAPE:
        tcc_affine_split(b, tcc_affine_linear(b, coordinates, n->type.rank, n->type.dims), x->type.rank, x->type.dims,
                         mapped);
        break;
    case TCC_OP_TRANSPOSE:
        for (int i = 0; i < n->type.rank; i++) mapped[a->perm.perm.v[i]] = coordinates[i];
        break;
    case TCC_OP_BROADCAST:
        for (int i = 0; i < x->type.rank; i++)
            mapped[i] = x->type.dims[i] == 1 ? tcc_affine_constant(0) : coordinates[a->broadcast.dims.v[i]];
        break;
    case TCC_OP_SLICE:
        for (int i = 0; i < x->type.rank; i++)
            mapped[i] = tcc_affine_add_constant(tcc_affine_scale(b, coordinates[i], a->slice.stride.v[i]),
                                                a->slice.start.v[i]);
        break;
    case TCC_OP_FLIP:
        for (int i = 0; i < x->type.rank; i++) mapped[i] = coordinates[i];
        for (int i = 0; i < a->axes.axes.count; i++) {
            int axis = (int)a->axes.axes.v[i];
            mapped[axis] = tcc_affine_add_constant(tcc_affine_scale(b, coordinates[axis], -1), x->type.dims[axis] - 1);
        }
        break;
    case TCC_OP_PAD: return trace_pad(b, n, coordinates);
    default: return trace_concat(b, n, coordinates);
    }
    return tcc_body_trace(b, x, mapped);
}

const tcc_expr *tcc_body_trace_take(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_node *x = n->operands[0], *indices = n->operands[1];
    int axis = (int)n->attrs->axis.axis;
    bool along = n->op == TCC_OP_TAKE_ALONG;
    const tcc_expr *index = tcc_body_trace(b, indices, along ? coordinates : coordinates + axis);
    if (!index) return NULL;
    tcc_affine mapped[TCC_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++)
        mapped[i] = i < axis || along ? coordinates[i] : coordinates[i == axis ? i : i - 1 + indices->type.rank];
    int64_t extent = x->type.dims[axis];
    const tcc_expr *inside = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_WITHIN, .dtype = TCC_BOOL, .integer = extent},
                                           &index, 1);
    if (!inside) return NULL;
    mapped[axis] = extent == 1 ? tcc_affine_constant(0)
                               : tcc_affine_var(b, tcc_body_value_var(b, index, 0, extent - 1));
    const tcc_expr *outer = b->guard;
    b->guard = tcc_expr_and(b, outer, inside);
    const tcc_expr *value = tcc_body_trace(b, x, mapped);
    b->guard = outer;
    if (!value || (value->kind == TCC_EXPR_LOAD && value->n_operands))
        return value; /* a guarded load gives 0 by itself */
    const tcc_expr *operands[] = {inside, value, tcc_expr_number(b, n->type.dtype, 0)};
    return tcc_expr_point(b, TCC_OP_SELECT, n->type.dtype, operands, 3);
}
