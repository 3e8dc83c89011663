/* SPDX-License-Identifier: MIT
 * The graphs of a step's programs. With micro-batches, the model is traced on the whole batch and on a micro-batch.
 * From both traces, the pass micro makes the graph of a micro-batch and the graph of the totals that it needs from the
 * others.
 *
 * The update's graph is made from the program that writes the sums, not from the model's function. This program may
 * come from the cache; its bindings of sums say which parameters are trained. The low-precision copies of weights that
 * the program reads are outputs of the update, so one kernel updates a weight and its copy. Buffers are outputs of the
 * update too, because their next values wait for it. */
#include "frontend/compile/compile.h"

#include "ir/build.h"
#include "passes/micro.h"

/* -- The update -- */

static const tcc_binding *find_binding(const tcc_program *p, const char *name) {
    for (int i = 0; i < p->n_bindings; i++)
        if (!strcmp(p->bindings[i].name, name)) return &p->bindings[i];
    return NULL;
}

static tcc_node *find_input(const tcc_graph *g, const char *name) {
    for (int i = 0; i < g->inputs.count; i++)
        if (!strcmp(g->inputs.data[i]->attrs->input.name, name)) return g->inputs.data[i];
    return NULL;
}

/* The parameter whose gradients binding `sum` adds up; NULL: it is no such sum. */
static const tcc_binding *parameter_of(const tcc_program *p, const tcc_binding *sum) {
    const size_t prefix = sizeof TCC_SUM_PREFIX - 1;
    return strncmp(sum->name, TCC_SUM_PREFIX, prefix) ? NULL : find_binding(p, sum->name + prefix);
}

/* The state of that name, as the micro-batch's program has it; NULL: it has none. */
static tcc_node *state(tcc_graph *g, const tcc_program *p, const char *name) {
    const tcc_binding *b = find_binding(p, name);
    return b ? tcc_ir_state(g, b->name, &b->type, b->begin, TCC_NOWHERE) : NULL;
}

/* The gradient of a parameter, from its sum. */
static tcc_status add_gradient(tcc_graph *g, const tcc_binding *sum, const tcc_node *parameter, tcc_node *weight,
                               tcc_node *scale) {
    tcc_ir_set_backward(g, parameter->loc);
    tcc_node *gradient = tcc_ir_input(g, sum->name, TCC_ROLE_STATE, &sum->type, parameter->loc);
    const char *output = tcc_arena_printf(&g->arena, "grad.%s", parameter->attrs->input.name);
    if (!output) return tcc_enomem(g->diag);
    return tcc_ir_output(g, output, tcc_micro_gradient(g, gradient, weight, scale), -1);
}

/* Of a parameter that the micro-batch's program knows by the copy alone: the part that stays with this rank. */
static tcc_status add_part(tcc_model *m, tcc_graph *g, const tcc_program *p, const tcc_node *of) {
    const tcc_pass_options options = tcc__model_pass_options(m, true, &(tcc_grouping){0});
    const tcc_type type = {of->type.dtype, 1, {tcc_train_own_part(&options.spec, &of->type)}};
    if (!type.dims[0] || !find_binding(p, of->attrs->input.name)->idle) return TCC_OK;
    const char *name = tcc_arena_printf(&g->arena, TCC_OWN_PREFIX "%s", of->attrs->input.name);
    if (!name) return tcc_enomem(g->diag);
    return tcc_ir_input(g, name, TCC_ROLE_STATE, &type, of->loc) ? TCC_OK : g->diag->status;
}

/* The parameters that have sums, then their copies. */
static tcc_status add_inputs(tcc_model *m, tcc_graph *g, const tcc_compiled *micro) {
    const tcc_program *p = micro->program;
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *sum = &p->bindings[i], *b = parameter_of(p, sum);
        const tcc_node *traced = b ? find_input(micro->record->graph, b->name) : NULL;
        if (b) tcc_ir_input(g, b->name, TCC_ROLE_PARAM, &b->type, traced ? traced->loc : TCC_NOWHERE);
    }
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *b = &p->bindings[i];
        const tcc_node *of = b->copy_of ? find_input(g, b->copy_of) : NULL;
        if (!of) continue;
        tcc_ir_state_copy(g, b->name, b->type.dtype, of, of->loc);
        TCC_TRY(add_part(m, g, p, of));
    }
    return g->diag->status;
}

