/* SPDX-License-Identifier: MIT
 * Affine forms: sums, ranges, row-major positions. */
#include "codegen/body/body.h"

#include <string.h>

tcc_affine tcc_affine_constant(int64_t value) { return (tcc_affine){.constant = value}; }

static tcc_affine failed(tcc_body *b) {
    if (b->status == TCC_OK) b->status = tcc_enomem(b->diag);
    return tcc_affine_constant(0);
}

tcc_affine tcc_affine_var(tcc_body *b, int var) {
    tcc_term *term = TCC_ARENA_NEW(b->arena, tcc_term);
    if (!term || var >= b->vars.count) return failed(b); /* no memory for the term, or none for the variable before */
    *term = (tcc_term){var, 1};
    return (tcc_affine){.n = 1, .terms = term};
}

tcc_affine tcc_affine_add(tcc_body *b, tcc_affine a, tcc_affine c) {
    if (!c.n) return tcc_affine_add_constant(a, c.constant);
    if (!a.n) return tcc_affine_add_constant(c, a.constant);
    tcc_term *terms = TCC_ARENA_ARRAY(b->arena, tcc_term, a.n + c.n);
    if (!terms) return failed(b);
    tcc_affine out = {.constant = a.constant + c.constant, .terms = terms};
    for (int i = 0, j = 0; i < a.n || j < c.n;) {
        tcc_term t;
        if (j == c.n || (i < a.n && a.terms[i].var < c.terms[j].var)) t = a.terms[i++];
        else if (i == a.n || c.terms[j].var < a.terms[i].var) t = c.terms[j++];
        else t = (tcc_term){a.terms[i].var, a.terms[i].coefficient + c.terms[j].coefficient}, i++, j++;
        if (t.coefficient) terms[out.n++] = t;
    }
    return out;
}

tcc_affine tcc_affine_scale(tcc_body *b, tcc_affine a, int64_t factor) {
    if (factor == 1 || (!a.n && !a.constant)) return a;
    if (factor == 0) return tcc_affine_constant(0);
    tcc_term *terms = TCC_ARENA_ARRAY(b->arena, tcc_term, a.n ? a.n : 1);
    if (!terms) return failed(b);
    for (int i = 0; i < a.n; i++) terms[i] = (tcc_term){a.terms[i].var, a.terms[i].coefficient * factor};
    return (tcc_affine){a.constant * factor, a.n, terms};
}

tcc_affine tcc_affine_add_constant(tcc_affine a, int64_t value) {
    a.constant += value;
    return a;
}

bool tcc_affine_equal(const tcc_affine *a, const tcc_affine *c) {
    if (a->constant != c->constant || a->n != c->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->terms[i].var != c->terms[i].var || a->terms[i].coefficient != c->terms[i].coefficient) return false;
    return true;
}

int64_t tcc_affine_coefficient(const tcc_affine *a, int var) {
    for (int i = 0; i < a->n; i++)
        if (a->terms[i].var == var) return a->terms[i].coefficient;
    return 0;
}

void tcc_affine_add_range(const tcc_body *b, tcc_term t, int64_t *low, int64_t *high) {
    const tcc_var *v = &b->vars.data[t.var];
    int64_t one = t.coefficient * v->low, two = t.coefficient * v->high;
    *low += one < two ? one : two;
    *high += one < two ? two : one;
}

void tcc_affine_range(const tcc_body *b, const tcc_affine *a, int64_t *low, int64_t *high) {
    *low = *high = a->constant;
    for (int i = 0; i < a->n; i++) tcc_affine_add_range(b, a->terms[i], low, high);
}

static const tcc_expr *value_of(const tcc_body *b, const tcc_term *t, tcc_expr_kind kind) {
    const tcc_var *v = &b->vars.data[t->var];
    return v->kind == TCC_VAR_VALUE && v->value->kind == kind ? v->value : NULL;
}

/* What an expression is as an index; false: no variable stands for it. */
static bool index_of(tcc_body *b, const tcc_expr *x, tcc_affine *out) {
    *out = x->affine;
    if (x->kind == TCC_EXPR_INDEX) return true;
    for (int i = 0; i < b->vars.count; i++)
        if (b->vars.data[i].kind == TCC_VAR_VALUE && b->vars.data[i].value == x) {
            *out = tcc_affine_var(b, i);
            return true;
        }
    return false;
}

/* size * (x / size) + x % size is x. Returns whether there was such a pair. */
static bool join_quotient(tcc_body *b, tcc_affine *a) {
    for (int i = 0; i < a->n; i++) {
        const tcc_expr *quotient = value_of(b, &a->terms[i], TCC_EXPR_DIV);
        for (int k = 0; quotient && k < a->n; k++) {
            const tcc_expr *rest = value_of(b, &a->terms[k], TCC_EXPR_MOD);
            tcc_affine x;
            if (!rest || rest->integer != quotient->integer || rest->operands[0] != quotient->operands[0] ||
                a->terms[i].coefficient != a->terms[k].coefficient * quotient->integer ||
                !index_of(b, rest->operands[0], &x))
                continue;
            const tcc_term gone[] = {{a->terms[i].var, -a->terms[i].coefficient},
                                     {a->terms[k].var, -a->terms[k].coefficient}};
            x = tcc_affine_scale(b, x, a->terms[k].coefficient);
            for (int g = 0; g < 2; g++) *a = tcc_affine_add(b, *a, (tcc_affine){.n = 1, .terms = &gone[g]});
            *a = tcc_affine_add(b, *a, x);
            return true;
        }
    }
    return false;
}

tcc_affine tcc_affine_expand(tcc_body *b, tcc_affine a) {
    for (int i = 0; i < a.n; i++) {
        tcc_term t = a.terms[i];
        if (b->vars.data[t.var].kind != TCC_VAR_ALIAS) continue;
        const tcc_term gone = {t.var, -t.coefficient};
        tcc_affine rest = tcc_affine_add(b, a, (tcc_affine){.n = 1, .terms = &gone});
        a = tcc_affine_add(b, rest, tcc_affine_scale(b, b->vars.data[t.var].alias, t.coefficient));
        i = -1; /* an alias may stand for aliases */
    }
    return a;
}

tcc_affine tcc_affine_whole(tcc_body *b, tcc_affine a) {
    a = tcc_affine_expand(b, a);
    while (join_quotient(b, &a)) continue;
    return a;
}

uint64_t tcc_affine_loops(const tcc_body *b, const tcc_affine *a) {
    uint64_t loops = 0;
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &b->vars.data[a->terms[i].var];
        if (v->kind == TCC_VAR_LOOP) loops |= UINT64_C(1) << a->terms[i].var;
        else if (v->kind == TCC_VAR_VALUE) loops |= v->value->loops;
        else loops |= tcc_affine_loops(b, &v->alias);
    }
    return loops;
}

tcc_affine tcc_affine_linear(tcc_body *b, const tcc_affine *coordinates, int rank, const int64_t *dims) {
    tcc_affine position = tcc_affine_constant(0);
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        position = tcc_affine_add(b, position, tcc_affine_scale(b, coordinates[i], stride));
        stride *= dims[i];
    }
    return position;
}
