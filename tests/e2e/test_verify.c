/* SPDX-License-Identifier: MIT
 * Verification is itself verified: a pass, a kernel and a program are broken on purpose, at the seams of the linker,
 * and each must be found, named, and written as a graph that tcc-opt reads. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/optimizer.h"
#include "codegen/build.h"
#include "passes/pass.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 4, FEATURES = 6, CLASSES = 3, MANY_ROWS = 1 << 17 };

/* -- The seams: calls of these two go through here (linked with --wrap) -- */

static enum fault {
    NONE,
    IN_PASS,
    IN_KERNEL,
    IN_KERNEL_OF_MANY_ROWS,
    IN_STEPS,
    IN_PLAN,
    SLIGHTLY_IN_PASS,
    SLIGHTLY_IN_KERNEL
} fault;

/* Turns one op into another, as a tanh into a sine. */
static void corrupt(const tcc_graph *g, tcc_op from, tcc_op to) {
    for (int i = 0; i < g->nodes.count; i++)
        if (g->nodes.data[i]->op == from) g->nodes.data[i]->op = to;
}

/* Makes each constant that is no whole number a little larger, or what it was. */
static void scale_constants(const tcc_graph *g, double factor) {
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        if (n->op != TCC_OP_CONSTANT || !tcc_dtype_is_float(n->type.dtype)) continue;
        double *values = (double *)n->attrs->constant.values.v;
        for (int64_t k = 0; k < n->attrs->constant.values.count; k++)
            if (values[k] != floor(values[k])) values[k] = tcc_dtype_round(n->type.dtype, values[k] * factor);
    }
}

