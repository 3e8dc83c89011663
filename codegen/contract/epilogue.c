/* SPDX-License-Identifier: MIT
 * The epilogue of a contraction, evaluated on its result in registers. */
#include "codegen/contract/epilogue.h"
#include "codegen/schedule/lowering.h"

#include "ir/support/alloc.h"

typedef struct port_cx {
    const tcc_node *hero;
    tcc_affine coordinates[TCC_MAX_RANK];
    const tcc_expr *port;
} port_cx;

/* The hero at the point itself is the port. */
static const tcc_expr *port(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates, void *user) {
    port_cx *cx = user;
    if (n != cx->hero) return NULL;
    for (int i = 0; i < n->type.rank; i++)
        if (!tcc_affine_equal(&coordinates[i], &cx->coordinates[i])) {
            b->status = tcc_error(b->diag, TCC_EUNSUPPORTED, n->loc, "the result of %s is read at two places at once",
                                  tcc_op_get_info(n->op)->text);
            return NULL;
        }
    return cx->port;
}

/* What the memory of `n` holds: a reshape has the row-major memory of its operand, so its own index is never asked for,
 * wherever it splits dims. */
static const tcc_node *in_memory_of(const tcc_body *b, const tcc_node *hero, const tcc_node *n) {
    while (n != hero && n->op == TCC_OP_RESHAPE && tcc_body_has(b, n)) n = n->operands[0];
    return n;
}

/* What is stored is POINT work on the hero or beside it, at the same index: a group has no other view of a result. */
static void store(tcc_body *b, const tcc_node *n, const port_cx *cx) {
    const tcc_node *x = in_memory_of(b, cx->hero, n);
    const tcc_type *own = &x->type, *hero = &cx->hero->type;
    if (!tcc_type_same_dims(own, hero)) {
        if (b->status == TCC_OK)
            b->status = tcc_error(b->diag, TCC_EUNSUPPORTED, n->loc, "%s is no work on the result", tcc_node_text(n));
        return;
    }
    const tcc_expr *value = tcc_body_trace(b, x, cx->coordinates);
    tcc_affine position = tcc_affine_linear(b, cx->coordinates, x->type.rank, x->type.dims);
    tcc_body_write s = {tcc_body_buffer_of(b, n, 0, true), tcc_affine_expand(b, position), value, NULL, .kept = false};
    if (value && !tcc_vec_push(&b->stores, s)) b->status = tcc_enomem(b->diag);
}

static bool draws(const tcc_body *b) {
    for (int i = 0; i < b->exprs.count; i++)
        if (b->exprs.data[i]->kind == TCC_EXPR_POINT && tcc_op_draws(b->exprs.data[i]->op)) return true;
    return false;
}

tcc_status tcc_epilogue_create(tcc_lowering *l, const tcc_node *hero, int n_dims, const int64_t *dims,
                               tcc_epilogue *out) {
    tcc_body *b = tcc_lowering_body(l, l->group);
    if (!b) return tcc_enomem(l->diag);
    *out = (tcc_epilogue){0};
    port_cx cx = {.hero = hero};
    tcc_affine position = tcc_affine_constant(0);
    for (int i = 0; i < n_dims; i++) {
        tcc_affine v = tcc_affine_var(b, tcc_body_loop(b, dims[i]));
        position = tcc_affine_scale(b, position, dims[i]);
        if (dims[i] > 1) position = tcc_affine_add(b, position, v);
    }
    tcc_affine_split(b, position, hero->type.rank, hero->type.dims, cx.coordinates);
    cx.port = tcc_expr_make(
        b, (tcc_expr){.kind = TCC_EXPR_PORT, .dtype = hero->type.dtype, .affine = tcc_affine_expand(b, position)}, NULL,
        0);
    if (!cx.port) {
        if (b->status == TCC_OK) b->status = tcc_enomem(l->diag);
        return tcc_lowering_keep(l, b); /* frees it */
    }
    /* Its lanes differ even where the result has one column: a loop of its own represents them. */
    out->lanes = UINT64_C(1) << tcc_body_loop(b, 1);
    ((tcc_expr *)cx.port)->loops |= out->lanes;
    b->special = port;
    b->special_user = &cx;
    for (int i = 0; i < l->group->n_outputs; i++) store(b, l->group->outputs[i], &cx);
    TCC_TRY(tcc_lowering_keep(l, b));
    tcc_body_rebase(b);
    out->body = b;
    out->port = cx.port;
    out->plain = l->group->n_outputs == 1 && in_memory_of(b, hero, l->group->outputs[0]) == hero;
    out->wide = !draws(b);
    out->n_forms = tcc_body_forms(b, out->forms, TCC_EPILOGUE_MAX_FORMS);
    if (out->n_forms < 0)
        return tcc_error(l->diag, TCC_EUNSUPPORTED, hero->loc,
                         "work on a result of %s reads memory by more than %d index maps",
                         tcc_op_get_info(hero->op)->text, TCC_EPILOGUE_MAX_FORMS);
    return b->status;
}

