/* SPDX-License-Identifier: MIT
 * The state of a scalar program that is being emitted: which values are needed, given and known, and which loops are
 * open. */
#include "codegen/body/run.h"

#include "ir/support/alloc.h"

#include <string.h>

#define BIT(v) (UINT64_C(1) << (v))

/* A call costs a few instructions, and registers around it. A long function that is inlined dozens of times costs
 * seconds of compiling. On a GPU a call costs more. */
static void choose_calls(tcc_body_run *r) {
    enum { OFTEN = 8, LONG = 20 };
    int uses[TCC_OP_COUNT] = {0};
    if (r->e->target->lane_groups) return;
    for (int i = 0; i < r->body->exprs.count; i++) {
        const tcc_expr *x = r->body->exprs.data[i];
        if (x->kind != TCC_EXPR_POINT || tcc_op_get_info(x->op)->cost < LONG) continue;
        if (!tcc_dtype_is_float(x->dtype) && !tcc_op_draws(x->op)) continue;
        r->called[x->op] = ++uses[x->op] >= OFTEN;
    }
}

tcc_status tcc_body_run_begin(tcc_body_run *r, tcc_emitter *e, const tcc_body *b, int first_buffer) {
    *r = (tcc_body_run){.e = e, .body = b, .lane_var = -1, .lanes = 1};
    size_t n = (size_t)b->exprs.count + 1;
    r->values = tcc__calloc(n, sizeof *r->values);
    r->needed = tcc__calloc(n, sizeof *r->needed);
    r->aside = tcc__calloc(n, sizeof *r->aside);
    r->given = tcc__calloc(n, sizeof *r->given);
    r->alike = tcc__calloc(n, sizeof *r->alike);
    r->bases = tcc__calloc((size_t)b->buffers.count + 1, sizeof *r->bases);
    r->nest = tcc__calloc((size_t)b->n_loops + 1, sizeof *r->nest);
    if (!r->values || !r->needed || !r->aside || !r->given || !r->alike || !r->bases || !r->nest) {
        tcc_body_run_end(r);
        return tcc_enomem(e->diag);
    }
    for (int i = 0; i < b->exprs.count; i++)
        r->given[i] = b->exprs.data[i]->kind == TCC_EXPR_REDUCE || b->exprs.data[i]->kind == TCC_EXPR_PORT;
    for (int i = 0; i < b->buffers.count; i++) r->bases[i] = tcc_emit_buffer(e, first_buffer + i);
    choose_calls(r);
    return TCC_OK;
}

void tcc_body_run_end(tcc_body_run *r) {
    tcc__free(r->values);
    tcc__free(r->needed);
    tcc__free(r->aside);
    tcc__free(r->given);
    tcc__free(r->alike);
    tcc__free(r->bases);
    tcc__free(r->nest);
    r->nest = NULL;
    r->values = NULL;
    r->needed = NULL;
    r->aside = NULL;
    r->given = NULL;
    r->alike = NULL;
    r->bases = NULL;
}

void tcc_body_need_none(tcc_body_run *r) {
    for (int i = 0; i < r->body->exprs.count; i++) r->needed[i] = false;
}

static void need_affine(tcc_body_run *r, const tcc_affine *a) {
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &r->body->vars.data[a->terms[i].var];
        if (v->kind == TCC_VAR_VALUE) tcc_body_need(r, v->value);
    }
}

void tcc_body_need(tcc_body_run *r, const tcc_expr *x) {
    if (r->needed[x->id] || r->values[x->id]) return;
    r->needed[x->id] = true;
    if (r->given[x->id]) return;
    need_affine(r, &x->affine);
    for (int i = 0; i < x->n_operands; i++) tcc_body_need(r, x->operands[i]);
}

void tcc_body_give(tcc_body_run *r, const tcc_expr *x, tcc_emit_value value) {
    r->given[x->id] = true;
    r->values[x->id] = value;
}

void tcc_body_set_false(tcc_body_run *r, const tcc_expr *x) {
    r->values[x->id] = tcc_emit_null(tcc_emit_vector_type(r->e->i1, r->lanes));
}

void tcc_body_enter(tcc_body_run *r, int var, tcc_emit_value value) {
    r->loops[var] = value;
    r->open |= BIT(var);
}

void tcc_body_leave(tcc_body_run *r, int var) {
    r->open &= ~BIT(var);
    for (int i = 0; i < r->body->exprs.count; i++)
        if (r->body->exprs.data[i]->loops >> var & 1) r->values[i] = NULL;
}

bool tcc_body_varies(const tcc_body_run *r, const tcc_expr *x) {
    if (r->forms) return r->lanes > 1 && x->loops & r->lane_loops;
    return r->lane_var >= 0 && x->loops >> r->lane_var & 1 && !r->alike[x->id];
}

