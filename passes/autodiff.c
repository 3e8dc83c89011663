/* SPDX-License-Identifier: MIT
 * Autodiff: given a graph with a scalar output `loss`, it appends for every trainable parameter p an output "grad.p",
 * the gradient of the loss by p, in the order of the inputs (gradients.c). A parameter that the loss does not depend on
 * gets an exact zero. Frozen parameters get nothing, and no work is done for their sake. Forward values are unchanged.
 * Where the spec asks for them, it also appends the gradients by the float inputs of the batch.
 *
 * Loss scaling. With a scale, the loss's own gradient is a state, and gradients are divided by it in float32. With
 * micro-batches they are divided after they are added up. */
#include "ir/build.h"
#include "ir/support/alloc.h"
#include "ir/support/train_step.h"
#include "passes/gradient/gradients.h"
#include "passes/pass.h"

#include <string.h>

/* What is differentiated. */
typedef struct autodiff {
    tcc_diag *diag;
    const bool *wanted; /* by input of the graph that came in; the joint one has the scale's state behind them */
    int n_inputs;
    double loss_scale; /* what the scale begins with; 0: the loss is not scaled */
    bool keep_scale;   /* gradients stay multiplied by the scale of the loss */
} autodiff;

static tcc_node *unscaled(tcc_graph *g, tcc_node *scale, tcc_node *gradient) {
    tcc_node *wide = tcc_ir_widen(g, gradient);
    if (!wide) return NULL;
    tcc_node *factor = tcc_ir_binary(g, TCC_OP_DIV, tcc_ir_splat_like(g, scale, 1), scale);
    factor = tcc_ir_broadcast_like(g, tcc_ir_cast(g, factor, wide->type.dtype), wide);
    return tcc_ir_cast(g, tcc_ir_binary(g, TCC_OP_MUL, wide, factor), gradient->type.dtype);
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

/* By which inputs gradients are wanted. */
static tcc_status find_wanted(const tcc_pass_cx *cx, const tcc_graph *g, bool *wanted) {
    const bool *frozen = cx->options ? cx->options->spec.frozen : NULL;
    const bool of_batch = cx->options && cx->options->spec.input_gradients;
    int parameter = 0;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        if (n->attrs->input.role == TCC_ROLE_BATCH) wanted[i] = of_batch && tcc_dtype_is_float(n->type.dtype);
        if (n->attrs->input.role != TCC_ROLE_PARAM) continue;
        wanted[i] = !frozen || !frozen[parameter];
        parameter++;
        if (wanted[i] && !tcc_dtype_is_float(n->type.dtype))
            return tcc_error(cx->diag, TCC_EDTYPE, n->loc,
                             "parameter '%s' is %s: only floats can be trained, freeze it", n->attrs->input.name,
                             tcc_type_text(&n->type));
    }
    return TCC_OK;
}

/* "grad.NAME", which none of the model's outputs, the first so many, may be called. */
static tcc_status add_output(tcc_graph *g, int outputs, const tcc_node *by, tcc_node *gradient) {
    const char *name = tcc_arena_printf(&g->arena, "grad.%s", by->attrs->input.name);
    if (!name) return tcc_enomem(g->diag);
    for (int i = 0; i < outputs; i++)
        if (!strcmp(g->outputs.data[i].name, name))
            return tcc_error(g->diag, TCC_EINVAL, g->outputs.data[i].node->loc,
                             "output \"%s\": a training step calls the gradient by \"%s\" so; give it another name",
                             name, by->attrs->input.name);
    return tcc_ir_output(g, name, gradient, -1);
}

/* `by` and `gradients` have a place for each input. */
static tcc_status add_gradients(const autodiff *a, tcc_graph *g, tcc_node *loss, tcc_node **by, tcc_node **gradients) {
    tcc_node *scale = NULL;
    if (a->loss_scale > 0) {
        const tcc_type scalar = {.dtype = TCC_F32};
        scale = tcc_ir_state(g, TCC_SCALE_STATE, &scalar, a->loss_scale, TCC_NOWHERE);
        if (!scale) return g->diag->status;
    }
    int count = 0;
    const int outputs = g->outputs.count;
    for (int i = 0; i < a->n_inputs; i++)
        if (a->wanted[i]) by[count++] = g->inputs.data[i];
    TCC_TRY(tcc_build_gradients(g, loss, scale, true, count, by, gradients));
    for (int i = 0; i < count; i++) {
        tcc_ir_set_backward(g, by[i]->loc);
        tcc_node *gradient = gradients[i] ? gradients[i] : tcc_ir_splat_like(g, by[i], 0);
        if (gradients[i] && scale && !a->keep_scale) gradient = unscaled(g, scale, gradient);
        TCC_TRY(add_output(g, outputs, by[i], gradient));
    }
    return TCC_OK;
}

static tcc_status differentiate(const autodiff *a, const tcc_graph *in, tcc_graph **out) {
    const tcc_node *old_loss = find_loss(in, a->diag);
    if (!old_loss) return a->diag->status;
    tcc_rewrite rw;
    tcc_graph *joint;
    TCC_TRY(tcc_rewrite_begin(&rw, in));
    tcc_rewrite_copy_live(&rw);
    tcc_node *loss = rw.map[old_loss->id];
    TCC_TRY(tcc_rewrite_end(&rw, &joint));
    tcc_node **by = tcc__malloc(2 * (size_t)a->n_inputs * sizeof(tcc_node *) + 1);
    tcc_status status = by ? add_gradients(a, joint, loss, by, by + a->n_inputs) : tcc_enomem(a->diag);
    tcc__free(by);
    if (status == TCC_OK) *out = joint;
    else tcc_graph_destroy(joint);
    return status;
}

tcc_status tcc_pass_autodiff(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    bool *wanted = tcc__calloc((size_t)in->inputs.count, sizeof *wanted);
    if (!wanted) return tcc_enomem(cx->diag);
    const autodiff a = {.diag = cx->diag,
                        .n_inputs = in->inputs.count,
                        .wanted = wanted,
                        .loss_scale = cx->options ? cx->options->spec.loss_scale : 0,
                        .keep_scale = cx->options && tcc_step_keeps_scale(cx->options->spec.part)};
    tcc_status status = find_wanted(cx, in, wanted);
    if (status == TCC_OK) status = differentiate(&a, in, out);
    tcc__free(wanted);
    return status;
}
