/* SPDX-License-Identifier: MIT
 * Emission of a scalar program inside the loops that a schedule opens. An expression is emitted once, in the outermost
 * scope that has all its operands, so loop-invariant values are computed before the loop. Expressions that do not
 * depend on the lane variable are scalars; the rest are vectors. */
#include "codegen/body/run.h"
#include "codegen/emit/math.h"
#include "ir/chain.h"

#include <string.h>

#define BIT(v) (UINT64_C(1) << (v))

static tcc_emit_value emit_index(tcc_body_run *r, const tcc_expr *x) {
    tcc_emitter *e = r->e;
    tcc_emit_type scalar = tcc_scalar_register(e, x->dtype);
    tcc_emit_value base = tcc_body_offset(r, &x->affine);
    if (scalar != e->i64) base = tcc_emit_trunc(e, base, scalar);
    if (!tcc_body_varies(r, x)) return base;
    tcc_emit_value part = tcc_body_lane_part(r, &x->affine, scalar);
    return part ? tcc_emit_iadd(e, tcc_body_over_lanes(r, base), part) : tcc_body_over_lanes(r, base);
}

/* What remains of an index by a power of two, of which nothing does in lane `phase`: constants. */
static tcc_emit_value emit_rest(tcc_body_run *r, const tcc_expr *x, int phase) {
    tcc_emitter *e = r->e;
    const tcc_emit_type scalar = tcc_scalar_register(e, x->dtype), type = tcc_emit_vector_type(scalar, r->lanes);
    tcc_emit_value lanes = tcc_emit_isub(e, tcc_emit_iota(e, scalar, r->lanes), tcc_emit_int(e, type, phase));
    return tcc_emit_and(e, lanes, tcc_emit_int(e, type, x->integer - 1));
}

static tcc_emit_value emit_quotient(tcc_body_run *r, const tcc_expr *x) {
    tcc_emitter *e = r->e;
    const tcc_expr *of = x->operands[0];
    const int phase = x->kind == TCC_EXPR_MOD ? tcc_body_phase(r, x) : -1;
    if (phase >= 0) return emit_rest(r, x, phase);
    tcc_emit_value a = r->values[of->id];
    if (!tcc_body_varies(r, x) && tcc_body_varies(r, of)) { /* that of lane 0 */
        a = tcc_body_offset(r, &of->affine);
        if (of->dtype != TCC_I64) a = tcc_emit_trunc(e, a, tcc_scalar_register(e, of->dtype));
    }
    tcc_emit_type type = tcc_emit_type_of(a);
    if (type == e->i64)
        return x->kind == TCC_EXPR_DIV ? tcc_emit_div(e, a, x->integer) : tcc_emit_rem(e, a, x->integer);
    int64_t low = INT64_MIN, high = INT64_MAX;
    if (of->kind == TCC_EXPR_INDEX && of->dtype == TCC_I64 && !r->any_extent)
        tcc_affine_range(r->body, &of->affine, &low, &high);
    return x->kind == TCC_EXPR_DIV ? tcc_emit_div_lanes(e, a, x->integer, low, high)
                                   : tcc_emit_rem_lanes(e, a, x->integer, low, high);
}

static tcc_emit_value emit_constant(tcc_body_run *r, const tcc_expr *x) {
    tcc_emit_type type = tcc_scalar_register(r->e, x->dtype);
    return tcc_dtype_is_float(x->dtype) ? tcc_emit_float(r->e, type, x->number) : tcc_emit_int(r->e, type, x->integer);
}

/* Whether x's NaN have nothing in the lower halves of their bits, as those of bf16 and those that arithmetic makes. It
 * keeps those of its operands. Looks at `left` expressions at most. */
static bool has_short_nans(const tcc_expr *x, int *left) {
    const bool narrow = x->dtype == TCC_BF16;
    if (!tcc_dtype_is_float(x->dtype) || x->kind == TCC_EXPR_CONST || (narrow && x->rounded)) return true;
    if (x->kind == TCC_EXPR_LOAD || (*left)-- <= 0) return narrow && x->kind == TCC_EXPR_LOAD;
    if (x->kind != TCC_EXPR_POINT && x->kind != TCC_EXPR_REDUCE && x->kind != TCC_EXPR_FOLD) return false;
    for (int i = 0; i < x->n_operands; i++)
        if (!has_short_nans(x->operands[i], left)) return false;
    return true;
}

