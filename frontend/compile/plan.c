/* SPDX-License-Identifier: MIT
 * The memory that a step would need, found by the passes alone. A step in micro-batches has several programs. They
 * share one arena and states; each has its own batch and outputs. */
#include "frontend/compile/compile.h"

#include "codegen/library/collective.h"
#include "ir/collective.h"
#include "passes/remat/budget.h"
#include "runtime/cuda/collectives.h"

/* The memory of the programs of a step, one after another. */
typedef struct step_plan {
    tcc_model *m;
    tcc_arena memory;            /* of the names: */
    tcc_vec(const char *) names; /* of parameters and states that are counted */
    bool fronts; /* micro-batches go through the first passes alone, which say what they keep and not their arenas */
    int64_t largest_update; /* arena of what is no micro-batch */
    tcc_memory_plan sum;
} step_plan;

static bool is_counted(const step_plan *p, const char *name) {
    for (int i = 0; i < p->names.count; i++)
        if (!strcmp(p->names.data[i], name)) return true;
    return false;
}

static tcc_status count_input(step_plan *p, const tcc_node *n) {
    const tcc_role role = n->attrs->input.role;
    const bool stays = role == TCC_ROLE_PARAM || role == TCC_ROLE_STATE;
    const char *name = n->attrs->input.name;
    if (stays && is_counted(p, name)) return TCC_OK;
    *(stays ? &p->sum.state_bytes : &p->sum.batch_bytes) += tcc_type_bytes(&n->type);
    if (!stays) return TCC_OK;
    name = tcc_arena_strdup(&p->memory, name);
    return name && tcc_vec_push(&p->names, name) ? TCC_OK : tcc_enomem(&p->m->cx->diag);
}

/* What a rank on a GPU gets of others in a collective; the next one takes the same memory. */
static int64_t received_bytes(const tcc_model *m, const tcc_graph *g) {
    int64_t most = 0;
    for (int i = 0; i < g->nodes.count && *m->arch; i++) {
        tcc_collective_params params;
        if (!tcc_op_is_collective(g->nodes.data[i]->op)) continue;
        const tcc_call call = tcc_collective_call(g->nodes.data[i], m->options.reduce_fast, &params);
        const int64_t bytes = tcc__cuda_received_bytes(call, &params);
        if (bytes > most) most = bytes;
    }
    return most;
}

static tcc_status count_graph(step_plan *p, const tcc_graph *g) {
    p->sum.batch_bytes += received_bytes(p->m, g);
    if (g->arena_bytes > p->sum.arena_bytes) p->sum.arena_bytes = g->arena_bytes;
    bool *idle = tcc__calloc((size_t)g->inputs.count + 1, sizeof *idle);
    tcc_status status = idle ? tcc_graph_find_idle(g, idle) : tcc_enomem(g->diag);
    for (int i = 0; i < g->inputs.count && status == TCC_OK; i++)
        if (!idle[i] || tcc__model_keeps_idle(p->m)) status = count_input(p, g->inputs.data[i]);
    tcc__free(idle);
    for (int i = 0; i < g->outputs.count; i++)
        if (g->outputs.data[i].alias < 0) p->sum.batch_bytes += tcc_type_bytes(&g->outputs.data[i].node->type);
    return status;
}

/* The inputs of a program that is not made, as its bindings. */
static tcc_status bind_inputs(const tcc_graph *g, tcc_arena *memory, tcc_program *out) {
    tcc_binding *bindings = TCC_ARENA_ARRAY(memory, tcc_binding, g->inputs.count + 1);
    bool *idle = TCC_ARENA_ARRAY(memory, bool, g->inputs.count + 1);
    if (!bindings || !idle) return tcc_enomem(g->diag);
    TCC_TRY(tcc_graph_find_idle(g, idle));
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i];
        bindings[i] = (tcc_binding){.name = n->attrs->input.name,
                                    .role = n->attrs->input.role,
                                    .type = n->type,
                                    .begin = n->attrs->input.begin,
                                    .copy_of = tcc_input_is_copy(n) ? n->attrs->input.copy_of : NULL,
                                    .idle = idle[i]};
    }
    *out = (tcc_program){.bindings = bindings, .n_bindings = g->inputs.count};
    return TCC_OK;
}

