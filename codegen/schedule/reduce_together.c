/* SPDX-License-Identifier: MIT
 * Rows of a host that are not long, as many at a time as a vector has lanes: their sums are vectors of which each has
 * the lanes of one row, and are added up as such lanes always are, yet all at once, which leaves a vector with a lane
 * a row. So what follows on the sums is vector code, and what is the same in all of these rows is loaded once for all.
 * The loops outside go on with the next rows first that share most with these: what was loaded is in the first cache,
 * as one side of all pairs of rows is. No sum has another order than by itself. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/reduce.h"

#include <string.h>

enum { MOST_SUMS = 16, MOST_VECTORS = 16, MOST_WORK = 16, LEAST_ROWS = 4 };

static int last_kept(const tcc_reduce *p) { return p->kept[p->n_kept - 1]; }

static int64_t extent_of(const tcc_reduce *p, int var) { return p->body->vars.data[var].high + 1; }

/* The folds that the kernel makes; -1: some are not of a kind that rows can make together. */
static int list_folds(const tcc_reduce *p, const tcc_expr **folds) {
    const tcc_body *b = p->body;
    const uint64_t row = UINT64_C(1) << last_kept(p);
    int n = 0, work = 0;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        work += x->kind != TCC_EXPR_REDUCE && x->loops >> p->reduced[0] & 1;
        if (x->kind == TCC_EXPR_FOLD) return -1;
        if (x->kind != TCC_EXPR_REDUCE || tcc_reduce_fold_of(b, x) != x) continue;
        if (tcc_is_moment(x->op) || tcc_fold_carries(x->op) != 1 || !(x->loops & row) || n == MOST_SUMS) return -1;
        if (folds) folds[n] = x;
        n++;
    }
    return work <= MOST_WORK ? n : -1;
}

/* Rows of f32 come from memory as fast as one chain of additions takes them. Those of 16 bits come twice as fast: so
 * longer ones are made together, too, if no more of them meet in a set of the first cache than it has ways. */
static int64_t longest(const tcc_reduce *p) {
    enum { MOST_NARROW = 1024 };
    for (int i = 0; i < p->body->exprs.count; i++) {
        const tcc_expr *x = p->body->exprs.data[i];
        if (x->kind == TCC_EXPR_LOAD && x->loops >> p->reduced[0] & 1 && tcc_dtype_bytes(x->dtype) > 2)
            return (int64_t)MOST_VECTORS * p->lanes;
    }
    return MOST_NARROW;
}

int tcc_reduce_rows_together(const tcc_reduce *p) {
    if (!p->order || p->columns || p->n_reduced != 1 || p->n_kept == 0 || p->n_sweeps != 1) return 0;
    if (p->split_var >= 0 || p->slice_var >= 0 || p->n_slots || p->lanes < LEAST_ROWS) return 0;
    if (extent_of(p, last_kept(p)) < p->lanes || tcc_reduce_extent(p, 0) > longest(p)) return 0;
    for (int i = 0; i < p->body->stores.count; i++)
        if (!p->body->stores.data[i].kept || p->body->stores.data[i].sum) return 0;
    int64_t length;
    if (tcc_reduce_find_cut(p, &length) >= 0) return 0;
    const int folds = list_folds(p, NULL);
    return folds > 0 && folds * p->lanes <= MOST_SUMS ? p->lanes : 0;
}

int64_t tcc_reduce_blocks(const tcc_reduce *p) {
    return p->together ? (extent_of(p, last_kept(p)) + p->together - 1) / p->together : 1;
}

/* -- Emission -- */

typedef struct block {
    const tcc_reduce *p;
    int n_folds;
    const tcc_expr *folds[MOST_SUMS];
    tcc_emit_value first; /* row */
} block;

/* Of the block's row `turn`; past the last row that one again. */
static tcc_emit_value row_of(tcc_emitter *e, const block *k, int turn) {
    const int64_t rows = extent_of(k->p, last_kept(k->p));
    const tcc_emit_value row = tcc_emit_add(e, k->first, tcc_emit_i64(e, turn));
    return turn && rows % k->p->together ? tcc_emit_min(e, row, tcc_emit_i64(e, rows - 1)) : row;
}

/* A vector of each row's terms. */
static void add_terms(tcc_body_run *r, const block *k, tcc_emit_value at, tcc_emit_value *carry) {
    const tcc_reduce *p = k->p;
    r->lane_var = p->reduced[0];
    r->lanes = p->lanes;
    tcc_body_enter(r, p->reduced[0], at);
    for (int turn = 0; turn < p->together; turn++) {
        tcc_body_enter(r, last_kept(p), row_of(r->e, k, turn));
        tcc_body_emit(r, 0);
        for (int i = 0; i < k->n_folds; i++)
            tcc_fold_step(r->e, k->folds[i]->op, &carry[turn * k->n_folds + i],
                          tcc_body_lanes(r, k->folds[i]->operands[0]), NULL, r->mask);
        tcc_body_leave(r, last_kept(p));
    }
    tcc_body_leave(r, p->reduced[0]);
    r->lane_var = -1;
    r->lanes = 1;
}

