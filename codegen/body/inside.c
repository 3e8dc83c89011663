/* SPDX-License-Identifier: MIT
 * Folds over windows. Most windows lie wholly inside their operand. A guard on each load of a window is a branch on the
 * host. So a fold is emitted twice: with guards, and for windows that lie inside without those that are equal in all
 * lanes. What differs from lane to lane, as the columns where vectors run along a row, masks loads in both; there a sum
 * of products leaves out the rows that lie outside. Where the innermost loop is long, as along an image's row, that
 * loop is cut instead: guards are left to its ends. Sums of neighbouring rows (skew.c) are emitted once: their loop is
 * cut to the rows inside. */
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
    if (tcc_expr_is_and(guard))
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

/* The same of what all lanes have in common; what differs from lane to lane remains to be asked. */
static bool holds_in_common(tcc_body_run *r, const tcc_expr *guard, uint64_t fold, tcc_emit_value *all) {
    if (!tcc_body_varies(r, guard)) return holds(r, guard, fold, all);
    return !tcc_expr_is_and(guard) ||
           (holds_in_common(r, guard->operands[0], fold, all) && holds_in_common(r, guard->operands[1], fold, all));
}

const tcc_expr *tcc_body_guard_of_lanes(const tcc_body_run *r, const tcc_expr *guard) {
    if (!tcc_body_varies(r, guard)) return NULL;
    if (!tcc_expr_is_and(guard)) return guard;
    const tcc_expr *one = tcc_body_guard_of_lanes(r, guard->operands[0]),
                   *two = tcc_body_guard_of_lanes(r, guard->operands[1]);
    return one && two ? guard : one ? one : two;
}

