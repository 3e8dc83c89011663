/* SPDX-License-Identifier: MIT
 * Rematerialization keeps every bit of what a graph means: on training steps of random graphs and of models, with
 * budgets and with segments. What is computed again is marked and has an original. When memory is short, the pass
 * fails cleanly. */
#include "codegen/select.h"
#include "codegen/emit/emitter.h"
#include "harness/check.h"
#include "harness/gradcheck.h"
#include "harness/passes.h"

#include "ir/eval.h"
#include "harness/generator.h"
#include "ir/support/alloc.h"
#include "passes/remat/remat.h"

#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 220, TRIES = 120 };

static const char step_passes[] = "simplify,autodiff,train-step,decompose,simplify";

static uint64_t draw(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 27;
}

/* -- The same bits -- */

static tcc_value *evaluate(const tcc_graph *g) {
    uint64_t state = 77;
    tcc_value *inputs = calloc((size_t)g->inputs.count + 1, sizeof *inputs),
              *outputs = calloc((size_t)g->outputs.count + 1, sizeof *outputs);
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_type *type = &g->inputs.data[i]->type;
        const bool is_float = tcc_dtype_is_float(type->dtype);
        assert_ok(tcc_value_create(type, &inputs[i], g->diag), g->diag);
        test_fill(&inputs[i], &state, is_float ? -1 : 0, is_float ? 1 : 8);
    }
    assert_ok(tcc_graph_eval(g, inputs, outputs, g->diag), g->diag);
    for (int i = 0; i < g->inputs.count; i++) tcc_value_free(&inputs[i]);
    free(inputs);
    return outputs;
}

static void drop(tcc_value *values, int count) {
    for (int i = 0; i < count; i++) tcc_value_free(&values[i]);
    free(values);
}

static void assert_same_bits(const char *name, const tcc_graph *g, const tcc_value *a, const tcc_value *b) {
    for (int i = 0; i < g->outputs.count; i++)
        if (memcmp(a[i].f, b[i].f, sizeof *a[i].f * (size_t)tcc_type_numel(&a[i].type)))
            fail_msg("%s: output %s has other bits", name, g->outputs.data[i].name);
}

/* -- Marks -- */

/* The node of `step` that computes what `n` does, but for marks; `original` has those of n's operands. NULL: none. */
static const tcc_node *find_original(const tcc_graph *step, const tcc_node *n, const tcc_node *const *original) {
    const tcc_attr_class class = tcc_op_get_info(n->op)->attrs;
    for (int i = 0; i < step->nodes.count; i++) {
        const tcc_node *x = step->nodes.data[i];
        bool same = x->op == n->op && x->n_operands == n->n_operands && tcc_type_equal(&x->type, &n->type) &&
                    tcc_attrs_equal(class, x->attrs, n->attrs);
        for (int k = 0; same && k < n->n_operands; k++) same = x->operands[k] == original[n->operands[k]->id];
        if (same) return x;
    }
    return NULL;
}

/* How many nodes are marked. Every node is one of the step's, or a marked copy in the backward pass. */
static int check_marks(const char *name, const tcc_graph *step, const tcc_graph *g) {
    const tcc_node **original = calloc((size_t)g->nodes.count + 1, sizeof *original);
    bool *used = calloc((size_t)step->nodes.count + 1, sizeof *used);
    int marked = 0;
    for (int i = 0; i < g->nodes.count; i++) {
        const tcc_node *n = g->nodes.data[i];
        const bool again = n->marks & TCC_MARK_REMAT;
        original[i] = find_original(step, n, original);
        marked += again;
        if (!original[i]) fail_msg("%s: %s is not in the step", name, tcc_node_text(n));
        if (!again && used[original[i]->id]) fail_msg("%s: %s is a copy without a mark", name, tcc_node_text(n));
        if (!again) used[original[i]->id] = true;
        if (again && !n->backward) fail_msg("%s: %s is not of the backward pass", name, tcc_node_text(n));
    }
    free(original);
    free(used);
    return marked;
}

