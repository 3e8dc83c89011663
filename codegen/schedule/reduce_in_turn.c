/* SPDX-License-Identifier: MIT
 * Short rows of a host that take several sweeps, a block of as many at a time as a vector has lanes. Each sweep is a
 * loop over these rows, which leaves the lanes of their sums in scratch. The lanes of all rows are then added up at
 * once, and what follows on the sums is vector code with a lane a row: the logarithm of a row of 19 classes would cost
 * more than the row. The next sweep finds such values of its row in scratch. No sum has another order than alone. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/reduce_loops.h"

#include "ir/support/alloc.h"

#include <string.h>

enum { LEAST_ROWS = 4, WIDEST = 8, ALIGNMENT = 64, MOST_LANES = 64 };

static int last_kept(const tcc_reduce *p) { return p->kept[p->n_kept - 1]; }

static int64_t extent_of(const tcc_reduce *p, int var) { return p->body->vars.data[var].high + 1; }

static int64_t aligned(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* -- The plan -- */

static bool has_full_stores(const tcc_reduce *p) {
    for (int i = 0; i < p->body->stores.count; i++)
        if (!p->body->stores.data[i].kept) return true;
    return false;
}

/* The folds of the sweep that has most; -1: there is one of a kind that blocks do not make. */
static int count_folds(const tcc_reduce *p) {
    const tcc_body *b = p->body;
    int most = 0;
    for (int sweep = 0; sweep < p->n_sweeps; sweep++) {
        int n = 0;
        for (int i = 0; i < b->exprs.count; i++) {
            const tcc_expr *x = b->exprs.data[i];
            if (x->kind == TCC_EXPR_FOLD) return -1;
            if (x->kind != TCC_EXPR_REDUCE || p->level[x->operands[0]->id] != sweep) continue;
            if (tcc_is_moment(x->op) || tcc_fold_carries(x->op) != 1 || !(x->loops >> last_kept(p) & 1)) return -1;
            if (x->dtype == TCC_BOOL || x->operands[0]->dtype == TCC_BOOL) return -1; /* lanes of bits */
            n++;
        }
        if (n > most) most = n;
    }
    return most;
}

/* Gives a place to each value of a row that follows on sums and that x, evaluated at the row's points, reads. A bool
 * has none: it is made again from what it follows on. */
static void place_values(tcc_reduce *p, const tcc_expr *x, bool *seen) {
    if (seen[x->id]) return;
    seen[x->id] = true;
    const bool at_points = x->loops >> p->reduced[0] & 1;
    if (!at_points && p->level[x->id] == 0) return;
    if (!at_points && x->dtype != TCC_BOOL) {
        p->place[x->id] = p->scratch_bytes;
        p->scratch_bytes += aligned((int64_t)p->turns * WIDEST);
        return;
    }
    for (int i = 0; i < x->affine.n; i++) {
        const tcc_var *v = &p->body->vars.data[x->affine.terms[i].var];
        if (v->kind == TCC_VAR_VALUE) place_values(p, v->value, seen);
    }
    for (int i = 0; i < x->n_operands; i++) place_values(p, x->operands[i], seen);
}

static bool fits(const tcc_reduce *p) {
    if (!p->order || p->columns || p->n_reduced != 1 || p->n_kept == 0 || p->lanes < LEAST_ROWS) return false;
    if (p->split_var >= 0 || extent_of(p, last_kept(p)) < p->lanes) return false;
    int64_t length;
    return tcc_reduce_extent(p, 0) > 1 && tcc_reduce_find_cut(p, &length) < 0;
}

static int64_t bytes_of_rows(const tcc_reduce *p, const tcc_affine *a, int buffer) {
    if (!tcc_affine_coefficient(a, p->reduced[0])) return 0;
    const int64_t rows = tcc_affine_coefficient(a, last_kept(p)) ? p->turns : 1;
    return rows * tcc_reduce_extent(p, 0) * tcc_dtype_bytes(p->body->buffers.data[buffer].dtype);
}

/* A block's sweeps find again in the first cache what they read, write and keep: else a row at a time is faster. */
static bool is_near(const tcc_reduce *p) {
    enum { NEAR_BYTES = 24576 };
    const tcc_body *b = p->body;
    int64_t bytes = p->row_bytes * p->turns;
    for (int i = 0; i < b->exprs.count; i++)
        if (b->exprs.data[i]->kind == TCC_EXPR_LOAD)
            bytes += bytes_of_rows(p, &b->exprs.data[i]->affine, b->exprs.data[i]->buffer);
    for (int i = 0; i < b->stores.count; i++)
        bytes += bytes_of_rows(p, &b->stores.data[i].offset, b->stores.data[i].buffer);
    return bytes <= NEAR_BYTES;
}

