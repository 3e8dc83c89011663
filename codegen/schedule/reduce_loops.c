/* SPDX-License-Identifier: MIT
 * Emission of the loops of one sweep of a reduction over the open row, or vector of columns. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/reduce_loops.h"

#include "ir/chain.h"

#include <string.h>

enum { MOST_CARRIES = TCC_EMIT_MAX_CARRY, RUNS = 4 /* of a row, at once */ };

/* One fold for each of the vectors that `value` is made of: sums in their order, extremes as a tree, in which fewer
 * wait for one another. */
static void fold_abreast(tcc_emitter *e, tcc_op op, tcc_emit_value *carry, tcc_emit_value value, int n) {
    enum { MOST = 4, MOST_LANES = 64 };
    const int lanes = tcc_emit_lanes_of(tcc_emit_type_of(value)) / n;
    tcc_emit_value parts[MOST];
    for (int k = 0; k < n; k++) {
        int indices[MOST_LANES];
        for (int i = 0; i < lanes; i++) indices[i] = k * lanes + i;
        parts[k] = tcc_emit_shuffle(e, value, NULL, indices, lanes);
    }
    for (int stride = 1; op != TCC_OP_REDUCE_SUM && stride < n; stride *= 2)
        for (int k = 0; k < n; k += 2 * stride) tcc_fold_step(e, op, &parts[k], parts[k + stride], NULL, NULL);
    for (int k = 0; k < (op == TCC_OP_REDUCE_SUM ? n : 1); k++) tcc_fold_step(e, op, carry, parts[k], NULL, NULL);
}

void tcc_reduce_emit_inside(tcc_body_run *r, const tcc_reduce_sweep *s, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    const tcc_reduce *p = s->p;
    for (int i = 0; i < b->exprs.count; i++)
        if (s->loads[i] && r->needed[i]) {
            const tcc_expr *x = b->exprs.data[i];
            r->values[i] = p->steps ? s->kept[s->step * b->exprs.count + i] : tcc_reduce_load_slot(r, p, x);
            if (!tcc_body_varies(r, x) && tcc_emit_lanes_of(tcc_emit_type_of(r->values[i])) > 1)
                r->values[i] = tcc_emit_extract(e, r->values[i], tcc_emit_i32(e, 0));
        }
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->exprs.count; i++) {
        if (!s->computes[i]) continue;
        tcc_emit_value value = tcc_body_lanes(r, b->exprs.data[i]);
        if (p->steps) s->kept[s->step * b->exprs.count + i] = value;
        else tcc_reduce_store_slot(r, p, b->exprs.data[i], value);
    }
    int c = 0;
    for (int i = s->n_moments; i < s->n; i++) {
        const tcc_expr *x = s->reductions[i];
        tcc_emit_value index = NULL, value = tcc_body_lanes(r, x->operands[0]);
        if (x->op == TCC_OP_ARGMAX) { /* one axis, possibly cut into several loops: the position in it */
            tcc_emit_value at = tcc_emit_i64(e, 0);
            for (int k = 0; k < p->n_reduced; k++)
                at = tcc_emit_add(e, tcc_emit_mul(e, at, tcc_emit_i64(e, b->vars.data[p->reduced[k]].high + 1)),
                                  r->loops[p->reduced[k]]);
            index = tcc_emit_splat(e, tcc_emit_trunc(e, at, e->i32), r->lanes);
            if (!p->columns && r->lanes > 1) index = tcc_emit_iadd(e, index, tcc_emit_iota(e, e->i32, r->lanes));
        }
        if (!p->columns && r->lanes > p->lanes) fold_abreast(e, x->op, &carry[c], value, r->lanes / p->lanes);
        else if (!tcc_reduce_ways_step(r, p, s->ways, c, value))
            tcc_fold_step(e, x->op, &carry[c], value, index, p->columns ? NULL : r->mask);
        c += tcc_fold_carries(x->op);
    }
    for (int i = 0; i < s->n_moments; i++, c += TCC_MOMENT_SUMS)
        tcc_moment_step(e, s->states + TCC_MOMENT_STATE * i, &carry[c],
                        tcc_body_lanes(r, s->reductions[i]->operands[0]), p->columns ? NULL : r->mask);
    if (s->n_moments) carry[c] = tcc_emit_iadd(e, carry[c], tcc_emit_i32(e, 1));
    if (s->n_parts) tcc_reduce_add_to_parts(r, carry + c);
    for (int i = 0; s->sweep == tcc_reduce_sweep_of_stores(p) && i < b->stores.count; i++) {
        if (b->stores.data[i].part) continue;
        else if (b->stores.data[i].sum)
            tcc_reduce_add_to_sum(r, p, i, p->steps ? s->sums[s->step * b->stores.count + i] : NULL);
        else if (b->stores.data[i].kept) continue;
        else if (s->stored) s->stored[i * TCC_REDUCE_MOST_SHORT + s->step] = tcc_body_stored(r, &b->stores.data[i]);
        else tcc_body_emit_store(r, &b->stores.data[i]);
    }
}