/* Whether x rounds numbers that are f32 in registers to bf16, which keeps their NaN as they are. */
static bool rounds_short(const tcc_expr *x) {
    enum { FAR = 32 };
    int left = FAR;
    return x->op == TCC_OP_CAST && x->dtype == TCC_BF16 && tcc_dtype_bytes(x->operands[0]->dtype) <= 4 &&
           tcc_dtype_is_float(x->operands[0]->dtype) && has_short_nans(x->operands[0], &left);
}

static tcc_emit_value emit_point(tcc_body_run *r, const tcc_expr *x) {
    tcc_emit_value v[4];
    bool varies = tcc_body_varies(r, x);
    if (tcc_op_draws(x->op)) {
        for (int i = 0; i < 3; i++) v[i] = r->values[x->operands[i]->id];
        v[3] = tcc_emit_i64(r->e, x->integer);
        const bool fours = tcc_body_begins_at_fours(r, x->operands[0]);
        return r->called[x->op] ? tcc_scalar_random_call(r->e, x->op, fours, v)
                                : tcc_scalar_random(r->e, x->op, fours, v);
    }
    for (int i = 0; i < x->n_operands; i++)
        v[i] = varies ? tcc_body_lanes(r, x->operands[i]) : r->values[x->operands[i]->id];
    if (rounds_short(x)) return tcc_emit_round_short(r->e, v[0]);
    if (tcc_expr_rounds(x)) return tcc_scalar_round(r->e, v[0], x->dtype);
    if (r->called[x->op]) return tcc_scalar_call(r->e, x->op, x->dtype, v, x->n_operands);
    return tcc_scalar_emit(r->e, x->op, x->dtype, x->operands[0]->dtype, v);
}

static tcc_emit_value emit_within(tcc_body_run *r, const tcc_expr *x) {
    tcc_emit_value a = r->values[x->operands[0]->id];
    tcc_emit_type type = tcc_emit_type_of(a), scalar = tcc_emit_scalar_of(type);
    if (scalar == r->e->i32 && x->integer > INT32_MAX) return tcc_emit_icmp(r->e, TCC_ICMP_SGE, a, tcc_emit_null(type));
    return tcc_emit_icmp(r->e, TCC_ICMP_ULT, a, tcc_emit_int(r->e, type, x->integer));
}

enum { UNROLL = 16, MOST_CARRIES = TCC_EMIT_MAX_CARRY, MOST_WINDOWS = 2 };

/* The number of a fold's element in row-major order of its loops, those up to one of `extent` turns; `outer`: of those
 * before, NULL: there are none. */
static tcc_emit_value number_in_fold(tcc_body_run *r, tcc_emit_value outer, int64_t extent, tcc_emit_value turn) {
    return outer ? tcc_emit_add(r->e, tcc_emit_mul(r->e, outer, tcc_emit_i64(r->e, extent)), turn) : turn;
}

/* The loops of a fold, outermost first. A sum of more than TCC_CHAIN_TERMS terms is cut: loop `cut` of them goes in
 * runs of `length` steps, whose sums begin at nothing. */
typedef struct fold_cx {
    const tcc_expr *x;
    int vars[TCC_BODY_MAX_LOOPS], n;
    int cut; /* -1: none */
    int64_t length;
    int jam, turns; /* a loop outside of the fold, all turns of which go along together; -1 and 1: none */
    int carries;    /* of all turns, one after the other */
    /* Turns of loops `cuts` in which this guard does not hold are left out. NULL: none are. */
    const tcc_expr *guard;
    uint64_t cuts;
} fold_cx;

static tcc_emit_value lanes_in_fold(tcc_body_run *r, const tcc_expr *fold, const tcc_expr *x) {
    return tcc_body_varies(r, fold) ? tcc_body_lanes(r, x) : r->values[x->id];
}