tcc_status tcc_reduce_plan_in_turn(tcc_lowering *l, tcc_reduce *p) {
    const tcc_body *b = p->body;
    const int folds = fits(p) ? count_folds(p) : -1;
    if (folds < 1) return TCC_OK;
    p->turns = p->lanes;
    p->row_bytes = aligned(p->slots_bytes);
    if (!is_near(p)) {
        p->turns = 0;
        return TCC_OK;
    }
    bool *seen = TCC_ARENA_ARRAY(l->arena, bool, b->exprs.count + 1);
    p->place = TCC_ARENA_ARRAY(l->arena, int64_t, b->exprs.count + 1);
    if (!seen || !p->place) return tcc_enomem(l->diag);
    p->sums_at = p->row_bytes * p->turns;
    p->scratch_bytes = p->sums_at + (int64_t)folds * p->turns * p->lanes * WIDEST;
    for (int i = 0; i < b->exprs.count; i++) p->place[i] = -1;
    for (int i = 0; i < b->exprs.count; i++)
        if (b->exprs.data[i]->kind == TCC_EXPR_REDUCE) place_values(p, b->exprs.data[i]->operands[0], seen);
    for (int i = 0; i < b->stores.count; i++)
        if (!b->stores.data[i].kept) place_values(p, b->stores.data[i].value, seen);
    return TCC_OK;
}

/* -- Emission -- */

typedef struct block {
    const tcc_reduce *p;
    const tcc_emit_cut_block *rows;
    tcc_emit_value scratch; /* the thread's */
    bool *in, *known, *computes;
    tcc_emit_value *values; /* by expr: of each row of the block, in lanes; NULL: not known yet */
} block;

/* Rows, from the first of the block on, in lanes: values that are known are given. */
static void lanes_begin(tcc_body_run *r, const block *k) {
    const tcc_reduce *p = k->p;
    r->lane_var = last_kept(p);
    r->lanes = p->turns;
    if (!k->rows->whole) r->mask = tcc_emit_tail_mask(r->e, p->turns, k->rows->end, k->rows->first);
    tcc_body_enter(r, last_kept(p), k->rows->first);
    for (int i = 0; i < r->body->exprs.count; i++)
        if (k->values[i]) tcc_body_give(r, r->body->exprs.data[i], k->values[i]);
    tcc_body_need_none(r);
}

static void lanes_end(tcc_body_run *r, const block *k) {
    tcc_body_leave(r, last_kept(k->p));
    r->mask = NULL;
    r->lane_var = -1;
    r->lanes = 1;
}

static tcc_emit_type type_of_sum(const tcc_body_run *r, const tcc_reduce_sweep *s, int i) {
    return tcc_emit_vector_type(tcc_scalar_register(r->e, s->reductions[i]->operands[0]->dtype), s->p->lanes);
}

/* Where the lanes of row `turn` are for fold `i` of the sweep. */
static tcc_emit_value address_of_sum(const tcc_body_run *r, const block *k, int i, tcc_emit_type type,
                                     tcc_emit_value turn) {
    const tcc_reduce *p = k->p;
    const tcc_emit_value from = tcc_emit_at_bytes(r->e, k->scratch,
                                                  p->sums_at + (int64_t)i * p->turns * p->lanes * WIDEST);
    return tcc_emit_at(r->e, tcc_emit_scalar_of(type), from, tcc_emit_mul(r->e, turn, tcc_emit_i64(r->e, p->lanes)));
}

/* Rows past the last one, from turn `count` on, have the sums of the block's first. */
static void copy_sums(tcc_body_run *r, const block *k, const tcc_reduce_sweep *s, tcc_emit_value count) {
    tcc_emitter *e = r->e;
    tcc_emit_loop loop;
    tcc_emit_loop_begin(e, &loop, count, tcc_emit_i64(e, k->p->turns), 1, NULL, 0);
    for (int i = 0; i < s->n; i++) {
        const tcc_emit_type type = type_of_sum(r, s, i);
        const tcc_emit_value sum = tcc_emit_load(e, type, address_of_sum(r, k, i, type, tcc_emit_i64(e, 0)), 0);
        tcc_emit_store(e, sum, address_of_sum(r, k, i, type, loop.index), 0);
    }
    tcc_emit_loop_end(e, &loop, NULL);
}

