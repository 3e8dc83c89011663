/* SPDX-License-Identifier: MIT
 * Budgets of one training step agree with each other: a larger one never has a smaller peak, the least plan is the
 * least, and a budget is met exactly where that one fits. */
#include "harness/check.h"
#include "harness/passes.h"

#include "codegen/emit/emitter.h"
#include "codegen/select.h"
#include "frontend/trace.h"
#include "harness/generator.h"
#include "passes/remat/remat.h"
#include "traincc/traincc.h"

#include <stdio.h>

typedef struct planner {
    const tcc_graph *step;
    tcc_context context;
    tcc_diag diag;
    tcc_selector *selector; /* NULL: nobody predicts times */
} planner;

/* The peak of all memory of a step, which a byte more or less in the budget would show. -1: it cannot be met; `least`
 * is what the refusal says. */
static int64_t peak_of(planner *p, tcc_remat_spec spec, long long *least) {
    tcc_remat_report report = {0};
    tcc_graph *after;
    spec.report = &report;
    const tcc_pass_options options = {.train = true,
                                      .spec = {.n_groups = 1},
                                      .remat = &spec,
                                      .target = p->selector ? tcc_selector_target(p->selector) : NULL};
    tcc_pass_cx cx = {.cx = &p->context, .diag = &p->diag, .options = &options, .plan = tcc_pipeline_plan};
    const tcc_status status = tcc_pass_remat(&cx, p->step, &after);
    int64_t peak = -1;
    if (status == TCC_OK) {
        tcc_graph *planned;
        assert_ok(tcc_pipeline_plan(&cx, after, NULL, &planned), &p->diag);
        peak = planned->arena_bytes + report.fixed_bytes;
        assert_int_equal(report.frontier.data[report.taken].peak, planned->arena_bytes);
        tcc_graph_destroy(planned);
        tcc_graph_destroy(after);
    } else {
        const char *text = tcc_diag_text(&p->diag), *bytes = strstr(text, " bytes)");
        assert_int_equal(status, TCC_ENOMEM);
        while (bytes && bytes > text && bytes[-1] != '(') bytes--;
        if (!bytes || sscanf(bytes, "%lld", least) != 1) fail_msg("%s", text);
        tcc_diag_clear(&p->diag);
    }
    tcc_remat_report_free(&report);
    return peak;
}

static int64_t peak_within(planner *p, int64_t bytes, long long *least) {
    return peak_of(p, (tcc_remat_spec){.budget = TCC_BUDGET_BYTES, .bytes = bytes}, least);
}

/* With so many budgets; at least `distinct` of them have a peak of their own. */
static void check_peaks(const char *name, planner *p, int budgets, int distinct) {
    long long least;
    const int64_t min = peak_of(p, (tcc_remat_spec){.budget = TCC_BUDGET_LEAST}, &least),
                  all = peak_of(p, (tcc_remat_spec){.budget = TCC_BUDGET_SHARE, .share = 1}, &least);
    int64_t before = min;
    int found = 1;
    assert_int_equal(peak_within(p, min, &least), min);
    for (int i = 1; i <= 2; i++) { /* a little, and much too small */
        assert_int_equal(peak_within(p, i == 1 ? min - 1 : min / 2, &least), -1);
        assert_int_equal(least, min);
    }
    for (int i = 1; i <= budgets; i++) {
        const int64_t bytes = min + (all - min) * i / budgets, peak = peak_within(p, bytes, &least);
        if (peak < before || peak > bytes)
            fail_msg("%s: a budget of %lld has a peak of %lld, a smaller one of %lld", name, (long long)bytes,
                     (long long)peak, (long long)before);
        found += peak > before;
        before = peak;
    }
    printf("%s: %lld to %lld bytes, %d peaks\n", name, (long long)min, (long long)all, found);
    assert_int_equal(before, all);
    assert_true(found >= distinct);
}

static tcc_graph *trace_gpt(tcc_diag *diag) {
    const tcc_array batch[] = {{.name = "tokens", .dtype = TCC_I32, .rank = 2, .dims = {4, 24}},
                               {.name = "targets", .dtype = TCC_I32, .rank = 2, .dims = {4, 24}}};
    tcc_store store = {0};
    tcc_trace t = {0};
    tcc_graph *g = NULL;
    assert_ok(tcc_trace_begin(&t, "gpt", &store, true, batch, 2, diag), diag);
    tcc_tensor y = tcc_gpt(&t, tcc_input(&t, "tokens"),
                           &(tcc_gpt_options){.layers = 3, .heads = 2, .width = 24, .context = 24, .vocab = 30});
    tcc_loss(&t, tcc_cross_entropy(y, tcc_input(&t, "targets")));
    assert_ok(tcc_trace_end(&t, &g), diag);
    tcc_store_free(&store);
    return g;
}

/* Destroys `g`. `target` NULL: nobody predicts times. */
static void check_graph(const char *name, tcc_graph *g, const tcc_llvm_target *target, int budgets, int distinct) {
    planner p = {0};
    assert_non_null(g);
    tcc_graph *step = run_passes(g, "simplify,autodiff,train-step,decompose,simplify",
                                 &(tcc_pass_options){.train = true, .spec = {.optimizer = TCC_ADAMW, .n_groups = 1}});
    p.step = step;
    assert_int_equal(tcc_context_init(&p.context), TCC_OK);
    if (target)
        assert_ok(tcc_selector_create(&p.context, &(tcc_codegen_options){.target = target}, false, &p.selector),
                  &p.context.diag);
    check_peaks(name, &p, budgets, distinct);
    tcc_selector_destroy(p.selector);
    tcc_context_clear(&p.context);
    tcc_diag_clear(&p.diag);
    tcc_graph_destroy(step);
    tcc_graph_destroy(g);
}

