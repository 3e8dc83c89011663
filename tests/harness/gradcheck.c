/* SPDX-License-Identifier: MIT
 * Gradients by finite differences. */
#include "harness/gradcheck.h"
#include "harness/check.h"
#include "ir/support/alloc.h"
#include "passes/pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double test_random(uint64_t *state, double lo, double hi) {
    return lo + (hi - lo) * ((double)(next(state) >> 11) * 0x1p-53);
}

void test_fill(tcc_value *v, uint64_t *state, double lo, double hi) {
    int64_t count = tcc_type_numel(&v->type);
    for (int64_t e = 0; e < count; e++) {
        if (tcc_dtype_is_float(v->type.dtype)) v->f[e] = test_random(state, lo, hi);
        else if (v->type.dtype == TCC_BOOL) v->i[e] = (int64_t)(next(state) & 1);
        else v->i[e] = (int64_t)floor(test_random(state, lo, hi));
    }
}

static int output_named(const tcc_graph *g, const char *name) {
    for (int i = 0; i < g->outputs.count; i++)
        if (!strcmp(g->outputs.data[i].name, name)) return i;
    fail_msg("no output '%s'", name);
    return -1;
}

static tcc_value *evaluate(const tcc_graph *g, const tcc_value *inputs) {
    tcc_value *outputs = calloc((size_t)g->outputs.count, sizeof *outputs);
    tcc_diag diag = {0};
    assert_ok(tcc_graph_eval(g, inputs, outputs, &diag), &diag);
    return outputs;
}

static void release(const tcc_graph *g, tcc_value *outputs) {
    for (int i = 0; i < g->outputs.count; i++) tcc_value_free(&outputs[i]);
    free(outputs);
}

static double loss_at(const tcc_graph *g, const tcc_value *inputs) {
    tcc_value *outputs = evaluate(g, inputs);
    double loss = outputs[output_named(g, "loss")].f[0];
    release(g, outputs);
    return loss;
}

static double difference(const tcc_graph *g, const tcc_value *inputs, double *x, double h) {
    double x0 = *x, f[4];
    const double steps[4] = {-2, -1, 1, 2};
    for (int i = 0; i < 4; i++) {
        *x = x0 + steps[i] * h;
        f[i] = loss_at(g, inputs);
    }
    *x = x0;
    return (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * h);
}

static void assert_same(const tcc_graph *g, const tcc_value *a, const tcc_value *b, int count, const char *what) {
    for (int i = 0; i < count; i++) {
        assert_true(tcc_type_equal(&a[i].type, &b[i].type));
        if (!memcmp(a[i].f, b[i].f, (size_t)tcc_type_numel(&a[i].type) * sizeof *a[i].f)) continue;
        fail_msg("%s: output '%s' changed, from %.17g to %.17g at the first element", what, g->outputs.data[i].name,
                 a[i].f[0], b[i].f[0]);
    }
}

static void check_decomposed(tcc_pass_cx *cx, const tcc_graph *joint, const tcc_value *inputs,
                             const tcc_value *expected) {
    tcc_graph *plain = NULL;
    assert_ok(tcc_pass_decompose(cx, joint, &plain), joint->diag);
    for (int i = 0; i < plain->nodes.count; i++)
        assert_int_not_equal(tcc_op_get_info(plain->nodes.data[i]->op)->fusion, TCC_FUSION_COMPOSITE);
    tcc_value *values = evaluate(plain, inputs);
    assert_same(joint, expected, values, joint->outputs.count, "decompose");
    release(plain, values);
    tcc_graph_destroy(plain);
}

static void check_parameter(const tcc_graph *g, tcc_value *inputs, int input, const tcc_value *gradient,
                            double tolerance, int most, gradcheck_counts *counts) {
    const double step = 1e-3;
    const char *name = g->inputs.data[input]->attrs->input.name;
    int64_t count = tcc_type_numel(&gradient->type), stride = count > most ? count / most : 1;
    double largest = 0;
    for (int64_t e = 0; e < count; e++) largest = fmax(largest, fabs(gradient->f[e]));
    double allowed = tolerance * (1e-2 + largest);
    for (int64_t e = 0; e < count; e += stride) {
        double rough = difference(g, inputs, &inputs[input].f[e], step);
        double fine = difference(g, inputs, &inputs[input].f[e], step / 2);
        if (!(fabs(rough - fine) <= allowed / 20)) {
            counts->skipped++;
            continue;
        }
        counts->checked++;
        if (!(fabs(gradient->f[e] - fine) <= allowed))
            fail_msg("gradient by '%s', element %lld: %.12g, but differences give %.12g", name, (long long)e,
                     gradient->f[e], fine);
    }
}

gradcheck_counts gradcheck(const tcc_graph *g, tcc_value *inputs, double tolerance, int most) {
    tcc_context context = {0};
    tcc_pass_options options = {.train = true};
    tcc_pass_cx cx = {.cx = &context, .diag = g->diag, .options = &options};
    tcc_graph *joint = NULL;
    assert_ok(tcc_pass_autodiff(&cx, g, &joint), g->diag);
    tcc_value *plain = evaluate(g, inputs), *values = evaluate(joint, inputs);
    assert_same(g, plain, values, g->outputs.count, "autodiff");
    check_decomposed(&cx, joint, inputs, values);
    gradcheck_counts counts = {0};
    for (int i = 0; i < g->inputs.count; i++) {
        if (g->inputs.data[i]->attrs->input.role != TCC_ROLE_PARAM) continue;
        char name[256] = "grad.";
        strncat(name, g->inputs.data[i]->attrs->input.name, sizeof name - 8);
        check_parameter(g, inputs, i, &values[output_named(joint, name)], tolerance, most, &counts);
    }
    release(g, plain);
    release(joint, values);
    tcc_graph_destroy(joint);
    return counts;
}
