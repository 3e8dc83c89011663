/* SPDX-License-Identifier: MIT
 * Iteration spaces: loop variables, the conversion of a row-major position to coordinates, and the merging of loops.
 * Coordinates stay affine where the variables' ranges show that no carry can occur. Where splitting a loop variable
 * would make them affine, the split is requested. */
#include "codegen/body/body.h"

#include <string.h>

static tcc_affine failed(tcc_body *b) {
    if (b->status == TCC_OK) b->status = tcc_enomem(b->diag);
    return tcc_affine_constant(0);
}

static int64_t floor_div(int64_t a, int64_t d) { return a / d - (a % d != 0 && a < 0); }

/* The numbers of all loops that a body may have are taken before any other variable gets one: a set of loops is a mask,
 * and there may be more of the others than it has bits. */
static bool reserve_loops(tcc_body *b) {
    while (b->vars.count < TCC_BODY_MAX_LOOPS)
        if (!tcc_vec_push(&b->vars, (tcc_var){.kind = TCC_VAR_LOOP})) {
            failed(b);
            return false;
        }
    return true;
}

static int new_var(tcc_body *b, tcc_var v) {
    if (!reserve_loops(b)) return 0;
    if (!tcc_vec_push(&b->vars, v)) {
        failed(b);
        return 0;
    }
    return b->vars.count - 1;
}

int tcc_body_loop(tcc_body *b, int64_t extent) {
    if (!reserve_loops(b)) return 0;
    if (b->n_loops == TCC_BODY_MAX_LOOPS) {
        if (b->status == TCC_OK)
            b->status = tcc_error(b->diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "a fused group needs more than %d loops",
                                  TCC_BODY_MAX_LOOPS);
        return 0;
    }
    b->vars.data[b->n_loops].high = extent - 1;
    return b->n_loops++;
}

int tcc_body_value_var(tcc_body *b, const tcc_expr *value, int64_t low, int64_t high) {
    for (int i = 0; i < b->vars.count; i++)
        if (b->vars.data[i].kind == TCC_VAR_VALUE && b->vars.data[i].value == value && b->vars.data[i].low == low &&
            b->vars.data[i].high == high)
            return i;
    return new_var(b, (tcc_var){.kind = TCC_VAR_VALUE, .value = value, .low = low, .high = high});
}

int tcc_body_alias_var(tcc_body *b, tcc_affine alias, int64_t high) {
    return new_var(b, (tcc_var){.kind = TCC_VAR_ALIAS, .high = high, .alias = alias});
}

/* Asks for a split of a loop variable among `terms` that straddles `size`. */
static void ask_for_split(tcc_body *b, const tcc_term *terms, int n, int64_t size) {
    if (b->split_var >= 0) return;
    for (int i = 0; i < n; i++) {
        const tcc_var *v = &b->vars.data[terms[i].var];
        int64_t c = terms[i].coefficient < 0 ? -terms[i].coefficient : terms[i].coefficient, extent = v->high + 1;
        if (terms[i].var >= b->n_space || c >= size || c * extent <= size || size % c || extent % (size / c)) continue;
        b->split_var = terms[i].var;
        b->split_inner = size / c;
        return;
    }
}

