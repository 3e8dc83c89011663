/* SPDX-License-Identifier: MIT
 * Groups as graphs of their own, so that one kernel can run and be checked alone. */
#include "frontend/compile/alone.h"

#include <stdio.h>

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

tcc_status tcc__group_alone(tcc_model *m, const tcc_graph *g, const tcc_group *group, tcc_node *const *loads,
                            int n_loads, tcc_graph **out) {
    tcc_diag *diag = &m->cx->diag;
    tcc_node **map = tcc__calloc((size_t)g->nodes.count, sizeof *map);
    tcc_graph *to = map ? tcc_graph_create("group", diag) : NULL;
    tcc_status status = to ? fill(to, map, group, loads, n_loads) : tcc_enomem(diag);
    tcc__free(map);
    if (status == TCC_OK) *out = to;
    else tcc_graph_destroy(to);
    return status;
}
