/* SPDX-License-Identifier: MIT
 * Losses and functions of the public API: values and gradients against PyTorch's in float64 (golden/make_functions.py),
 * gradients against differences, and compiled programs against the interpreter. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/function_cases.h"
#include "harness/gradcheck.h"
#include "harness/special_values.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_loss(const tcc_graph *g) { return g->outputs.count > 1; }

/* -- The table is whole -- */

static char *read_text(const char *path) {
    enum { MOST_BYTES = 1 << 20 };
    char name[512], *text = calloc(1, MOST_BYTES);
    snprintf(name, sizeof name, TCC_SOURCE_DIR "/%s", path);
    FILE *f = fopen(name, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, MOST_BYTES - 1, f) > 0);
    fclose(f);
    return text;
}

/* Each function that gives a tensor has a row, but for those that have no operand, draw, or need
 * ranks. */
static void every_function_has_a_row(void **state) {
    (void)state;
    static const char *const headers[] = {"tensor.h", "functions.h", "losses.h", "nn.h"},
                             *const tables[] = {"function_cases.def", "function_cases.c", "layer_cases.c",
                                                "second_order.c"},
                             *const others = " fail_at constant_at literal_at iota_at param_at state_at dropout_at "
                                             " all_reduce_at all_gather_at ";
    char *table[4];
    int found = 0;
    for (int i = 0; i < 4; i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/harness/%s", tables[i]);
        table[i] = read_text(path);
    }
    for (int h = 0; h < 4; h++) {
        char path[128], name[64], call[80];
        snprintf(path, sizeof path, "frontend/include/traincc/%s", headers[h]);
        char *text = read_text(path);
        for (const char *at = text; (at = strstr(at, "TCC_API tcc_tensor tcc_"));) {
            at += strlen("TCC_API tcc_tensor tcc_");
            snprintf(name, sizeof name, " %.*s ", (int)strcspn(at, "("), at);
            if (strstr(others, name)) continue;
            snprintf(call, sizeof call, "tcc_%.*s(", (int)strcspn(at, "(") - (int)strlen("_at"), at);
            bool has = false;
            for (int i = 0; i < 4; i++) has |= strstr(table[i], call) != NULL;
            if (!has) fail_msg("%s of %s has no row in function_cases.def", call, headers[h]);
            found++;
        }
        free(text);
    }
    for (int i = 0; i < 4; i++) free(table[i]);
    assert_true(found > 100);
}

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