/* The graph of a program that has its part, for `batch`, through its passes. */
static tcc_status pass_graph(step_plan *p, tcc_compiled *c, const tcc_array *batch, const tcc_graph **g) {
    tcc_model *m = p->m;
    if (!(c->record = tcc__calloc(1, sizeof *c->record))) return tcc_enomem(&m->cx->diag);
    TCC_TRY(tcc__traced_graph(m, c, batch, &c->record->graph));
    TCC_TRY(tcc__model_selector(m));
    if (c->part == TCC_STEP_MICRO && p->fronts) return tcc__record_front(m, c, g);
    TCC_TRY(tcc__plan_beside(m, c));
    return tcc__record_graph(m, c, g);
}

static tcc_status plan_part(step_plan *p, tcc_step_part part, const tcc_compiled *of, const tcc_array *batch);

/* What runs beside a micro-batch's program, which has been counted. */
static tcc_status plan_others(step_plan *p, tcc_compiled *micro, const tcc_graph *g, const tcc_array *batch) {
    tcc_program program;
    bool totals = false, update = !is_counted(p, TCC_LOSS_SUM_STATE);
    TCC_TRY(bind_inputs(g, &micro->arena, &program));
    for (int i = 0; i < g->inputs.count; i++)
        totals |= !strncmp(g->inputs.data[i]->attrs->input.name, TCC_TOTAL_PREFIX, sizeof TCC_TOTAL_PREFIX - 1);
    TCC_TRY(count_graph(p, g));
    if (totals) TCC_TRY(plan_part(p, TCC_STEP_TOTALS, micro, batch));
    micro->program = &program;
    const tcc_status status = update ? plan_part(p, TCC_STEP_UPDATE, micro, NULL) : TCC_OK;
    micro->program = NULL;
    return status;
}

/* `of`: what has the program's signature; the micro-batch of an update. */
static tcc_status plan_part(step_plan *p, tcc_step_part part, const tcc_compiled *of, const tcc_array *batch) {
    tcc_compiled *c = NULL;
    const tcc_graph *g;
    tcc_status status = tcc__compiled_create(p->m, of->train, batch, part == TCC_STEP_UPDATE ? 0 : of->n_inputs, &c);
    if (status == TCC_OK) {
        c->part = part, c->whole = of->whole;
        c->next = part == TCC_STEP_UPDATE ? (tcc_compiled *)of : NULL;
        status = pass_graph(p, c, batch, &g);
    }
    if (status == TCC_OK && part != TCC_STEP_MICRO && g->arena_bytes > p->largest_update)
        p->largest_update = g->arena_bytes;
    if (status == TCC_OK) status = part == TCC_STEP_MICRO ? plan_others(p, c, g, batch) : count_graph(p, g);
    tcc__compiled_destroy(p->m, c);
    return status;
}

/* All programs of a step in micro-batches, of `all` samples on this rank. */
static tcc_status plan_micro(step_plan *p, const tcc_array *batch, int count, int64_t all, int64_t whole) {
    const int64_t samples = (all + tcc__micro_parts(p->m) - 1) / tcc__micro_parts(p->m);
    tcc_array *slice = tcc__malloc(((size_t)count + 1) * sizeof *slice);
    tcc_status status = slice ? TCC_OK : tcc_enomem(&p->m->cx->diag);
    const tcc_compiled signature = {.train = true, .n_inputs = count, .whole = whole};
    for (int rest = 0; rest < 2 && status == TCC_OK; rest++) {
        const int64_t rows = rest ? all % samples : samples;
        memcpy(slice, batch, (size_t)count * sizeof *slice);
        for (int i = 0; i < count; i++) slice[i].dims[0] = rows;
        if (rows) status = plan_part(p, tcc__micro_part(p->m), &signature, slice);
    }
    tcc__free(slice);
    return status;
}