/* Whether a vector of indices lies between two multiples of `size`. */
static bool within_one(const tcc_body_run *r, const tcc_affine *a, int64_t size) {
    int64_t stride = 0;
    for (int i = 0; i < a->n; i++)
        if (a->terms[i].var == r->lane_var) stride = a->terms[i].coefficient;
    const int64_t reach = stride * r->lanes;
    if (reach <= 0 || size % reach || a->constant % reach) return false;
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &r->body->vars.data[a->terms[i].var];
        if (a->terms[i].var == r->lane_var) continue;
        if (a->terms[i].coefficient % reach || (v->kind == TCC_VAR_VALUE && tcc_body_varies(r, v->value))) return false;
    }
    return true;
}

/* Whether it depends on the lanes' loop by quotients that are alike, if at all. */
static bool reads_alike(const tcc_body_run *r, const tcc_expr *x) {
    if (x->kind == TCC_EXPR_FOLD || x->kind == TCC_EXPR_REDUCE || x->kind == TCC_EXPR_PORT) return false;
    for (int i = 0; i < x->affine.n; i++) {
        const tcc_var *v = &r->body->vars.data[x->affine.terms[i].var];
        if (v->kind == TCC_VAR_LOOP ? x->affine.terms[i].var == r->lane_var : tcc_body_varies(r, v->value))
            return false;
    }
    for (int i = 0; i < x->n_operands; i++)
        if (tcc_body_varies(r, x->operands[i])) return false;
    return true;
}

void tcc_body_lanes_begin(tcc_body_run *r, int var, int lanes, bool whole) {
    r->lanes = lanes;
    r->lane_var = lanes > 1 ? var : -1;
    r->begins_whole = whole;
    for (int i = 0; whole && lanes > 1 && i < r->body->exprs.count; i++) {
        const tcc_expr *x = r->body->exprs.data[i];
        if (!(x->loops >> var & 1)) continue;
        const bool quotient = x->kind == TCC_EXPR_DIV && x->operands[0]->kind == TCC_EXPR_INDEX;
        r->alike[i] = reads_alike(r, x) || (quotient && within_one(r, &x->operands[0]->affine, x->integer));
    }
}

void tcc_body_lanes_end(tcc_body_run *r) {
    r->lanes = 1;
    r->lane_var = -1;
    r->begins_whole = false;
    memset(r->alike, 0, (size_t)r->body->exprs.count * sizeof *r->alike);
}

tcc_emit_type tcc_body_type(tcc_body_run *r, tcc_dtype dtype, bool lanes) {
    return tcc_emit_vector_type(tcc_scalar_register(r->e, dtype), lanes ? r->lanes : 1);
}

tcc_emit_value tcc_body_over_lanes(tcc_body_run *r, tcc_emit_value v) {
    return tcc_emit_lanes_of(tcc_emit_type_of(v)) == r->lanes ? v : tcc_emit_splat(r->e, v, r->lanes);
}

tcc_emit_value tcc_body_lanes(tcc_body_run *r, const tcc_expr *x) { return tcc_body_over_lanes(r, r->values[x->id]); }

static bool ready_affine(const tcc_body_run *r, const tcc_affine *a) {
    for (int i = 0; i < a->n; i++) {
        const tcc_var *v = &r->body->vars.data[a->terms[i].var];
        if (v->kind == TCC_VAR_VALUE && !r->values[v->value->id]) return false;
    }
    return true;
}

/* Whether what a fold reads from outside its loops is there. */
static bool outside_ready(const tcc_body_run *r, const tcc_expr *x, uint64_t inside) {
    if (r->values[x->id]) return true;
    if (r->given[x->id] || !(x->loops & inside)) return false;
    if (x->kind == TCC_EXPR_FOLD) inside |= x->fold;
    for (int i = 0; i < x->affine.n; i++) {
        const tcc_var *v = &r->body->vars.data[x->affine.terms[i].var];
        if (v->kind == TCC_VAR_VALUE && !outside_ready(r, v->value, inside)) return false;
    }
    for (int i = 0; i < x->n_operands; i++)
        if (!outside_ready(r, x->operands[i], inside)) return false;
    return true;
}

bool tcc_body_ready(const tcc_body_run *r, const tcc_expr *x) {
    if (r->given[x->id]) return false;
    if (x->kind == TCC_EXPR_FOLD && x->fold) return outside_ready(r, x->operands[0], x->fold);
    for (int i = 0; i < x->n_operands; i++)
        if (!r->values[x->operands[i]->id]) return false;
    return ready_affine(r, &x->affine);
}
