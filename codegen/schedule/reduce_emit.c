/* SPDX-License-Identifier: MIT
 * Emission of reductions: for each kept point, or vector of them, one sweep over its reduced range for each level of
 * dependence. Values that a later sweep reads again are kept in scratch, or in registers where the sweep is fully
 * unrolled. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/reduce_loops.h"

#include "ir/support/alloc.h"

#include <string.h>

enum { MOST_CARRIES = TCC_EMIT_MAX_CARRY };

/* Which part of a fold's carries is the value of a reduction. */
static int value_of_fold(tcc_op op) { return op == TCC_OP_REDUCE_MEAN ? 1 : tcc_fold_carries(op) - 1; }

/* The carries of all loops become the values of the sweep's reductions. */
static void give_results(tcc_body_run *r, const tcc_reduce_sweep *s, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const tcc_body *b = r->body;
    tcc_op ops[TCC_GROUP_MAX_REDUCTIONS];
    for (int i = 0; i < s->n; i++) ops[i] = s->reductions[i]->op;
    if (s->ways) tcc_reduce_ways_end(r, s->ways, carry);
    if (s->p->columns) tcc_fold_split(e, ops, s->n, carry, s->sweep + 1 < s->p->n_sweeps);
    else tcc_fold_lanes(e, ops, s->n, carry);
    for (int i = 0, c = 0; i < s->n; c += tcc_fold_carries(ops[i++]))
        for (int k = 0; k < b->exprs.count; k++) {
            const tcc_expr *x = b->exprs.data[k];
            if (x->kind == TCC_EXPR_REDUCE && tcc_reduce_fold_of(b, x) == s->reductions[i])
                tcc_body_give(r, x, carry[c + value_of_fold(x->op)]);
        }
}

static void emit_sweep(tcc_body_run *r, tcc_reduce_sweep *s) {
    tcc_emit_value carry[MOST_CARRIES];
    tcc_reduce_ways ways;
    if (s->p->turned && s->p->ways > 1) s->ways = &ways;
    if (s->stored) tcc_reduce_emit_short(r, s, carry);
    else tcc_reduce_emit_loops(r, s, carry);
    give_results(r, s, carry);
}

/* The last sweep's loads of the row that no earlier sweep has made, of all steps, ahead of its stores: the assembler
 * moves no load over a store, and would wait for memory in each step. */
static void gather(tcc_body_run *r, const tcc_reduce *p, bool *in, bool *known, bool *computes, tcc_emit_value *kept) {
    const tcc_body *b = r->body;
    const size_t n = (size_t)b->exprs.count;
    tcc_emit_value carry[1]; /* nothing is folded */
    tcc_reduce_sweep s = {.p = p, .sweep = -1, .computes = computes, .loads = known, .kept = kept};
    memset(in, 0, n);
    tcc_reduce_mark_sweep(p, tcc_reduce_sweep_of_stores(p), known, in);
    tcc_body_need_none(r);
    for (size_t i = 0; i < n; i++) {
        const tcc_expr *x = b->exprs.data[i];
        const bool inner = x->loops >> p->reduced[p->n_reduced - 1] & 1;
        computes[i] = in[i] && !known[i] && inner && tcc_reduce_is_of_row(p, x);
        if (computes[i]) tcc_body_need(r, x);
    }
    tcc_body_emit(r, 0);
    tcc_reduce_emit_steps(r, &s, carry, 0);
    for (size_t i = 0; i < n; i++)
        if (computes[i]) known[i] = r->given[i] = true;
}