static void step_plan_free(step_plan *p) {
    tcc_vec_free(&p->names);
    tcc_arena_free(&p->memory);
}

static int64_t kept_bytes(const tcc_memory_plan *p) { return p->state_bytes + p->batch_bytes; }

static tcc_status too_small(tcc_model *m, int64_t budget, int64_t least) {
    return tcc_error(&m->cx->diag, TCC_ENOMEM, TCC_NOWHERE,
                     "the memory budget of %lld bytes cannot be met: the update of a step in micro-batches needs %lld "
                     "bytes, with parameters, optimizer state, batch and outputs",
                     (long long)budget, (long long)least);
}

static tcc_status plan_beside(tcc_model *m, const tcc_compiled *c, int64_t budget, int64_t *beside) {
    step_plan all = {.m = m, .fronts = true}, own = {.m = m};
    const tcc_graph *g = NULL;
    tcc_compiled front = *c; /* whose graph has not been through its passes */
    tcc_compile_record record = {0};
    front.record = &record;
    tcc_status status = tcc_graph_copy_live(c->record->graph, &record.graph);
    if (status == TCC_OK) status = tcc__record_front(m, &front, &g);
    if (status == TCC_OK) status = count_graph(&own, g);
    const int64_t rows = m->options.comm ? m->ranks_rows : c->whole;
    if (status == TCC_OK) status = plan_micro(&all, c->inputs, c->n_inputs, rows, c->whole);
    if (status == TCC_OK) *beside = kept_bytes(&all.sum) - kept_bytes(&own.sum);
    if (status == TCC_OK && kept_bytes(&all.sum) + all.largest_update > budget)
        status = too_small(m, budget, kept_bytes(&all.sum) + all.largest_update);
    tcc_graph_destroy(record.graph);
    step_plan_free(&own);
    step_plan_free(&all);
    return status;
}

tcc_status tcc__plan_beside(tcc_model *m, tcc_compiled *c) {
    const tcc_remat_spec *remat = c->part == TCC_STEP_MICRO && !c->record->passed ? tcc__model_remat(m, true) : NULL;
    if (!remat || remat->budget != TCC_BUDGET_BYTES) return TCC_OK;
    return plan_beside(m, c, remat->bytes, &c->record->beside_bytes);
}

tcc_status tcc_model_plan(tcc_model *m, bool train, const tcc_array *batch, int count, tcc_memory_plan *out) {
    tcc_diag_begin(&m->cx->diag);
    *out = (tcc_memory_plan){0};
    TCC_TRY(tcc__model_need_function(m));
    TCC_TRY(tcc__model_check_batch(m, batch, count));
    step_plan p = {.m = m};
    const tcc_compiled signature = {.train = train, .n_inputs = count};
    const bool micro = train && tcc__model_accumulates(m);
    if (micro) TCC_TRY(tcc__micro_check(m, batch, count));
    const int ranks = m->options.comm ? tcc_comm_size(m->options.comm) : 1; /* which bring as many samples each */
    if (micro) m->ranks_rows = batch[0].dims[0];
    const tcc_status status = micro ? plan_micro(&p, batch, count, batch[0].dims[0], ranks * batch[0].dims[0])
                                    : plan_part(&p, TCC_STEP_WHOLE, &signature, batch);
    if (status == TCC_OK) *out = p.sum;
    step_plan_free(&p);
    return status;
}

int64_t tcc_model_free_memory(tcc_model *m) { return m->device ? m->device->ops->free_bytes(m->device) : 0; }

int64_t tcc_memory_budget_bytes(const char *text) {
    tcc_remat_spec spec = {0};
    bool of_device = false;
    if (!text || !tcc_budget_parse(text, &spec, &of_device) || of_device) return 0;
    return spec.budget == TCC_BUDGET_BYTES ? spec.bytes : 0;
}
