/* SPDX-License-Identifier: MIT
 * Autodiff: reverse mode, graph to graph.
 *
 * What it does. Given a graph with a scalar output `loss`, it appends for every trainable parameter
 * p an output "grad.p", the gradient of the loss by p, in the order of the inputs. A parameter that
 * the loss does not depend on gets an exact zero. Frozen parameters get nothing, and no work is
 * done for their sake.
 *
 * How. First the forward graph is copied. Then its nodes are visited from last to first. When a
 * node is reached, all its users have been visited, so the gradient by it is complete; the op's
 * rule (the vjp column of ops.def) writes the gradients by the operands as expressions in the same
 * graph, and they are added to what other users gave. So the joint graph is plain IR. There is no
 * tape: backward simply uses the values of forward, and later passes decide which of them are kept
 * in memory and which are recomputed. A gradient is an expression: that of one use stands as it is,
 * those of several uses are added once. Nothing is filled with zeros and accumulated.
 *
 * Invariants.
 *   1. The gradient by a node has the node's type.
 *   2. Only nodes on a path from a trainable parameter to the loss get a gradient (`needs`).
 * Integers, bools and results of ops whose derivative is zero everywhere (`zero` in the table) end
 * such paths.
 *   3. Nodes made here carry the line of the forward node that they belong to, and backward = true.
 *   4. The order of additions depends on the graph alone: users from last to first.
 *   5. Forward values are unchanged: autodiff adds nodes and outputs.
 *
 * Composite ops. Where a closed form is better than differentiating the definition (softmax, norms,
 * losses: less to keep, fewer sweeps), the op has a rule of its own, and takes parts of the
 * definition from ir/decompose.h; since equal expressions are one node, the mean and scale that
 * forward computes are the ones that backward uses. The others say `composite`: they are expanded
 * while copying, if they need a gradient, and the rules of their parts do the rest.
 *
 * Files. This one has the table of rules and the pass. What rules call is in vjp.c, and the rules are in vjp_*.c.
 *
 * Adding a rule. Name it in the vjp column and write TCC_VJP_RULE(name) in the vjp_*.c of its
 * family: a missing rule does not link. Where both x and y would serve and y is stored anyway
 * (relu, tanh, softmax), use y: then x can be freed. Guard only what is costly by tcc__vjp_wants.
 * Add a row to tests/numerics/test_gradients.c, which compares with finite differences.
 *
 * Source: Griewank and Walther 2008, "Evaluating Derivatives", ch. 3; closed forms are derived
 * where they stand. */
#include "ir/decompose.h"
#include "ir/support/alloc.h"
#include "passes/pass.h"
#include "ir/support/train_step.h"
#include "passes/vjp.h"

#include <stdio.h>
#include <string.h>

static tcc_vjp_rule *const rules[TCC_OP_COUNT] = {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, doc) \
    [TCC_OP_##id] = tcc__vjp_##vjp,
#include "ir/ops.def"
#undef TCC_OP
};

static bool passes_gradient(const tcc_node *n) {
    return tcc_dtype_is_float(n->type.dtype) && rules[n->op] != tcc__vjp_zero;
}

/* Needs of all nodes of `g`, which has the pass's inputs. */
static bool *mark_needs(const tcc_graph *g, const bool *trainable) {
    bool *needs = tcc__calloc((size_t)g->nodes.count, sizeof *needs);
    if (!needs) return NULL;
    for (int i = 0; i < g->inputs.count; i++) needs[g->inputs.data[i]->id] = trainable[i];
    for (int id = 0; id < g->nodes.count; id++) {
        const tcc_node *n = g->nodes.data[id];
        if (!passes_gradient(n)) continue;
        for (int i = 0; i < n->n_operands; i++) needs[id] |= needs[n->operands[i]->id];
    }
    return needs;
}

/* The closed form of cross-entropy does not cover the class weights; trained, they are
 * differentiated through the definition. */
static bool is_expanded(const tcc_node *n, const bool *needs) {
    if (!needs[n->id]) return false;
    if (n->op == TCC_OP_CROSS_ENTROPY) return n->n_operands > 2 && needs[n->operands[2]->id];
    return rules[n->op] == tcc__vjp_composite;
}

/* Copies what is live, composites without a rule as their definitions. */
static tcc_status copy_forward(const tcc_autodiff *a, tcc_rewrite *rw) {
    bool *needs = mark_needs(rw->from, a->trainable);
    if (!needs) return tcc_enomem(a->diag);
    for (int id = 0; id < rw->from->nodes.count; id++) {
        const tcc_node *n = rw->from->nodes.data[id];
        if (!rw->live[id]) continue;
        if (is_expanded(n, needs)) tcc_rewrite_decompose(rw, n);
        else tcc_rewrite_copy(rw, n);
    }
    tcc__free(needs);
    return TCC_OK;
}

/* Visits the forward nodes of g from `loss` back. */
static void sweep(tcc_autodiff *a, tcc_graph *g, tcc_node *loss) {
    if (!a->needs[loss->id]) return;
    tcc_ir_set_backward(g, loss->loc);
    tcc__gradient_add(a, loss, a->scale ? tcc_ir_cast(g, a->scale, loss->type.dtype) : tcc_ir_splat_like(g, loss, 1));
    for (int id = loss->id; id >= 0 && !a->failed; id--) {
        tcc_node *n = g->nodes.data[id];
        if (!a->first[id] || n->op == TCC_OP_INPUT) continue;
        tcc_ir_set_backward(g, n->loc);
        tcc_vjp v = {a, g, n, n->operands, tcc__gradient_of(a, g, n)};
        if (v.dy) rules[n->op](&v);
    }
}