void tcc_reduce_emit_steps(tcc_body_run *r, tcc_reduce_sweep *s, tcc_emit_value *carry, int n_carry) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = s->p;
    const int var = p->reduced[p->n_reduced - 1], n = r->body->exprs.count;
    int64_t extent = r->body->vars.data[var].high + 1, all = tcc_emit_group_lanes(e, p->lanes);
    tcc_emit_value own = tcc_emit_mul(e, e->thread, tcc_emit_i64(e, p->lanes));
    for (s->step = 0; s->step < p->steps; s->step++) {
        tcc_emit_value index = tcc_emit_add(e, own, tcc_emit_i64(e, s->step * all)), before[MOST_CARRIES];
        bool part = (s->step + 1) * all > extent;
        tcc_emit_if branch;
        memcpy(before, carry, sizeof *carry * (size_t)n_carry);
        if (part) tcc_emit_if_begin(e, &branch, tcc_emit_icmp(e, TCC_ICMP_SLT, index, tcc_emit_i64(e, extent)));
        if (p->lanes > 1) r->lane_var = var;
        r->lanes = p->lanes;
        tcc_body_enter(r, var, index);
        tcc_reduce_emit_inside(r, s, carry);
        tcc_body_leave(r, var);
        r->lane_var = -1;
        r->lanes = 1;
        if (!part) continue;
        tcc_emit_if_end(e, &branch);
        for (int k = 0; k < n_carry; k++) carry[k] = tcc_emit_if_value(e, &branch, carry[k], before[k]);
        for (int i = 0; i < n; i++) {
            tcc_emit_value *value = &s->kept[s->step * n + i];
            if (s->computes[i]) *value = tcc_emit_if_value(e, &branch, *value, tcc_emit_null(tcc_emit_type_of(*value)));
        }
    }
}

/* Whether steps of so many lanes begin at multiples of them: in all parts, too. */
static bool at_multiples(const tcc_reduce *p, int lanes) {
    return p->split_var < 0 || p->n_reduced > 1 || p->split % lanes == 0;
}

/* What is left of a row, less than a vector. Returns the mask of the lanes that exist. */
static tcc_emit_value emit_rest(tcc_body_run *r, const tcc_reduce_sweep *s, tcc_emit_value end, tcc_emit_value to,
                                tcc_emit_value *carry) {
    const tcc_reduce *p = s->p;
    const int var = p->reduced[p->n_reduced - 1];
    tcc_emit_value mask = r->mask = tcc_emit_mask(r->e, p->lanes, tcc_emit_sub(r->e, to, end));
    tcc_body_lanes_begin(r, var, p->lanes, at_multiples(p, p->lanes));
    tcc_body_enter(r, var, end);
    tcc_reduce_emit_inside(r, s, carry);
    tcc_body_leave(r, var);
    r->mask = NULL;
    tcc_body_lanes_end(r);
    return mask;
}

/* The vectors of [from, to), `abreast` at a time; `tail`: the last one may be a part. */
static void emit_vectors(tcc_body_run *r, const tcc_reduce_sweep *s, tcc_emit_value from, tcc_emit_value to,
                         int abreast, bool tail, tcc_emit_value *carry, int n_carry) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = s->p;
    const int var = p->reduced[p->n_reduced - 1], lanes = p->lanes * abreast;
    tcc_emit_loop loop;
    tcc_body_lanes_begin(r, var, lanes, at_multiples(p, lanes));
    tcc_emit_lane_loop_begin(e, &loop, from, to, lanes, carry, n_carry);
    memcpy(carry, loop.carry, sizeof *carry * (size_t)n_carry);
    if (tail && p->lanes > 1) r->mask = tcc_emit_tail_mask(e, p->lanes, to, loop.index);
    tcc_body_enter(r, var, loop.index);
    tcc_reduce_emit_inside(r, s, carry);
    tcc_body_leave(r, var);
    tcc_emit_loop_end(e, &loop, carry);
    memcpy(carry, loop.carry, sizeof *carry * (size_t)n_carry);
    r->mask = NULL;
    tcc_body_lanes_end(r);
}

