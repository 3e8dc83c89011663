/* SPDX-License-Identifier: MIT
 * norms: batch norms that decompose has kept whole, because the target has a library for them. Their layout is known
 * now, so the library is asked about each. A norm that it declines is expanded to its definition.
 *
 * An f32 norm between casts from and to f16 or bf16 is a norm of that type whose sums are f32, as its definition says.
 * Then the library is asked about that one.
 *
 * The library is asked about batch_norm together with its mean and scale, and about its gradient by x together with the
 * other gradients, since one call computes all of them. A library gives no variance. It is computed from the scale, s =
 * 1 / sqrt(v + eps), with an error of some ulp of v + eps; no reader needs more. */
#include "ir/build.h"
#include "ir/decompose.h"
#include "ir/support/alloc.h"
#include "passes/group.h"
#include "passes/pass.h"
#include "passes/select.h"

/* Whether the library is asked about `n` itself. */
static bool is_asked(const tcc_node *n) { return n->op == TCC_OP_BATCH_NORM || n->op == TCC_OP_BATCH_NORM_GRAD_X; }

/* --- Between casts --- */

/* What is cast to f32 here; NULL: nothing. */
static const tcc_node *cast_from(const tcc_node *n) {
    const tcc_dtype from = n->op == TCC_OP_CAST ? n->operands[0]->type.dtype : TCC_F32;
    return n->type.dtype == TCC_F32 && tcc_dtype_is_narrow(from) ? n->operands[0] : NULL;
}

/* All that is done with `n` is to cast it to that type. */
static bool is_cast_to(const tcc_graph *g, const bool *live, const tcc_node *n, tcc_dtype dtype) {
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *user = g->nodes.data[i];
        for (int k = 0; k < user->n_operands && live[i]; k++)
            if (user->operands[k] == n && (user->op != TCC_OP_CAST || user->type.dtype != dtype)) return false;
    }
    for (int i = 0; i < g->outputs.count; i++)
        if (g->outputs.data[i].node == n) return false;
    return true;
}

static int images_of(const tcc_node *n) { return n->op >= TCC_OP_BATCH_NORM_GRAD_X ? 2 : 1; }

/* Its tensors of all rows are cast from one type, and its result to it. */
static bool is_between_casts(const tcc_graph *g, const bool *live, const tcc_node *n) {
    const tcc_node *first = cast_from(n->operands[0]), *last = cast_from(n->operands[images_of(n) - 1]);
    return first && last && first->type.dtype == last->type.dtype && is_cast_to(g, live, n, first->type.dtype);
}

static tcc_node *narrowed(tcc_rewrite *rw, const tcc_node *n) {
    tcc_node *operands[5];
    for (int i = 0; i < n->n_operands; i++)
        operands[i] = rw->map[(i < images_of(n) ? cast_from(n->operands[i]) : n->operands[i])->id];
    const bool typed = tcc_op_get_info(n->op)->flags & TCC_FLAG_TYPED;
    tcc_ir_set_origin(rw->to, n);
    return tcc_ir_build(rw->to, n->op, operands, n->n_operands, n->attrs, typed ? &n->type : NULL, n->loc);
}

/* By node, of a family: what `of` says of the one that the library is asked about. */
static bool of_family(const tcc_graph *g, const bool *of, const tcc_node *n) {
    for (int i = 0; i < g->nodes.count; i++)
        if (of[i] && is_asked(g->nodes.data[i]) && tcc_same_batch_norm(n, g->nodes.data[i])) return true;
    return false;
}

static tcc_status narrow(const tcc_graph *in, tcc_graph **out) {
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    bool *inside = tcc__calloc((size_t)in->nodes.count + 1, sizeof *inside); /* by node: between casts */
    if (!inside) {
        tcc_rewrite_abort(&rw);
        return tcc_enomem(in->diag);
    }
    for (int id = 0; id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        inside[id] = rw.live[id] && is_asked(n) && is_between_casts(in, rw.live, n);
    }
    for (int id = 0; id < in->nodes.count; id++) {
        const tcc_node *n = in->nodes.data[id];
        if (!rw.live[id]) continue;
        if (n->op == TCC_OP_CAST && is_asked(n->operands[0]) && inside[n->operands[0]->id])
            rw.map[id] = rw.map[n->operands[0]->id];
        else if (tcc_is_batch_norm(n->op) && of_family(in, inside, n)) rw.map[id] = narrowed(&rw, n);
        else tcc_rewrite_copy(&rw, n);
    }
    tcc__free(inside);
    return tcc_rewrite_end(&rw, out);
}

/* --- Asking --- */

/* By node: what the library takes. */
static void ask_all(const tcc_pass_cx *cx, const tcc_rewrite *rw, bool *taken) {
    tcc_node *const *nodes = rw->from->nodes.data;
    const int count = rw->from->nodes.count;
    const tcc_pass_target *target = cx->options ? cx->options->target : NULL;
    if (!target || !target->takes_norm) return;
    for (int i = 0; i < count; i++)
        taken[i] = rw->live[i] && is_asked(nodes[i]) && target->takes_norm(target->user, rw->from, nodes[i]);
    for (int i = 0; i < count; i++)
        if (rw->live[i] && tcc_is_batch_norm(nodes[i]->op) && !is_asked(nodes[i]))
            taken[i] = of_family(rw->from, taken, nodes[i]);
}

static tcc_node *variance_of(tcc_rewrite *rw, const tcc_node *n) {
    tcc_node *x = rw->map[n->operands[0]->id];
    tcc_graph *g = rw->to;
    tcc_ir_set_origin(g, n);
    tcc_node *scale = tcc_ir_build(g, TCC_OP_BATCH_NORM_SCALE, &x, 1, n->attrs, &n->type, n->loc);
    if (!scale) return NULL;
    tcc_node *square = tcc_ir_binary(g, TCC_OP_MUL, scale, scale);
    return tcc_ir_binary_c(g, TCC_OP_SUB, tcc_ir_binary(g, TCC_OP_DIV, tcc_ir_splat_like(g, scale, 1), square),
                           n->attrs->norm.eps);
}

static tcc_status ask(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
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

tcc_status tcc_pass_norms(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_graph *between;
    TCC_TRY(narrow(in, &between));
    tcc_status status = ask(cx, between, out);
    tcc_graph_destroy(between);
    return status;
}
