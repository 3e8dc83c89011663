/* SPDX-License-Identifier: MIT
 * Trials: compile a planned graph, load the program, write inputs, read values back. */
#include "frontend/compile/trial.h"

static int64_t bytes_of(const tcc_trial *t, int binding) { return tcc_type_bytes(&t->program->bindings[binding].type); }

void tcc__trial_clear(tcc_trial *t) {
    tcc_exec_destroy(t->exec);
    for (int i = 0; t->memory && i < t->program->n_bindings; i++)
        t->m->device->ops->free(t->m->device, t->memory[i], bytes_of(t, i));
    tcc__free(t->memory);
    tcc__free(t->binding);
    tcc__free(t->offset_bytes);
    tcc_program_destroy(t->program);
    *t = (tcc_trial){0};
}

/* Inputs are their own bindings. An output's value may lie in its binding alone. */
static tcc_status find_values(tcc_trial *t) {
    const tcc_graph *g = t->g;
    const size_t count = (size_t)g->nodes.count + 1;
    t->binding = tcc__malloc(count * sizeof *t->binding);
    t->offset_bytes = tcc__malloc(count * sizeof *t->offset_bytes);
    if (!t->binding || !t->offset_bytes) return tcc_enomem(&t->m->cx->diag);
    for (size_t i = 0; i < count; i++) t->binding[i] = -1, t->offset_bytes[i] = -1;
    for (int i = 0, own = g->inputs.count; i < g->outputs.count; i++) {
        const tcc_output *output = &g->outputs.data[i];
        t->binding[output->node->id] = output->alias >= 0 ? output->alias : own++;
    }
    for (int i = 0; i < g->places.count; i++) {
        t->binding[g->places.data[i].node->id] = -1;
        t->offset_bytes[g->places.data[i].node->id] = g->places.data[i].offset_bytes;
    }
    return TCC_OK;
}

static tcc_status bind_all(tcc_trial *t) {
    const tcc_device_ops *ops = t->m->device->ops;
    tcc_diag *diag = &t->m->cx->diag;
    if (!(t->memory = tcc__calloc((size_t)t->program->n_bindings + 1, sizeof *t->memory))) return tcc_enomem(diag);
    for (int i = 0; i < t->program->n_bindings; i++) {
        TCC_TRY(tcc__device_alloc(t->m, bytes_of(t, i), t->program->bindings[i].name, &t->memory[i]));
        if (i < t->g->inputs.count) TCC_TRY(ops->upload(t->m->device, diag, t->memory[i], t->given[i], bytes_of(t, i)));
        TCC_TRY(tcc_exec_bind(t->exec, diag, i, t->memory[i], bytes_of(t, i)));
    }
    return TCC_OK;
}

tcc_status tcc__trial_run(tcc_model *m, const tcc_graph *g, const void *const *given, tcc_trial *out) {
    tcc_diag *diag = &m->cx->diag;
    *out = (tcc_trial){.m = m, .g = g, .given = given};
    TCC_TRY(find_values(out));
    TCC_TRY(tcc__model_codegen(m, g, NULL, &out->program));
    TCC_TRY(tcc_exec_create(m->cx, m->device, out->program, &out->exec));
    TCC_TRY(bind_all(out));
    TCC_TRY(tcc_exec_poison(out->exec, diag));
    TCC_TRY(tcc_exec_run(out->exec, diag));
    return m->device->ops->synchronize(m->device, diag);
}

/* *out, which lies on the device. */
static tcc_status bring(const tcc_trial *t, int64_t bytes, void **copy, const void **out) {
    const tcc_device_ops *ops = t->m->device->ops;
    *copy = NULL;
    if (ops->shares_host) return TCC_OK;
    if (!(*copy = tcc__malloc((size_t)bytes))) return tcc_enomem(&t->m->cx->diag);
    const void *from = *out;
    *out = *copy;
    return ops->download(t->m->device, &t->m->cx->diag, *copy, from, bytes);
}

tcc_status tcc__trial_binding(const tcc_trial *t, int binding, void **copy, const void **out) {
    *out = t->memory[binding];
    return bring(t, bytes_of(t, binding), copy, out);
}

tcc_status tcc__trial_view(const tcc_trial *t, const tcc_node *n, void **copy, const void **out) {
    const int64_t bytes = tcc_type_bytes(&n->type);
    tcc_diag *diag = &t->m->cx->diag;
    *copy = NULL;
    for (int i = 0; i < t->g->inputs.count; i++)
        if (t->g->inputs.data[i] == n) {
            *out = t->given[i];
            return TCC_OK;
        }
    if (t->binding[n->id] >= 0) *out = t->memory[t->binding[n->id]];
    else TCC_TRY(tcc_exec_arena_part(t->exec, diag, t->offset_bytes[n->id], bytes, out));
    return bring(t, bytes, copy, out);
}