/* Buffers take their next values. */
static tcc_status add_buffers(tcc_graph *g, const tcc_program *p) {
    const size_t prefix = sizeof TCC_NEXT_PREFIX - 1;
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *b = &p->bindings[i];
        if (strncmp(b->name, TCC_NEXT_PREFIX, prefix) != 0) continue;
        const int input = g->inputs.count;
        tcc_node *next = NULL;
        if (tcc_ir_input(g, b->name + prefix, TCC_ROLE_STATE, &b->type, TCC_NOWHERE)) next = state(g, p, b->name);
        TCC_TRY(tcc_ir_output(g, b->name + prefix, next, input));
    }
    return TCC_OK;
}

static tcc_status add_outputs(tcc_graph *g, const tcc_program *p) {
    tcc_node *loss = state(g, p, TCC_LOSS_SUM_STATE), *weight = state(g, p, TCC_WEIGHT_SUM_STATE);
    tcc_node *scale = state(g, p, TCC_SCALE_STATE);
    if (!loss) return g->diag->status ? g->diag->status : TCC_BUG(g->diag, "micro-batches without a sum of losses");
    TCC_TRY(tcc_ir_output(g, "loss", weight ? tcc_ir_binary(g, TCC_OP_DIV, loss, weight) : loss, -1));
    state(g, p, TCC_COUNTS_STATE);
    TCC_TRY(add_buffers(g, p));
    for (int i = 0; i < p->n_bindings; i++) {
        const tcc_binding *b = parameter_of(p, &p->bindings[i]);
        const tcc_node *parameter = b ? find_input(g, b->name) : NULL;
        if (parameter) TCC_TRY(add_gradient(g, &p->bindings[i], parameter, weight, scale));
    }
    return g->diag->status;
}

static tcc_status update_graph(tcc_model *m, const tcc_compiled *micro, tcc_graph **out) {
    tcc_graph *g = tcc_graph_create("update", &m->cx->diag);
    if (!g) return tcc_enomem(&m->cx->diag);
    tcc_status status = add_inputs(m, g, micro);
    if (status == TCC_OK) status = add_outputs(g, micro->program);
    if (status == TCC_OK) *out = g;
    else tcc_graph_destroy(g);
    return status;
}

/* -- Micro-batches -- */

static tcc_status split(const tcc_compiled *c, tcc_model *m, const tcc_array *batch, tcc_graph *micro,
                        tcc_micro_graphs *out) {
    const tcc_micro_spec spec = {.whole = c->whole,
                                 .samples = batch[0].dims[0],
                                 .loss_is_sum = m->options.loss_is_sum,
                                 .ranks = c->part == TCC_STEP_RANK ? tcc_comm_size(m->options.comm) : 1};
    tcc_array *all = tcc__malloc((size_t)c->n_inputs * sizeof *all);
    tcc_graph *whole = NULL;
    if (!all) return tcc_enomem(&m->cx->diag);
    memcpy(all, batch, (size_t)c->n_inputs * sizeof *all);
    for (int i = 0; i < c->n_inputs; i++) all[i].dims[0] = c->whole;
    tcc_status status = tcc__model_trace_whole(m, all, c->n_inputs, &whole);
    if (status == TCC_OK) status = tcc_micro_split(whole, micro, &spec, out);
    tcc_graph_destroy(whole);
    tcc__free(all);
    return status;
}

static tcc_status micro_graph(tcc_model *m, const tcc_compiled *c, const tcc_array *batch, tcc_graph **out) {
    tcc_graph *micro;
    tcc_micro_graphs graphs = {0};
    tcc_status status = tcc__model_trace(m, true, batch, c->n_inputs, &micro);
    if (status != TCC_OK) { /* which may be right for a whole batch */
        tcc_note(&m->cx->diag, TCC_NOWHERE, "batch_accumulate: a micro-batch has %lld of %lld samples",
                 (long long)batch[0].dims[0], (long long)c->whole);
        return status;
    }
    status = split(c, m, batch, micro, &graphs);
    tcc_graph_destroy(micro);
    tcc_graph **wanted = c->part == TCC_STEP_TOTALS ? &graphs.totals : &graphs.step;
    if (status == TCC_OK && !*wanted) status = TCC_BUG(&m->cx->diag, "there are no totals");
    *out = *wanted;
    *wanted = NULL;
    tcc_graph_destroy(graphs.step);
    tcc_graph_destroy(graphs.totals);
    return status;
}

tcc_status tcc__traced_graph(tcc_model *m, const tcc_compiled *c, const tcc_array *batch, tcc_graph **out) {
    switch (c->part) {
    case TCC_STEP_UPDATE: return update_graph(m, c->next, out);
    case TCC_STEP_RANK:
    case TCC_STEP_MICRO:
    case TCC_STEP_TOTALS: return micro_graph(m, c, batch, out);
    default: return tcc__model_trace(m, c->train, batch, c->n_inputs, out);
    }
}
