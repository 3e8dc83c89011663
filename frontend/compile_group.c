/* SPDX-License-Identifier: MIT
 * Finding the kernel that is wrong: each group of a graph as a graph of its own, whose inputs are the values that the
 * group loads. Groups are taken in order, and the interpreter's results of one are the inputs of the next, so that
 * every kernel is judged by itself. */
#include "compile_verify.h"

#include "passes/group.h"
#include "runtime/exec.h"

#include <math.h>
#include <stdio.h>

/* -- Comparing -- */

double tcc__value_largest(const tcc_value *v) {
    double most = 0;
    for (int64_t i = 0, n = tcc_type_numel(&v->type); i < n; i++)
        if (fabs(v->f[i]) > most) most = fabs(v->f[i]);
    return most;
}

double tcc__value_difference(const tcc_value *reference, const tcc_value *got, double floor) {
    double worst = 0, scale = tcc__value_largest(reference);
    if (scale < floor) scale = floor;
    for (int64_t i = 0, n = tcc_type_numel(&reference->type); i < n; i++) {
        double a = reference->f[i], b = got->f[i];
        if (isnan(a) && isnan(b)) continue;
        if (a == b) continue;
        double d = fabs(a - b) / scale;
        if (!(d <= worst)) worst = isnan(d) ? INFINITY : d;
    }
    return worst;
}

/* -- A group as a graph -- */

/* An input of the lone graph: named as in the whole graph, or by its number there. */
static tcc_node *add_input(tcc_graph *to, const tcc_node *old) {
    char number[16];
    snprintf(number, sizeof number, "%%%d", old->id);
    return tcc_ir_input(to, old->op == TCC_OP_INPUT ? old->attrs->input.name : number, TCC_ROLE_BATCH, &old->type,
                        old->loc);
}

static tcc_node *add_node(tcc_graph *to, tcc_node **map, const tcc_node *old) {
    tcc_node *few[8], **operands = few;
    if (old->n_operands > 8 && !(operands = TCC_ARENA_ARRAY(&to->arena, tcc_node *, old->n_operands))) return NULL;
    for (int i = 0; i < old->n_operands; i++) {
        const tcc_node *operand = old->operands[i];
        if (!map[operand->id] && operand->op == TCC_OP_CONSTANT) map[operand->id] = add_node(to, map, operand);
        operands[i] = map[operand->id];
    }
    bool typed = tcc_op_get_info(old->op)->flags & TCC_FLAG_TYPED;
    return tcc_ir_build(to, old->op, operands, old->n_operands, old->attrs, typed ? &old->type : NULL, old->loc);
}

static tcc_node **map_nodes(tcc_graph *to, tcc_node *const *map, tcc_node *const *nodes, int count) {
    tcc_node **mapped = TCC_ARENA_ARRAY(&to->arena, tcc_node *, count);
    for (int i = 0; mapped && i < count; i++) mapped[i] = map[nodes[i]->id];
    return mapped;
}

static tcc_status fill(tcc_graph *to, tcc_node **map, const tcc_group *group, tcc_node *const *loads, int n_loads) {
    for (int i = 0; i < n_loads; i++) map[loads[i]->id] = add_input(to, loads[i]);
    for (int i = 0; i < group->n_nodes; i++) map[group->nodes[i]->id] = add_node(to, map, group->nodes[i]);
    for (int i = 0; i < group->n_outputs; i++) {
        char name[16];
        snprintf(name, sizeof name, "%%%d", group->outputs[i]->id);
        if (!map[group->outputs[i]->id]) return to->diag->status == TCC_OK ? tcc_enomem(to->diag) : to->diag->status;
        TCC_TRY(tcc_ir_output(to, name, map[group->outputs[i]->id], -1));
    }
    tcc_group copy = *group;
    copy.hero = map[group->hero->id];
    copy.nodes = map_nodes(to, map, group->nodes, group->n_nodes);
    copy.outputs = map_nodes(to, map, group->outputs, group->n_outputs);
    if (group->implementation) copy.implementation = tcc_implementation_copy(&to->arena, group->implementation, map);
    if (!copy.implementation != !group->implementation) return tcc_enomem(to->diag);
    return copy.nodes && copy.outputs ? tcc_ir_group(to, &copy) : tcc_enomem(to->diag);
}