/* position = size * quotient + remainder, 0 <= remainder < size. */
static void divide(tcc_body *b, tcc_affine position, int64_t size, tcc_affine *quotient, tcc_affine *remainder) {
    tcc_term *whole = TCC_ARENA_ARRAY(b->arena, tcc_term, position.n + 1),
             *rest = TCC_ARENA_ARRAY(b->arena, tcc_term, position.n + 1);
    if (!whole || !rest) {
        *quotient = *remainder = failed(b);
        return;
    }
    int n_whole = 0, n_rest = 0;
    int64_t low = position.constant, high = position.constant;
    for (int i = 0; i < position.n; i++) {
        tcc_term t = position.terms[i];
        if (t.coefficient % size == 0) {
            whole[n_whole++] = (tcc_term){t.var, t.coefficient / size};
        } else {
            rest[n_rest++] = t;
            tcc_affine_add_range(b, t, &low, &high);
        }
    }
    *quotient = (tcc_affine){0, n_whole, whole};
    tcc_affine left = {position.constant, n_rest, rest};
    int64_t least = floor_div(low, size), most = floor_div(high, size);
    if (least == most) {
        quotient->constant = least;
        *remainder = tcc_affine_add_constant(left, -least * size);
        return;
    }
    ask_for_split(b, rest, n_rest, size);
    /* The quotient of what is left is a value of its own. Its range starts at 0 wherever it matters. */
    const tcc_expr *index = tcc_expr_index(b, left, high < INT32_MAX && low > INT32_MIN ? TCC_I32 : TCC_I64);
    if (!index) {
        *remainder = *quotient;
        return;
    }
    tcc_expr like = {.dtype = index->dtype, .integer = size};
    like.kind = TCC_EXPR_DIV;
    const tcc_expr *q = tcc_expr_make(b, like, &index, 1);
    like.kind = TCC_EXPR_MOD;
    const tcc_expr *r = tcc_expr_make(b, like, &index, 1);
    if (!q || !r) {
        *remainder = *quotient;
        return;
    }
    *quotient = tcc_affine_add(b, *quotient, tcc_affine_var(b, tcc_body_value_var(b, q, least < 0 ? 0 : least, most)));
    *remainder = tcc_affine_var(b, tcc_body_value_var(b, r, 0, size - 1));
}

void tcc_affine_split(tcc_body *b, tcc_affine position, int rank, const int64_t *dims, tcc_affine *coordinates) {
    int64_t stride = 1;
    for (int i = 0; i < rank; i++) stride *= dims[i];
    for (int i = 0; i < rank; i++) {
        stride /= dims[i];
        if (dims[i] == 1) {
            coordinates[i] = tcc_affine_constant(0);
        } else if (stride == 1) {
            coordinates[i] = position;
        } else {
            tcc_affine remainder;
            divide(b, position, stride, &coordinates[i], &remainder);
            position = remainder;
        }
    }
}

void tcc_iteration_init(tcc_iteration *it, int rank, const int64_t *dims) {
    *it = (tcc_iteration){.rank = rank};
    for (int i = 0; i < rank; i++) it->axes[i] = (tcc_space_axis){.extent = dims[i], .n = 1, .factors = {dims[i]}};
}

void tcc_iteration_open(tcc_body *b, const tcc_iteration *it, tcc_affine *coordinates) {
    for (int i = 0; i < it->rank; i++) {
        const tcc_space_axis *axis = &it->axes[i];
        coordinates[i] = tcc_affine_constant(0);
        int64_t stride = axis->extent;
        for (int k = 0; k < axis->n; k++) {
            stride /= axis->factors[k];
            if (axis->factors[k] == 1) continue;
            tcc_affine v = tcc_affine_var(b, tcc_body_loop(b, axis->factors[k]));
            coordinates[i] = tcc_affine_add(b, coordinates[i], tcc_affine_scale(b, v, stride));
        }
    }
    b->n_space = b->n_loops;
}

bool tcc_iteration_refine(tcc_iteration *it, const tcc_body *b) {
    if (b->split_var < 0 || b->status != TCC_OK) return false;
    int var = 0; /* loops are numbered in the order of tcc_iteration_open */
    for (int i = 0; i < it->rank; i++) {
        tcc_space_axis *axis = &it->axes[i];
        for (int k = 0; k < axis->n; k++) {
            if (axis->factors[k] == 1) continue;
            if (var++ != b->split_var) continue;
            if (axis->n == 16) return false;
            memmove(&axis->factors[k + 1], &axis->factors[k], sizeof *axis->factors * (size_t)(axis->n - k));
            axis->factors[k] /= b->split_inner;
            axis->factors[k + 1] = b->split_inner;
            axis->n++;
            return true;
        }
    }
    return false; /* a loop of a fold: not ours to split */
}

