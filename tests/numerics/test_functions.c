/* SPDX-License-Identifier: MIT
 * Losses and functions of the public API: values and gradients against PyTorch's in float64 (golden/make_functions.py),
 * gradients against differences, and compiled programs against the interpreter. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/function_cases.h"
#include "harness/gradcheck.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool has_loss(const tcc_graph *g) { return g->outputs.count > 1; }

/* -- Against PyTorch -- */

static double projection(const tcc_value *v, int k) {
    double sum = 0;
    for (int64_t e = 0; e < tcc_type_numel(&v->type); e++)
        sum += (tcc_dtype_is_float(v->type.dtype) ? v->f[e] : (double)v->i[e]) *
               (fmod((double)(e + 1) * 0.7548776662466927 * (k + 1), 1) - 0.5);
    return sum;
}

static void compare(const char *function, const char *name, const tcc_value *v, const cJSON *expected) {
    for (int k = 0; k < 4; k++) {
        const double want = cJSON_GetArrayItem(expected, k)->valuedouble, have = projection(v, k);
        if (!(fabs(have - want) <= 1e-11 * (1 + fabs(want))))
            fail_msg("%s: %s, projection %d: %.15g, PyTorch has %.15g", function, name, k, have, want);
    }
}

static void check_golden(int i, const cJSON *expected) {
    tcc_diag diag = {0};
    tcc_graph *plain = function_case_graph(i, TCC_F64), *g = has_loss(plain) ? function_case_gradients(plain) : plain;
    tcc_value *inputs = function_case_inputs(i, g);
    tcc_value *outputs = calloc((size_t)g->outputs.count, sizeof *outputs);
    assert_ok(tcc_graph_eval(g, inputs, outputs, &diag), &diag);
    int compared = 0;
    for (int k = 0; k < g->outputs.count; k++) {
        const cJSON *want = cJSON_GetObjectItem(expected, g->outputs.data[k].name);
        if (want) compare(function_case_name(i), g->outputs.data[k].name, &outputs[k], want), compared++;
        tcc_value_free(&outputs[k]);
    }
    assert_int_equal(compared, cJSON_GetArraySize(expected));
    free(outputs);
    free_values(inputs, g->inputs.count);
    if (g != plain) tcc_graph_destroy(g);
    tcc_graph_destroy(plain);
}

static void pytorch_agrees(void **state) {
    (void)state;
    FILE *f = fopen(TCC_SOURCE_DIR "/tests/numerics/golden/functions.json", "r");
    assert_non_null(f);
    enum { MOST_BYTES = 1 << 20 };
    char *text = calloc(1, MOST_BYTES);
    const size_t length = fread(text, 1, MOST_BYTES - 1, f);
    fclose(f);
    cJSON *all = cJSON_ParseWithLength(text, length);
    assert_non_null(all);
    for (int i = 0; i < function_case_count(); i++) {
        const cJSON *item = cJSON_GetObjectItem(all, function_case_name(i));
        if (!item) fail_msg("functions.json lacks %s: run golden/make_functions.py", function_case_name(i));
        check_golden(i, item);
    }
    cJSON_Delete(all);
    free(text);
}

/* -- Against differences -- */

static void differences_agree(void **state) {
    (void)state;
    int checked = 0, skipped = 0;
    for (int i = 0; i < function_case_count(); i++) {
        tcc_graph *g = function_case_graph(i, TCC_F64);
        if (has_loss(g) && function_case_is_smooth(i)) {
            tcc_value *inputs = function_case_inputs(i, g);
            print_message("%s\n", function_case_name(i));
            const gradcheck_counts counts = gradcheck(g, inputs, 1e-7, 40);
            checked += counts.checked, skipped += counts.skipped;
            free_values(inputs, g->inputs.count);
        }
        tcc_graph_destroy(g);
    }
    assert_true(checked > 500);
    assert_true(skipped * 10 <= checked); /* kinks are rare */
}

/* -- Compiled -- */

static void compiled_programs_agree(void **state) {
    (void)state;
    for (int i = 0; i < function_case_count(); i++) {
        tcc_graph *plain = function_case_graph(i, TCC_F32),
                  *g = has_loss(plain) ? function_case_gradients(plain) : plain;
        tcc_value *inputs = function_case_inputs(i, g);
        print_message("%s\n", function_case_name(i));
        check_compiled(g, &(compiled_options){.inputs = inputs});
        free_values(inputs, g->inputs.count);
        if (g != plain) tcc_graph_destroy(g);
        tcc_graph_destroy(plain);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pytorch_agrees), cmocka_unit_test(differences_agree),
                                       cmocka_unit_test(compiled_programs_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
