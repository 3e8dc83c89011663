/* SPDX-License-Identifier: MIT
 * The step of a micro-batch: it adds its gradients to sums, from which another program makes the update. */
#include "passes/step.h"

#include "ir/decompose.h"
#include "ir/support/alloc.h"

#include <string.h>

typedef struct micro {
    tcc_node *first;  /* bool[]: the first micro-batch of a step */
    tcc_node *weight; /* NULL: losses are sums */
    bool rare;        /* the weight may be 0, and the mean then is none */
} micro;

/* -- What a micro-batch weighs -- */

static const tcc_output *find_output(const tcc_graph *g, const char *name) {
    for (int i = 0; i < g->outputs.count; i++)
        if (!strcmp(g->outputs.data[i].name, name)) return &g->outputs.data[i];
    return NULL;
}

/* A cross-entropy of which the loss is made that was told which targets count; NULL: there is none. */
static const tcc_node *find_counting(const tcc_graph *g, const tcc_node *loss, bool *reached) {
    enum { TORCH_IGNORE = -100 }; /* the default, of targets that mostly all count */
    reached[loss->id] = true;
    for (int i = loss->id; i >= 0; i--) {
        const tcc_node *n = g->nodes.data[i];
        if (!reached[i]) continue;
        if (n->op == TCC_OP_CROSS_ENTROPY &&
            (n->n_operands > 2 || n->attrs->cross_entropy.ignore_index != TORCH_IGNORE))
            return n;
        for (int k = 0; k < n->n_operands; k++) reached[n->operands[k]->id] = true;
    }
    return NULL;
}

/* Such a loss divides by a number that samples do not tell. */
static tcc_status refuse_counting(tcc_step *b, const tcc_node *loss) {
    bool *reached = tcc__calloc((size_t)b->g->nodes.count, sizeof *reached);
    if (!reached) return tcc_enomem(b->g->diag);
    const tcc_node *counting = find_counting(b->g, loss, reached);
    tcc__free(reached);
    if (!counting) return TCC_OK;
    tcc_error(b->g->diag, TCC_EINVAL, counting->loc,
              "batch_accumulate: this cross-entropy divides by the targets that count, and the loss is more than it");
    tcc_note(b->g->diag, loss->loc, "say what the loss of a batch weighs: tcc_loss_weight(t, ...)");
    return TCC_EINVAL;
}

/* What the micro-batch's loss, a mean, weighs in that of the step: what the model says; of a cross-entropy the targets
 * that count, which the loss divides by; else its samples. */
static tcc_status weigh(tcc_step *b, const tcc_node *loss, micro *mb) {
    const tcc_output *given = find_output(b->g, TCC_LOSS_WEIGHT_OUTPUT);
    if (given && b->spec->loss_is_sum)
        return tcc_error(b->g->diag, TCC_EINVAL, given->node->loc,
                         "tcc_loss_weight weighs a mean, but loss_is_sum says that the loss is a sum");
    if (b->spec->loss_is_sum) return TCC_OK;
    while (loss->op == TCC_OP_CAST) loss = loss->operands[0];
    mb->rare = given || loss->op == TCC_OP_CROSS_ENTROPY;
    if (given) {
        mb->weight = given->node;
    } else if (mb->rare) {
        tcc_node *logits = tcc_ir_widen(b->g, loss->operands[0]);
        tcc_node *weights = loss->n_operands > 2 ? tcc_ir_widen(b->g, loss->operands[2]) : NULL;
        mb->weight = tcc_ir_get_cross_entropy(b->g, loss, logits, loss->operands[1], weights).denominator;
        mb->weight = tcc_ir_cast(b->g, mb->weight, TCC_F32);
    } else {
        TCC_TRY(refuse_counting(b, loss));
        mb->weight = step_hyper(b, TCC_MICRO_WEIGHT, b->hyper);
    }
    return mb->weight ? TCC_OK : b->g->diag->status;
}

/* -- Sums -- */

/* State `name` becomes weight * x, or that more than it was. */
static tcc_status add_to_sum(tcc_step *b, const micro *mb, const char *name, tcc_node *x, bool weighs) {
    if (!x || !name) return b->g->diag->status;
    const int input = b->g->inputs.count;
    tcc_node *sum = tcc_ir_input(b->g, name, TCC_ROLE_STATE, &x->type, x->loc);
    if (weighs && mb->weight) {
        tcc_node *weight = tcc_ir_cast(b->g, mb->weight, x->type.dtype);
        tcc_node *counts = mb->rare ? tcc_ir_binary_c(b->g, TCC_OP_NE, weight, 0) : NULL; /* a NaN counts */
        x = step_mul(b, x, step_spread(b, weight, x));
        if (mb->rare) x = tcc_ir_select(b->g, step_spread(b, counts, x), x, tcc_ir_splat_like(b->g, x, 0));
    }
    tcc_node *more = step_add(b, sum, x);
    return tcc_ir_output(b->g, name, tcc_ir_select(b->g, step_spread(b, mb->first, x), x, more), input);
}

/* Gradients stay multiplied by the scale of the loss: they are divided once, by the update. */
tcc_status tcc__step_add_sums(tcc_step *b, tcc_node *loss) {
    micro mb = {0};
    tcc_node *first = step_hyper(b, TCC_MICRO_FIRST, b->hyper);
    mb.first = tcc_ir_binary_c(b->g, TCC_OP_GT, first, 0);
    if (!mb.first) return b->g->diag->status;
    TCC_TRY(weigh(b, loss, &mb));
    for (int i = 0; i < b->trained.count; i++) {
        const tcc_node *parameter = b->g->inputs.data[b->trained.data[i].input];
        const char *name = tcc_arena_printf(&b->g->arena, TCC_SUM_PREFIX "%s", parameter->attrs->input.name);
        if (!name) return tcc_enomem(b->g->diag);
        tcc_ir_set_backward(b->g, parameter->loc);
        TCC_TRY(add_to_sum(b, &mb, name, b->trained.data[i].g, true));
    }
    tcc_ir_set_backward(b->g, TCC_NOWHERE);
    TCC_TRY(add_to_sum(b, &mb, TCC_LOSS_SUM_STATE, loss, true));
    return mb.weight ? add_to_sum(b, &mb, TCC_WEIGHT_SUM_STATE, mb.weight, false) : TCC_OK;
}