/* A step of each turn. */
static void fold_once(tcc_body_run *r, const fold_cx *f, uint64_t opened, tcc_emit_value *carry, tcc_emit_value index) {
    tcc_emitter *e = r->e;
    const tcc_expr *x = f->x;
    for (int turn = 0; turn < f->turns; turn++) {
        if (f->jam >= 0) {
            tcc_body_enter(r, f->jam, tcc_emit_i64(e, turn));
            tcc_body_emit(r, opened | BIT(f->jam));
        }
        const tcc_expr *of = x->operands[0];
        tcc_emit_value *sum = carry + turn * (f->carries / f->turns);
        if (x->products) {
            *sum = tcc_emit_fma(e, lanes_in_fold(r, x, of->operands[0]), lanes_in_fold(r, x, of->operands[1]), *sum);
            if (f->jam >= 0) tcc_body_leave(r, f->jam);
            continue;
        }
        tcc_emit_value value = lanes_in_fold(r, x, of), position = NULL;
        if (x->op == TCC_OP_ARGMAX)
            position = tcc_emit_splat(e, tcc_emit_trunc(e, index, e->i32), tcc_emit_lanes_of(tcc_emit_type_of(value)));
        tcc_fold_step(e, x->op, sum, value, position, NULL);
        if (f->jam >= 0) tcc_body_leave(r, f->jam);
    }
}

static void find_cut(const tcc_body_run *r, fold_cx *f) {
    int64_t below = 1; /* terms in one step of the loop */
    f->cut = -1;
    if (f->x->op != TCC_OP_REDUCE_SUM || !tcc_dtype_is_float(f->x->operands[0]->dtype)) return;
    for (int i = f->n - 1; i >= 0; i--) {
        const int64_t extent = r->body->vars.data[f->vars[i]].high + 1;
        if (extent * below > TCC_CHAIN_TERMS) {
            f->cut = i;
            f->length = TCC_CHAIN_TERMS / below < 1 ? 1 : TCC_CHAIN_TERMS / below;
            return;
        }
        below *= extent;
    }
}

static void fold_loops(tcc_body_run *r, const fold_cx *f, int at, uint64_t opened, int64_t inside, bool unroll,
                       tcc_emit_value *carry, tcc_emit_value index);

static void fold_span(tcc_body_run *r, const fold_cx *f, int at, uint64_t opened, int64_t inside, tcc_emit_value from,
                      tcc_emit_value to, tcc_emit_value *carry, tcc_emit_value outer) {
    tcc_emit_loop loop;
    tcc_emit_loop_begin(r->e, &loop, from, to, 1, carry, f->carries);
    for (int k = 0; k < f->carries; k++) carry[k] = loop.carry[k];
    tcc_body_enter(r, f->vars[at], loop.index);
    tcc_body_emit(r, opened);
    const int64_t extent = r->body->vars.data[f->vars[at]].high + 1;
    bool cuts = false; /* loops inside */
    for (int i = at + 1; i < f->n; i++) cuts |= f->guard && f->cuts >> f->vars[i] & 1;
    fold_loops(r, f, at + 1, opened, inside, inside <= UNROLL && !cuts, carry,
               number_in_fold(r, outer, extent, loop.index));
    tcc_body_leave(r, f->vars[at]);
    tcc_emit_loop_end(r->e, &loop, carry);
    for (int k = 0; k < f->carries; k++) carry[k] = loop.carry[k];
}

