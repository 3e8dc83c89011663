/* SPDX-License-Identifier: MIT
 * The pipeline on whole models: every pass keeps the meaning, and what comes out is a plan that can be run. */
#include "harness/check.h"
#include "harness/plan_check.h"
#include "harness/passes.h"

#include "codegen/emit/emitter.h"
#include "codegen/select.h"
#include "ir/support/clock.h"
#include "passes/memory/plan.h"
#include "passes/remat/remat.h"

#include <stdio.h>
#include <stdlib.h>

#define STEP "simplify,autodiff,train-step,decompose"

static const tcc_pass_options adamw = {.train = true, .spec = {.optimizer = TCC_ADAMW, .n_groups = 1}};

static bool take_all(void *user, const char *name, int64_t *params) {
    (void)user;
    (void)name;
    (void)params;
    return true;
}

/* `arch` NULL: the host, "x86-64-v3", so that each machine does the same. */
static void check_on(const char *model, const char *arch) {
    static const char *const passes[] = {"simplify", "layout,simplify", "fuse", "select", "order", "plan-memory"};
    tcc_diag diag = {0};
    tcc_context context;
    tcc_llvm_target target;
    tcc_selector *selector;
    assert_int_equal(tcc_context_init(&context), TCC_OK);
    assert_ok(arch ? tcc_llvm_target_cuda(arch, NULL, &diag, &target)
                   : tcc_llvm_target_host("x86-64-v3", &diag, &target),
              &diag);
    const tcc_codegen_options codegen = {.target = &target, .takes_call = take_all};
    assert_ok(tcc_selector_create(&context, &codegen, false, &selector), &diag);
    const tcc_pass_options options = {.spec = {.n_groups = 1}, .target = tcc_selector_target(selector)};
    tcc_graph *traced = model_graph(model, 1, &diag);
    tcc_graph *before = run_passes(traced, STEP, &adamw), *joint = before;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        tcc_graph *after = run_passes(before, passes[i], &options);
        if (i < 3) assert_same_meaning(joint, after, 1e-6);
        if (before != joint) tcc_graph_destroy(before);
        before = after;
    }
    assert_ok(check_plan(before, &diag), &diag);
    tcc_plan plan;
    assert_ok(tcc_plan_read(before, &plan, &diag), &diag);
    printf("%s on %s: %d nodes, %d groups in %d launches, arena %.2f of the peak\n", model, arch ? arch : "the host",
           before->nodes.count, before->groups.count, plan.start[before->groups.count],
           (double)before->arena_bytes / (double)plan.peak_bytes);
    for (int i = 0; i < before->groups.count; i++) assert_non_null(before->groups.data[i].implementation);
    assert_true(before->arena_bytes <= plan.peak_bytes * 5 / 4);
    tcc_plan_free(&plan);
    tcc_graph_destroy(before);
    tcc_graph_destroy(joint);
    tcc_graph_destroy(traced);
    tcc_selector_destroy(selector);
    tcc_llvm_target_clear(&target);
    tcc_context_clear(&context);
    tcc_diag_clear(&diag);
}

static void check_model(const char *model) {
    check_on(model, NULL);
    check_on(model, "sm_90");
}

static void test_mlp(void **state) {
    (void)state;
    check_model("mlp");
}

static void test_cnn(void **state) {
    (void)state;
    check_model("cnn");
}

static void test_gpt(void **state) {
    (void)state;
    check_model("gpt");
}

static void test_resnet(void **state) {
    (void)state;
    check_model("resnet");
}

/* A step that remat leaves as it is takes what remat tried: these passes have their own times, and no time counts
 * twice. */
static void report_of_taken_trial(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_context context;
    tcc_manager_report report = {0};
    const tcc_remat_spec spec = {.budget = TCC_BUDGET_NONE};
    tcc_pass_options options = adamw;
    options.remat = &spec;
    tcc_graph *g = model_graph("gpt", 1, &diag);
    assert_non_null(g);
    assert_int_equal(tcc_context_init(&context), TCC_OK);
    tcc_pass_cx cx = {.cx = &context, .diag = &diag, .options = &options};
    const double start = tcc_clock_ms();
    assert_ok(tcc_pipeline_run(&cx, &(tcc_manager_options){0}, &g, &report), &diag);
    const double all = tcc_clock_ms() - start;
    double sum = 0;
    bool behind = false;
    for (int i = 0; i < report.passes.count; i++) {
        const tcc_pass_report *r = &report.passes.data[i];
        behind |= !strcmp(r->pass, "fuse");
        /* taking takes microseconds, and planning a GPT does not */
        if (behind && r->milliseconds < 0.01) fail_msg("%s: %f ms", r->pass, r->milliseconds);
        assert_true(r->milliseconds >= 0);
        sum += r->milliseconds;
    }
    assert_true(behind);
    if (sum > all) fail_msg("%f ms in passes, %f in all", sum, all);
    tcc_vec_free(&report.passes);
    tcc_graph_destroy(g);
    tcc_context_clear(&context);
    tcc_diag_clear(&diag);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mlp), cmocka_unit_test(test_cnn),
                                       cmocka_unit_test(test_gpt), cmocka_unit_test(test_resnet),
                                       cmocka_unit_test(report_of_taken_trial)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
