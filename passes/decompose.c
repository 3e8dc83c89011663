/* SPDX-License-Identifier: MIT
 * The decompose pass: expands composite ops to their definitions (ir/decompose.c), except norms that a library may
 * compute (norms.c), and lines that the target sorts. */
#include "ir/collective.h"
#include "ir/decompose.h"
#include "passes/group.h"
#include "passes/pass.h"
#include "passes/select.h"

/* A library knows the batch of one rank. */
static bool is_kept(const tcc_node *n) { return tcc_is_batch_norm(n->op) && !n->attrs->norm.ranks; }

static void rewrite_order(tcc_rewrite *rw, const tcc_node *n, int64_t longest) {
    tcc_ir_set_origin(rw->to, n);
    rw->map[n->id] = tcc_ir_order(rw->to, n, rw->map[n->operands[0]->id], longest);
}

tcc_status tcc_pass_decompose(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_rewrite rw;
    const tcc_pass_target *target = cx->options ? cx->options->target : NULL;
    const bool keep_norms = target && target->takes_norm;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    for (int id = 0; id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        if (!rw.live[id]) continue;
        if (n->op == TCC_OP_ARGSORT) rewrite_order(&rw, n, target ? target->longest_sorted : 0);
        else if (tcc_op_get_info(n->op)->fusion == TCC_FUSION_COMPOSITE && !(keep_norms && is_kept(n)))
            tcc_rewrite_decompose(&rw, n);
        else if (tcc_op_is_collective(n->op)) tcc_rewrite_collective(&rw, n); /* norms of several ranks have others */
        else tcc_rewrite_copy(&rw, n);
    }
    return tcc_rewrite_end(&rw, out);
}