/* Loop `at` over [from, to); of the innermost, guards are left to its ends. */
static void fold_range(tcc_body_run *r, const fold_cx *f, int at, uint64_t opened, int64_t inside, tcc_emit_value from,
                       tcc_emit_value to, tcc_emit_value *carry, tcc_emit_value outer) {
    tcc_emit_value first = from, end = to;
    if (f->guard) {
        tcc_body_cut_products(r, f->guard, f->x->fold, f->vars[at], &first, &end);
        fold_span(r, f, at, opened, inside, first, end, carry, outer);
        return;
    }
    if (at < f->n - 1 || !tcc_body_cut_inside(r, f->x, f->vars[at], f->jam, &first, &end)) {
        fold_span(r, f, at, opened, inside, from, to, carry, outer);
        return;
    }
    fold_span(r, f, at, opened, inside, from, first, carry, outer);
    r->unguarded = true;
    fold_span(r, f, at, opened, inside, first, end, carry, outer);
    r->unguarded = false;
    fold_span(r, f, at, opened, inside, end, to, carry, outer);
}

static void fold_runs(tcc_body_run *r, const fold_cx *f, int at, uint64_t opened, int64_t inside, int64_t extent,
                      tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    tcc_emit_loop runs;
    tcc_emit_loop_begin(e, &runs, tcc_emit_i64(e, 0), tcc_emit_i64(e, extent), f->length, carry, f->carries);
    tcc_emit_value end = tcc_emit_within(e, tcc_emit_add(e, runs.index, tcc_emit_i64(e, f->length)),
                                         extent + f->length),
                   sums[MOST_CARRIES];
    for (int k = 0; k < f->carries; k++) sums[k] = tcc_emit_null(tcc_emit_type_of(carry[k]));
    fold_range(r, f, at, opened, inside, runs.index, tcc_emit_min(e, end, tcc_emit_i64(e, extent)), sums, NULL);
    for (int k = 0; k < f->carries; k++) {
        carry[k] = runs.carry[k];
        tcc_fold_step(e, TCC_OP_REDUCE_SUM, &carry[k], sums[k], NULL, NULL);
    }
    tcc_emit_loop_end(e, &runs, carry);
    for (int k = 0; k < f->carries; k++) carry[k] = runs.carry[k];
}

/* The loops from `at` on, carrying the result; short ones are written out, so that what is constant in a step folds
 * away. `inside`: the steps of all of them. */
static void fold_loops(tcc_body_run *r, const fold_cx *f, int at, uint64_t opened, int64_t inside, bool unroll,
                       tcc_emit_value *carry, tcc_emit_value index) {
    tcc_emitter *e = r->e;
    if (at == f->n) {
        fold_once(r, f, opened, carry, index);
        return;
    }
    const int var = f->vars[at];
    int64_t extent = r->body->vars.data[var].high + 1;
    opened |= BIT(var);
    if (unroll) {
        const tcc_expr *loads[MOST_WINDOWS];
        tcc_emit_value elements[MOST_WINDOWS][TCC_MOST_WINDOW];
        const int n = f->jam < 0 && at == f->n - 1 ? tcc_body_find_windows(r, var, loads, MOST_WINDOWS) : 0;
        for (int k = 0; k < n; k++) tcc_body_load_windows(r, loads[k], var, elements[k]);
        for (int64_t i = 0; i < extent; i++) {
            tcc_body_enter(r, var, tcc_emit_i64(e, i));
            for (int k = 0; k < n; k++) r->values[loads[k]->id] = elements[k][i];
            tcc_body_emit(r, opened);
            fold_loops(r, f, at + 1, opened, inside / extent, true, carry,
                       number_in_fold(r, index, extent, r->loops[var]));
            tcc_body_leave(r, var);
        }
        return;
    }
    if (at == f->cut) fold_runs(r, f, at, opened, inside / extent, extent, carry);
    else fold_range(r, f, at, opened, inside / extent, tcc_emit_i64(e, 0), tcc_emit_i64(e, extent), carry, index);
}

static bool has_fold_below(const tcc_expr *x, uint64_t loops) {
    if (!(x->loops & loops)) return false;
    if (x->fold) return true;
    for (int i = 0; i < x->n_operands; i++)
        if (has_fold_below(x->operands[i], loops)) return true;
    return false;
}