/* Whether every form has outer's coefficient = extent of inner * inner's coefficient. */
static bool contiguous(const tcc_affine *a, int outer, int inner, int64_t inner_extent) {
    return tcc_affine_coefficient(a, outer) == inner_extent * tcc_affine_coefficient(a, inner);
}

static void drop_var(tcc_affine *a, int var) {
    tcc_term *terms = (tcc_term *)a->terms; /* the form's own, see below */
    int n = 0;
    for (int i = 0; i < a->n; i++)
        if (terms[i].var != var) terms[n++] = terms[i];
    a->n = n;
}

void tcc_body_collapse(tcc_body *b, int *order, int *n_order, uint64_t class_bits, uint64_t *pairs) {
    uint64_t merged = 0;
    /* Forms get terms of their own first, since merging rewrites them in place. */
    for (int i = 0; i < b->exprs.count + b->stores.count; i++) {
        tcc_affine *a = i < b->exprs.count ? &b->exprs.data[i]->affine : &b->stores.data[i - b->exprs.count].offset;
        if (!a->n) continue;
        a->terms = tcc_arena_copy(b->arena, a->terms, sizeof *a->terms * (size_t)a->n);
        if (!a->terms) {
            *a = failed(b);
            return;
        }
    }
    for (int i = *n_order - 2; i >= 0; i--) {
        int outer = order[i], inner = order[i + 1];
        if ((class_bits >> outer & 1) != (class_bits >> inner & 1) || (pairs && !(*pairs >> i & 1))) continue;
        int64_t extent = b->vars.data[inner].high + 1;
        bool merge = true;
        for (int k = 0; merge && k < b->exprs.count; k++)
            merge = contiguous(&b->exprs.data[k]->affine, outer, inner, extent);
        for (int k = 0; merge && k < b->stores.count; k++)
            merge = contiguous(&b->stores.data[k].offset, outer, inner, extent);
        if (!merge) continue;
        for (int k = 0; k < b->exprs.count; k++) {
            drop_var(&b->exprs.data[k]->affine, outer);
            b->exprs.data[k]->loops &= ~(UINT64_C(1) << outer);
        }
        for (int k = 0; k < b->stores.count; k++) drop_var(&b->stores.data[k].offset, outer);
        b->vars.data[inner].high = extent * (b->vars.data[outer].high + 1) - 1;
        b->vars.data[outer].high = 0;
        memmove(&order[i], &order[i + 1], sizeof *order * (size_t)(*n_order - i - 1));
        --*n_order;
        merged |= UINT64_C(1) << i;
    }
    if (pairs) *pairs = merged;
}

/* Only the terms in loops. */
static tcc_affine loop_part(tcc_body *b, const tcc_affine *a) {
    tcc_term *terms = TCC_ARENA_ARRAY(b->arena, tcc_term, a->n + 1);
    if (!terms) return failed(b);
    tcc_affine out = {.terms = terms};
    for (int i = 0; i < a->n; i++)
        if (b->vars.data[a->terms[i].var].kind == TCC_VAR_LOOP) terms[out.n++] = a->terms[i];
    return out;
}

int tcc_body_forms(tcc_body *b, tcc_affine *out, int most) {
    int n = 0;
    for (int i = 0; i < b->exprs.count + b->stores.count; i++) {
        bool is_expr = i < b->exprs.count;
        if (is_expr && b->exprs.data[i]->kind != TCC_EXPR_LOAD && b->exprs.data[i]->kind != TCC_EXPR_INDEX) continue;
        tcc_affine form = loop_part(b,
                                    is_expr ? &b->exprs.data[i]->affine : &b->stores.data[i - b->exprs.count].offset);
        if (!form.n) continue;
        int k = 0;
        while (k < n && !tcc_affine_equal(&out[k], &form)) k++;
        if (k < n) continue;
        if (n == most) return -1;
        out[n++] = form;
    }
    return n;
}
