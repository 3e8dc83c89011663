/* SPDX-License-Identifier: MIT
 * Columns over many rows, on a host: an item has a broad strip of them, and goes through it a few rows at a time, one
 * vector after the other. So memory is read in long stretches; a vector of columns alone would find each of its loads
 * in another page. What the columns have so far waits in scratch, in the first cache. Sums keep their order. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/reduce_loops.h"

#include "ir/support/alloc.h"

#include <string.h>

enum { ROWS = 8, WIDEST = 8 /* bytes of an element */ };

static int64_t extent_of(const tcc_reduce *p, int var) { return p->body->vars.data[var].high + 1; }

static int last_kept(const tcc_reduce *p) { return p->kept[p->n_kept - 1]; }

static int64_t whole_vectors(const tcc_reduce *p, int64_t columns) {
    return (columns + p->lanes - 1) / p->lanes * p->lanes;
}

/* -- The plan -- */

/* Carries of all folds; 0: there is one of a kind that strips do not make. */
static int count_carries(const tcc_reduce *p) {
    const tcc_body *b = p->body;
    int n = 0;
    for (int i = 0; i < b->stores.count; i++)
        if (!b->stores.data[i].kept) return 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind != TCC_EXPR_REDUCE) continue;
        if (tcc_is_moment(x->op) || x->operands[0]->dtype == TCC_BOOL) return 0; /* lanes of bits */
        n += tcc_fold_carries(x->op);
    }
    return n;
}

/* Enough rows to go through, of which each lies far from the next. */
static bool fits(const tcc_lowering *l, const tcc_reduce *p) {
    enum { LEAST_ROWS = 4 * ROWS, LEAST_POINTS = 1 << 14 };
    if (l->target->lane_groups || !p->columns || p->is_short || (p->turned && p->ways > 1) || p->n_sweeps != 1)
        return false;
    if (p->n_reduced != 1 || p->n_kept == 0 || p->slice_var >= 0 || p->lanes == 1) return false;
    const int64_t rows = p->split_var >= 0 ? p->split : tcc_reduce_extent(p, 0), columns = extent_of(p, last_kept(p));
    return columns >= 2 * (int64_t)p->lanes && rows >= LEAST_ROWS && rows * columns >= LEAST_POINTS;
}

void tcc_reduce_plan_strips(const tcc_lowering *l, tcc_reduce *p) {
    enum { COLUMNS = 512, ITEMS = 4 };
    const int carries = fits(l, p) ? count_carries(p) : 0;
    if (!carries) return;
    const int64_t columns = extent_of(p, last_kept(p));
    const double all = tcc_points_of(p->body, p->kept, p->n_kept);
    int64_t strip = whole_vectors(p, columns), n = 1;
    while (strip > 2 * (int64_t)p->lanes && (strip > COLUMNS || all < (double)(ITEMS * strip)))
        strip = whole_vectors(p, (columns + n) / (n + 1)), n++;
    if (strip < 2 * (int64_t)p->lanes) return;
    p->strip = strip;
    p->scratch_bytes = 2 * carries * strip * WIDEST;
}

/* -- Emission -- */

typedef struct strip {
    const tcc_reduce *p;
    const tcc_emit_cut_block *block;
    tcc_reduce_sweep sweep;
    tcc_emit_value initial[TCC_EMIT_MAX_CARRY], end; /* behind the last column */
    bool is_sum[TCC_EMIT_MAX_CARRY];
    int n;
    tcc_emit_loop vectors;
} strip;

/* Where the open vector has carry k: what takes terms now, or all of a sum before it. */
static tcc_emit_value place(const tcc_body_run *r, const strip *s, int k, bool all) {
    tcc_emitter *e = r->e;
    const tcc_emit_type scalar = tcc_emit_scalar_of(tcc_emit_type_of(s->initial[k]));
    const tcc_emit_value first = tcc_emit_at_bytes(e, e->scratch, (2 * k + all) * s->p->strip * WIDEST);
    return tcc_emit_at(e, scalar, first, tcc_emit_sub(e, s->vectors.index, s->block->first));
}

static tcc_emit_value load(tcc_body_run *r, const strip *s, int k, bool all) {
    return tcc_emit_load(r->e, tcc_emit_type_of(s->initial[k]), place(r, s, k, all), 0);
}

static void store(tcc_body_run *r, const strip *s, int k, bool all, tcc_emit_value value) {
    tcc_emit_store(r->e, value, place(r, s, k, all), 0);
}

static void vectors_begin(tcc_body_run *r, strip *s) {
    const tcc_reduce *p = s->p;
    tcc_emit_loop_begin(r->e, &s->vectors, s->block->first, s->end, p->lanes, NULL, 0);
    r->lane_var = last_kept(p);
    r->lanes = p->lanes;
    if (extent_of(p, last_kept(p)) % p->lanes) r->mask = tcc_emit_tail_mask(r->e, p->lanes, s->end, s->vectors.index);
    tcc_body_enter(r, last_kept(p), s->vectors.index);
}

static void vectors_end(tcc_body_run *r, strip *s) {
    tcc_body_leave(r, last_kept(s->p));
    tcc_emit_loop_end(r->e, &s->vectors, NULL);
    r->mask = NULL;
    r->lane_var = -1;
    r->lanes = 1;
}

static void begin_folds(tcc_body_run *r, strip *s) {
    tcc_emitter *e = r->e;
    for (int i = 0; i < s->sweep.n; i++) {
        const tcc_expr *x = s->sweep.reductions[i];
        const tcc_emit_type scalar = tcc_scalar_register(e, x->operands[0]->dtype);
        tcc_fold_initial(e, x->op, tcc_emit_vector_type(scalar, s->p->lanes), tcc_emit_vector_type(e->i32, s->p->lanes),
                         &s->initial[s->n]);
        s->is_sum[s->n] = x->op == TCC_OP_REDUCE_SUM;
        s->n += tcc_fold_carries(x->op);
    }
}

