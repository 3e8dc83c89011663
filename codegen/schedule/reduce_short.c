/* SPDX-License-Identifier: MIT
 * Rows of two to four elements on the host, one row behind the other. Vectors of a row would have as few lanes. So a
 * lane has a row, as in columns, and the elements are written out: loads of whole vectors are dealt out to them, and
 * what is stored of each is dealt back. */
#include "codegen/schedule/items.h"
#include "codegen/schedule/reduce_loops.h"

enum { MOST = TCC_REDUCE_MOST_SHORT };

static bool is_of_rows(const tcc_reduce *p, const tcc_affine *a) {
    for (int i = 0; i < a->n; i++)
        if (p->body->vars.data[a->terms[i].var].kind != TCC_VAR_LOOP) return false;
    return tcc_affine_coefficient(a, p->reduced[0]) == 1 &&
           tcc_affine_coefficient(a, p->kept[p->n_kept - 1]) == tcc_reduce_extent(p, 0);
}

bool tcc_reduce_is_short(const tcc_reduce *p) {
    const tcc_body *b = p->body;
    if (!p->order || p->n_reduced != 1 || p->n_kept == 0 || p->split_var >= 0 || p->slice_var >= 0) return false;
    if (tcc_reduce_extent(p, 0) < 2 || tcc_reduce_extent(p, 0) > MOST) return false;
    for (int i = 0; i < b->exprs.count; i++) {
        const tcc_expr *x = b->exprs.data[i];
        if (x->kind == TCC_EXPR_FOLD || (x->kind == TCC_EXPR_REDUCE && tcc_is_moment(x->op))) return false;
        const bool inside = x->kind == TCC_EXPR_LOAD && x->loops >> p->reduced[0] & 1;
        if (inside && x->loops >> p->kept[p->n_kept - 1] & 1 && !is_of_rows(p, &x->affine)) return false;
    }
    for (int i = 0; i < b->stores.count; i++) {
        const tcc_body_write *s = &b->stores.data[i];
        if (s->sum || s->guard || (!s->kept && !is_of_rows(p, &s->offset))) return false;
    }
    return true;
}

/* Which of the elements of the rows are of rows that exist; NULL: all. */
static tcc_emit_value mask_of_elements(tcc_body_run *r, int n) {
    int row[TCC_REDUCE_MOST_SHORT_LANES];
    if (!r->mask) return NULL;
    for (int i = 0; i < n * r->lanes; i++) row[i] = i / n;
    return tcc_emit_shuffle(r->e, r->mask, NULL, row, n * r->lanes);
}

void tcc_reduce_emit_short(tcc_body_run *r, tcc_reduce_sweep *s, tcc_emit_value *carry) {
    tcc_emitter *e = r->e;
    const tcc_reduce *p = s->p;
    const tcc_body *b = r->body;
    const int var = p->reduced[0], n = (int)tcc_reduce_extent(p, 0);
    const tcc_emit_value mask = mask_of_elements(r, n);
    bool is_sum[TCC_EMIT_MAX_CARRY];
    tcc_reduce_begin_sweep(r, s, false, is_sum, carry);
    for (s->step = 0; s->step < n; s->step++) {
        tcc_body_enter(r, var, tcc_emit_i64(e, s->step));
        tcc_reduce_emit_inside(r, s, carry);
        tcc_body_leave(r, var);
    }
    if (s->sweep != tcc_reduce_sweep_of_stores(p)) return;
    tcc_body_enter(r, var, tcc_emit_i64(e, 0));
    for (int i = 0; i < b->stores.count; i++)
        if (!b->stores.data[i].kept) tcc_body_store_phases(r, &b->stores.data[i], s->stored + i * MOST, n, mask);
    tcc_body_leave(r, var);
}