/* The guards of all loads in x that move with the loops of the fold. */
static bool all_hold(tcc_body_run *r, const tcc_expr *x, uint64_t fold, tcc_emit_value *all) {
    if (r->values[x->id] || !(x->loops & fold)) return true;
    if (x->fold) return false;
    if (x->kind == TCC_EXPR_LOAD && x->n_operands) return holds_in_common(r, x->operands[0], fold, all);
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
    if (tcc_expr_is_and(guard))
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

static bool narrow_in_common(tcc_body_run *r, const tcc_expr *guard, int var, uint64_t jam, int *guards,
                             tcc_emit_value *from, tcc_emit_value *to) {
    if (tcc_body_varies(r, guard))
        return !tcc_expr_is_and(guard) || (narrow_in_common(r, guard->operands[0], var, jam, guards, from, to) &&
                                           narrow_in_common(r, guard->operands[1], var, jam, guards, from, to));
    ++*guards;
    return narrow(r, guard, var, jam, from, to);
}

static bool narrow_all(tcc_body_run *r, const tcc_expr *x, int var, uint64_t jam, int *guards, tcc_emit_value *from,
                       tcc_emit_value *to) {
    if (r->values[x->id] || !(x->loops & (BIT(var) | jam))) return true;
    if (x->fold) return false;
    if (x->kind == TCC_EXPR_LOAD && x->n_operands)
        return narrow_in_common(r, x->operands[0], var, jam, guards, from, to);
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

/* -- Rows that lie outside -- */

/* The loop of the fold that the range of an index moves with, by a power of two; -1: none, or several. */
static int loop_of_range(const tcc_body_run *r, const tcc_expr *within, uint64_t fold) {
    const tcc_expr *index = within->operands[0];
    int found = -1;
    if (within->kind != TCC_EXPR_WITHIN || index->kind != TCC_EXPR_INDEX) return -1;
    for (int i = 0; i < index->affine.n; i++) {
        const tcc_term *t = &index->affine.terms[i];
        const int64_t step = t->coefficient < 0 ? -t->coefficient : t->coefficient;
        if (r->body->vars.data[t->var].kind != TCC_VAR_LOOP) return -1;
        if (!(fold >> t->var & 1)) continue;
        if (found >= 0 || step & (step - 1)) return -1;
        found = t->var;
    }
    return found;
}

/* Adds the loops that ranges move with; false: one of them moves with none alone. */
static bool loops_of_ranges(const tcc_body_run *r, const tcc_expr *guard, uint64_t fold, uint64_t *loops) {
    if (tcc_expr_is_and(guard))
        return loops_of_ranges(r, guard->operands[0], fold, loops) &&
               loops_of_ranges(r, guard->operands[1], fold, loops);
    if (tcc_body_varies(r, guard)) return true;
    const int loop = loop_of_range(r, guard, fold);
    *loops |= bit_of(loop);
    return loop >= 0;
}

static bool has_guard(const tcc_expr *x, uint64_t loops) {
    if (x->fold || (x->kind == TCC_EXPR_LOAD && x->n_operands && x->loops & loops)) return true;
    for (int i = 0; i < x->n_operands; i++)
        if (has_guard(x->operands[i], loops)) return true;
    return false;
}

const tcc_expr *tcc_body_guard_of_products(const tcc_body_run *r, const tcc_expr *fold, uint64_t *loops) {
    const tcc_expr *product = fold->operands[0];
    *loops = 0;
    if (!fold->products || r->forms || r->e->target->lane_groups || product->n_operands != 2) return NULL;
    for (int i = 0; i < 2; i++) {
        const tcc_expr *x = product->operands[i];
        while (x->kind == TCC_EXPR_POINT && x->op == TCC_OP_CAST) x = x->operands[0];
        if (x->kind != TCC_EXPR_LOAD || !x->n_operands || has_guard(product->operands[1 - i], fold->fold)) continue;
        const tcc_expr *guard = x->operands[0];
        return tcc_body_guard_of_lanes(r, guard) && loops_of_ranges(r, guard, fold->fold, loops) ? guard : NULL;
    }
    return NULL;
}

static tcc_emit_value least(tcc_emitter *e, tcc_emit_value a, tcc_emit_value b) {
    return tcc_emit_select(e, tcc_emit_icmp(e, TCC_ICMP_SLT, a, b), a, b);
}

/* 0 <= base + step * turn < extent */
static void cut_range(tcc_body_run *r, const tcc_expr *within, int var, tcc_emit_value *from, tcc_emit_value *to) {
    tcc_emitter *e = r->e;
    tcc_term terms[TCC_BODY_MAX_LOOPS];
    tcc_affine rest = {.terms = terms};
    int64_t constant, same;
    const int64_t step = tcc_affine_coefficient(&within->operands[0]->affine, var);
    split_index(r, within, 0, terms, &rest.n, &constant, &same);
    for (int i = 0; i < rest.n; i++)
        if (terms[i].var == var) terms[i] = terms[--rest.n];
    tcc_emit_value base = tcc_emit_add(e, tcc_body_offset(r, &rest), tcc_emit_i64(e, constant)), begin, end;
    tcc_emit_value beyond = tcc_emit_sub(e, tcc_emit_i64(e, within->integer), base), zero = tcc_emit_i64(e, 0);
    const int shift = __builtin_ctzll((uint64_t)(step < 0 ? -step : step));
    if (step > 0) {
        begin = ceil_shift(e, tcc_emit_sub(e, zero, base), shift);
        end = ceil_shift(e, beyond, shift);
    } else {
        begin = tcc_emit_sub(e, tcc_emit_i64(e, 1), ceil_shift(e, beyond, shift));
        end = tcc_emit_sub(e, tcc_emit_i64(e, 1), ceil_shift(e, tcc_emit_sub(e, zero, base), shift));
    }
    *from = least(e, largest(e, *from, begin), *to);
    *to = largest(e, *from, least(e, *to, end));
}

void tcc_body_cut_products(tcc_body_run *r, const tcc_expr *guard, uint64_t fold, int var, tcc_emit_value *from,
                           tcc_emit_value *to) {
    if (tcc_expr_is_and(guard)) {
        tcc_body_cut_products(r, guard->operands[0], fold, var, from, to);
        tcc_body_cut_products(r, guard->operands[1], fold, var, from, to);
    } else if (!tcc_body_varies(r, guard) && loop_of_range(r, guard, fold) == var) {
        cut_range(r, guard, var, from, to);
    }
}
