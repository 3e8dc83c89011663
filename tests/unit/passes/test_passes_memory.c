/* SPDX-License-Identifier: MIT
 * Passes when memory is short: they fail with TCC_ENOMEM and a message, crash nowhere and leave their input alone. */
#include "harness/check.h"
#include "harness/passes.h"

#include "codegen/emit/emitter.h"
#include "codegen/select.h"
#include "ir/support/alloc.h"

#include <stdio.h>

enum { TRIES = 150 }; /* spread over all allocations of a pass */

static const tcc_amp_spec amp = {.low = TCC_BF16};
static const tcc_pass_options options = {
    .amp = &amp, .spec = {.optimizer = TCC_ADAMW, .clip_norm = true, .n_groups = 1}, .chunk_rows = 1};

static void check_pass(tcc_graph *g, const char *name, tcc_pass_fn run) {
    tcc_context context = {0};
    assert_int_equal(tcc_context_init(&context), TCC_OK);
    tcc_diag *kept = g->diag;
    tcc_diag diag = {0};
    tcc_pass_cx cx = {.cx = &context, .diag = &diag, .options = &options};
    g->diag = &diag;
    tcc_graph *out = NULL;
    tcc__alloc_fail_at(INT64_MAX); /* counts */
    assert_ok(run(&cx, g, &out), &diag);
    int64_t count = tcc__alloc_fail_at(-1);
    assert_true(count > 10);
    tcc_graph_destroy(out);
    for (int i = 0; i < TRIES; i++) {
        int64_t at = count < TRIES ? i : count * i / TRIES;
        if (at >= count) break;
        out = NULL;
        tcc__alloc_fail_at(at);
        tcc_status status = run(&cx, g, &out);
        tcc__alloc_fail_at(-1);
        if (status != TCC_ENOMEM)
            fail_msg("%s, allocation %lld of %lld: %s", name, (long long)at, (long long)count, tcc_status_name(status));
        assert_null(out);
        tcc_diag_clear(&diag);
    }
    g->diag = kept;
    tcc_context_clear(&context);
}

/* With answers that are not known yet. */
static tcc_status select_afresh(tcc_pass_cx *cx, const tcc_graph *in, tcc_graph **out) {
    static tcc_llvm_target target; /* lives as long as the test program */
    tcc_selector *selector;
    if (!target.cpu) {
        tcc__alloc_fail_at(-1);
        assert_ok(tcc_llvm_target_host("x86-64-v3", cx->diag, &target), cx->diag);
        tcc__alloc_fail_at(INT64_MAX);
    }
    const tcc_codegen_options codegen = {.target = &target};
    tcc_diag_clear(&cx->cx->diag);
    TCC_TRY(tcc_selector_create(cx->cx, &codegen, false, &selector));
    const tcc_pass_options asks = {.target = tcc_selector_target(selector)};
    tcc_status status = tcc_pass_select(&(tcc_pass_cx){.cx = cx->cx, .diag = cx->diag, .options = &asks}, in, out);
    tcc_selector_destroy(selector);
    return status;
}

static void check_model(const char *model) {
    static const struct {
        const char *before, *name;
        tcc_pass_fn run;
    } passes[] = {{"simplify", "amp", tcc_pass_amp},
                  {"simplify", "autodiff", tcc_pass_autodiff},
                  {"autodiff", "train-step", tcc_pass_train_step},
                  {"amp,autodiff,train-step", "low-copies", tcc_pass_low_copies},
                  {"autodiff", "decompose", tcc_pass_decompose},
                  {"autodiff,decompose", "simplify", tcc_pass_simplify},
                  {"autodiff,decompose,simplify", "chunk", tcc_pass_chunk},
                  {"autodiff,decompose", "layout", tcc_pass_layout},
                  {"autodiff,decompose,simplify", "fuse", tcc_pass_fuse},
                  {"autodiff,decompose,simplify,fuse", "select", select_afresh},
                  {"autodiff,decompose,simplify,fuse", "order", tcc_pass_order},
                  {"autodiff,decompose,simplify,fuse,order", "plan-memory", tcc_pass_plan_memory}};
    tcc_diag diag = {0};
    tcc_graph *traced = model_graph(model, 1, &diag);
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        tcc_graph *g = run_passes(traced, passes[i].before, &options);
        check_pass(g, passes[i].name, passes[i].run);
        tcc_graph_destroy(g);
    }
    tcc_graph_destroy(traced);
    tcc_diag_clear(&diag);
}

static void test_mlp(void **state) {
    (void)state;
    check_model("mlp");
}

static void test_cnn(void **state) {
    (void)state;
    check_model("cnn");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mlp), cmocka_unit_test(test_cnn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