static void add_rows(tcc_body_run *r, const block *k, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = k->p;
    const int n = p->together * k->n_folds;
    const int64_t extent = tcc_reduce_extent(p, 0), rest = extent % p->lanes, whole = extent - rest;
    if (whole) {
        tcc_emit_loop loop;
        tcc_emit_loop_begin(e, &loop, tcc_emit_i64(e, 0), tcc_emit_i64(e, whole), p->lanes, carry, n);
        memcpy(carry, loop.carry, sizeof *carry * (size_t)n);
        add_terms(r, k, loop.index, carry);
        tcc_emit_loop_end(e, &loop, carry);
        memcpy(carry, loop.carry, sizeof *carry * (size_t)n);
    }
    if (!rest) return;
    r->mask = tcc_emit_mask(e, p->lanes, tcc_emit_i64(e, rest));
    add_terms(r, k, tcc_emit_i64(e, whole), carry);
    r->mask = NULL;
}

/* What follows on the sums, a lane a row. */
static void store_rows(tcc_body_run *r, const block *k, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = k->p;
    const tcc_body *b = r->body;
    const int64_t rows = extent_of(p, last_kept(p));
    for (int i = 0; i < k->n_folds; i++) {
        const tcc_emit_value sums = tcc_reduce_fold_rows(e, k->folds[i]->op, carry + i, k->n_folds, p->lanes);
        for (int x = 0; x < b->exprs.count; x++)
            if (b->exprs.data[x]->kind == TCC_EXPR_REDUCE && tcc_reduce_fold_of(b, b->exprs.data[x]) == k->folds[i])
                tcc_body_give(r, b->exprs.data[x], sums);
    }
    r->lane_var = last_kept(p);
    r->lanes = p->together;
    if (rows % p->together) r->mask = tcc_emit_tail_mask(e, p->together, tcc_emit_i64(e, rows), k->first);
    tcc_body_enter(r, last_kept(p), k->first);
    tcc_body_need_none(r);
    for (int i = 0; i < b->stores.count; i++) tcc_body_need(r, b->stores.data[i].value);
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(r, &b->stores.data[i]);
    tcc_body_leave(r, last_kept(p));
    for (int i = 0; i < b->exprs.count; i++)
        if (b->exprs.data[i]->kind == TCC_EXPR_REDUCE) r->values[i] = NULL;
    r->mask = NULL;
    r->lane_var = -1;
    r->lanes = 1;
}

static void emit_block(tcc_body_run *r, const block *k) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = k->p;
    tcc_emit_value carry[MOST_SUMS];
    tcc_body_need_none(r);
    for (int i = 0; i < k->n_folds; i++) {
        const tcc_emit_type type = tcc_emit_vector_type(tcc_scalar_register(e, k->folds[i]->operands[0]->dtype),
                                                        p->lanes);
        for (int turn = 0; turn < p->together; turn++)
            tcc_fold_initial(e, k->folds[i]->op, type, NULL, &carry[turn * k->n_folds + i]);
        tcc_body_need(r, k->folds[i]->operands[0]);
    }
    tcc_body_emit(r, 0);
    add_rows(r, k, carry);
    store_rows(r, k, carry);
}

tcc_status tcc_reduce_emit_together(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_reduce *p = plan->data;
    const tcc_body *b = p->body;
    block k = {.p = p};
    tcc_body_run run;
    k.n_folds = list_folds(p, k.folds);
    tcc_emit_kernel_begin(e, symbol);
    TCC_TRY(tcc_body_run_begin(&run, e, b, 0));
    for (int i = 0; i < b->exprs.count; i++) run.needed[i] = true; /* all that depends on no loop */
    tcc_body_emit(&run, 0);
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    const tcc_emit_value outside = tcc_emit_rem(e, items.index, p->cut.items);
    k.first = tcc_emit_mul(e, tcc_emit_div(e, items.index, p->cut.items), tcc_emit_i64(e, p->together));
    k.first = tcc_emit_within(e, k.first, extent_of(p, last_kept(p)));
    tcc_emit_cut_loops loops;
    tcc_emit_cut_begin(&run, &p->cut, outside, 0, &loops);
    emit_block(&run, &k);
    tcc_emit_cut_end(&run, &p->cut, &loops);
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
    tcc_body_run_end(&run);
    return TCC_OK;
}