/* Rows [from, to) of all vectors. */
static void emit_rows(tcc_body_run *r, strip *s, tcc_emit_value from, tcc_emit_value to) {
    tcc_emitter *e = r->e;
    const int row = s->p->reduced[0];
    tcc_emit_loop loop;
    tcc_emit_value carry[TCC_EMIT_MAX_CARRY];
    vectors_begin(r, s);
    tcc_body_emit(r, 0);
    for (int k = 0; k < s->n; k++) carry[k] = load(r, s, k, false);
    tcc_emit_loop_begin(e, &loop, from, to, 1, carry, s->n);
    memcpy(carry, loop.carry, sizeof *carry * (size_t)s->n);
    tcc_body_enter(r, row, loop.index);
    tcc_reduce_emit_inside(r, &s->sweep, carry);
    tcc_body_leave(r, row);
    tcc_emit_loop_end(e, &loop, carry);
    for (int k = 0; k < s->n; k++) store(r, s, k, false, loop.carry[k]);
    vectors_end(r, s);
}

/* A run has ended: its sums are added to those of all, and the next one begins at nothing. */
static void take_run(tcc_body_run *r, strip *s) {
    vectors_begin(r, s);
    for (int k = 0; k < s->n; k++) {
        if (!s->is_sum[k]) continue;
        tcc_emit_value sum = load(r, s, k, true);
        tcc_fold_step(r->e, TCC_OP_REDUCE_SUM, &sum, load(r, s, k, false), NULL, NULL);
        store(r, s, k, true, sum);
        store(r, s, k, false, s->initial[k]);
    }
    vectors_end(r, s);
}

static void emit_all_rows(tcc_body_run *r, strip *s, int64_t run) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = s->p;
    const int64_t extent = tcc_reduce_extent(p, 0);
    tcc_emit_value from = tcc_emit_i64(e, 0), to = tcc_emit_i64(e, extent);
    tcc_emit_loop runs, rows;
    if (p->split_var >= 0) {
        from = tcc_emit_mul(e, r->loops[p->split_var], tcc_emit_i64(e, p->split));
        const tcc_emit_value end = tcc_emit_add(e, from, tcc_emit_i64(e, p->split));
        to = extent % p->split ? tcc_emit_min(e, end, to) : end;
    }
    if (run) {
        tcc_emit_loop_begin(e, &runs, from, to, run, NULL, 0);
        from = runs.index;
        to = tcc_emit_min(e, tcc_emit_add(e, from, tcc_emit_i64(e, run)), to);
    }
    tcc_emit_loop_begin(e, &rows, from, to, ROWS, NULL, 0);
    emit_rows(r, s, rows.index, tcc_emit_min(e, tcc_emit_add(e, rows.index, tcc_emit_i64(e, ROWS)), to));
    tcc_emit_loop_end(e, &rows, NULL);
    if (!run) return;
    take_run(r, s);
    tcc_emit_loop_end(e, &runs, NULL);
}

/* The folds are the values of reductions, and what is made of them is stored. */
static void store_kept(tcc_body_run *r, strip *s, bool runs) {
    const tcc_body *b = r->body;
    tcc_body_need_none(r);
    for (int i = 0; i < b->stores.count; i++) tcc_body_need(r, b->stores.data[i].value);
    tcc_body_emit(r, 0);
    vectors_begin(r, s);
    for (int i = 0, k = 0; i < s->sweep.n; i++) {
        const tcc_expr *of = s->sweep.reductions[i];
        k += tcc_fold_carries(of->op);
        const tcc_emit_value value = load(r, s, k - 1, runs && s->is_sum[k - 1]);
        for (int x = 0; x < b->exprs.count; x++)
            if (b->exprs.data[x]->kind == TCC_EXPR_REDUCE && tcc_reduce_fold_of(b, b->exprs.data[x]) == of)
                tcc_body_give(r, b->exprs.data[x], value);
    }
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(r, &b->stores.data[i]);
    vectors_end(r, s);
}

tcc_status tcc_reduce_emit_strip(tcc_body_run *r, const tcc_reduce *p, const tcc_emit_cut_block *block) {
    tcc_emitter *e = r->e;
    const size_t n = (size_t)r->body->exprs.count;
    bool *none = tcc__calloc(n + 1, sizeof *none);
    strip *s = tcc__calloc(1, sizeof *s);
    if (!none || !s) {
        tcc__free(none);
        tcc__free(s);
        return tcc_enomem(e->diag);
    }
    *s = (strip){.p = p, .block = block, .sweep = {.p = p, .computes = none, .loads = none}};
    s->end = tcc_emit_min(e, tcc_emit_add(e, block->first, tcc_emit_i64(e, p->strip)), block->end);
    int64_t run = 0;
    tcc_reduce_list_folds(&s->sweep);
    const bool runs = tcc_reduce_find_cut(p, &run) >= 0;
    begin_folds(r, s);
    tcc_reduce_need_sweep(r, &s->sweep);
    vectors_begin(r, s);
    for (int k = 0; k < s->n; k++)
        for (int all = 0; all <= (runs && s->is_sum[k]); all++) store(r, s, k, all, s->initial[k]);
    vectors_end(r, s);
    emit_all_rows(r, s, runs ? run : 0);
    store_kept(r, s, runs);
    tcc__free(none);
    tcc__free(s);
    return TCC_OK;
}
