/* SPDX-License-Identifier: MIT
 * Collectives: ops between the ranks that run one graph. All ranks have to run them in one order. So a collective has,
 * as its last operand, the collective before it: it waits for that, and reads nothing of it. From this follows that no
 * pass changes their order, that no two are equal, and that one is dropped only together with all behind it, on all
 * ranks alike. The verifier checks that they are one chain. No pass copies one. */
#ifndef TCC_IR_COLLECTIVE_H
#define TCC_IR_COLLECTIVE_H

#include "ir/eval.h"
#include "ir/support/reduction.h"

static inline bool tcc_op_is_collective(tcc_op op) { return tcc_op_get_info(op)->fusion == TCC_FUSION_COLLECTIVE; }

/* That of a collective; TCC_REDUCTIONS: none, as of all_gather. */
static inline tcc_rank_reduction tcc_reduction_of(const tcc_node *n) {
    return tcc_reduction_parse(n->attrs->collective.reduction);
}

/* `op` of x, behind all collectives that the graph has. all_gather has no reduction. */
tcc_node *tcc_ir_collective(tcc_graph *g, tcc_op op, tcc_node *x, tcc_rank_reduction reduction, int64_t ranks);
/* The same, or the one of x that gives all this already. */
tcc_node *tcc_ir_collective_once(tcc_graph *g, tcc_op op, tcc_node *x, tcc_rank_reduction reduction, int64_t ranks);
/* The operands that n reads: not what a collective waits for. */
static inline int tcc_ir_read_operands(const tcc_node *n) { return tcc_op_is_collective(n->op) ? 1 : n->n_operands; }
/* A copy of collective n behind all that the new graph has, where a pass has put others in; or what is it already. */
tcc_node *tcc_rewrite_collective(tcc_rewrite *rw, const tcc_node *n);
/* The last collective among the first `end` nodes; NULL: there is none. */
tcc_node *tcc_ir_last_collective(const tcc_graph *g, int end);

/* Test hook: tcc_graph_eval on `ranks` ranks side by side: inputs of rank 0, then those of rank 1, and so on; outputs
 * likewise. tcc_graph_eval itself is rank 0, to which the others bring nothing: no terms, no candidates, zeros where
 * values are gathered. */
tcc_status tcc_graph_eval_ranks(const tcc_graph *g, int ranks, const tcc_value *inputs, tcc_value *outputs,
                                tcc_diag *diag);
/* What rank `rank` gets of a collective; in[r]: what rank r brings, NULL: nothing. `out` is created and zeroed. */
void tcc__eval_ranks(const tcc_node *n, int rank, const tcc_value *const *in, tcc_value *out);

#endif