/* -- Graphs -- */

/* Puts runs of nodes into segments. */
static void mark_segments(tcc_graph *g, uint64_t seed) {
    int segment = 0, inside = 0;
    for (int i = 0; i < g->nodes.count; i++) {
        if (draw(&seed) % 5 == 0) inside = draw(&seed) % 2 ? ++segment : 0;
        g->nodes.data[i]->segment = inside;
    }
}

/* Runs remat on a step with one budget; how many nodes are computed again. -1: it cannot be met. `selects`: for this
 * machine, which says what may lie over what. */
static int check_budget(const char *name, const tcc_graph *step, const tcc_value *expected, tcc_remat_spec spec,
                        bool eager, bool selects) {
    static tcc_llvm_target target; /* lives as long as the test program */
    tcc_context context = {0};
    tcc_remat_report report = {0};
    tcc_graph *after;
    tcc_selector *selector = NULL;
    assert_int_equal(tcc_context_init(&context), TCC_OK);
    spec.report = &report;
    const tcc_codegen_options codegen = {.target = &target, .threads = 1, .separate = eager};
    if (!target.cpu) assert_ok(tcc_llvm_target_host(NULL, step->diag, &target), step->diag);
    if (selects) assert_ok(tcc_selector_create(&context, &codegen, false, &selector), step->diag);
    const tcc_pass_options options = {.train = true,
                                      .eager = eager,
                                      .spec = {.n_groups = 1},
                                      .remat = &spec,
                                      .target = selector ? tcc_selector_target(selector) : NULL};
    tcc_pass_cx cx = {.cx = &context, .diag = step->diag, .options = &options, .plan = tcc_pipeline_plan};
    const tcc_status status = tcc_pass_remat(&cx, step, &after);
    int marked = -1;
    if (status == TCC_OK) {
        assert_ok(tcc_graph_verify(after, step->diag), step->diag);
        marked = check_marks(name, step, after);
        assert_int_equal(marked > 0, report.frontier.data[report.taken].values > 0);
        tcc_graph *simple = run_passes(
            after, selects ? "simplify,fuse,select,order,plan-memory" : "simplify,fuse,order,plan-memory", &options);
        assert_ok(tcc_graph_verify(simple, step->diag), step->diag);
        tcc_value *got = evaluate(after), *planned = evaluate(simple);
        assert_same_bits(name, step, expected, got);
        assert_same_bits(name, step, expected, planned);
        drop(got, step->outputs.count);
        drop(planned, step->outputs.count);
        tcc_graph_destroy(simple);
        tcc_graph_destroy(after);
    } else {
        assert_int_equal(status, TCC_ENOMEM);
        assert_non_null(strstr(tcc_diag_text(step->diag), "cannot be met"));
        tcc_diag_clear(step->diag);
    }
    tcc_remat_report_free(&report);
    tcc_selector_destroy(selector);
    tcc_context_clear(&context);
    return marked;
}

static int check_step(const char *name, const tcc_graph *step, uint64_t seed, bool selects) {
    const double share = (double)(30 + draw(&seed) % 70) / 100;
    const tcc_remat_spec specs[] = {{.budget = TCC_BUDGET_LEAST},
                                    {.budget = TCC_BUDGET_SHARE, .share = share},
                                    {.segments = true},
                                    {.segments = true, .budget = TCC_BUDGET_LEAST}};
    tcc_value *expected = evaluate(step);
    int again = 0;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        again += check_budget(name, step, expected, specs[i], seed % 8 == 0, selects) > 0;
    drop(expected, step->outputs.count);
    return again;
}

static tcc_graph *make_step(const tcc_graph *g, int optimizer, bool clip) {
    return run_passes(
        g, step_passes,
        &(tcc_pass_options){.train = true,
                            .spec = {.optimizer = optimizer ? TCC_ADAMW : TCC_SGD, .clip_norm = clip, .n_groups = 1}});
}

