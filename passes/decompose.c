/* SPDX-License-Identifier: MIT
 * The decompose pass: expands composite ops to their definitions (ir/decompose.c), except norms that a library may
 * compute (norms.c), and lines that the target sorts or multiplies by running products. */
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

/* Whether the lines that `n` multiplies lie in memory one behind the other, and a kernel of running results has one at
 * once, in whole vectors: for each thread takes more instructions there than products of halves do. */
static bool scans_lines(const tcc_node *n, const tcc_pass_target *target) {
    enum { LANES = 4 };
    const tcc_type *x = &n->operands[0]->type;
    const tcc_dims *axes = &n->attrs->axes.axes;
    const int64_t extent = x->dims[axes->v[0]];
    return axes->count == 1 && axes->v[0] == x->rank - 1 && extent % LANES == 0 &&
           tcc_has_line(target, extent, tcc_dtype_bytes(x->dtype));
}

static void rewrite_product(tcc_rewrite *rw, const tcc_node *n, const tcc_pass_target *target) {
    const bool scans = scans_lines(n, target);
    tcc_node *x = rw->map[n->operands[0]->id];
    tcc_ir_set_origin(rw->to, n);
    rw->map[n->id] = n->op == TCC_OP_PROD ? tcc_ir_product(rw->to, n, x, scans)
                                          : tcc_ir_product_gradient(rw->to, n, x, rw->map[n->operands[1]->id], scans);
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
        else if (n->op == TCC_OP_PROD || n->op == TCC_OP_PROD_GRAD) rewrite_product(&rw, n, target);
        else if (tcc_op_get_info(n->op)->fusion == TCC_FUSION_COMPOSITE && !(keep_norms && is_kept(n)))
            tcc_rewrite_decompose(&rw, n);
        else if (tcc_op_is_collective(n->op)) tcc_rewrite_collective(&rw, n); /* norms of several ranks have others */
        else tcc_rewrite_copy(&rw, n);
    }
    return tcc_rewrite_end(&rw, out);
}
