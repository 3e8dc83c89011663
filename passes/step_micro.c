/* SPDX-License-Identifier: MIT
 * The step of a micro-batch: it adds its gradients to sums, from which another program makes the update. */
#include "passes/micro.h"
#include "passes/micro_loss.h"
#include "passes/step.h"

#include <string.h>

typedef struct micro {
    tcc_node *first;  /* bool[]: the first micro-batch of a step */
    tcc_node *weight; /* NULL: losses are sums */
} micro;

/* What the micro-batch's loss, a mean, weighs in that of the step, as the model says; NULL: it is a sum. */
static tcc_node *find_weight(const tcc_step_builder *b) {
    for (int i = 0; i < b->g->outputs.count; i++)
        if (!strcmp(b->g->outputs.data[i].name, TCC_MEAN_WEIGHT_OUTPUT)) return b->g->outputs.data[i].node;
    return NULL;
}

/* State `name` becomes weight * x, or that more than it was. */
static tcc_status add_to_sum(tcc_step_builder *b, const micro *mb, const char *name, tcc_node *x, bool weighs) {
    if (!x || !name) return b->g->diag->status;
    const int input = b->g->inputs.count;
    tcc_node *sum = tcc_ir_input(b->g, name, TCC_ROLE_STATE, &x->type, x->loc);
    if (weighs && !(x = tcc_micro_weigh(b->g, mb->weight, x))) return b->g->diag->status;
    tcc_node *more = step_add(b, sum, x);
    return tcc_ir_output(b->g, name, tcc_ir_select(b->g, step_spread(b, mb->first, x), x, more), input);
}

/* Gradients stay multiplied by the scale of the loss: they are divided once, by the update. */
tcc_status tcc__step_add_sums(tcc_step_builder *b, tcc_node *loss) {
    const micro mb = {.first = tcc_micro_first(b->g), .weight = find_weight(b)};
    if (!mb.first) return b->g->diag->status;
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
