/* SPDX-License-Identifier: MIT
 * What follows a contraction, evaluated on its result in registers. */
#include "codegen/plan.h"

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
            b->status = TCC_BUG(b->diag, "an epilogue reads the result at another place: %s", tcc_node_text(n));
            return NULL;
        }
    return cx->port;
}

tcc_status tcc_epilogue_create(tcc_lowering *l, const tcc_node *hero, int64_t batch, int64_t rows, int64_t columns,
                               tcc_epilogue *out) {
    tcc_body *b = tcc_body_create(l->arena, l->diag, l->graph, l->group);
    if (!b) return tcc_enomem(l->diag);
    port_cx cx = {.hero = hero};
    int64_t dims[] = {batch, rows, columns};
    tcc_affine at[3], zero = tcc_affine_constant(0);
    for (int i = 0; i < 3; i++) at[i] = tcc_affine_var(b, tcc_body_loop(b, dims[i]));
    for (int i = 0; i < 3; i++)
        if (dims[i] == 1) at[i] = zero;
    tcc_affine position = tcc_affine_linear(b, at, 3, dims);
    tcc_affine_split(b, position, hero->type.rank, hero->type.dims, cx.coordinates);
    cx.port = tcc_expr_make(b, (tcc_expr){.kind = TCC_EXPR_PORT, .dtype = hero->type.dtype, .affine = position}, NULL, 0);
    b->special = port;
    b->special_user = &cx;
    for (int i = 0; i < l->group->n_outputs; i++) tcc_body_store(b, l->group->outputs[i], position, false);
    TCC_TRY(tcc_lowering_keep(l, b));
    *out = (tcc_epilogue){.body = b, .port = cx.port};
    out->plain = l->group->n_outputs == 1 && l->group->outputs[0] == hero;
    return TCC_OK;
}

void tcc_epilogue_begin(tcc_body_run *r, const tcc_epilogue *epilogue) {
    const tcc_body *b = epilogue->body;
    for (int i = 0; i < b->stores.count; i++) tcc_body_need(r, b->stores.data[i].value);
    tcc_body_emit(r, 0);
}

void tcc_epilogue_store(tcc_body_run *r, const tcc_epilogue *epilogue, LLVMValueRef column, LLVMValueRef value, LLVMValueRef mask) {
    const tcc_body *b = epilogue->body;
    tcc_body_emit(r, 0); /* what depends on the batch and the row alone */
    int lanes = tcc_emit_lanes_of(LLVMTypeOf(value));
    r->lane_var = lanes > 1 ? 2 : -1;
    r->lanes = lanes;
    r->mask = mask;
    tcc_body_enter(r, 2, column);
    r->values[epilogue->port->id] = value;
    tcc_body_emit(r, 0);
    for (int i = 0; i < b->stores.count; i++) tcc_body_emit_store(r, &b->stores.data[i]);
    r->values[epilogue->port->id] = NULL;
    tcc_body_leave(r, 2);
    r->lane_var = -1;
    r->lanes = 1;
    r->mask = NULL;
}
