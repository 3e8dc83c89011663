/* SPDX-License-Identifier: MIT
 * Folds over windows. Most windows lie wholly inside their operand. A guard on each load of a window is a branch on the
 * host. So a fold whose guards are equal in all lanes is emitted twice: with guards, and without guards for windows
 * that lie inside. Where the innermost loop is long, as along an image's row, that loop is cut instead: guards are left
 * to its ends. */
#include "codegen/body/run.h"

#define BIT(v) (UINT64_C(1) << (v))

/* Whether the guard's index is an affine form of loops. Those outside of `fold` are the *rest, which has no constant;
 * over those of the fold it is the rest and something in [*low, *high]. */
static bool split_index(const tcc_body_run *r, const tcc_expr *within, uint64_t fold, tcc_term *rest, int *n_rest,
                        int64_t *low, int64_t *high) {
    const tcc_expr *index = within->operands[0];
    if (index->kind != TCC_EXPR_INDEX || index->affine.n > TCC_BODY_MAX_LOOPS) return false;
    *n_rest = 0;
    *low = *high = index->affine.constant;
    for (int i = 0; i < index->affine.n; i++) {
        const tcc_term *t = &index->affine.terms[i];
        const tcc_var *v = &r->body->vars.data[t->var];
        if (v->kind != TCC_VAR_LOOP) return false;
        if (fold >> t->var & 1) *(t->coefficient < 0 ? low : high) += t->coefficient * v->high;
        else rest[(*n_rest)++] = *t;
    }
    return true;
}

/* Whether `guard` holds in all steps of the fold; false: it is not known to be such. */
static bool holds(tcc_body_run *r, const tcc_expr *guard, uint64_t fold, tcc_emit_value *all) {
    tcc_emitter *e = r->e;
    if (guard->kind == TCC_EXPR_POINT && guard->op == TCC_OP_AND && guard->dtype == TCC_BOOL)
        return holds(r, guard->operands[0], fold, all) && holds(r, guard->operands[1], fold, all);
    tcc_term terms[TCC_BODY_MAX_LOOPS];
    tcc_affine rest = {.terms = terms};
    int64_t low, high;
    if (guard->kind != TCC_EXPR_WITHIN || !split_index(r, guard, fold, terms, &rest.n, &low, &high)) return false;
    tcc_emit_value base = tcc_body_offset(r, &rest), extent = tcc_emit_i64(e, guard->integer), begins, ends;
    begins = tcc_emit_icmp(e, TCC_ICMP_ULT, tcc_emit_add(e, base, tcc_emit_i64(e, low)), extent);
    ends = tcc_emit_icmp(e, TCC_ICMP_ULT, tcc_emit_add(e, base, tcc_emit_i64(e, high)), extent);
    begins = tcc_emit_and(e, begins, ends);
    *all = *all ? tcc_emit_and(e, *all, begins) : begins;
    return true;
}

/* The guards of all loads in x that move with the loops of the fold. */
static bool all_hold(tcc_body_run *r, const tcc_expr *x, uint64_t fold, tcc_emit_value *all) {
    if (r->values[x->id] || !(x->loops & fold)) return true;
    if (x->fold) return false;
    if (x->kind == TCC_EXPR_LOAD && x->n_operands)
        return !tcc_body_varies(r, x->operands[0]) && holds(r, x->operands[0], fold, all);
    for (int i = 0; i < x->n_operands; i++)
        if (!all_hold(r, x->operands[i], fold, all)) return false;
    return true;
}

static uint64_t bit_of(int var) { return var < 0 ? 0 : BIT(var); }

tcc_emit_value tcc_body_lies_inside(tcc_body_run *r, const tcc_expr *x, int jam) {
    tcc_emit_value all = NULL;
    if (r->e->target->lane_groups || r->forms || r->lanes == 1) return NULL;
    return all_hold(r, x->operands[0], x->fold | bit_of(jam), &all) ? all : NULL;
}

/* What is the least integer not below a / 2^shift. */
static tcc_emit_value ceil_shift(tcc_emitter *e, tcc_emit_value a, int shift) {
    a = tcc_emit_add(e, a, tcc_emit_i64(e, (INT64_C(1) << shift) - 1));
    return shift ? tcc_emit_ashr(e, a, tcc_emit_i64(e, shift)) : a;
}

static tcc_emit_value largest(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SGT, a, b), a, b);
}

/* Narrows [*from, *to), a range of loop `var`, to where `guard` holds in all turns of the loops `jam`; false: it is not
 * known to be such. */
static bool narrow(tcc_body_run *r, const tcc_expr *guard, int var, uint64_t jam, tcc_emit_value *from,
                   tcc_emit_value *to) {
    tcc_emitter *e = r->e;
    if (guard->kind == TCC_EXPR_POINT && guard->op == TCC_OP_AND && guard->dtype == TCC_BOOL)
        return narrow(r, guard->operands[0], var, jam, from, to) && narrow(r, guard->operands[1], var, jam, from, to);
    if (guard->kind != TCC_EXPR_WITHIN || guard->operands[0]->kind != TCC_EXPR_INDEX) return false;
    const int64_t step = tcc_affine_coefficient(&guard->operands[0]->affine, var);
    if (step == 0) {
        tcc_emit_value always = NULL;
        if (!holds(r, guard, jam, &always)) return false;
        *to = tcc_emit_select(e, always, *to, *from);
        return true;
    }
    tcc_term terms[TCC_BODY_MAX_LOOPS];
    tcc_affine rest = {.terms = terms};
    int64_t low, high;
    if (step < 0 || step & (step - 1) || !split_index(r, guard, BIT(var) | jam, terms, &rest.n, &low, &high))
        return false;
    high -= step * r->body->vars.data[var].high; /* both are the index where var is 0 now */
    const int shift = __builtin_ctzll((uint64_t)step);
    tcc_emit_value base = tcc_body_offset(r, &rest), begin = tcc_emit_sub(e, tcc_emit_i64(e, -low), base),
                   end = tcc_emit_sub(e, tcc_emit_i64(e, guard->integer - high), base);
    *from = largest(e, *from, ceil_shift(e, begin, shift));
    *to = largest(e, *from, tcc_emit_min(e, *to, ceil_shift(e, end, shift)));
    return true;
}

static bool narrow_all(tcc_body_run *r, const tcc_expr *x, int var, uint64_t jam, int *guards, tcc_emit_value *from,
                       tcc_emit_value *to) {
    if (r->values[x->id] || !(x->loops & (BIT(var) | jam))) return true;
    if (x->fold) return false;
    if (x->kind == TCC_EXPR_LOAD && x->n_operands) {
        ++*guards;
        return !tcc_body_varies(r, x->operands[0]) && narrow(r, x->operands[0], var, jam, from, to);
    }
    for (int i = 0; i < x->n_operands; i++)
        if (!narrow_all(r, x->operands[i], var, jam, guards, from, to)) return false;
    return true;
}

bool tcc_body_cut_inside(tcc_body_run *r, const tcc_expr *fold, int var, int jam, tcc_emit_value *from,
                         tcc_emit_value *to) {
    int guards = 0;
    if (r->e->target->lane_groups || r->forms || r->lanes == 1 || r->unguarded) return false;
    return narrow_all(r, fold->operands[0], var, bit_of(jam), &guards, from, to) && guards;
}
