/* SPDX-License-Identifier: MIT */
#include "harness/special_values.h"
#include "harness/evaluate.h"
#include "harness/check.h"
#include "harness/function_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_POSITIONS = 6, STEPS = 4 };

/* A few elements from the first to the last. */
static int positions(const tcc_type *type, int64_t *out) {
    const int64_t n = tcc_type_numel(type);
    int count = 0;
    for (int k = 0; k < MOST_POSITIONS && n; k++) {
        const int64_t e = k * (n - 1) / (MOST_POSITIONS - 1);
        if (!count || out[count - 1] != e) out[count++] = e;
    }
    return count;
}

static bool is_float(const tcc_node *n) { return tcc_dtype_is_float(n->type.dtype); }

/* An operand of floats, and not the factors of y. */
static bool is_operand(const tcc_node *input) { return is_float(input) && strcmp(input->attrs->input.name, "r") != 0; }

static tcc_value *evaluate(const tcc_graph *g, const tcc_value *inputs) {
    return expected_outputs(g, inputs, &(compiled_options){.exact = true});
}

static char kind(double v) { return isnan(v) ? 'n' : isinf(v) ? (v > 0 ? '+' : '-') : '.'; }

/* -- NaN -- */

/* Where NaN is not what comes out, in PyTorch neither. */
static bool drops_nan(const char *name, const tcc_node *input) {
    static const struct {
        const char *name, *operand;
    } compared[] = {{"cosine", "x2"},
                    {"cosine_margin", "x2"},
                    {"hinge", "x1"},
                    {"hinge_no_margin", "x1"},
                    {"masked_fill", "x1"}}; /* signs and masks are compared with numbers */
    for (size_t k = 0; k < sizeof compared / sizeof *compared; k++)
        if (!strcmp(name, compared[k].name) && !strcmp(input->attrs->input.name, compared[k].operand)) return true;
    return false;
}

/* NaN changes where things stand: among elements that are put in order, or which one of a window gets the gradient. */
static bool orders(const char *name) {
    static const char *const all[] = {"sort", "top_k", "pooled_convolution"};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (!strncmp(name, all[k], strlen(all[k]))) return true;
    return false;
}

static bool differs(double a, double b) { return isnan(a) != isnan(b) || (!isnan(a) && a != b); }

/* An element of an operand, and the outputs where it is what it is and where it is moved. */
typedef struct moved {
    int operand;
    int64_t element;
    tcc_value *inputs, *base, *steps[STEPS];
} moved;

static bool depends_on(const moved *m, int output, int64_t e, bool slope) {
    bool changes[STEPS];
    for (int s = 0; s < STEPS; s++) changes[s] = differs(m->steps[s][output].f[e], m->base[output].f[e]);
    return slope ? changes[0] && changes[1] : changes[0] || changes[1] || changes[2] || changes[3];
}

/* What depends on the element is NaN in output o where the element is. */
static void check_output(int i, const tcc_graph *g, const moved *m, const tcc_value *nan, int o) {
    const char *name = function_case_name(i), *operand = g->inputs.data[m->operand]->attrs->input.name,
               *output = g->outputs.data[o].name;
    const bool slope = function_case_is_slope(i) || strncmp(output, "grad.", 5) == 0, some = orders(name);
    bool any = false, depends = false;
    if (strncmp(output, "grad.", 5) == 0 && !function_case_is_smooth(i)) return;
    for (int64_t e = 0; e < tcc_type_numel(&nan[o].type); e++) {
        const bool needs = depends_on(m, o, e, slope), is = isnan(nan[o].f[e]);
        depends |= needs, any |= is;
        if (needs && !some && !is)
            fail_msg("%s: with NaN in %s[%lld] %s[%lld] is %g", name, operand, (long long)m->element, output,
                     (long long)e, nan[o].f[e]);
    }
    if (depends && some && !slope && !any)
        fail_msg("%s: NaN in %s[%lld] is lost", name, operand, (long long)m->element);
}

/* The values with NaN there and, unless it is 0, `other` in all other operands of numbers. */
static tcc_value *with_nan(int i, const tcc_graph *g, const moved *m, double other) {
    tcc_value *inputs = function_case_inputs(i, g);
    for (int k = 0; k < g->inputs.count && other != 0; k++) {
        if (k == m->operand || !is_operand(g->inputs.data[k]) || drops_nan(function_case_name(i), g->inputs.data[k]))
            continue;
        for (int64_t e = 0; e < tcc_type_numel(&inputs[k].type); e++) inputs[k].f[e] = other;
    }
    inputs[m->operand].f[m->element] = NAN;
    tcc_value *outputs = evaluate(g, inputs);
    free_values(inputs, g->inputs.count);
    return outputs;
}

static void check_element(int i, const tcc_graph *g, const moved *m) {
    static const double others[] = {0, INFINITY, -INFINITY};
    const bool reads_all = strncmp(function_case_name(i), "prelu", 5) != 0; /* a slope counts below 0 alone */
    for (int k = 0; k < (reads_all ? 3 : 1); k++) {
        tcc_value *nan = with_nan(i, g, m, others[k]);
        for (int o = 0; o < g->outputs.count; o++)
            if (is_float(g->outputs.data[o].node) && (!others[k] || !o)) check_output(i, g, m, nan, o);
        free_values(nan, g->outputs.count);
    }
}