/* The sweep, row by row. Past the last row that one is made again where nothing is stored but in scratch. */
static void emit_rows(tcc_body_run *r, const block *k, tcc_reduce_sweep *s) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = k->p;
    const tcc_body *b = r->body;
    const bool stores = s->sweep == tcc_reduce_sweep_of_stores(p) && has_full_stores(p);
    tcc_emit_value carry[TCC_EMIT_MAX_CARRY], count = tcc_emit_i64(e, p->turns), row;
    tcc_emit_loop loop;
    tcc_reduce_need_sweep(r, s);
    if (stores && !k->rows->whole) count = tcc_emit_min(e, count, tcc_emit_sub(e, k->rows->end, k->rows->first));
    tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), count, 1, NULL, 0);
    row = tcc_emit_add(e, k->rows->first, loop.index);
    if (!stores && !k->rows->whole) row = tcc_emit_min(e, row, tcc_emit_sub(e, k->rows->end, tcc_emit_i64(e, 1)));
    tcc_body_enter(r, last_kept(p), row);
    for (int i = 0; i < b->exprs.count; i++) {
        if (p->place[i] < 0 || !k->values[i]) continue;
        const tcc_emit_type type = tcc_emit_scalar_of(tcc_emit_type_of(k->values[i]));
        const tcc_emit_value from = tcc_emit_at_bytes(e, k->scratch, p->place[i]);
        tcc_body_give(r, b->exprs.data[i], tcc_emit_load(e, type, tcc_emit_at(e, type, from, loop.index), 0));
    }
    e->scratch = tcc_emit_at(e, e->i8, k->scratch, tcc_emit_mul(e, loop.index, tcc_emit_i64(e, p->row_bytes)));
    tcc_reduce_emit_loops(r, s, carry);
    e->scratch = k->scratch;
    for (int i = 0; i < s->n; i++)
        tcc_emit_store(e, carry[i], address_of_sum(r, k, i, type_of_sum(r, s, i), loop.index), 0);
    tcc_body_leave(r, last_kept(p));
    tcc_emit_loop_end(e, &loop, NULL);
    if (stores && !k->rows->whole) copy_sums(r, k, s, count);
}

static void fold_rows(tcc_body_run *r, const block *k, const tcc_reduce_sweep *s) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = k->p;
    const tcc_body *b = r->body;
    for (int i = 0; i < s->n; i++) {
        const tcc_expr *x = s->reductions[i];
        const tcc_emit_type type = type_of_sum(r, s, i);
        tcc_emit_value sums[MOST_LANES];
        for (int turn = 0; turn < p->turns; turn++)
            sums[turn] = tcc_emit_load(e, type, address_of_sum(r, k, i, type, tcc_emit_i64(e, turn)), 0);
        k->values[x->id] = tcc_reduce_fold_rows(e, x->op, sums, 1, p->lanes);
        for (int y = 0; y < b->exprs.count; y++)
            if (b->exprs.data[y]->kind == TCC_EXPR_REDUCE && tcc_reduce_fold_of(b, b->exprs.data[y]) == x)
                k->values[y] = k->values[x->id];
    }
}

/* What follows on the sums of sweep number `sweep`, and later ones read: in lanes, and into scratch. */
static void emit_between(tcc_body_run *r, const block *k, int sweep) {
    const tcc_reduce *p = k->p;
    const tcc_body *b = r->body;
    lanes_begin(r, k);
    for (int i = 0; i < b->exprs.count; i++)
        if (p->place[i] >= 0 && p->level[i] == sweep + 1) tcc_body_need(r, b->exprs.data[i]);
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->exprs.count; i++) {
        if (p->place[i] < 0 || p->level[i] != sweep + 1) continue;
        k->values[i] = tcc_body_lanes(r, b->exprs.data[i]);
        tcc_emit_store(r->e, k->values[i], tcc_emit_at_bytes(r->e, k->scratch, p->place[i]), 0);
    }
    lanes_end(r, k);
}

static void store_kept(tcc_body_run *r, const block *k) {
    const tcc_body *b = r->body;
    lanes_begin(r, k);
    for (int i = 0; i < b->stores.count; i++)
        if (b->stores.data[i].kept) tcc_body_need(r, b->stores.data[i].value);
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++)
        if (b->stores.data[i].kept) tcc_body_emit_store(r, &b->stores.data[i]);
    lanes_end(r, k);
}

static void emit_block(tcc_body_run *r, const block *k) {
    const tcc_reduce *p = k->p;
    const size_t n = (size_t)r->body->exprs.count;
    for (int sweep = 0; sweep < p->n_sweeps; sweep++) {
        tcc_reduce_sweep s = {.p = p, .sweep = sweep, .computes = k->computes, .loads = k->known};
        tcc_reduce_list_folds(&s);
        tcc_reduce_find_kept(r, &s, k->in);
        emit_rows(r, k, &s);
        for (size_t i = 0; i < n; i++)
            if (k->computes[i]) k->known[i] = r->given[i] = true;
        fold_rows(r, k, &s);
        if (sweep + 1 < p->n_sweeps) emit_between(r, k, sweep);
    }
    store_kept(r, k);
}

tcc_status tcc_reduce_emit_in_turn(tcc_body_run *r, const tcc_reduce *p, const tcc_emit_cut_block *rows) {
    const size_t n = (size_t)r->body->exprs.count;
    bool *flags = tcc__calloc(3 * n + 1, sizeof *flags);
    tcc_emit_value *values = tcc__calloc(n + 1, sizeof *values);
    const bool ok = flags && values;
    if (ok) {
        const block k = {.p = p,
                         .rows = rows,
                         .scratch = r->e->scratch,
                         .in = flags,
                         .known = flags + n,
                         .computes = flags + 2 * n,
                         .values = values};
        emit_block(r, &k);
    }
    tcc__free(flags);
    tcc__free(values);
    return ok ? TCC_OK : tcc_enomem(r->e->diag);
}