tcc_status __real_tcc_pass_decompose(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_decompose(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_decompose(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_status status = __real_tcc_pass_decompose(cx, in, out);
    if (status == TCC_OK && fault == IN_PASS) corrupt(*out, TCC_OP_TANH, TCC_OP_SIN);
    if (status == TCC_OK && fault == SLIGHTLY_IN_PASS) scale_constants(*out, 1 + 1e-4);
    return status;
}

/* Whether the graph has a value of that many rows. */
static bool has_many_rows(const tcc_graph *g) {
    bool found = false;
    for (int i = 0; i < g->nodes.count; i++)
        found |= g->nodes.data[i]->type.rank > 1 && g->nodes.data[i]->type.dims[0] == MANY_ROWS;
    return found;
}

tcc_status __real_tcc_codegen_build(tcc_context *cx, tcc_diag *diag, const tcc_graph *g,
                                    const tcc_codegen_options *options, tcc_program **out);
tcc_status __wrap_tcc_codegen_build(tcc_context *cx, tcc_diag *diag, const tcc_graph *g,
                                    const tcc_codegen_options *options, tcc_program **out);
tcc_status __wrap_tcc_codegen_build(tcc_context *cx, tcc_diag *diag, const tcc_graph *g,
                                    const tcc_codegen_options *options, tcc_program **out) {
    const bool wrong = fault == IN_KERNEL || (fault == IN_KERNEL_OF_MANY_ROWS && has_many_rows(g));
    if (wrong) corrupt(g, TCC_OP_TANH, TCC_OP_SIN);
    if (fault == SLIGHTLY_IN_KERNEL) scale_constants(g, 1 + 0x1p-14);
    tcc_status status = __real_tcc_codegen_build(cx, diag, g, options, out);
    if (wrong) corrupt(g, TCC_OP_SIN, TCC_OP_TANH); /* the graph itself was right */
    if (fault == SLIGHTLY_IN_KERNEL) scale_constants(g, 1 / (1 + 0x1p-14));
    if (status == TCC_OK && fault == IN_STEPS && g->groups.count > 1) (*out)->n_steps = 1; /* the rest is left out */
    return status;
}

/* Two values that live at the same time get one place, where the plan is not one that keeps all apart. */
tcc_status __real_tcc_pass_plan_memory(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_plan_memory(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out);
tcc_status __wrap_tcc_pass_plan_memory(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    tcc_status status = __real_tcc_pass_plan_memory(cx, in, out);
    if (status != TCC_OK || fault != IN_PLAN || cx->options->apart) return status;
    for (int i = 1; i < (*out)->places.count; i++) (*out)->places.data[i].offset_bytes = 0;
    return status;
}

/* -- The model -- */

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_layer_norm(tcc_linear(tcc_input(t, "x"), "in", 8), "norm");
    h = tcc_softmax(tcc_tanh(h), -1);
    tcc_loss(t, tcc_cross_entropy(tcc_linear(tcc_dropout(h, 0.2), "out", CLASSES), tcc_input(t, "y")));
}

typedef struct result {
    tcc_status status;
    char *message, *text; /* the error, and the reproducer, NULL if there is none; from malloc */
} result;

static result verify(void **state, enum fault what, tcc_mode mode) {
    float x[ROWS * FEATURES];
    int32_t y[ROWS] = {0, 2, 1, 2};
    for (int i = 0; i < ROWS * FEATURES; i++) x[i] = (float)(i * 37 % 19) / 9 - 1;
    const tcc_array batch[] = {{.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {ROWS, FEATURES}, .data = x},
                               {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {ROWS}, .data = y}};
    const char *path = test_path(state, "wrong.tir");
    tcc_context *cx;
    tcc_model *m;
    tcc_array p;
    tcc_model_options options = {
        .size = sizeof options, .mode = mode, .optimizer = OPTIMIZER_OF(TCC_ADAMW, 1e-3, .momentum = 0)};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_int_equal(tcc_model_create(cx, net, NULL, &options, &m), TCC_OK);
    assert_int_equal(tcc_model_compile(m, true, batch, 2), TCC_OK);
    assert_true(tcc_model_find_param(m, "in.weight", &p));
    float before[8 * FEATURES];
    memcpy(before, p.data, sizeof before);

    fault = what;
    remove(path);
    result r = {.status = tcc_model_verify(m, batch, 2, 0, path)};
    fault = NONE;
    r.message = strdup(tcc_context_error(cx));
    if (test_exists(path)) {
        r.text = test_read(path, NULL);
        program_result parsed = program_run(NULL, "tcc-opt", (const char *const[]){path, NULL});
        if (parsed.status) fail_msg("tcc-opt refuses the reproducer: %s\n%s", parsed.err, r.text);
        program_free(&parsed);
    }
    assert_memory_equal(before, p.data, sizeof before);
    assert_int_equal(tcc_model_step(m), 0);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return r;
}

static void check(result r, tcc_status status, const char *message, const char *text) {
    if (r.status != status || !strstr(r.message, message))
        fail_msg("%s, not %s, or this does not say \"%s\": %s", tcc_status_name(r.status), tcc_status_name(status),
                 message, r.message);
    if (!text != !r.text || (text && !strstr(r.text, text)))
        fail_msg("the reproducer is not as expected:\n%s", r.text ? r.text : "none");
    free(r.message);
    free(r.text);
}

static int count_lines(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

/* -- Cases -- */

static void right_programs_pass(void **state) {
    check(verify(state, NONE, TCC_MODE_DEFAULT), TCC_OK, "", NULL);
    check(verify(state, NONE, TCC_MODE_EAGER), TCC_OK, "", NULL);
}

static void a_wrong_pass_is_named(void **state) {
    result r = verify(state, IN_PASS, TCC_MODE_DEFAULT);
    assert_non_null(strstr(r.message, "differs from the interpreter by"));
    check(r, TCC_EBUG, "the first wrong graph comes out of pass decompose", "// RUN: tcc-opt %s --passes=decompose\n");
    check(verify(state, IN_PASS, TCC_MODE_EAGER), TCC_EBUG, "out of pass decompose", "--passes=decompose\n");
}

static void a_wrong_kernel_is_found_and_written_alone(void **state) {
    for (int mode = 0; mode < 2; mode++) {
        result r = verify(state, IN_KERNEL, mode ? TCC_MODE_EAGER : TCC_MODE_DEFAULT);
        if (!r.text) fail_msg("no reproducer: %s", r.message);
        assert_non_null(strstr(r.message, "every graph is right: the code generated for group "));
        assert_non_null(strstr(r.text, "// RUN: tcc-opt %s\n"));
        assert_non_null(strstr(r.text, "test_verify.c"));
        assert_true(count_lines(r.text) < 60); /* the whole has several hundred */
        check(r, TCC_EBUG, "reproducer: ", "tanh(");
    }
}

/* What is verified is the program of the whole batch: loss and gradients are compared on two samples of it, but each
 * kernel on a sample of all of its results. */
static void the_program_of_the_whole_batch(void **state) {
    (void)state;
    float *x = malloc(sizeof *x * MANY_ROWS * FEATURES);
    int32_t *y = malloc(sizeof *y * MANY_ROWS);
    for (int i = 0; i < MANY_ROWS * FEATURES; i++) x[i] = (float)(i * 37 % 1009) / 504 - 1;
    for (int i = 0; i < MANY_ROWS; i++) y[i] = i % CLASSES;
    const tcc_array batch[] = {{.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {MANY_ROWS, FEATURES}, .data = x},
                               {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {MANY_ROWS}, .data = y}};
    for (int wrong = 0; wrong < 2; wrong++) {
        tcc_context *cx;
        tcc_model *m;
        const tcc_model_options options = {.size = sizeof options, .verify_samples = 2};
        assert_int_equal(tcc_context_create(&cx), TCC_OK);
        assert_int_equal(tcc_model_create(cx, net, NULL, &options, &m), TCC_OK);
        fault = wrong ? IN_KERNEL_OF_MANY_ROWS : NONE;
        const tcc_status status = tcc_model_verify(m, batch, 2, 0, NULL);
        fault = NONE;
        if (status != (wrong ? TCC_EBUG : TCC_OK)) fail_msg("%s: %s", tcc_status_name(status), tcc_context_error(cx));
        char *text;
        if (wrong) assert_non_null(strstr(tcc_context_error(cx), "the code generated for group "));
        else {
            assert_int_equal(tcc_model_report(m, "verify", &text), TCC_OK);
            if (!strstr(text, "a sample of the results of ") || !strstr(text, "of the first 2 of 131072 samples"))
                fail_msg("%s", text);
            tcc_string_free(text);
        }
        tcc_model_destroy(m);
        tcc_context_destroy(cx);
    }
    free(x);
    free(y);
}

static void right_kernels_in_a_wrong_program(void **state) {
    check(verify(state, IN_STEPS, TCC_MODE_DEFAULT), TCC_EBUG,
          "every kernel by itself is right: the steps or the memory plan are wrong", "graph @train");
}

static void a_wrong_memory_plan_is_found(void **state) {
    check(verify(state, IN_PLAN, TCC_MODE_DEFAULT), TCC_EBUG,
          "every kernel by itself is right: the steps or the memory plan are wrong", "graph @train");
    result r = verify(state, IN_PLAN, TCC_MODE_DEFAULT);
    assert_non_null(strstr(r.message, "has other bits when each value has memory of its own"));
    check(r, TCC_EBUG, "", "graph @train");
}

/* Neither is far off: a tolerance that lets healthy networks pass would let these pass, too. */
static void slight_faults_are_found(void **state) {
    check(verify(state, SLIGHTLY_IN_PASS, TCC_MODE_DEFAULT), TCC_EBUG,
          "the first wrong graph comes out of pass decompose", "--passes=decompose\n");
    check(verify(state, SLIGHTLY_IN_KERNEL, TCC_MODE_DEFAULT), TCC_EBUG,
          "every graph is right: the code generated for group ", "// RUN: tcc-opt %s\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(right_programs_pass),
                                       FOLDER_TEST(a_wrong_pass_is_named),
                                       FOLDER_TEST(a_wrong_kernel_is_found_and_written_alone),
                                       cmocka_unit_test(the_program_of_the_whole_batch),
                                       FOLDER_TEST(right_kernels_in_a_wrong_program),
                                       FOLDER_TEST(a_wrong_memory_plan_is_found),
                                       FOLDER_TEST(slight_faults_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