static void check_infinities(int i, const tcc_graph *g, const cJSON *expected) {
    const cJSON *of;
    cJSON_ArrayForEach(of, expected) {
        for (int k = 0; k < 2; k++)
            if (special_hash(i, g, of->string[1] - '0', k ? -INFINITY : INFINITY) !=
                (uint32_t)cJSON_GetArrayItem(of, k)->valuedouble)
                fail_msg("%s: with %s in %s, y is infinite or NaN elsewhere than in PyTorch", function_case_name(i),
                         k ? "-inf" : "inf", of->string);
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
    assert_int_equal(compared, cJSON_GetArraySize(expected) - 1);
    check_infinities(i, g, cJSON_GetObjectItem(expected, "infinite"));
    free(outputs);
    free_values(inputs, g->inputs.count);
    if (g != plain) tcc_graph_destroy(g);
    tcc_graph_destroy(plain);
}

static void pytorch_agrees(void **state) {
    (void)state;
    char *text = read_text("tests/numerics/golden/functions.json");
    cJSON *all = cJSON_Parse(text);
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

static void check_typed(int i, tcc_dtype dtype, graph_check *check) {
    tcc_graph *plain = function_case_graph(i, dtype), *g = has_loss(plain) ? function_case_gradients(plain) : plain;
    tcc_value *inputs = function_case_inputs(i, g);
    print_message("%s\n", function_case_name(i));
    check(g, &(compiled_options){.inputs = inputs});
    free_values(inputs, g->inputs.count);
    if (g != plain) tcc_graph_destroy(g);
    tcc_graph_destroy(plain);
}

/* Fused, and some of them op by op. */
static void compiled_programs_agree(void **state) {
    (void)state;
    for (int i = 0; i < function_case_count(); i++)
        for (int eager = 0; eager < (i % 12 ? 1 : 2); eager++) {
            tcc_graph *plain = function_case_graph(i, TCC_F32),
                      *g = has_loss(plain) ? function_case_gradients(plain) : plain;
            tcc_value *inputs = function_case_inputs(i, g);
            const compiled_options options = {.eager = eager, .inputs = inputs};
            print_message("%s\n", function_case_name(i));
            compiled *c = compiled_create(g, &options);
            compiled_check(c, g, &options);
            special_check_compiled(i, g, c);
            compiled_destroy(c);
            free_values(inputs, g->inputs.count);
            if (g != plain) tcc_graph_destroy(g);
            tcc_graph_destroy(plain);
        }
}

static void nan_is_never_lost(void **state) {
    (void)state;
    for (int i = 0; i < function_case_count(); i++) {
        tcc_graph *plain = function_case_graph(i, TCC_F64),
                  *g = has_loss(plain) ? function_case_gradients(plain) : plain;
        special_check_nan(i, g);
        if (g != plain) tcc_graph_destroy(g);
        tcc_graph_destroy(plain);
    }
}

/* A few draws may all be small where few numbers are rounded. */
static void within_noise(const tcc_graph *g, const compiled_options *options) {
    if (has_loss(g)) check_within_noise(g, options, 16);
    else check_compiled(g, options); /* of integers */
}

/* Half of the functions in either type; what overflows in f16 is for bf16. */
static void narrow_types_agree(void **state) {
    (void)state;
    for (int i = 0; i < function_case_count(); i++)
        check_typed(i, i % 2 && function_case_is_smooth(i) ? TCC_F16 : TCC_BF16, within_noise);
}

/* -- Narrow types: what a function does inside itself is f32, rounded once -- */

/* A layer rounds what its product gives before it goes on, and so does a chain of products. The gradients of attention
 * are made of its result, which has been rounded. */
static bool rounds_between(int i, const tcc_graph *g) {
    if (!strncmp(function_case_name(i), "einsum", 6)) return true;
    for (int id = 0; id < g->nodes.count; id++) {
        const tcc_fusion_class fusion = tcc_op_get_info(g->nodes.data[id]->op)->fusion;
        if (fusion == TCC_FUSION_ATTENTION || (fusion == TCC_FUSION_CONTRACT && function_case_is_layer(i))) return true;
    }
    return false;
}

/* The largest error in units of the type's rounding to nearest: of the value itself, or of the largest one. */
static double units(tcc_dtype dtype, const tcc_value *have, const tcc_value *want, bool of_largest) {
    const double unit = dtype == TCC_F16 ? 0x1p-11 : 0x1p-8, least = dtype == TCC_F16 ? 0x1p-24 : 0x1p-133;
    double largest = 0, worst = 0;
    for (int64_t e = 0; e < tcc_type_numel(&want->type); e++)
        if (isfinite(want->f[e])) largest = fmax(largest, fabs(want->f[e]));
    for (int64_t e = 0; e < tcc_type_numel(&want->type); e++) {
        const double rounded = tcc_dtype_round(dtype, want->f[e]), size = of_largest ? largest : fabs(want->f[e]);
        if (!isfinite(rounded)) continue;
        const double error = fabs(have->f[e] - want->f[e]) / (unit * size + least + 0x1p-17 * largest);
        worst = fmax(worst, isfinite(error) ? error : INFINITY);
    }
    return worst;
}

/* The operands that may be any numbers as far as a case's own, around 200, and below -1. */
static tcc_value *awkward_inputs(int i, const tcc_graph *g, int how) {
    tcc_value *inputs = function_case_inputs(i, g);
    for (int k = 0; k < g->inputs.count; k++)
        if (how && function_case_takes_any(i, g->inputs.data[k]))
            for (int64_t e = 0; e < tcc_type_numel(&inputs[k].type); e++)
                inputs[k].f[e] = how == 1 ? 200 + inputs[k].f[e] : -1 - 1.5 * fabs(inputs[k].f[e]);
    return inputs;
}

/* The inputs of the narrow type, in f64 for the graph of f64. */
static void check_rounded_once(int i, tcc_dtype dtype, int how) {
    tcc_diag diag = {0};
    tcc_graph *plain[2], *g[2]; /* narrow and wide */
    tcc_value *inputs, *outputs[2];
    for (int wide = 0; wide < 2; wide++) {
        plain[wide] = function_case_graph(i, wide ? TCC_F64 : dtype);
        g[wide] = function_case_gradients(plain[wide]);
        outputs[wide] = calloc((size_t)g[wide]->outputs.count, sizeof *outputs[wide]);
    }
    inputs = awkward_inputs(i, g[0], how);
    for (int k = 0; k < g[0]->inputs.count; k++) tcc_value_round(&inputs[k]);
    assert_ok(tcc_graph_eval_rounded(g[0], inputs, outputs[0], &diag), &diag);
    for (int k = 0; k < g[0]->inputs.count; k++) inputs[k].type = g[1]->inputs.data[k]->type;
    assert_ok(tcc_graph_eval(g[1], inputs, outputs[1], &diag), &diag);
    for (int o = 0; o < g[0]->outputs.count; o++) {
        const char *name = g[0]->outputs.data[o].name;
        const bool slope = !strncmp(name, "grad.", 5);
        if (strcmp(name, "y") && !slope) continue;
        /* a gradient is a sum over uses, of products, each of them rounded */
        const double is = units(dtype, &outputs[0][o], &outputs[1][o], slope);
        if (is > (slope ? 8 : 1.02))
            fail_msg("%s of %s, operands %d: %s errs by %g units of rounding", function_case_name(i),
                     tcc_dtype_text(dtype), how, name, is);
    }
    free_values(inputs, g[0]->inputs.count);
    for (int wide = 0; wide < 2; wide++) {
        free_values(outputs[wide], g[wide]->outputs.count);
        tcc_graph_destroy(g[wide]);
        tcc_graph_destroy(plain[wide]);
    }
}

static void functions_round_once(void **state) {
    (void)state;
    int checked = 0;
    for (int i = 0; i < function_case_count(); i++) {
        tcc_graph *g = function_case_graph(i, TCC_BF16);
        const bool counts = has_loss(g) && function_case_is_one_call(i) && function_case_is_smooth(i) &&
                            !function_case_is_slope(i) && !rounds_between(i, g);
        tcc_graph_destroy(g);
        for (int how = 0; counts && how < 3; how++) {
            check_rounded_once(i, TCC_BF16, how);
            check_rounded_once(i, TCC_F16, how);
        }
        checked += counts;
    }
    assert_true(checked > 100);
}

/* Layers of f64 are computed in it. */
static void wide_layers_agree(void **state) {
    (void)state;
    for (int i = 0; i < function_case_count(); i++) {
        if (!function_case_is_layer(i)) continue;
        tcc_graph *plain = function_case_graph(i, TCC_F64), *g = function_case_gradients(plain);
        tcc_value *inputs = function_case_inputs(i, g);
        print_message("%s\n", function_case_name(i));
        check_compiled(g, &(compiled_options){.inputs = inputs, .tolerance = 1e-10});
        free_values(inputs, g->inputs.count);
        tcc_graph_destroy(g);
        tcc_graph_destroy(plain);
    }
}

static int find_case(const char *name) {
    int i = 0;
    while (strcmp(function_case_name(i), name)) assert_true(++i < function_case_count());
    return i;
}

/* Keys and values that heads share are read where they lie: a projection, attention, a projection, and the loss. */
static void shared_keys_are_not_copied(void **state) {
    (void)state;
    tcc_graph *g = function_case_graph(find_case("mha_group"), TCC_F32);
    compiled *c = compiled_create(g, &(compiled_options){0});
    for (int i = 0; i < c->program->n_kernels; i++) print_message("%s\n", c->program->kernels[i].schedule);
    assert_int_equal(c->program->n_kernels, 4);
    compiled_destroy(c);
    tcc_graph_destroy(g);
}

/* -- Values that no row of the table can have -- */

enum { MOST_OUTPUTS = 8 };

/* The outputs of a case with element e of operand x`operand` changed. */
static tcc_graph *changed(const char *name, int operand, int64_t e, double value, tcc_value *outputs) {
    tcc_diag diag = {0};
    const int i = find_case(name);
    tcc_graph *plain = function_case_graph(i, TCC_F64), *g = has_loss(plain) ? function_case_gradients(plain) : plain;
    tcc_value *inputs = function_case_inputs(i, g);
    tcc_value *v = &inputs[operand];
    if (tcc_dtype_is_float(v->type.dtype)) v->f[e] = value;
    else v->i[e] = (int64_t)value;
    assert_true(g->outputs.count <= MOST_OUTPUTS);
    assert_ok(tcc_graph_eval(g, inputs, outputs, &diag), &diag);
    free_values(inputs, g->inputs.count);
    if (g != plain) tcc_graph_destroy(plain);
    return g;
}

static const tcc_value *output(const tcc_graph *g, const tcc_value *outputs, const char *name) {
    for (int i = 0; i < g->outputs.count; i++)
        if (!strcmp(g->outputs.data[i].name, name)) return &outputs[i];
    fail_msg("no output %s", name);
    return NULL;
}

static void done(tcc_graph *g, tcc_value *outputs) {
    for (int i = 0; i < g->outputs.count; i++) tcc_value_free(&outputs[i]);
    tcc_graph_destroy(g);
}

/* A target that is no class spoils the loss and the gradients of its row, and no others. */
static void stray_targets_are_nan(void **state) {
    (void)state;
    static const double strays[] = {3, -1, -4294967294.0}; /* the last is class 2 in 32 bits */
    for (int i = 0; i < 3; i++) {
        tcc_value outputs[MOST_OUTPUTS];
        const char *name = i < 2 ? "cross_entropy_none" : "nll_none";
        const int classes = i < 2 ? 3 : 5;
        tcc_graph *g = changed(name, 1, 4, strays[i], outputs);
        const tcc_value *y = output(g, outputs, "y"), *dx = output(g, outputs, "grad.x0");
        for (int row = 0; row < 7; row++) {
            assert_int_equal(isnan(y->f[row]) != 0, row == 4);
            for (int c = 0; c < classes; c++) assert_int_equal(isnan(dx->f[row * classes + c]) != 0, row == 4);
        }
        done(g, outputs);
    }
}

static void nan_is_the_largest(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int length, kept; /* of a row; that many of it come out */
        bool descending;
    } cases[] = {
        {"sort", 7, 7, false}, {"sort_long", 301, 301, false}, {"top_k", 7, 3, true}, {"top_k_long", 401, 5, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_value outputs[MOST_OUTPUTS];
        const int kept = cases[i].kept, nan = cases[i].descending ? 0 : kept - 1;
        tcc_graph *g = changed(cases[i].name, 0, cases[i].length + 1, NAN, outputs);
        const double *y = output(g, outputs, "y")->f;
        for (int e = 0; e < 2 * kept; e++) {
            assert_int_equal(isnan(y[e]) != 0, e == kept + nan);
            if (e % kept && !isnan(y[e]) && !isnan(y[e - 1])) assert_true((y[e - 1] >= y[e]) == cases[i].descending);
        }
        done(g, outputs);
    }
    tcc_value outputs[MOST_OUTPUTS];
    tcc_graph *g = changed("searchsorted_one", 1, 3, NAN, outputs);
    assert_int_equal(output(g, outputs, "y")->i[3], 1); /* behind all */
    done(g, outputs);
}

/* Text 2 has two labels in four frames: what is no label spoils it alone, and counts only where labels do. */
static void stray_labels_are_nan(void **state) {
    (void)state;
    static const struct {
        int64_t element;
        double value;
        int spoiled;
    } strays[] = {{7, 3, 2}, {7, 4, 2}, {6, -1, 2}, {8, 3, -1}, {3, 9, -1}};
    for (int i = 0; i < 5; i++) {
        tcc_value outputs[MOST_OUTPUTS];
        tcc_graph *g = changed("ctc_last_blank", 1, strays[i].element, strays[i].value, outputs);
        const tcc_value *y = output(g, outputs, "y"), *dx = output(g, outputs, "grad.x0");
        for (int n = 0; n < 4; n++) {
            assert_int_equal(isnan(y->f[n]) != 0, n == strays[i].spoiled);
            assert_int_equal(isnan(dx->f[n * 4]) != 0, n == strays[i].spoiled);
        }
        done(g, outputs);
    }
}

/* From where it is on; and an update of a place that there is not changes nothing. */
static void nan_and_strays_of_running_and_scattered_extremes(void **state) {
    (void)state;
    tcc_value outputs[MOST_OUTPUTS];
    tcc_graph *g = changed("cummax", 0, 9, NAN, outputs);
    for (int e = 7; e < 14; e++) assert_int_equal(isnan(output(g, outputs, "y")->f[e]) != 0, e >= 9);
    done(g, outputs);
    for (int i = 0; i < 2; i++) {
        g = changed("scatter_max", 1, 2, i ? 5 : -1, outputs);
        const tcc_value *y = output(g, outputs, "y"), *du = output(g, outputs, "grad.x2");
        for (int e = 0; e < 10; e++) assert_true(isfinite(y->f[e]));
        assert_true(du->f[4] == 0 && du->f[5] == 0);
        done(g, outputs);
    }
}

static void no_probability_is_nan(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        tcc_value outputs[MOST_OUTPUTS];
        tcc_graph *g = changed("bce_weight", 0, 3, i ? -0.5 : 1.5, outputs);
        for (int e = 0; e < 15; e++) assert_int_equal(isnan(output(g, outputs, "y")->f[e]) != 0, e == 3);
        done(g, outputs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_has_a_row),
                                       cmocka_unit_test(pytorch_agrees),
                                       cmocka_unit_test(differences_agree),
                                       cmocka_unit_test(compiled_programs_agree),
                                       cmocka_unit_test(nan_is_never_lost),
                                       cmocka_unit_test(narrow_types_agree),
                                       cmocka_unit_test(functions_round_once),
                                       cmocka_unit_test(wide_layers_agree),
                                       cmocka_unit_test(shared_keys_are_not_copied),
                                       cmocka_unit_test(stray_targets_are_nan),
                                       cmocka_unit_test(nan_is_the_largest),
                                       cmocka_unit_test(no_probability_is_nan),
                                       cmocka_unit_test(stray_labels_are_nan),
                                       cmocka_unit_test(nan_and_strays_of_running_and_scattered_extremes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
