/* SPDX-License-Identifier: MIT
 * Statistics of a training step. A module is the prefix of its parameters' names up to their last dot: "block.up" of
 * "block.up.weight". Its result is found in the graph, without help from the user's code. */
#include "passes/step_statistics.h"
#include "ir/build.h"
#include "ir/support/alloc.h"
#include "ir/support/train_step.h"

#include <string.h>

/* -- Numbers -- */

static tcc_node *over_all(tcc_graph *g, tcc_op op, tcc_node *x) {
    if (!x || !x->type.rank) return x;
    const tcc_dims all = tcc_ir_axes_from(0, x->type.rank);
    return tcc_ir_reduce(g, op, x, &all);
}

static tcc_node *norm(tcc_graph *g, tcc_node *x) {
    tcc_node *squares = tcc_ir_binary(g, TCC_OP_MUL, x, x);
    return tcc_ir_unary(g, TCC_OP_SQRT, over_all(g, TCC_OP_REDUCE_SUM, squares));
}

static tcc_node *largest(tcc_graph *g, tcc_node *x) {
    return over_all(g, TCC_OP_REDUCE_MAX, tcc_ir_unary(g, TCC_OP_ABS, x));
}

static tcc_node *mean(tcc_graph *g, tcc_node *x) {
    if (!x || !x->type.rank) return x;
    const tcc_dims all = tcc_ir_axes_from(0, x->type.rank);
    return tcc_ir_mean(g, x, &all);
}

static tcc_node *share_of_zeros(tcc_graph *g, tcc_node *x) {
    if (!x) return NULL;
    tcc_node *zero = tcc_ir_splat_like(g, x, 0), *one = tcc_ir_splat_like(g, x, 1);
    tcc_node *is_zero = tcc_ir_binary(g, TCC_OP_EQ, x, zero);
    return mean(g, tcc_ir_select(g, is_zero, one, zero));
}

/* Output PREFIX NAME: these scalars, as f32[count]. */
static tcc_status add_output(tcc_graph *g, const char *prefix, const char *name, tcc_node *const *scalars, int count) {
    static const int64_t one = 1;
    const tcc_attrs attrs = {.axis = {.axis = 0}};
    tcc_node *parts[TCC_PARAMETER_STATISTICS];
    for (int i = 0; i < count; i++) parts[i] = tcc_ir_reshape(g, tcc_ir_cast(g, scalars[i], TCC_F32), 1, &one);
    const char *output = tcc_arena_printf(&g->arena, "%s%s", prefix, name);
    if (!output) return tcc_enomem(g->diag);
    return tcc_ir_output(g, output, tcc_ir_build(g, TCC_OP_CONCAT, parts, count, &attrs, NULL, TCC_NOWHERE), -1);
}

tcc_status tcc_step_parameter_statistics(tcc_graph *g, const tcc_output *update, tcc_node *gradient) {
    const char *name = update->name;
    tcc_node *scalars[TCC_PARAMETER_STATISTICS];
    if (!gradient) return g->diag->status;
    tcc_node *next = tcc_ir_cast(g, update->node, gradient->type.dtype);
    tcc_node *weight = tcc_ir_cast(g, g->inputs.data[update->alias], gradient->type.dtype);
    scalars[TCC_GRADIENT_NORM] = norm(g, gradient);
    scalars[TCC_GRADIENT_LARGEST] = largest(g, gradient);
    scalars[TCC_GRADIENT_ZEROS] = share_of_zeros(g, gradient);
    scalars[TCC_WEIGHT_NORM] = norm(g, weight);
    scalars[TCC_UPDATE_NORM] = norm(g, tcc_ir_binary(g, TCC_OP_SUB, next, weight));
    return add_output(g, TCC_PARAMETER_STATISTICS_PREFIX, name, scalars, TCC_PARAMETER_STATISTICS);
}

/* -- Modules -- */

typedef struct module {
    const char *name;
    size_t length;
    tcc_node *result;
} module;

typedef tcc_vec(module) modules;

/* The number of the module that parameter `n` belongs to; a new one is added. -1: memory is short. */
static int module_of(modules *all, const tcc_node *n) {
    const char *name = n->attrs->input.name, *dot = strrchr(name, '.');
    const module m = {name, dot ? (size_t)(dot - name) : strlen(name), NULL};
    for (int i = 0; i < all->count; i++)
        if (all->data[i].length == m.length && !memcmp(all->data[i].name, name, m.length)) return i;
    return tcc_vec_push(all, m) ? all->count - 1 : -1;
}

/* made_of: by node, the module of whose parameters alone it is made, as a view or a copy in another type, which is no
 * result; else -1. */
static tcc_status find_results(const tcc_graph *g, modules *all, int *made_of) {
    for (int i = 0; i < g->nodes.count; i++) {
        tcc_node *n = g->nodes.data[i];
        int reads = -1, others = 0;
        made_of[i] = -1;
        if (n->backward) continue;
        if (n->op == TCC_OP_INPUT && n->attrs->input.role == TCC_ROLE_PARAM) {
            made_of[i] = module_of(all, n);
            if (made_of[i] < 0) return tcc_enomem(g->diag);
            continue;
        }
        for (int k = 0; k < n->n_operands; k++) {
            const int of = made_of[n->operands[k]->id];
            if (of >= 0) reads = of;
            else others++;
        }
        if (reads < 0) continue;
        if (!others) made_of[i] = reads;
        else if (tcc_dtype_is_float(n->type.dtype)) all->data[reads].result = n;
    }
    return TCC_OK;
}

static tcc_status add_module(tcc_graph *g, const module *m) {
    tcc_node *scalars[TCC_MODULE_STATISTICS], *x = tcc_ir_widen(g, m->result);
    const char *name = tcc_arena_printf(&g->arena, "%.*s", (int)m->length, m->name);
    if (!name) return tcc_enomem(g->diag);
    if (!x) return g->diag->status;
    const double count = (double)tcc_type_numel(&x->type);
    tcc_node *squares = x->type.rank ? over_all(g, TCC_OP_REDUCE_M2, x) : tcc_ir_splat_like(g, x, 0);
    scalars[TCC_MODULE_MEAN] = mean(g, x);
    scalars[TCC_MODULE_STD] = tcc_ir_unary(g, TCC_OP_SQRT, tcc_ir_binary_c(g, TCC_OP_MUL, squares, 1 / count));
    scalars[TCC_MODULE_LARGEST] = largest(g, x);
    return add_output(g, TCC_MODULE_STATISTICS_PREFIX, name, scalars, TCC_MODULE_STATISTICS);
}

tcc_status tcc_step_module_statistics(tcc_graph *g) {
    modules all = {0};
    int *made_of = tcc__calloc((size_t)g->nodes.count + 1, sizeof *made_of);
    tcc_status status = made_of ? find_results(g, &all, made_of) : tcc_enomem(g->diag);
    for (int i = 0; i < all.count && status == TCC_OK; i++)
        if (all.data[i].result) status = add_module(g, &all.data[i]);
    tcc__free(made_of);
    tcc_vec_free(&all);
    return status;
}