/* The lane loop of a row: whole vectors, then what is left under a mask. Of vectors that go abreast, what is no group
 * of them comes one at a time, under a mask where the row has a rest. */
static void emit_row(tcc_body_run *r, const tcc_reduce_sweep *s, tcc_emit_value from, tcc_emit_value to, bool whole,
                     tcc_emit_value *carry, int n_carry) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = s->p;
    int64_t first, last;
    if (p->abreast > 1 && (p->uneven || !whole)) {
        const int64_t group = (int64_t)p->lanes * p->abreast;
        tcc_emit_value end = tcc_emit_sub(e, to, tcc_emit_rem(e, tcc_emit_sub(e, to, from), group));
        emit_vectors(r, s, from, end, p->abreast, false, carry, n_carry);
        emit_vectors(r, s, end, to, 1, !whole, carry, n_carry);
        return;
    }
    bool fixed = tcc_emit_is_constant(from, &first) && tcc_emit_is_constant(to, &last);
    int64_t vectors = fixed ? (last - first) / p->lanes : 0;
    bool peel = fixed && !whole && vectors >= 1;
    tcc_emit_value end = peel ? tcc_emit_i64(e, first + vectors * p->lanes) : to;
    emit_vectors(r, s, from, end, p->abreast, !whole && !peel, carry, n_carry);
    if (peel) emit_rest(r, s, end, to, carry);
}

/* The number of a segment's steps in the lanes that exist. */
static tcc_emit_value count_lanes(tcc_body_run *r, tcc_emit_value steps, tcc_emit_type type, tcc_emit_value mask) {
    tcc_emit_type scalar = tcc_emit_scalar_of(type);
    tcc_emit_value count = tcc_emit_splat(r->e, tcc_emit_uitofp(r->e, steps, scalar), tcc_emit_lanes_of(type));
    return mask ? tcc_emit_select(r->e, mask, count, tcc_emit_null(type)) : count;
}

/* The carries of a segment: of the other folds, and then what its own steps add up. */
static int begin_segment(tcc_body_run *r, tcc_reduce_sweep *s, const tcc_emit_value *carry, int n_carry,
                         tcc_emit_value *inner) {
    int n = 0;
    for (int k = TCC_MOMENT_STATE * s->n_moments; k < n_carry; k++) inner[n++] = carry[k];
    for (int i = 0; i < s->n_moments; i++)
        for (int k = 0; k < TCC_MOMENT_SUMS; k++)
            inner[n++] = tcc_emit_null(tcc_emit_type_of(carry[TCC_MOMENT_STATE * i]));
    inner[n++] = tcc_emit_i32(r->e, 0);
    s->states = carry;
    return n;
}

static void end_segment(tcc_body_run *r, const tcc_reduce_sweep *s, tcc_emit_value *carry, int n_carry,
                        const tcc_emit_value *inner, tcc_emit_value mask) {
    int n = 0;
    for (int k = TCC_MOMENT_STATE * s->n_moments; k < n_carry; k++) carry[k] = inner[n++];
    tcc_emit_value steps = inner[n + TCC_MOMENT_SUMS * s->n_moments];
    for (int i = 0; i < s->n_moments; i++, n += TCC_MOMENT_SUMS) {
        tcc_emit_value *state = &carry[TCC_MOMENT_STATE * i];
        tcc_moment_settle(r->e, state, &inner[n], count_lanes(r, steps, tcc_emit_type_of(state[0]), mask));
    }
}

/* Which carries of the folds from `first` on, and of parts, are sums. Returns how many carries these have. */
static int find_sums(const tcc_reduce_sweep *s, int first, bool *is_sum) {
    int n = 0;
    for (int i = first; i < s->n; i++)
        for (int k = tcc_fold_carries(s->reductions[i]->op); k > 0; k--)
            is_sum[n++] = s->reductions[i]->op == TCC_OP_REDUCE_SUM;
    for (int k = 0; k < s->n_parts; k++) is_sum[n++] = true;
    return n;
}