/* The group alone, with its own memory plan. */
static tcc_status isolate(tcc_model *m, const tcc_graph *g, const tcc_group *group, tcc_node *const *loads, int n_loads,
                          tcc_graph **out) {
    tcc_diag *diag = &m->cx->diag;
    tcc_node **map = tcc__calloc((size_t)g->nodes.count, sizeof *map);
    tcc_graph *to = map ? tcc_graph_create("group", diag) : NULL;
    tcc_status status = to ? fill(to, map, group, loads, n_loads) : tcc_enomem(diag);
    tcc__free(map);
    const tcc_pass_options options = {0};
    tcc_pass_cx cx = {.cx = m->cx, .diag = diag, .options = &options};
    if (status == TCC_OK) status = tcc_pipeline_run_named(&cx, &(tcc_manager_options){0}, "plan-memory", &to, NULL);
    if (status == TCC_OK) *out = to;
    else tcc_graph_destroy(to);
    return status;
}

/* -- Running it -- */

typedef struct lone {
    tcc_program *program;
    tcc_exec *exec;
    void **memory; /* of the device, by binding: inputs in order, then outputs */
} lone;

static int64_t lone_bytes(const lone *l, int binding) { return tcc_type_bytes(&l->program->bindings[binding].type); }

static void lone_clear(tcc_model *m, lone *l) {
    tcc_exec_destroy(l->exec);
    for (int i = 0; l->memory && i < l->program->n_bindings; i++)
        m->device->ops->free(m->device, l->memory[i], lone_bytes(l, i));
    tcc__free(l->memory);
    tcc_program_destroy(l->program);
}

static tcc_status lone_upload(tcc_model *m, lone *l, int binding, const tcc_value *v) {
    void *packed = tcc__malloc((size_t)lone_bytes(l, binding));
    if (!packed) return tcc_enomem(&m->cx->diag);
    tcc_value_store(v, packed);
    tcc_status status = m->device->ops->upload(m->device, &m->cx->diag, l->memory[binding], packed,
                                               lone_bytes(l, binding));
    tcc__free(packed);
    return status;
}

static tcc_status lone_download(tcc_model *m, lone *l, int binding, tcc_value *v) {
    void *packed = tcc__malloc((size_t)lone_bytes(l, binding));
    if (!packed) return tcc_enomem(&m->cx->diag);
    tcc_status status = m->device->ops->download(m->device, &m->cx->diag, packed, l->memory[binding],
                                                 lone_bytes(l, binding));
    if (status == TCC_OK) tcc_value_load(v, packed);
    tcc__free(packed);
    return status;
}

static tcc_status lone_run(tcc_model *m, lone *l, const tcc_graph *g, const tcc_value *inputs) {
    tcc_diag *diag = &m->cx->diag;
    TCC_TRY(tcc__model_codegen(m, g, NULL, &l->program));
    TCC_TRY(tcc_exec_create(m->cx, m->device, l->program, &l->exec));
    if (!(l->memory = tcc__calloc((size_t)l->program->n_bindings + 1, sizeof *l->memory))) return tcc_enomem(diag);
    for (int i = 0; i < l->program->n_bindings; i++) {
        TCC_TRY(tcc__device_alloc(m, lone_bytes(l, i), l->program->bindings[i].name, &l->memory[i]));
        if (i < g->inputs.count) TCC_TRY(lone_upload(m, l, i, &inputs[i]));
        TCC_TRY(tcc_exec_bind(l->exec, diag, i, l->memory[i], lone_bytes(l, i)));
    }
    return tcc_exec_run(l->exec, diag);
}

/* Values of other than floats must be equal. An output far below what goes in is judged by the rounding of that. */
static bool is_wrong(const tcc_value *expected, const tcc_value *got, double largest_input, double tolerance) {
    if (tcc_dtype_is_float(expected->type.dtype))
        return !(tcc__value_difference(expected, got, 1e-3 * largest_input + 1e-30) <= tolerance);
    return memcmp(expected->i, got->i, (size_t)tcc_type_numel(&expected->type) * sizeof *got->i) != 0;
}

