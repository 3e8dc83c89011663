/* SPDX-License-Identifier: MIT
 * norms: batch norms that decompose has left whole, because the target has a library for them. Now that their layout is known, the library
 * is asked about each, and what it does not take becomes its definition.
 *
 * batch_norm is asked for together with its mean and scale, and with its gradient by x the other gradients: one call has all of
 * them. A library gives no variance; it follows from the scale, s = 1 / sqrt(v + eps): the v that comes out is wrong by some ulp of
 * v + eps, which is all that anybody takes of it. */
#include "ir/build.h"
#include "ir/decompose.h"
#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/pass.h"

/* Whether the library is asked about `n` itself. */
static bool is_asked(const tcc_node *n) { return n->op == TCC_OP_BATCH_NORM || n->op == TCC_OP_BATCH_NORM_GRAD_X; }

/* By node: what the library takes. */
static void ask_all(const tcc_pass_cx *cx, const tcc_rewrite *rw, bool *taken) {
    tcc_node *const *nodes = rw->from->nodes.data;
    const int count = rw->from->nodes.count;
    if (!cx->options || !cx->options->takes_norm) return;
    for (int i = 0; i < count; i++) taken[i] = rw->live[i] && is_asked(nodes[i]) && cx->options->takes_norm(cx->options->takes_norm_user, rw->from, nodes[i]);
    for (int i = 0; i < count; i++) {
        if (!rw->live[i] || !tcc_is_batch_norm(nodes[i]->op) || is_asked(nodes[i])) continue;
        for (int k = 0; k < count && !taken[i]; k++) taken[i] = taken[k] && is_asked(nodes[k]) && tcc_same_batch_norm(nodes[i], nodes[k]);
    }
}

static tcc_node *variance_of(tcc_rewrite *rw, const tcc_node *n) {
    tcc_node *x = rw->map[n->operands[0]->id];
    tcc_graph *g = rw->to;
    tcc_ir_set_loc(g, n->loc, n->backward);
    tcc_node *scale = tcc_ir_build(g, TCC_OP_BATCH_NORM_SCALE, &x, 1, n->attrs, &n->type, n->loc);
    if (!scale) return NULL;
    tcc_node *square = tcc_ir_binary(g, TCC_OP_MUL, scale, scale);
    return tcc_ir_binary_c(g, TCC_OP_SUB, tcc_ir_binary(g, TCC_OP_DIV, tcc_ir_splat_like(g, scale, 1), square), n->attrs->norm.eps);
}

tcc_status tcc_pass_norms(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    bool *taken = tcc__calloc((size_t)in->nodes.count + 1, sizeof *taken);
    if (!taken) {
        tcc_rewrite_abort(&rw);
        return tcc_enomem(in->diag);
    }
    ask_all(cx, &rw, taken);
    for (int id = 0; id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        if (!rw.live[id]) continue;
        if (!tcc_is_batch_norm(n->op)) tcc_rewrite_copy(&rw, n);
        else if (!taken[id]) tcc_rewrite_decompose(&rw, n);
        else if (n->op == TCC_OP_BATCH_NORM_VARIANCE) rw.map[id] = variance_of(&rw, n);
        else tcc_rewrite_copy(&rw, n);
    }
    tcc__free(taken);
    return tcc_rewrite_end(&rw, out);
}