/* One turn after the other, each without what lies outside of its rows. */
static void fold_rows(tcc_body_run *r, const fold_cx *f, int64_t steps, tcc_emit_value *carry) {
    const int carries = f->carries / f->turns;
    r->unguarded = true;
    for (int turn = 0; turn < f->turns; turn++) {
        fold_cx one = *f;
        one.jam = -1;
        one.turns = 1;
        one.carries = carries;
        if (f->jam >= 0) {
            tcc_body_enter(r, f->jam, tcc_emit_i64(r->e, turn));
            tcc_body_emit(r, BIT(f->jam));
        }
        fold_loops(r, &one, 0, 0, steps, false, carry + turn * carries, NULL);
        if (f->jam >= 0) tcc_body_leave(r, f->jam);
    }
    r->unguarded = false;
}

/* -- Windows of neighbouring rows: see skew.c -- */

typedef struct skew {
    const fold_cx *f;
    int64_t inside; /* steps of all loops but the first */
    int sign;
} skew;

/* Opens tap `k` and step `at` of the loops inside, and emits x there. */
static tcc_emit_value emit_at(tcc_body_run *r, const skew *s, const tcc_expr *x, tcc_emit_value k, int64_t at) {
    const fold_cx *f = s->f;
    tcc_body_enter(r, f->vars[0], k);
    for (int i = f->n - 1; i > 0; i--) {
        const int64_t extent = r->body->vars.data[f->vars[i]].high + 1;
        tcc_body_enter(r, f->vars[i], tcc_emit_i64(r->e, at % extent));
        at /= extent;
    }
    tcc_body_need_none(r);
    tcc_body_need(r, x);
    tcc_body_emit(r, f->x->fold | BIT(f->jam));
    const tcc_emit_value value = lanes_in_fold(r, f->x, x);
    for (int i = 0; i < f->n; i++) tcc_body_leave(r, f->vars[i]);
    return value;
}

/* The row that lies `row` behind the first, for all turns whose windows see it. */
static void skewed_row(tcc_body_run *r, const skew *s, tcc_emit_value row, int64_t taps, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const fold_cx *f = s->f;
    const tcc_expr *of = f->x->operands[0];
    const int seen = tcc_body_seen_factor(f->x, f->jam);
    for (int64_t at = 0; at < s->inside; at++) {
        tcc_emit_value factors[2];
        tcc_body_enter(r, f->jam, tcc_emit_i64(e, s->sign > 0 ? 0 : f->turns - 1));
        factors[seen] = emit_at(r, s, of->operands[seen], row, at);
        tcc_body_leave(r, f->jam);
        for (int i = 0; i < f->turns; i++) {
            tcc_emit_value *sum = &carry[s->sign > 0 ? i : f->turns - 1 - i];
            const tcc_emit_value tap = tcc_emit_sub(e, row, tcc_emit_i64(e, i));
            tcc_emit_if sees;
            tcc_emit_if_begin(e, &sees, tcc_emit_icmp(e, TCC_ICMP_ULT, tap, tcc_emit_i64(e, taps)));
            factors[1 - seen] = emit_at(r, s, of->operands[1 - seen], tap, at);
            const tcc_emit_value next = tcc_emit_fma(e, factors[0], factors[1], *sum);
            tcc_emit_if_end(e, &sees);
            *sum = tcc_emit_if_value(e, &sees, next, *sum);
        }
    }
}

/* The sums of all turns. All rows have one text, also those that only some turns see: a branch passes over what others
 * would add. Branches cost little beside the sums, and text takes long to compile. Rows that lie outside are left out
 * of the loop. */
static void fold_skewed(tcc_body_run *r, const fold_cx *f, int64_t steps, int sign, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const int turns = f->turns;
    const int64_t taps = r->body->vars.data[f->vars[0]].high + 1;
    const size_t n = (size_t)r->body->exprs.count;
    const skew s = {f, steps / taps, sign};
    tcc_emit_loop rows;
    tcc_emit_value from = tcc_emit_i64(e, 0), to = tcc_emit_i64(e, taps + turns - 1);
    memcpy(r->aside, r->needed, n * sizeof *r->needed);
    if (f->guard) {
        tcc_body_enter(r, f->jam, tcc_emit_i64(e, sign > 0 ? 0 : turns - 1));
        tcc_body_cut_products(r, f->guard, f->x->fold, f->vars[0], &from, &to);
        tcc_body_leave(r, f->jam);
    }
    tcc_emit_loop_begin(e, &rows, from, to, 1, carry, turns);
    memcpy(carry, rows.carry, sizeof *carry * (size_t)turns);
    skewed_row(r, &s, rows.index, taps, carry);
    tcc_emit_loop_end(e, &rows, carry);
    memcpy(carry, rows.carry, sizeof *carry * (size_t)turns);
    memcpy(r->needed, r->aside, n * sizeof *r->needed);
}