/* Everything for one kept point, or one vector of them. */
static void emit_kept(tcc_body_run *r, const tcc_reduce *p, bool *scratch_flags, tcc_emit_value *kept_values,
                      const tcc_emit_value *sums) {
    const tcc_body *b = r->body;
    size_t n = (size_t)b->exprs.count;
    bool *in = scratch_flags, *known = scratch_flags + n, *computes = known + n;
    memset(known, 0, n);
    for (int sweep = 0; sweep < p->n_sweeps; sweep++) {
        tcc_reduce_sweep s = {.p = p,
                              .sweep = sweep,
                              .computes = computes,
                              .loads = known,
                              .kept = kept_values,
                              .sums = sums,
                              .stored = p->is_short ? kept_values : NULL};
        tcc_reduce_list_folds(&s);
        if (p->steps > 1 && sweep == tcc_reduce_sweep_of_stores(p)) gather(r, p, in, known, computes, kept_values);
        tcc_reduce_find_kept(r, &s, in);
        emit_sweep(r, &s);
        for (size_t i = 0; i < n; i++)
            if (computes[i]) known[i] = r->given[i] = true;
    }
    tcc_body_need_none(r);
    for (int i = 0; i < b->stores.count; i++)
        if (b->stores.data[i].kept) tcc_body_need(r, b->stores.data[i].value);
    tcc_body_emit(r, 0);
    tcc_emit_if leader;
    tcc_emit_leader_begin(r->e, &leader, p->columns);
    for (int i = 0; i < b->stores.count; i++)
        if (b->stores.data[i].kept) tcc_body_emit_store(r, &b->stores.data[i]);
    tcc_emit_leader_end(r->e, &leader);
    for (size_t i = 0; i < n; i++)
        if (b->exprs.data[i]->kind == TCC_EXPR_REDUCE) r->values[i] = NULL;
        else r->given[i] = false;
}

tcc_status tcc_reduce_emit(tcc_emitter *e, const tcc_kernel_plan *plan, const char *symbol) {
    const tcc_reduce *p = plan->data;
    const tcc_body *b = p->body;
    const tcc_item_cut *cut = &p->cut;
    size_t n_exprs = (size_t)b->exprs.count, n_stores = (size_t)b->stores.count, steps = (size_t)p->steps;
    bool *flags = tcc__calloc(n_exprs * 3 + 1, sizeof *flags);
    const size_t values = p->is_short ? n_stores * TCC_REDUCE_MOST_SHORT : (n_exprs + n_stores) * steps;
    tcc_emit_value *kept = tcc__calloc(values + 1, sizeof *kept), *sums = kept ? kept + n_exprs * steps : NULL;
    tcc_body_run run;
    tcc_emit_kernel_begin(e, symbol);
    tcc_status status = flags && kept ? tcc_body_run_begin(&run, e, b, 0) : tcc_enomem(e->diag);
    if (status != TCC_OK) {
        tcc__free(flags);
        tcc__free(kept);
        return status;
    }
    for (int i = 0; i < b->exprs.count; i++) run.needed[i] = true; /* all that depends on no loop */
    tcc_body_emit(&run, 0);
    tcc_emit_loop items;
    tcc_emit_items_begin(e, &items);
    if (p->slice_var >= 0) {
        tcc_body_enter(&run, p->slice_var, items.index);
        tcc_reduce_begin_sums(&run, p, sums);
    }
    tcc_emit_cut_loops loops;
    if (p->turns) {
        tcc_emit_cut_block block;
        tcc_emit_cut_blocks_begin(&run, cut, items.index, p->turns, &block, &loops);
        status = tcc_reduce_emit_in_turn(&run, p, &block);
    } else if (p->strip) {
        tcc_emit_cut_block block;
        tcc_emit_cut_blocks_begin(&run, cut, items.index, (int)p->strip, &block, &loops);
        status = tcc_reduce_emit_strip(&run, p, &block);
    } else {
        tcc_emit_cut_begin(&run, cut, items.index, p->columns ? p->lanes : 0, &loops);
        emit_kept(&run, p, flags, kept, sums);
    }
    tcc_emit_cut_end(&run, cut, &loops);
    if (p->slice_var >= 0) {
        tcc_reduce_end_sums(&run, p, sums);
        tcc_body_leave(&run, p->slice_var);
    }
    tcc_emit_loop_end(e, &items, NULL);
    tcc_emit_kernel_end(e);
    tcc_body_run_end(&run);
    tcc__free(flags);
    tcc__free(kept);
    return status;
}