static void budgets_agree(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_llvm_target host; /* the same on each machine */
    assert_ok(tcc_llvm_target_host("x86-64-v3", &diag, &host), &diag);
    check_graph("gpt", trace_gpt(&diag), &host, 16, 8);
    check_graph("gpt, no times", trace_gpt(&diag), NULL, 8, 5);
    check_graph("resnet", model_graph("resnet", 1, &diag), &host, 6, 4);
    const uint64_t seeds[] = {2, 24}; /* of graphs in which there is something to choose */
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        check_graph("random graph",
                    tcc_graph_random(&(tcc_random_options){.differentiable = true, .max_elements = 400, .nodes = 80},
                                     seeds[i], &diag),
                    &host, 10, 3);
    tcc_llvm_target_clear(&host);
    tcc_diag_clear(&diag);
}

/* ResNet-50 at its usual sizes, planned alone: its blocks' outputs follow from one another. */
static tcc_graph *trace_resnet50(tcc_diag *diag) {
    const tcc_array batch[] = {{.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {64, 3, 224, 224}},
                               {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {64}}};
    tcc_store store = {0};
    tcc_trace t = {0};
    tcc_graph *g = NULL;
    assert_ok(tcc_trace_begin(&t, "resnet50", &store, true, batch, 2, diag), diag);
    tcc_tensor y = tcc_resnet(&t, tcc_input(&t, "x"), &(tcc_resnet_options){.depth = 50, .classes = 1000, .width = 64});
    tcc_loss(&t, tcc_cross_entropy(y, tcc_input(&t, "y")));
    assert_ok(tcc_trace_end(&t, &g), diag);
    tcc_store_free(&store);
    return g;
}

static tcc_graph *trace_pp_liteseg(tcc_diag *diag) {
    const tcc_array batch[] = {{.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {8, 3, 768, 768}}};
    tcc_store store = {0};
    tcc_trace t = {0};
    tcc_graph *g = NULL;
    assert_ok(tcc_trace_begin(&t, "pp_liteseg", &store, true, batch, 1, diag), diag);
    const tcc_pp_liteseg_options options = {.variant = 'T', .classes = 19};
    tcc_loss(&t, tcc_mean(tcc_pp_liteseg(&t, tcc_input(&t, "x"), &options).logits[0], 0, NULL));
    assert_ok(tcc_trace_end(&t, &g), diag);
    tcc_store_free(&store);
    return g;
}

/* Plans a step of `g`, which is destroyed, for hosts of such a level. */
static void plan_step(tcc_graph *g, const char *level, tcc_budget_kind budget, tcc_remat_report *report) {
    planner p = {0};
    tcc_llvm_target host;
    tcc_graph *after;
    assert_ok(tcc_llvm_target_host(level, &p.diag, &host), &p.diag);
    tcc_graph *step = run_passes(g, "simplify,autodiff,train-step,decompose,simplify,layout,simplify",
                                 &(tcc_pass_options){.train = true, .spec = {.optimizer = TCC_SGD, .n_groups = 1}});
    assert_int_equal(tcc_context_init(&p.context), TCC_OK);
    assert_ok(tcc_selector_create(&p.context, &(tcc_codegen_options){.target = &host}, false, &p.selector), &p.diag);
    const tcc_remat_spec spec = {.budget = budget, .report = report};
    const tcc_pass_options options = {
        .train = true, .spec = {.n_groups = 1}, .remat = &spec, .target = tcc_selector_target(p.selector)};
    tcc_pass_cx cx = {.cx = &p.context, .diag = &p.diag, .options = &options, .plan = tcc_pipeline_plan};
    assert_ok(tcc_pass_remat(&cx, step, &after), &p.diag);
    tcc_graph_destroy(after);
    tcc_graph_destroy(step);
    tcc_graph_destroy(g);
    tcc_selector_destroy(p.selector);
    tcc_context_clear(&p.context);
    tcc_llvm_target_clear(&host);
    tcc_diag_clear(&p.diag);
}

/* What the model says that late work evaluates for itself is not stored: masks, and outputs of blocks. */
static void model_agrees_with_plan(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_remat_report report = {0};
    plan_step(trace_resnet50(&diag), "x86-64-v3", TCC_BUDGET_LEAST, &report);
    const tcc_remat_point *none = &report.frontier.data[0], *least = &report.frontier.data[report.taken];
    printf("resnet50: all kept %lld bytes, least %lld, by the model %lld\n", (long long)none->peak,
           (long long)least->peak, (long long)least->estimated_peak);
    assert_true((double)least->peak < 0.33 * (double)none->peak);
    assert_true((double)least->peak < 1.1 * (double)least->estimated_peak);
    tcc_remat_report_free(&report);
}

/* What is nearly free by the model is so in its plan: no second one is made. */
static void first_plan_is_taken(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_remat_report report = {0};
    plan_step(trace_pp_liteseg(&diag), "x86-64-v4", TCC_BUDGET_NONE, &report);
    int plans = 0;
    for (int i = 1; i < report.frontier.count; i++) plans += report.frontier.data[i].peak >= 0;
    const tcc_remat_point *taken = &report.frontier.data[report.taken];
    printf("pp_liteseg: %d values in plan %d, %.3f ms, by the model %.3f\n", taken->values, plans,
           1e-6 * (double)taken->added_ns, 1e-6 * (double)taken->estimated_ns);
    assert_int_equal(plans, 1);
    assert_true(taken->values > 20);
    tcc_remat_report_free(&report);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(budgets_agree), cmocka_unit_test(model_agrees_with_plan),
                                       cmocka_unit_test(first_plan_is_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