/* As tcc_body_skew_of, of those whose rows are short enough to be written out. */
static int skew_of(const tcc_body_run *r, const fold_cx *f, int64_t steps) {
    const int64_t inside = steps / (r->body->vars.data[f->vars[0]].high + 1);
    const bool skews = steps > UNROLL && inside <= UNROLL && f->cut < 0 && f->carries == f->turns;
    return skews ? tcc_body_skew_of(r, f->x, f->vars[0], f->jam, f->turns) : 0;
}

/* The same where those steps in which the guard does not hold are whole rows of what is seen. */
static int skew_of_guarded(const tcc_body_run *r, const fold_cx *f, int64_t steps) {
    if (!f->guard || f->jam < 0 || f->cuts & ~BIT(f->vars[0])) return 0;
    return !f->cuts || f->guard->loops >> f->jam & 1 ? skew_of(r, f, steps) : 0;
}

/* All steps of a fold. */
static void fold_whole(tcc_body_run *r, const fold_cx *f, int64_t steps, bool plain, tcc_emit_value *carry) {
    const int sign = plain ? skew_of(r, f, steps) : 0;
    if (sign) fold_skewed(r, f, steps, sign, carry);
    else fold_loops(r, f, 0, 0, plain ? steps : INT64_MAX, plain && steps <= UNROLL, carry, NULL);
}

/* A fold whose guards hold in all its steps where `inside` is true. Of rows that go together those outside are cut. */
static void fold_twice(tcc_body_run *r, const fold_cx *f, int64_t steps, tcc_emit_value *carry, tcc_emit_value inside) {
    tcc_emit_value results[MOST_CARRIES][2];
    tcc_emit_block ends[2];
    tcc_emit_if branch;
    const int sign = skew_of_guarded(r, f, steps);
    if (sign) { /* once is enough */
        r->unguarded = true;
        fold_skewed(r, f, steps, sign, carry);
        r->unguarded = false;
        return;
    }
    fold_cx whole = *f;
    whole.guard = NULL;
    tcc_emit_if_begin(r->e, &branch, inside);
    for (int guarded = 0; guarded < 2; guarded++) {
        tcc_emit_value all[MOST_CARRIES];
        if (guarded) tcc_emit_if_else(r->e, &branch);
        r->unguarded = !guarded;
        for (int k = 0; k < f->carries; k++) all[k] = carry[k];
        if (guarded && f->guard) fold_rows(r, f, steps, all);
        else if (guarded) fold_loops(r, &whole, 0, 0, steps, steps <= UNROLL, all, NULL);
        else fold_whole(r, &whole, steps, true, all);
        for (int k = 0; k < f->carries; k++) results[k][guarded] = all[k];
        ends[guarded] = tcc_emit_current_block(r->e);
    }
    tcc_emit_if_end(r->e, &branch);
    for (int k = 0; k < f->carries; k++) carry[k] = tcc_emit_phi(r->e, results[k], ends, 2);
}