void special_check_nan(int i, const tcc_graph *g) {
    static const double steps[STEPS] = {0.01, -0.01, 3, -3};
    moved m = {.inputs = function_case_inputs(i, g)};
    m.base = evaluate(g, m.inputs);
    for (m.operand = 0; m.operand < g->inputs.count; m.operand++) {
        int64_t at[MOST_POSITIONS];
        const tcc_node *input = g->inputs.data[m.operand];
        if (!is_operand(input) || drops_nan(function_case_name(i), input)) continue;
        const int count = positions(&input->type, at);
        for (int p = 0; p < count; p++) {
            double *x = &m.inputs[m.operand].f[m.element = at[p]];
            const double was = *x;
            for (int s = 0; s < STEPS; s++) *x = was + steps[s], m.steps[s] = evaluate(g, m.inputs);
            *x = was;
            check_element(i, g, &m);
            for (int s = 0; s < STEPS; s++) free_values(m.steps[s], g->outputs.count);
        }
    }
    free_values(m.base, g->outputs.count);
    free_values(m.inputs, g->inputs.count);
}

/* -- Infinities -- */

static uint32_t mixed(uint32_t hash, char c) { return (hash ^ (unsigned char)c) * 16777619u; } /* FNV-1a */

uint32_t special_hash(int i, const tcc_graph *g, int operand, double value) {
    tcc_value *inputs = function_case_inputs(i, g);
    uint32_t hash = 2166136261u;
    int64_t at[MOST_POSITIONS];
    char name[8];
    int k = 0, y = 0;
    snprintf(name, sizeof name, "x%d", operand);
    while (strcmp(g->inputs.data[k]->attrs->input.name, name)) assert_true(++k < g->inputs.count);
    while (strcmp(g->outputs.data[y].name, "y")) assert_true(++y < g->outputs.count);
    const int count = positions(&g->inputs.data[k]->type, at);
    for (int p = 0; p < count; p++) {
        const double was = inputs[k].f[at[p]];
        inputs[k].f[at[p]] = value;
        tcc_value *outputs = evaluate(g, inputs);
        inputs[k].f[at[p]] = was;
        for (int64_t e = 0; e < tcc_type_numel(&outputs[y].type); e++)
            hash = mixed(hash, kind(is_float(g->outputs.data[y].node) ? outputs[y].f[e] : (double)outputs[y].i[e]));
        hash = mixed(hash, '|');
        free_values(outputs, g->outputs.count);
    }
    free_values(inputs, g->inputs.count);
    return hash;
}

/* -- Compiled programs -- */

/* Products with the zeros of a padding or of keys that a query does not see are made or not; and a mean that is found
 * from differences to an infinite element is NaN, as its variance is. */
static bool may_spoil_more(const tcc_graph *g) {
    for (int id = 0; id < g->nodes.count; id++) {
        const tcc_fusion_class fusion = tcc_op_get_info(g->nodes.data[id]->op)->fusion;
        const tcc_op op = g->nodes.data[id]->op;
        const bool centres = op == TCC_OP_REDUCE_M2 || tcc_op_get_info(op)->attrs == TCC_ATTR_CLASS_norm;
        if (fusion == TCC_FUSION_CONTRACT || fusion == TCC_FUSION_ATTENTION || centres) return true;
    }
    return false;
}

static void compare_kinds(int i, const tcc_graph *g, compiled *c, const tcc_value *inputs, const char *what) {
    tcc_value *expected = evaluate(g, inputs);
    for (int k = 0; k < g->inputs.count; k++) value_store(&inputs[k], c->memory[k]);
    compiled_run(c);
    for (int o = 0; o < g->outputs.count; o++) {
        if (!is_float(g->outputs.data[o].node)) continue;
        tcc_value got;
        assert_int_equal(tcc_value_create(&expected[o].type, &got, NULL), TCC_OK);
        tcc_value_load(&got, compiled_output(c, o));
        for (int64_t e = 0; e < tcc_type_numel(&got.type); e++)
            if (kind(got.f[e]) != kind(expected[o].f[e]) && !(isnan(got.f[e]) && may_spoil_more(g)))
                fail_msg("%s: with %s %s[%lld] is %g compiled, %g interpreted", function_case_name(i), what,
                         g->outputs.data[o].name, (long long)e, got.f[e], expected[o].f[e]);
        tcc_value_free(&got);
    }
    free_values(expected, g->outputs.count);
}

void special_check_compiled(int i, const tcc_graph *g, compiled *c) {
    static const double values[] = {NAN, INFINITY, -INFINITY};
    tcc_value *inputs = function_case_inputs(i, g);
    for (int k = 0; k < g->inputs.count; k++) {
        int64_t at[MOST_POSITIONS];
        if (!is_operand(g->inputs.data[k])) continue;
        const int count = positions(&g->inputs.data[k]->type, at);
        for (int p = 0; p < count; p++) {
            const double was = inputs[k].f[at[p]];
            for (int v = 0; v < 3; v++) {
                char what[64];
                snprintf(what, sizeof what, "%g in %s[%lld]", values[v], g->inputs.data[k]->attrs->input.name,
                         (long long)at[p]);
                inputs[k].f[at[p]] = values[v];
                compare_kinds(i, g, c, inputs, what);
            }
            inputs[k].f[at[p]] = was;
        }
    }
    free_values(inputs, g->inputs.count);
}