/* The innermost loop of a sweep with moments, in segments. */
static void emit_segments(tcc_body_run *r, tcc_reduce_sweep *s, tcc_emit_value from, tcc_emit_value to, bool whole,
                          tcc_emit_value *carry, int n_carry) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = s->p;
    int var = p->reduced[p->n_reduced - 1], n_inner;
    int64_t high = r->body->vars.data[var].high + 1, length = p->n_reduced == 1 && p->split_var >= 0 ? p->split : high,
            stride = 1;
    bool shared = p->columns && p->n_reduced == 1;
    if (!p->columns) stride = tcc_emit_group_lanes(e, p->lanes);
    else if (shared && e->split) stride = e->shape.shape.split;
    tcc_emit_value inner[MOST_CARRIES], end = to;
    if (!p->columns && !whole) end = tcc_emit_sub(e, to, tcc_emit_rem(e, tcc_emit_sub(e, to, from), p->lanes));
    tcc_emit_loop segments, runs, loop;
    tcc_emit_value first = from, last = end;
    bool is_sum[MOST_CARRIES];
    const bool cut = length / stride > TCC_CHAIN_TERMS;
    tcc_moment_segments_begin(e, &segments, &first, &last, stride, length, high, carry, n_carry);
    memcpy(carry, segments.carry, sizeof *carry * (size_t)n_carry);
    n_inner = begin_segment(r, s, carry, n_carry, inner);
    for (int k = find_sums(s, s->n_moments, is_sum); k < n_inner; k++)
        is_sum[k] = k < n_inner - 1; /* the last counts */
    if (cut) tcc_reduce_runs_begin(e, is_sum, &runs, TCC_CHAIN_TERMS * stride, high, &first, &last, inner, n_inner);
    if (p->columns) {
        if (shared) tcc_emit_split_loop_begin(e, &loop, first, last, inner, n_inner);
        else tcc_emit_loop_begin(e, &loop, first, last, 1, inner, n_inner);
        memcpy(inner, loop.carry, sizeof *inner * (size_t)n_inner);
        tcc_body_enter(r, var, loop.index);
        tcc_reduce_emit_inside(r, s, inner);
        tcc_body_leave(r, var);
        tcc_emit_loop_end(e, &loop, inner);
        memcpy(inner, loop.carry, sizeof *inner * (size_t)n_inner);
    } else {
        emit_row(r, s, first, last, true, inner, n_inner);
    }
    if (cut) tcc_reduce_runs_end(e, is_sum, &runs, inner, n_inner);
    end_segment(r, s, carry, n_carry, inner, NULL);
    tcc_emit_loop_end(e, &segments, carry);
    memcpy(carry, segments.carry, sizeof *carry * (size_t)n_carry);
    if (p->columns || whole) return;
    begin_segment(r, s, carry, n_carry, inner);
    end_segment(r, s, carry, n_carry, inner, emit_rest(r, s, end, to, inner));
}

/* The loop that is cut into runs of *length steps each; -1: no sum of the sweep is long. */
static int find_cut(const tcc_body_run *r, const tcc_reduce_sweep *s, int64_t *length) {
    const tcc_reduce *p = s->p;
    bool sums = s->n_parts > 0;
    for (int i = s->n_moments; i < s->n; i++)
        sums |= s->reductions[i]->op == TCC_OP_REDUCE_SUM && tcc_dtype_is_float(s->reductions[i]->dtype);
    if (!sums || s->n_moments || p->steps) return -1;
    if (p->order || p->run) return tcc_reduce_find_cut(p, length);
    int64_t below = 1; /* terms in one step of the loop */
    for (int i = p->n_reduced - 1; i >= 0; i--) {
        int64_t steps = r->body->vars.data[p->reduced[i]].high + 1;
        if (i == 0 && p->split_var >= 0) steps = p->split;
        if (i == 0 && p->columns && r->e->split) steps /= r->e->shape.shape.split;
        if (i == p->n_reduced - 1 && !p->columns) steps /= tcc_emit_group_lanes(r->e, p->lanes);
        if (steps * below > TCC_CHAIN_TERMS) {
            *length = TCC_CHAIN_TERMS / below < 1 ? 1 : TCC_CHAIN_TERMS / below;
            return i;
        }
        below *= steps < 1 ? 1 : steps;
    }
    return -1;
}

