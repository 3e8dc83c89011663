/* SPDX-License-Identifier: MIT
 * What a program would take of memory, by the passes alone. */
#include "compile.h"

#include "passes/remat_budget.h"

/* Of the graph after the last pass; `beside`: states that it does not show. */
static void count_bytes(const tcc_graph *g, int64_t beside, tcc_memory_plan *out) {
    *out = (tcc_memory_plan){.arena_bytes = g->arena_bytes, .state_bytes = beside};
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_role role = g->inputs.data[i]->attrs->input.role;
        const int64_t bytes = tcc_type_bytes(&g->inputs.data[i]->type);
        if (role == TCC_ROLE_PARAM || role == TCC_ROLE_STATE) out->state_bytes += bytes;
        else out->batch_bytes += bytes;
    }
    for (int i = 0; i < g->outputs.count; i++)
        if (g->outputs.data[i].alias < 0) out->batch_bytes += tcc_type_bytes(&g->outputs.data[i].node->type);
}

static tcc_status plan(tcc_model *m, tcc_compiled *c, const tcc_array *batch, tcc_memory_plan *out) {
    const tcc_graph *g;
    int64_t beside = 0;
    if (!(c->made = tcc__calloc(1, sizeof *c->made))) return tcc_enomem(&m->cx->diag);
    TCC_TRY(tcc__model_trace(m, c->train, batch, c->n_inputs, &c->made->graph));
    TCC_TRY(tcc__model_selector(m));
    TCC_TRY(tcc__made_graph(m, c, &g));
    if (c->part == TCC_STEP_MICRO) {
        tcc_grouping grouping;
        TCC_TRY(tcc__model_group(m, g, &c->arena, &grouping));
        const tcc_pass_options options = tcc__model_pass_options(m, true, &grouping);
        beside = tcc_train_state_bytes(&options.spec, g);
    }
    count_bytes(g, beside, out);
    return TCC_OK;
}

tcc_status tcc_model_plan(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_memory_plan *out) {
    tcc_diag_begin(&m->cx->diag);
    *out = (tcc_memory_plan){0};
    TCC_TRY(tcc__model_need_function(m));
    TCC_TRY(tcc__model_check_batch(m, batch, count));
    const bool micro = train && tcc__model_accumulates(m);
    if (micro) {
        TCC_TRY(tcc__micro_check(m, batch, count));
        batch = tcc__micro_cut(m, batch, count, 0);
    }
    tcc_compiled *c = NULL;
    tcc_status status = tcc__compiled_create(m, train, batch, count, &c);
    if (status == TCC_OK) {
        c->part = micro ? TCC_STEP_MICRO : TCC_STEP_WHOLE;
        status = plan(m, c, batch, out);
    }
    tcc__compiled_destroy(m, c);
    return status;
}

int64_t tcc_model_free_memory(tcc_model *m) { return m->device ? m->device->ops->free_bytes(m->device) : 0; }

int64_t tcc_memory_budget_bytes(const char *text) {
    tcc_remat_spec spec = {0};
    bool of_device = false;
    if (!text || !tcc_budget_parse(text, &spec, &of_device) || of_device) return 0;
    return spec.budget == TCC_BUDGET_BYTES ? spec.bytes : 0;
}
