/* SPDX-License-Identifier: MIT
 * A body, and the dispatch of nodes to tracing rules. */
#include "codegen/body/trace.h"

/* The value of a node that was not traced there before. */
static const tcc_expr *trace_node(tcc_body *b, const tcc_node *n, const tcc_affine *coordinates) {
    if (n->op == TCC_OP_CONSTANT) return tcc_body_trace_constant(b, n, coordinates);
    if (!tcc_body_has(b, n)) return tcc_body_trace_load(b, n, coordinates);
    if (b->special) {
        const tcc_expr *value = b->special(b, n, coordinates, b->special_user);
        if (value || b->status != TCC_OK) return value;
    }
    switch (tcc_op_get_info(n->op)->fusion) {
    case TCC_FUSION_POINT: return tcc_body_trace_point(b, n, coordinates);
    case TCC_FUSION_VIEW: return tcc_body_trace_view(b, n, coordinates);
    case TCC_FUSION_INDEX: return tcc_body_trace_take(b, n, coordinates);
    case TCC_FUSION_REDUCE: return tcc_body_trace_sum(b, n, coordinates);
    case TCC_FUSION_WINDOW: return tcc_body_trace_window(b, n, coordinates);
    case TCC_FUSION_CONTRACT:
    case TCC_FUSION_ATTENTION: return tcc_body_trace_dense(b, n, coordinates);
    default: b->status = TCC_BUG(b->diag, "no scalar form of %s", tcc_node_text(n));
    }
    return NULL;
}

tcc_body *tcc_body_create(tcc_arena *arena, tcc_diag *diag, const tcc_group *group) {
    tcc_body *b = TCC_ARENA_NEW(arena, tcc_body);
    if (!b) return NULL;
    b->arena = arena;
    b->diag = diag;
    b->split_var = -1;
    b->rule = trace_node;
    if (group) b->nodes = group->nodes, b->n_nodes = group->n_nodes;
    return b;
}
