/* SPDX-License-Identifier: MIT
 * Nodes that are one scalar expression at each point: loads, constants, positions, random draws, pointwise ops. */
#include "codegen/body/trace.h"

const tcc_expr *tcc_body_trace_constant(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_doubles *values = &n->attrs->constant.values;
    if (values->count == 1) return tcc_expr_number(b, n->type.dtype, values->v[0]);
    tcc_affine position = tcc_affine_linear(b, coordinates, n->type.rank, n->type.dims);
    return tcc_expr_load(b, tcc_body_buffer_of(b, n, 0, false), position, b->guard);
}

const tcc_expr *tcc_body_trace_load(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    tcc_affine position = tcc_affine_expand(b, tcc_affine_linear(b, coordinates, n->type.rank, n->type.dims));
    /* An element at a fixed place (a hyper-parameter) moves into the buffer's address, so that kernels that differ in
     * it alone are one. Memory of an input may be addressed anywhere. */
    int64_t offset = 0;
    if (!position.n && !b->guard && n->op == TCC_OP_INPUT) offset = position.constant, position.constant = 0;
    return tcc_expr_load(b, tcc_body_buffer_of(b, n, offset, false), position, b->guard);
}

static const tcc_expr *trace_iota(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    tcc_dtype dtype = n->type.dtype == TCC_I64 ? TCC_I64 : TCC_I32;
    const tcc_expr *index = tcc_expr_index(b, coordinates[n->attrs->axis.axis], dtype);
    return dtype == n->type.dtype ? index : tcc_expr_point(b, TCC_OP_CAST, n->type.dtype, &index, 1);
}

static const tcc_expr *trace_random(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    tcc_affine zero = tcc_affine_constant(0), one = tcc_affine_constant(1);
    const tcc_expr *outer = b->guard;
    b->guard = NULL; /* the key can always be read, and is one for all lanes */
    const tcc_expr *operands[] = {
        tcc_expr_index(b, tcc_affine_linear(b, coordinates, n->type.rank, n->type.dims), TCC_I64),
        tcc_body_trace(b, n->operands[0], &zero),
        tcc_body_trace(b, n->operands[0], &one),
    };
    b->guard = outer;
    return tcc_expr_make(
        b, (tcc_expr){.kind = TCC_EXPR_POINT, .dtype = n->type.dtype, .op = n->op, .integer = n->attrs->rng.id},
        operands, 3);
}

const tcc_expr *tcc_body_trace_point(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    const tcc_expr *operands[3];
    if (n->op == TCC_OP_IOTA) return trace_iota(b, n, coordinates);
    if (tcc_op_draws(n->op)) return trace_random(b, n, coordinates);
    for (int i = 0; i < n->n_operands; i++) {
        operands[i] = tcc_body_trace(b, n->operands[i], coordinates);
        if (!operands[i]) return NULL;
    }
    if (n->op == TCC_OP_CAST && operands[0]->dtype == n->type.dtype) return operands[0];
    return tcc_expr_point(b, n->op, n->type.dtype, operands, n->n_operands);
}
