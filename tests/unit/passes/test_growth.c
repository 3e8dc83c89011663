/* SPDX-License-Identifier: MIT
 * The work of the passes grows as the graph does. What is counted are steps of their inner loops, which are the same on
 * each machine: a graph of twice the parts may take no more than a little over twice the steps in any pass. */
#include "harness/check.h"

#include "codegen/emit/llvm.h"
#include "codegen/select.h"
#include "frontend/trace.h"
#include "passes/pass.h"
#include "traincc/traincc.h"

#include <stdio.h>

typedef tcc_tensor build_fn(tcc_trace *t, tcc_tensor x, int parts);

static tcc_tensor chain(tcc_trace *t, tcc_tensor x, int parts) {
    tcc_tensor w = tcc_param(t, "w", (tcc_init){TCC_INIT_NORMAL, .b = 0.1}, TCC_DIMS(16));
    for (int i = 0; i < parts; i++) x = tcc_add(x, i % 2 ? w : tcc_tanh(x));
    return x;
}

static tcc_tensor residual(tcc_trace *t, tcc_tensor x, int parts) {
    for (int i = 0; i < parts; i++) {
        char name[32];
        snprintf(name, sizeof name, "block.%d", i);
        tcc_scope(t, name);
        x = tcc_add(x, tcc_linear(tcc_relu(tcc_linear(tcc_layer_norm(x, "norm"), "up", 32)), "down", 16));
        tcc_scope_end(t);
    }
    return x;
}

static tcc_tensor fan(tcc_trace *t, tcc_tensor x, int parts) {
    (void)t;
    tcc_tensor h = tcc_linear(x, "in", 16), sum = h;
    for (int i = 0; i < parts; i++) sum = tcc_add(sum, tcc_sin(tcc_scale(h, 1 + (double)i / 1024)));
    return sum;
}

static tcc_tensor recurrent(tcc_trace *t, tcc_tensor x, int parts) {
    tcc_tensor h = tcc_scale(x, 0);
    (void)t;
    for (int i = 0; i < parts; i++) h = tcc_tanh(tcc_add(tcc_linear(h, "hidden", 16), tcc_linear(x, "in", 16)));
    return h;
}

static tcc_graph *trace(build_fn *build, int parts, tcc_diag *diag) {
    const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {8, 16}};
    tcc_store store = {0};
    tcc_trace t = {0};
    tcc_graph *g = NULL;
    assert_ok(tcc_trace_begin(&t, "growth", &store, true, &batch, 1, diag), diag);
    tcc_tensor y = build(&t, tcc_input(&t, "x"), parts);
    tcc_loss(&t, tcc_mean(tcc_mul(y, y), TCC_ALL));
    assert_ok(tcc_trace_end(&t, &g), diag);
    tcc_store_free(&store);
    return g;
}

/* The passes of a training step on the host, "x86-64-v3", so that each machine does the same. */
static tcc_manager_report run(build_fn *build, int parts, bool eager) {
    tcc_diag diag = {0};
    tcc_context context;
    tcc_llvm_target target;
    tcc_selector *selector;
    tcc_manager_report report = {0};
    assert_int_equal(tcc_context_init(&context), TCC_OK);
    assert_ok(tcc_llvm_target_host("x86-64-v3", &diag, &target), &diag);
    const tcc_codegen_options codegen = {.target = &target};
    assert_ok(tcc_selector_create(&context, &codegen, false, &selector), &diag);
    const tcc_pass_options options = {.train = true,
                                      .eager = eager,
                                      .spec = {.optimizer = TCC_OPTIMIZER_ADAMW, .n_groups = 1},
                                      .target = tcc_selector_target(selector)};
    tcc_pass_cx cx = {.cx = &context, .diag = &diag, .options = &options};
    tcc_graph *g = trace(build, parts, &diag);
    assert_ok(tcc_pipeline_run(&cx, NULL, &g, &report), &diag);
    tcc_graph_destroy(g);
    tcc_selector_destroy(selector);
    tcc_llvm_target_clear(&target);
    tcc_context_clear(&context);
    tcc_diag_clear(&diag);
    return report;
}

static void check(const char *name, build_fn *build, int parts, bool eager) {
    enum { FEW = 2000 }; /* what no part is to blame for */
    const double most = 2.3;
    tcc_manager_report once = run(build, parts, eager), twice = run(build, 2 * parts, eager);
    assert_int_equal(once.passes.count, twice.passes.count);
    int64_t counted = 0;
    int failed = 0;
    for (int i = 0; i < once.passes.count; i++) {
        const tcc_pass_report *a = &once.passes.data[i], *b = &twice.passes.data[i];
        counted += a->steps;
        if ((double)b->steps <= most * (double)a->steps + FEW) continue;
        failed++;
        print_error("%s %d%s: %s takes %lld steps, and %lld with twice the parts\n", name, parts,
                    eager ? ", eager" : "", a->pass, (long long)a->steps, (long long)b->steps);
    }
    assert_int_equal(failed, 0);
    assert_true(counted > once.passes.data[0].nodes_before);
    tcc_vec_free(&once.passes);
    tcc_vec_free(&twice.passes);
}

static void test_growth(void **state) {
    (void)state;
    check("chain", chain, 400, false);
    check("residual", residual, 60, false);
    check("fan", fan, 300, false);
    check("recurrent", recurrent, 100, false);
}

static void test_growth_eager(void **state) {
    (void)state;
    check("chain", chain, 400, true);
    check("residual", residual, 60, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_growth), cmocka_unit_test(test_growth_eager)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