/* The carries of all turns, one after the other. */
static void emit_turns(tcc_body_run *r, const tcc_expr *x, int jam, int turns, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const tcc_expr *operand = x->operands[0];
    const int carries = tcc_fold_carries(x->op);
    fold_cx f = {.x = x, .jam = jam, .turns = turns, .carries = carries * turns};
    int64_t steps = 1;
    for (int v = 0; v < TCC_BODY_MAX_LOOPS; v++)
        if (x->fold >> v & 1) {
            f.vars[f.n++] = v;
            steps *= r->body->vars.data[v].high + 1;
        }
    tcc_emit_type type = tcc_body_type(r, operand->dtype, tcc_body_varies(r, x));
    for (int i = 0; i < turns; i++)
        tcc_fold_initial(e, x->op, type, tcc_emit_type_like(e, e->i32, type), carry + i * carries);
    /* written out only where nothing inside is a loop itself; an outer loop stays when its inside is short enough */
    bool plain = !has_fold_below(operand, x->fold);
    find_cut(r, &f);
    const bool has_rows = r->body->vars.data[f.vars[f.n - 1]].high + 1 > UNROLL; /* see fold_range */
    tcc_emit_value inside = plain && steps > 1 && !has_rows ? tcc_body_lies_inside(r, x, jam) : NULL;
    r->given[x->id] = true; /* a turn is no place to make it again */
    if (inside) f.guard = tcc_body_guard_of_products(r, x, &f.cuts);
    if (inside) fold_twice(r, &f, steps, carry, inside);
    else fold_whole(r, &f, steps, plain, carry);
    r->given[x->id] = false;
}

void tcc_body_emit_turns(tcc_body_run *r, const tcc_expr *x, int jam, int turns, tcc_emit_value *values) {
    tcc_emit_value carry[MOST_CARRIES];
    const int carries = tcc_fold_carries(x->op);
    emit_turns(r, x, jam, turns, carry);
    for (int i = 0; i < turns; i++) values[i] = carry[(i + 1) * carries - 1];
}

/* The fold that has the place of a maximum, if it is wanted, too; else NULL. */
static const tcc_expr *place_of(const tcc_body_run *r, const tcc_expr *max) {
    if (max->op != TCC_OP_REDUCE_MAX) return NULL;
    for (int i = max->id + 1; i < r->body->exprs.count; i++) {
        const tcc_expr *x = r->body->exprs.data[i];
        if (x->kind == TCC_EXPR_FOLD && x->op == TCC_OP_ARGMAX && x->operands[0] == max->operands[0] &&
            x->fold == max->fold && r->needed[i] && !r->values[i] && !r->given[i])
            return x;
    }
    return NULL;
}

static tcc_emit_value emit_fold(tcc_body_run *r, const tcc_expr *x) {
    tcc_emit_value carry[MOST_CARRIES];
    const tcc_expr *place = x->fold ? place_of(r, x) : NULL;
    if (place) {
        emit_turns(r, place, -1, 1, carry);
        r->values[place->id] = carry[1];
        return carry[0];
    }
    if (x->fold) tcc_body_emit_turns(r, x, -1, 1, carry);
    else if (x->op == TCC_OP_ARGMAX) carry[0] = tcc_emit_int(r->e, tcc_body_type(r, TCC_I32, tcc_body_varies(r, x)), 0);
    else carry[0] = r->values[x->operands[0]->id];
    return carry[0];
}

void tcc_body_emit(tcc_body_run *r, uint64_t loops) {
    for (int i = 0; i < r->body->exprs.count; i++) {
        const tcc_expr *x = r->body->exprs.data[i];
        if (!r->needed[i] || r->values[i] || (x->loops & ~r->open) || (loops && !(x->loops & loops)) ||
            !tcc_body_ready(r, x))
            continue;
        tcc_emit_value v = NULL;
        switch (x->kind) {
        case TCC_EXPR_CONST: v = emit_constant(r, x); break;
        case TCC_EXPR_INDEX: v = emit_index(r, x); break;
        case TCC_EXPR_DIV:
        case TCC_EXPR_MOD: v = emit_quotient(r, x); break;
        case TCC_EXPR_WITHIN: v = emit_within(r, x); break;
        case TCC_EXPR_LOAD: v = tcc_body_emit_load(r, x); break;
        case TCC_EXPR_POINT: v = emit_point(r, x); break;
        case TCC_EXPR_FOLD: v = emit_fold(r, x); break;
        case TCC_EXPR_REDUCE:
        case TCC_EXPR_PORT: break;
        }
        r->values[i] = v;
    }
}