/* Whether several runs of a row are made at once: sums of little, for which an addition waits for the one before, and
 * of elements that come faster than that from memory, as those of 16 bits do. */
static bool runs_together(const tcc_body_run *r, const tcc_reduce_sweep *s, const bool *is_sum, int n_carry) {
    enum { LITTLE = 8, NARROW = 2 /* bytes */ };
    if (!s->p->order || tcc_body_cost(r->body) > LITTLE) return false;
    for (int i = 0; i < r->body->exprs.count; i++) {
        const tcc_expr *x = r->body->exprs.data[i];
        if (x->kind == TCC_EXPR_LOAD && tcc_dtype_bytes(x->dtype) > NARROW) return false;
    }
    for (int i = 0; s->sweep == tcc_reduce_sweep_of_stores(s->p) && i < r->body->stores.count; i++)
        if (!r->body->stores.data[i].kept) return false;
    for (int k = 0; k < n_carry; k++)
        if (!is_sum[k]) return false;
    return n_carry * RUNS <= tcc_most_sums(r->e->target);
}

/* So many runs at once as long as there are as many, from *from on, which becomes where the others begin. Their sums
 * are added up as those of one run after the other are. */
static void emit_runs_together(tcc_body_run *r, const tcc_reduce_sweep *s, tcc_emit_value *from, tcc_emit_value to,
                               int64_t run, tcc_emit_value *carry, int n_carry) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = s->p;
    const int var = p->reduced[p->n_reduced - 1], lanes = p->lanes * p->abreast, n = RUNS * n_carry;
    tcc_emit_value sums[MOST_CARRIES];
    tcc_emit_loop groups, loop;
    const tcc_emit_value rest = tcc_emit_rem(e, tcc_emit_sub(e, to, *from), RUNS * run),
                         end = tcc_emit_sub(e, to, rest);
    tcc_emit_loop_begin(e, &groups, *from, end, RUNS * run, carry, n_carry);
    for (int k = 0; k < n; k++) sums[k] = tcc_emit_null(tcc_emit_type_of(carry[k % n_carry]));
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, run), lanes, sums, n);
    memcpy(sums, loop.carry, sizeof *sums * (size_t)n);
    tcc_body_lanes_begin(r, var, lanes, at_multiples(p, lanes));
    for (int i = 0; i < RUNS; i++) {
        tcc_emit_value first = tcc_emit_add(e, groups.index, tcc_emit_i64(e, i * run));
        tcc_body_enter(r, var, tcc_emit_add(e, first, loop.index));
        tcc_reduce_emit_inside(r, s, sums + i * n_carry);
        tcc_body_leave(r, var);
    }
    tcc_body_lanes_end(r);
    tcc_emit_loop_end(e, &loop, sums);
    memcpy(carry, groups.carry, sizeof *carry * (size_t)n_carry);
    for (int k = 0; k < n; k++) tcc_fold_step(e, TCC_OP_REDUCE_SUM, &carry[k % n_carry], loop.carry[k], NULL, NULL);
    tcc_emit_loop_end(e, &groups, carry);
    memcpy(carry, groups.carry, sizeof *carry * (size_t)n_carry);
    *from = end;
}

/* The lane loop of a long row. */
static void emit_row_of_runs(tcc_body_run *r, const tcc_reduce_sweep *s, tcc_emit_value from, tcc_emit_value to,
                             int64_t length, tcc_emit_value *carry, int n_carry) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = s->p;
    const int64_t high = r->body->vars.data[p->reduced[p->n_reduced - 1]].high + 1;
    tcc_emit_value rest = tcc_emit_rem(e, tcc_emit_sub(e, to, from), p->lanes), end = tcc_emit_sub(e, to, rest),
                   last = end;
    int64_t left;
    tcc_emit_loop runs;
    bool is_sum[MOST_CARRIES];
    find_sums(s, 0, is_sum);
    if (runs_together(r, s, is_sum, n_carry)) emit_runs_together(r, s, &from, end, length * p->lanes, carry, n_carry);
    tcc_reduce_runs_begin(e, is_sum, &runs, length * tcc_emit_group_lanes(e, p->lanes), high, &from, &last, carry,
                          n_carry);
    emit_row(r, s, from, last, true, carry, n_carry);
    tcc_reduce_runs_end(e, is_sum, &runs, carry, n_carry);
    if (!tcc_emit_is_constant(rest, &left) || left) emit_rest(r, s, end, to, carry);
}

