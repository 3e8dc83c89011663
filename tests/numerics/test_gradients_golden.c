/* SPDX-License-Identifier: MIT
 * Values and gradients of single ops against PyTorch's, in float64. golden/make_ops.py made the
 * graphs and what they must give, and says from which formulas. */
#include "harness/check.h"
#include "harness/graphs.h"
#include "ir/eval.h"
#include "passes/pass.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static tcc_value make_input(const tcc_node *n, int i) {
    tcc_value v;
    tcc_diag diag = {0};
    assert_ok(tcc_value_create(&n->type, &v, &diag), &diag);
    for (int64_t e = 0; e < tcc_type_numel(&n->type); e++) {
        if (tcc_dtype_is_float(n->type.dtype))
            v.f[e] = 4 * fmod((double)(e + 1) * 0.6180339887498949 + 0.37 * i, 1) - 2;
        else v.i[e] = (7 * e + 3) % 5;
    }
    return v;
}

static double projection(const tcc_value *v, int k) {
    double sum = 0;
    for (int64_t e = 0; e < tcc_type_numel(&v->type); e++)
        sum += v->f[e] * (fmod((double)(e + 1) * 0.7548776662466927 * (k + 1), 1) - 0.5);
    return sum;
}

/* PyTorch computes in float64 too, in another order: the norms' gradients cancel most. */
static void compare(const char *name, const tcc_value *v, const cJSON *expected) {
    for (int k = 0; k < 4; k++) {
        double want = cJSON_GetArrayItem(expected, k)->valuedouble, have = projection(v, k);
        if (!(fabs(have - want) <= 1e-11 * (1 + fabs(want))))
            fail_msg("%s, projection %d: %.15g, PyTorch has %.15g", name, k, have, want);
    }
}

static void check_case(const cJSON *item) {
    tcc_diag diag = {0};
    tcc_context context = {0};
    tcc_pass_options options = {.train = true};
    tcc_pass_cx cx = {.cx = &context, .diag = &diag, .options = &options};
    tcc_graph *g = parse_graph(cJSON_GetObjectItem(item, "graph")->valuestring, &diag), *joint = NULL;
    assert_ok(tcc_pass_autodiff(&cx, g, &joint), &diag);
    const cJSON *expected = cJSON_GetObjectItem(item, "expected");
    tcc_value *inputs = calloc((size_t)joint->inputs.count, sizeof *inputs);
    tcc_value *outputs = calloc((size_t)joint->outputs.count, sizeof *outputs);
    for (int i = 0; i < joint->inputs.count; i++) inputs[i] = make_input(joint->inputs.data[i], i);
    assert_ok(tcc_graph_eval(joint, inputs, outputs, &diag), &diag);
    int compared = 0;
    for (int i = 0; i < joint->outputs.count; i++) {
        const cJSON *want = cJSON_GetObjectItem(expected, joint->outputs.data[i].name);
        if (want) compare(joint->outputs.data[i].name, &outputs[i], want), compared++;
        tcc_value_free(&outputs[i]);
    }
    assert_int_equal(compared, cJSON_GetArraySize(expected));
    for (int i = 0; i < joint->inputs.count; i++) tcc_value_free(&inputs[i]);
    free(inputs);
    free(outputs);
    tcc_graph_destroy(joint);
    tcc_graph_destroy(g);
}

static void test_against_pytorch(void **state) {
    (void)state;
    FILE *f = fopen(TCC_SOURCE_DIR "/tests/numerics/golden/ops.json", "r");
    assert_non_null(f);
    enum { MOST_BYTES = 1 << 20 };
    char *text = calloc(1, MOST_BYTES);
    size_t length = fread(text, 1, MOST_BYTES - 1, f);
    fclose(f);
    cJSON *all = cJSON_ParseWithLength(text, length);
    assert_non_null(all);
    const cJSON *item;
    int count = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(all, "cases")) {
        print_message("%s\n", cJSON_GetObjectItem(item, "name")->valuestring);
        check_case(item);
        count++;
    }
    assert_true(count > 50);
    cJSON_Delete(all);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