void tcc_epilogue_begin(tcc_body_run *r, const tcc_epilogue *epilogue, uint64_t lane_loops) {
    const tcc_body *b = epilogue->body;
    r->lane_loops = lane_loops | epilogue->lanes;
    for (int i = 0; i < b->stores.count; i++) tcc_body_need(r, b->stores.data[i].value);
    tcc_body_emit(r, 0);
}

static uint64_t all_loops(const tcc_epilogue *epilogue) {
    uint64_t loops = 0;
    for (int v = 0; v < epilogue->body->n_loops; v++) loops |= UINT64_C(1) << v;
    return loops;
}

static void open_forms(tcc_body_run *r, const tcc_epilogue *epilogue, const tcc_emit_value *values,
                       const int64_t *steps) {
    r->n_forms = epilogue->n_forms;
    r->forms = epilogue->forms;
    r->form_values = values;
    r->form_steps = steps;
}

/* Forgets what was evaluated for loops among `loops`. */
static void forget(tcc_body_run *r, uint64_t loops) {
    r->open &= ~loops;
    for (int i = 0; i < r->body->exprs.count; i++)
        if (r->body->exprs.data[i]->loops & loops) r->values[i] = NULL;
}

void tcc_epilogue_row(tcc_body_run *r, const tcc_epilogue *epilogue, const tcc_emit_value *values,
                      const int64_t *steps) {
    open_forms(r, epilogue, values, steps);
    r->open = all_loops(epilogue) & ~r->lane_loops;
    tcc_body_emit(r, 0);
}

void tcc_epilogue_vector(tcc_body_run *r, const tcc_epilogue *epilogue, const tcc_emit_value *values,
                         const int64_t *steps, tcc_emit_value sums, tcc_emit_value mask) {
    const tcc_body *b = epilogue->body;
    open_forms(r, epilogue, values, steps);
    r->lanes = tcc_emit_lanes_of(tcc_emit_type_of(sums));
    r->mask = mask;
    r->open = all_loops(epilogue);
    r->values[epilogue->port->id] = sums;
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(r, &b->stores.data[i]);
    forget(r, r->lane_loops);
    r->values[epilogue->port->id] = NULL;
    r->lanes = 1;
    r->mask = NULL;
}

void tcc_epilogue_prefetch(tcc_body_run *r, const tcc_epilogue *epilogue, const tcc_emit_value *values,
                           const int64_t *steps) {
    open_forms(r, epilogue, values, steps);
    r->lanes = r->e->lanes;
    tcc_body_emit_prefetch(r);
    r->lanes = 1;
}

void tcc_epilogue_row_end(tcc_body_run *r, const tcc_epilogue *epilogue) { forget(r, all_loops(epilogue)); }