/* What is left of a row in columns behind its runs. */
static void emit_rest_of_ways(tcc_body_run *r, const tcc_reduce_sweep *s, tcc_emit_value from, tcc_emit_value to,
                              tcc_emit_value *carry, int n_carry) {
    const int var = s->p->reduced[s->p->n_reduced - 1];
    tcc_emit_loop loop;
    tcc_emit_loop_begin(r->e, &loop, from, to, 1, carry, n_carry);
    memcpy(carry, loop.carry, sizeof *carry * (size_t)n_carry);
    tcc_body_enter(r, var, loop.index);
    tcc_reduce_emit_inside(r, s, carry);
    tcc_body_leave(r, var);
    tcc_emit_loop_end(r->e, &loop, carry);
    memcpy(carry, loop.carry, sizeof *carry * (size_t)n_carry);
}

/* Begins the carries of the sweep's folds; returns how many there are. */
static int begin_folds(tcc_emitter *e, const tcc_reduce_sweep *s, tcc_emit_value *carry) {
    const int lanes = s->p->lanes;
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const tcc_expr *x = s->reductions[i];
        tcc_emit_type type = tcc_emit_vector_type(tcc_scalar_register(e, x->operands[0]->dtype), lanes);
        tcc_fold_initial(e, x->op, type, tcc_emit_vector_type(e->i32, lanes), &carry[n]);
        n += tcc_fold_carries(x->op);
    }
    return n;
}

void tcc_reduce_need_sweep(tcc_body_run *r, const tcc_reduce_sweep *s) {
    const tcc_body *b = r->body;
    tcc_body_need_none(r);
    for (int i = 0; i < s->n; i++) tcc_body_need(r, s->reductions[i]->operands[0]);
    for (int i = 0; s->sweep == tcc_reduce_sweep_of_stores(s->p) && i < b->stores.count; i++)
        if (!b->stores.data[i].kept) tcc_body_need(r, b->stores.data[i].value);
    tcc_body_emit(r, 0);
}

int tcc_reduce_begin_sweep(tcc_body_run *r, const tcc_reduce_sweep *s, bool has_runs, bool *is_sum,
                           tcc_emit_value *carry) {
    const int n_carry = begin_folds(r->e, s, carry);
    tcc_reduce_need_sweep(r, s); /* makes what does not depend on the reduced loops */
    find_sums(s, 0, is_sum);
    if (s->ways) tcc_reduce_ways_begin(r, s->p, has_runs, is_sum, carry, n_carry, s->ways);
    return n_carry;
}

/* Those that loop `i` has: sums of parts begin anew in each step of the loops that count these. */
static int carries_of(const tcc_reduce_sweep *s, int n_folds, int i) {
    return n_folds + (i >= s->p->part_loops ? s->n_parts : 0);
}