static tcc_status compare(tcc_model *m, const tcc_graph *g, const tcc_value *inputs, const tcc_value *expected,
                          double tolerance, bool *wrong) {
    lone l = {0};
    double largest = 0;
    for (int i = 0; i < g->inputs.count; i++)
        if (tcc_dtype_is_float(inputs[i].type.dtype)) largest = fmax(largest, tcc__value_largest(&inputs[i]));
    tcc_status status = lone_run(m, &l, g, inputs);
    for (int i = 0; i < g->outputs.count && status == TCC_OK; i++) {
        tcc_value got;
        status = tcc_value_create(&expected[i].type, &got, &m->cx->diag);
        if (status != TCC_OK) break;
        status = lone_download(m, &l, g->inputs.count + i, &got);
        if (status == TCC_OK) *wrong |= is_wrong(&expected[i], &got, largest, tolerance);
        tcc_value_free(&got);
    }
    lone_clear(m, &l);
    return status;
}

/* -- One group after the other -- */

/* What a kernel hands to the next is rounded to its type. */
static tcc_status round_value(tcc_value *v, tcc_diag *diag) {
    void *packed = tcc__malloc((size_t)tcc_type_bytes(&v->type));
    if (!packed) return tcc_enomem(diag);
    tcc_value_store(v, packed);
    tcc_value_load(v, packed);
    tcc__free(packed);
    return TCC_OK;
}

/* `known` has the values of inputs and of what earlier groups stored, by node id; what this one stores is added. */
static tcc_status check_group(tcc_model *m, const tcc_graph *g, const tcc_group *group, tcc_value *known,
                              double tolerance, bool *wrong, tcc_graph **alone) {
    tcc_diag *diag = &m->cx->diag;
    int room = 1;
    for (int i = 0; i < group->n_nodes; i++) room += group->nodes[i]->n_operands;
    tcc_node **loads = tcc__calloc((size_t)room, sizeof *loads);
    tcc_value *inputs = tcc__calloc((size_t)room, sizeof *inputs);
    tcc_value *outputs = tcc__calloc((size_t)group->n_outputs + 1, sizeof *outputs);
    tcc_status status = loads && inputs && outputs ? TCC_OK : tcc_enomem(diag);
    if (status == TCC_OK) {
        int n_loads = tcc_group_inputs(group, loads);
        for (int i = 0; i < n_loads; i++) inputs[i] = known[loads[i]->id];
        status = isolate(m, g, group, loads, n_loads, alone);
        if (status == TCC_OK) status = tcc_graph_eval(*alone, inputs, outputs, diag);
    }
    if (status == TCC_OK) {
        status = compare(m, *alone, inputs, outputs, tolerance, wrong);
        for (int i = 0; i < group->n_outputs; i++) {
            known[group->outputs[i]->id] = outputs[i];
            if (status == TCC_OK) status = round_value(&outputs[i], diag);
        }
    }
    tcc__free(loads);
    tcc__free(inputs);
    tcc__free(outputs);
    return status;
}

tcc_status tcc__find_wrong_group(tcc_model *m, const tcc_graph *g, const tcc_value *inputs, double tolerance,
                                 int *group, tcc_graph **alone) {
    tcc_value *known = tcc__calloc((size_t)g->nodes.count, sizeof *known);
    if (!known) return tcc_enomem(&m->cx->diag);
    for (int i = 0; i < g->inputs.count; i++) known[g->inputs.data[i]->id] = inputs[i];
    tcc_status status = TCC_OK;
    *group = -1;
    *alone = NULL;
    for (int i = 0; i < g->groups.count && status == TCC_OK && *group < 0; i++) {
        bool wrong = false;
        tcc_graph_destroy(*alone);
        *alone = NULL;
        status = check_group(m, g, &g->groups.data[i], known, tolerance, &wrong, alone);
        if (wrong) *group = i;
    }
    if (*group < 0) {
        tcc_graph_destroy(*alone);
        *alone = NULL;
    }
    for (int i = 0; i < g->nodes.count; i++)
        if (g->nodes.data[i]->op != TCC_OP_INPUT) tcc_value_free(&known[i]);
    tcc__free(known);
    return status;
}