static void random_graphs(void **state) {
    (void)state;
    const char *count = getenv("TCC_TEST_COUNT");
    const uint64_t end = count ? strtoull(count, NULL, 10) : GRAPHS;
    int again = 0;
    for (uint64_t seed = 0; seed < end; seed++) {
        char name[32];
        tcc_diag diag = {0};
        snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
        tcc_graph *g = tcc_graph_random(
            &(tcc_random_options){
                .differentiable = true, .mixed = seed % 3 == 2, .max_elements = 400, .nodes = 15 + (int)(seed % 40)},
            seed, &diag);
        assert_non_null(g);
        mark_segments(g, seed);
        tcc_graph *step = make_step(g, seed % 2, seed % 4 == 3);
        again += check_step(name, step, seed, false);
        tcc_graph_destroy(step);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
    printf("%d of %d budgets had something computed again\n", again, 4 * (int)end);
    assert_true(again > (int)end / 2); /* an eighth of them, for there may be few graphs */
}

static void models(void **state) {
    (void)state;
    static const char *const names[] = {"mlp", "cnn", "gpt", "mlp-dropout", "cnn-dropout", "gpt-dropout", "resnet"};
    int again = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = model_graph(names[i], 1, &diag), *step = make_step(g, 1, true);
        again += check_step(names[i], step, i + 1, true);
        tcc_graph_destroy(step);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
    assert_true(again >= 12); /* of 28 budgets; small layers have little to save */
}

/* -- Short of memory -- */

static void check_allocations(const char *model, tcc_remat_spec spec, tcc_status expected) {
    tcc_context context = {0};
    tcc_diag diag = {0};
    tcc_graph *g = model_graph(model, 1, &diag), *step = make_step(g, 1, true), *out = NULL;
    assert_int_equal(tcc_context_init(&context), TCC_OK);
    const tcc_pass_options options = {.train = true, .spec = {.n_groups = 1}, .remat = &spec};
    tcc_pass_cx cx = {.cx = &context, .diag = &diag, .options = &options, .plan = tcc_pipeline_plan};
    tcc__alloc_fail_at(INT64_MAX); /* counts */
    assert_int_equal(tcc_pass_remat(&cx, step, &out), expected);
    const int64_t count = tcc__alloc_fail_at(-1);
    tcc_graph_destroy(out);
    assert_true(count > 1000);
    for (int i = 0; i < TRIES; i++) { /* the first ones, and others spread over all */
        const int64_t at = i < TRIES / 2 ? i : count * (i - TRIES / 2) / (TRIES / 2);
        out = NULL;
        tcc_diag_clear(&diag);
        tcc__alloc_fail_at(at);
        const tcc_status status = tcc_pass_remat(&cx, step, &out);
        tcc__alloc_fail_at(-1);
        if (status != TCC_ENOMEM)
            fail_msg("%s, allocation %lld of %lld: %s", model, (long long)at, (long long)count,
                     tcc_status_name(status));
        assert_null(out);
    }
    tcc_diag_clear(&diag);
    tcc_graph_destroy(step);
    tcc_graph_destroy(g);
    tcc_context_clear(&context);
}

static void allocations_fail(void **state) {
    (void)state;
    tcc_remat_report report = {0};
    check_allocations("mlp", (tcc_remat_spec){.budget = TCC_BUDGET_LEAST, .report = &report}, TCC_OK);
    check_allocations("cnn", (tcc_remat_spec){.segments = true}, TCC_OK);
    check_allocations("mlp", (tcc_remat_spec){.budget = TCC_BUDGET_BYTES, .bytes = 1000}, TCC_ENOMEM);
    tcc_remat_report_free(&report);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs), cmocka_unit_test(models),
                                       cmocka_unit_test(allocations_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