static tcc_node *unscaled(tcc_graph *g, tcc_node *scale, tcc_node *gradient) {
    tcc_node *wide = tcc_ir_widen(g, gradient);
    if (!wide) return NULL;
    tcc_node *factor = tcc_ir_binary(g, TCC_OP_DIV, tcc_ir_splat_like(g, scale, 1), scale);
    factor = tcc_ir_broadcast_like(g, tcc_ir_cast(g, factor, wide->type.dtype), wide);
    return tcc_ir_cast(g, tcc_ir_binary(g, TCC_OP_MUL, wide, factor), gradient->type.dtype);
}

static tcc_status add_outputs(tcc_autodiff *a, tcc_graph *g) {
    for (int i = 0; i < a->n_inputs; i++) {
        if (!a->trainable[i]) continue;
        tcc_node *parameter = g->inputs.data[i];
        tcc_ir_set_backward(g, parameter->loc);
        tcc_node *gradient = tcc__gradient_of(a, g, parameter);
        if (!a->first[parameter->id]) gradient = tcc_ir_splat_like(g, parameter, 0);
        else if (a->scale && !a->keep_scale) gradient = unscaled(g, a->scale, gradient);
        const char *name = tcc_arena_printf(&g->arena, "grad.%s", parameter->attrs->input.name);
        if (!name) return tcc_enomem(a->diag);
        TCC_TRY(tcc_ir_output(g, name, gradient, -1));
    }
    return TCC_OK;
}

static tcc_node *find_loss(const tcc_graph *g, tcc_diag *diag) {
    for (int i = 0; i < g->outputs.count; i++) {
        tcc_node *n = g->outputs.data[i].node;
        if (strcmp(g->outputs.data[i].name, "loss")) continue;
        if (n->type.rank == 0 && tcc_dtype_is_float(n->type.dtype)) return n;
        tcc_error(diag, TCC_ESHAPE, n->loc, "the loss must be a float scalar to have a gradient, but it is %s",
                  tcc_type_text(&n->type));
        return NULL;
    }
    tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "the graph '%s' has no output 'loss' to take the gradient of", g->name);
    return NULL;
}

/* Which inputs are trained. */
static tcc_status find_trainable(const tcc_pass_cx *cx, const tcc_graph *g, bool *trainable) {
    const bool *frozen = cx->options ? cx->options->spec.frozen : NULL;
    int parameter = 0;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        if (n->attrs->input.role != TCC_ROLE_PARAM) continue;
        trainable[i] = !frozen || !frozen[parameter];
        parameter++;
        if (trainable[i] && !tcc_dtype_is_float(n->type.dtype))
            return tcc_error(cx->diag, TCC_EDTYPE, n->loc,
                             "parameter '%s' is %s: only floats can be trained, freeze it", n->attrs->input.name,
                             tcc_type_text(&n->type));
    }
    return TCC_OK;
}

/* The whole of the work, with `trainable` given; `a` holds what its caller frees. */
static tcc_status differentiate(tcc_autodiff *a, const tcc_graph *in, tcc_graph **out) {
    const tcc_node *old_loss = find_loss(in, a->diag);
    if (!old_loss) return a->diag ? a->diag->status : TCC_EINVAL;
    tcc_rewrite rw;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    tcc_graph *joint;
    tcc_status status = copy_forward(a, &rw);
    if (status != TCC_OK) {
        tcc_rewrite_abort(&rw);
        return status;
    }
    tcc_node *loss = rw.map[old_loss->id];
    TCC_TRY(tcc_rewrite_end(&rw, &joint));
    a->needs = mark_needs(joint, a->trainable);
    a->first = tcc__calloc((size_t)joint->nodes.count, sizeof *a->first);
    a->last = tcc__calloc((size_t)joint->nodes.count, sizeof *a->last);
    status = a->needs && a->first && a->last ? TCC_OK : tcc_enomem(a->diag);
    if (status == TCC_OK && a->loss_scale > 0) {
        const tcc_type scalar = {.dtype = TCC_F32};
        a->scale = tcc_ir_state(joint, TCC_SCALE_STATE, &scalar, a->loss_scale, TCC_NOWHERE);
        if (!a->scale) status = joint->diag ? joint->diag->status : TCC_EBUG;
    }
    if (status == TCC_OK) {
        sweep(a, joint, loss);
        if (a->failed) status = joint->diag && joint->diag->status != TCC_OK ? joint->diag->status : TCC_EBUG;
    }
    if (status == TCC_OK) status = add_outputs(a, joint);
    if (status == TCC_OK) *out = joint;
    else tcc_graph_destroy(joint);
    return status;
}

tcc_status tcc_pass_autodiff(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    bool *trainable = tcc__calloc((size_t)in->inputs.count, sizeof *trainable);
    if (!trainable) return tcc_enomem(cx->diag);
    tcc_autodiff a = {.diag = cx->diag,
                      .n_inputs = in->inputs.count,
                      .trainable = trainable,
                      .loss_scale = cx->options ? cx->options->spec.loss_scale : 0,
                      .keep_scale = cx->options && cx->options->spec.part == TCC_STEP_MICRO};
    tcc_status status = find_trainable(cx, in, trainable);
    if (status == TCC_OK) status = differentiate(&a, in, out);
    tcc__free(a.needs);
    tcc__free(a.first);
    tcc__free(a.last);
    tcc_arena_free(&a.memory);
    tcc__free(trainable);
    return status;
}
