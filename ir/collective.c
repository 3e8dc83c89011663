/* SPDX-License-Identifier: MIT
 * Building collectives. */
#include "ir/collective.h"

tcc_node *tcc_ir_last_collective(const tcc_graph *g, int end) {
    for (int i = end - 1; i >= 0; i--)
        if (tcc_op_is_collective(g->nodes.data[i]->op)) return g->nodes.data[i];
    return NULL;
}

tcc_node *tcc_ir_collective(tcc_graph *g, tcc_op op, tcc_node *x, tcc_rank_reduction reduction, int64_t ranks) {
    tcc_node *operands[] = {x, tcc_ir_last_collective(g, g->nodes.count)};
    const tcc_attrs attrs = {
        .collective = {.reduction = op == TCC_OP_ALL_GATHER ? NULL : tcc_reduction_text(reduction), .ranks = ranks}};
    return x ? tcc_ir_build(g, op, operands, operands[1] ? 2 : 1, &attrs, NULL, x->loc) : NULL;
}

tcc_node *tcc_ir_collective_once(tcc_graph *g, tcc_op op, tcc_node *x, tcc_rank_reduction reduction, int64_t ranks) {
    for (tcc_node *c = tcc_ir_last_collective(g, g->nodes.count); c && x; c = c->n_operands > 1 ? c->operands[1] : NULL)
        if (c->op == op && c->operands[0] == x && (op == TCC_OP_ALL_GATHER || tcc_reduction_of(c) == reduction))
            return c;
    return tcc_ir_collective(g, op, x, reduction, ranks);
}

tcc_node *tcc_rewrite_collective(tcc_rewrite *rw, const tcc_node *n) {
    tcc_ir_set_origin(rw->to, n);
    return rw->map[n->id] = tcc_ir_collective_once(rw->to, n->op, rw->map[n->operands[0]->id], tcc_reduction_of(n),
                                                   n->attrs->collective.ranks);
}