void tcc_reduce_emit_loops(tcc_body_run *r, tcc_reduce_sweep *s, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    const tcc_reduce *p = s->p;
    const int lanes = p->lanes;
    tcc_emit_loop runs;
    int n_loops = p->columns && !s->n_moments ? p->n_reduced : p->n_reduced - 1;
    if (p->n_reduced == 0) n_loops = 0;
    int64_t length = 0;
    const int cut = find_cut(r, s, &length);
    bool is_sum[MOST_CARRIES];
    const int n_folds = tcc_reduce_begin_sweep(r, s, cut >= 0, is_sum, carry);
    tcc_emit_value from = tcc_emit_i64(e, 0), to = NULL, rest = NULL, end = NULL;
    for (int i = 0; i < p->n_reduced; i++) {
        int var = p->reduced[i];
        int64_t extent = b->vars.data[var].high + 1;
        from = tcc_emit_i64(e, 0);
        to = tcc_emit_i64(e, extent);
        bool whole = extent % lanes == 0;
        if (s->n_parts && i == p->part_loops) tcc_reduce_begin_parts(r, p, carry + n_folds);
        const int n_carry = carries_of(s, n_folds, i);
        if (i == 0 && p->split_var >= 0) {
            from = tcc_emit_mul(e, r->loops[p->split_var], tcc_emit_i64(e, p->split));
            tcc_emit_value end = tcc_emit_add(e, from, tcc_emit_i64(e, p->split));
            to = extent % p->split ? tcc_emit_min(e, end, to) : end;
            whole = whole && p->split % lanes == 0;
        }
        if (i < n_loops) {
            const int64_t stride = i == 0 && p->columns && e->split ? e->shape.shape.split : 1;
            if (i == cut && s->ways && i == p->n_reduced - 1) {
                length *= p->ways;
                end = to;
                rest = to = tcc_emit_sub(e, to, tcc_emit_rem(e, tcc_emit_sub(e, to, from), p->ways));
            }
            if (i == cut) tcc_reduce_runs_begin(e, is_sum, &runs, length * stride, extent, &from, &to, carry, n_carry);
            if (i == 0 && p->columns) tcc_emit_split_loop_begin(e, &r->nest[var], from, to, carry, n_carry);
            else tcc_emit_loop_begin(e, &r->nest[var], from, to, 1, carry, n_carry);
            memcpy(carry, r->nest[var].carry, sizeof *carry * (size_t)n_carry);
            tcc_body_enter(r, var, r->nest[var].index);
            if (i < p->n_reduced - 1) tcc_body_emit(r, 0);
        } else if (s->n_moments) {
            emit_segments(r, s, from, to, whole, carry, n_carry);
        } else if (p->steps) {
            tcc_reduce_emit_steps(r, s, carry, n_carry);
        } else if (i == cut) {
            emit_row_of_runs(r, s, from, to, length, carry, n_carry);
        } else {
            emit_row(r, s, from, to, whole, carry, n_carry);
        }
    }
    if (!s->n_moments && (p->columns || p->n_reduced == 0)) tcc_reduce_emit_inside(r, s, carry);
    if (s->n_parts && n_loops == p->part_loops) tcc_reduce_end_parts(r, p, carry + n_folds);
    for (int i = n_loops - 1; i >= 0; i--) {
        const int n_carry = carries_of(s, n_folds, i);
        tcc_body_leave(r, p->reduced[i]);
        tcc_emit_loop *loop = &r->nest[p->reduced[i]];
        tcc_emit_loop_end(e, loop, carry);
        memcpy(carry, loop->carry, sizeof *carry * (size_t)n_carry);
        if (i == cut && s->ways) tcc_reduce_ways_end_run(r, s->ways);
        if (i == cut) tcc_reduce_runs_end(e, is_sum, &runs, carry, n_carry);
        if (i == cut && s->ways) tcc_reduce_ways_end_runs(s->ways);
        if (i == cut && rest) emit_rest_of_ways(r, s, rest, end, carry, n_carry);
        if (s->n_parts && i == p->part_loops) tcc_reduce_end_parts(r, p, carry + n_folds);
    }
}

void tcc_reduce_list_folds(tcc_reduce_sweep *s) {
    const tcc_reduce *p = s->p;
    const tcc_body *b = p->body;
    for (int moments = 1; moments >= 0; moments--)
        for (int i = 0; i < b->exprs.count; i++) {
            const tcc_expr *x = b->exprs.data[i];
            if (x->kind != TCC_EXPR_REDUCE || p->level[x->operands[0]->id] != s->sweep ||
                tcc_is_moment(x->op) != moments || tcc_reduce_fold_of(b, x) != x)
                continue;
            s->reductions[s->n++] = x;
            s->n_moments += moments;
        }
    s->n_parts = s->sweep == tcc_reduce_sweep_of_stores(p) ? p->n_parts : 0;
}

void tcc_reduce_find_kept(tcc_body_run *r, tcc_reduce_sweep *s, bool *in) {
    const size_t n = (size_t)r->body->exprs.count;
    memset(in, 0, n);
    tcc_reduce_mark_sweep(s->p, s->sweep, s->loads, in);
    for (size_t i = 0; i < n; i++) {
        s->computes[i] = in[i] && s->p->slot[i] >= 0 && !s->loads[i];
        r->given[i] = r->given[i] || s->loads[i];
    }
}
