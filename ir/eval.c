/* SPDX-License-Identifier: MIT
 * The reference interpreter: the evaluation of a graph, and the table of rules, which are in
 * eval_*.c by family.
 *
 * A graph is evaluated node by node in order; a value is freed after its last use. Speed is not a
 * goal beyond running one step of a small model in a second or two, and every rule is written to be
 * read. */
#include "ir/eval.h"
#include "ir/collective.h"
#include "ir/decompose.h"
#include "ir/eval_rules.h"
#include "ir/support/alloc.h"

#include <math.h>
#include <string.h>

static tcc_eval_rule *const rules[TCC_OP_COUNT] = {
#define TCC_OP(id, text, least, most, attrs, fusion, flags, amp, cost, infer, vjp, eval, noise, emit, doc) \
    [TCC_OP_##id] = tcc__eval_##eval,
#include "ir/ops.def"
#undef TCC_OP
};

TCC_EVAL_RULE(input) {
    return tcc_error(diag, TCC_EINVAL, n->loc, "input '%s' has no value here", n->attrs->input.name);
}

tcc_graph *tcc__eval_definition(const tcc_node *n, tcc_diag *diag) {
    tcc_graph *g = tcc_graph_create("definition", diag);
    tcc_node **operands = tcc__calloc((size_t)n->n_operands, sizeof(tcc_node *));
    tcc_node *definition = NULL;
    for (int i = 0; g && operands && i < n->n_operands; i++) {
        char name[16] = {'a', (char)('0' + i)};
        operands[i] = tcc_ir_input(g, name, TCC_ROLE_BATCH, &n->operands[i]->type, n->loc);
    }
    if (g && operands) definition = tcc_ir_decompose(g, n, operands);
    tcc__free(operands);
    if (definition && tcc_ir_output(g, "value", definition, -1) == TCC_OK) return g;
    tcc_enomem(diag); /* unless the diag has said what it was */
    tcc_graph_destroy(g);
    return NULL;
}

static tcc_status eval_graph(tcc_value_pool *pool, const tcc_graph *g, bool rounds, const tcc_value *inputs,
                             tcc_value *outputs, tcc_diag *diag);

/* Evaluates the definition, in a graph of its own whose inputs stand for the operands. */
static tcc_status eval_composite(const tcc_node *n, bool rounds, const tcc_value *const *in, tcc_value *out,
                                 tcc_diag *diag) {
    tcc_graph *g = tcc__eval_definition(n, diag);
    tcc_value *values = tcc__calloc((size_t)n->n_operands, sizeof *values), result;
    tcc_status status = g && values ? TCC_OK : diag && diag->status != TCC_OK ? diag->status : tcc_enomem(diag);
    for (int i = 0; i < n->n_operands && status == TCC_OK; i++) values[i] = *in[i];
    if (status == TCC_OK) status = eval_graph(out->pool, g, rounds, values, &result, diag);
    if (status == TCC_OK) {
        tcc_value_free(out);
        *out = result;
    }
    tcc__free(values);
    tcc_graph_destroy(g);
    return status;
}

TCC_EVAL_RULE(composite) { return eval_composite(n, false, in, out, diag); }

static tcc_status eval_node(tcc_value_pool *pool, const tcc_node *n, bool rounds, const tcc_value *const *operands,
                            tcc_value *out, tcc_diag *diag) {
    const bool composite = tcc_op_get_info(n->op)->fusion == TCC_FUSION_COMPOSITE;
    TCC_TRY(tcc_value_create_in(pool, &n->type, out, diag));
    tcc_status status = rounds && composite ? eval_composite(n, true, operands, out, diag)
                                            : rules[n->op](n, operands, out, diag);
    if (status != TCC_OK) tcc_value_free(out);
    else if (rounds) tcc_value_round(out);
    return status;
}

tcc_status tcc_node_eval(const tcc_node *n, const tcc_value *const *operands, tcc_value *out, tcc_diag *diag) {
    return eval_node(NULL, n, false, operands, out, diag);
}

tcc_status tcc_node_eval_in(tcc_value_pool *pool, const tcc_node *n, const tcc_value *const *operands, tcc_value *out,
                            tcc_diag *diag) {
    return eval_node(pool, n, false, operands, out, diag);
}

/* What an evaluation holds: a value a node on each rank, and how many uses of it are still to come (outputs
 * count as uses). */
typedef struct evaluation {
    tcc_value_pool *pool;
    const tcc_graph *graph;
    int ranks;
    bool rounds;
    tcc_overflow *overflow; /* NULL: nobody asks */
    tcc_value *values;
    int *uses;
    int *input_of; /* position in graph->inputs, or -1 */
} evaluation;

static tcc_value *value_of(const evaluation *e, int rank, const tcc_node *n) {
    return &e->values[rank * e->graph->nodes.count + n->id];
}

static void free_values(evaluation *e, const tcc_node *n) {
    for (int r = 0; r < e->ranks; r++) tcc_value_free(value_of(e, r, n));
}

/* Values of inputs are the caller's. */
static void drop(evaluation *e, const tcc_node *n) {
    if (--e->uses[n->id] == 0 && e->input_of[n->id] < 0) free_values(e, n);
}

static void count_outputs(const evaluation *e) {
    const tcc_graph *g = e->graph;
    for (int i = 0; i < g->outputs.count; i++) e->uses[g->outputs.data[i].node->id] = 0;
    for (int i = 0; i < g->outputs.count; i++) e->uses[g->outputs.data[i].node->id]++;
}

static void count_uses(evaluation *e) {
    const tcc_graph *g = e->graph;
    count_outputs(e);
    for (int i = g->nodes.count - 1; i >= 0; i--) {
        const tcc_node *n = g->nodes.data[i];
        if (e->uses[i] == 0) continue; /* dead: its operands are not needed for its sake */
        for (int k = 0; k < n->n_operands; k++) e->uses[n->operands[k]->id]++;
    }
}

static tcc_status bind_inputs(evaluation *e, const tcc_value *inputs, tcc_diag *diag) {
    const tcc_graph *g = e->graph;
    for (int i = 0; i < g->nodes.count; i++) e->input_of[i] = -1;
    for (int i = 0; i < e->ranks * g->inputs.count; i++) {
        const tcc_node *n = g->inputs.data[i % g->inputs.count];
        if (!tcc_type_equal(&inputs[i].type, &n->type))
            return tcc_error(diag, TCC_EINVAL, n->loc, "input '%s' is %s, but the value given for it is %s",
                             n->attrs->input.name, tcc_type_text(&n->type), tcc_type_text(&inputs[i].type));
        e->input_of[n->id] = i % g->inputs.count;
        *value_of(e, i / g->inputs.count, n) = inputs[i];
    }
    return TCC_OK;
}

/* The first element that is not finite; -1: there is none. */
static int64_t find_infinite(const tcc_value *v, double *largest) {
    for (int64_t i = 0, count = tcc__value_is_float(v) ? tcc_type_numel(&v->type) : 0; i < count; i++) {
        if (!isfinite(v->f[i])) return i;
        if (largest && fabs(v->f[i]) > *largest) *largest = fabs(v->f[i]);
    }
    return -1;
}

static void look_for_overflow(tcc_overflow *o, const tcc_node *n, const tcc_value *const *operands, int n_operands,
                              const tcc_value *value) {
    double largest = 0;
    const int64_t element = n->op == TCC_OP_CONSTANT ? -1 : find_infinite(value, NULL);
    if (element < 0) return;
    for (int k = 0; k < n_operands; k++)
        if (find_infinite(operands[k], &largest) >= 0) return;
    *o = (tcc_overflow){n, element, value->f[element], largest};
}

typedef tcc_vec(const tcc_value *) value_vec;

/* A collective of all ranks. */
static tcc_status eval_together(evaluation *e, const tcc_node *n, value_vec *in, tcc_diag *diag) {
    if (n->attrs->collective.ranks != e->ranks)
        return tcc_error(diag, TCC_EINVAL, n->loc, "%s is one of %lld ranks, here are %d", tcc_node_text(n),
                         (long long)n->attrs->collective.ranks, e->ranks);
    in->count = 0;
    for (int r = 0; r < e->ranks; r++)
        if (!tcc_vec_push(in, value_of(e, r, n->operands[0]))) return tcc_enomem(diag);
    for (int r = 0; r < e->ranks; r++) {
        TCC_TRY(tcc_value_create_in(e->pool, &n->type, value_of(e, r, n), diag));
        tcc__eval_ranks(n, r, in->data, value_of(e, r, n));
        if (e->rounds) tcc_value_round(value_of(e, r, n));
    }
    return TCC_OK;
}

static tcc_status eval_apart(evaluation *e, const tcc_node *n, int rank, value_vec *in, tcc_diag *diag) {
    tcc_value *out = value_of(e, rank, n);
    if (e->ranks > 1 && tcc_op_get_info(n->op)->attrs == TCC_ATTR_CLASS_norm && n->attrs->norm.ranks)
        return tcc_error(diag, TCC_EUNSUPPORTED, n->loc, "%s of several ranks has to be decomposed first",
                         tcc_node_text(n));
    in->count = 0;
    for (int k = 0; k < n->n_operands; k++)
        if (!tcc_vec_push(in, value_of(e, rank, n->operands[k]))) return tcc_enomem(diag);
    TCC_TRY(eval_node(e->pool, n, e->rounds, in->data, out, diag));
    if (e->overflow) look_for_overflow(e->overflow, n, in->data, in->count, out);
    return TCC_OK;
}

static tcc_status eval_nodes(evaluation *e, tcc_diag *diag) {
    const tcc_graph *g = e->graph;
    value_vec operands = {0};
    tcc_status status = TCC_OK;
    for (int i = 0; i < g->nodes.count && status == TCC_OK; i++) {
        const tcc_node *n = g->nodes.data[i];
        if (e->uses[i] == 0 || e->input_of[i] >= 0) continue;
        if (e->ranks > 1 && tcc_op_is_collective(n->op)) status = eval_together(e, n, &operands, diag);
        else
            for (int r = 0; r < e->ranks && status == TCC_OK; r++) status = eval_apart(e, n, r, &operands, diag);
        if (status != TCC_OK || (e->overflow && e->overflow->node)) break;
        for (int k = 0; k < n->n_operands; k++) drop(e, n->operands[k]);
    }
    tcc_vec_free(&operands);
    return status;
}

/* The last output that a value is takes it. */
static tcc_status take_outputs(evaluation *e, tcc_value *outputs, tcc_diag *diag) {
    const tcc_graph *g = e->graph;
    for (int i = 0; i < e->ranks * g->outputs.count; i++) {
        const tcc_node *n = g->outputs.data[i % g->outputs.count].node;
        tcc_value *v = value_of(e, i / g->outputs.count, n);
        if (i % g->outputs.count == 0) count_outputs(e);
        if (--e->uses[n->id] == 0 && e->input_of[n->id] < 0) {
            outputs[i] = *v;
            *v = (tcc_value){0};
            continue;
        }
        tcc_status status = tcc_value_create_in(e->pool, &v->type, &outputs[i], diag);
        if (status != TCC_OK) {
            while (i > 0) tcc_value_free(&outputs[--i]);
            return status;
        }
        memcpy(outputs[i].f, v->f, (size_t)tcc_type_numel(&v->type) * sizeof *v->f);
    }
    return TCC_OK;
}

/* `outputs`: NULL where only `overflow` is asked for. */
static tcc_status eval_all(tcc_value_pool *pool, const tcc_graph *g, int ranks, bool rounds, const tcc_value *inputs,
                           tcc_value *outputs, tcc_overflow *overflow, tcc_diag *diag) {
    size_t count = (size_t)g->nodes.count;
    evaluation e = {pool,
                    g,
                    ranks,
                    rounds,
                    overflow,
                    tcc__calloc(count * (size_t)ranks, sizeof *e.values),
                    tcc__calloc(count, sizeof *e.uses),
                    tcc__calloc(count, sizeof *e.input_of)};
    tcc_status status = e.values && e.uses && e.input_of ? bind_inputs(&e, inputs, diag) : tcc_enomem(diag);
    if (status == TCC_OK) {
        count_uses(&e);
        status = eval_nodes(&e, diag);
        if (status == TCC_OK && outputs) status = take_outputs(&e, outputs, diag);
        for (int i = 0; i < g->nodes.count; i++)
            if (e.input_of[i] < 0) free_values(&e, g->nodes.data[i]);
    }
    tcc__free(e.values);
    tcc__free(e.uses);
    tcc__free(e.input_of);
    return status;
}

static tcc_status eval_graph(tcc_value_pool *pool, const tcc_graph *g, bool rounds, const tcc_value *inputs,
                             tcc_value *outputs, tcc_diag *diag) {
    return eval_all(pool, g, 1, rounds, inputs, outputs, NULL, diag);
}

tcc_status tcc_graph_find_overflow(const tcc_graph *g, const tcc_value *inputs, tcc_overflow *out, tcc_diag *diag) {
    *out = (tcc_overflow){0};
    for (int i = 0; i < g->inputs.count && !out->node; i++)
        look_for_overflow(out, g->inputs.data[i], NULL, 0, &inputs[i]);
    return out->node ? TCC_OK : eval_all(NULL, g, 1, true, inputs, NULL, out, diag);
}

tcc_status tcc_graph_eval(const tcc_graph *g, const tcc_value *inputs, tcc_value *outputs, tcc_diag *diag) {
    return eval_graph(NULL, g, false, inputs, outputs, diag);
}

tcc_status tcc_graph_eval_in(tcc_value_pool *pool, const tcc_graph *g, const tcc_value *inputs, tcc_value *outputs,
                             tcc_diag *diag) {
    return eval_graph(pool, g, false, inputs, outputs, diag);
}

tcc_status tcc_graph_eval_rounded(const tcc_graph *g, const tcc_value *inputs, tcc_value *outputs, tcc_diag *diag) {
    return eval_graph(NULL, g, true, inputs, outputs, diag);
}

tcc_status tcc_graph_eval_ranks(const tcc_graph *g, int ranks, const tcc_value *inputs, tcc_value *outputs,
                                tcc_diag *diag) {
    return eval_all(NULL, g, ranks, false, inputs, outputs, NULL, diag);
}
