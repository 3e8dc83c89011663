/* SPDX-License-Identifier: MIT
 * Predicted times are possible: no implementation of attention is expected to do its products faster than the target
 * multiplies, and plain loops pay for what they compute again at each element of a result. */
#include "codegen/emit/llvm.h"
#include "codegen/select.h"
#include "harness/check.h"
#include "harness/graphs.h"
#include "harness/passes.h"

#include <stdio.h>

enum { HEADS = 8, QUERIES = 128, KEYS = 192, WIDTH = 64 };

/* Predicted nanoseconds of a group, of which `loops` says whether no schedule of its own runs it. */
static double predicted_ns(const tcc_graph *g, tcc_op hero, bool *loops) {
    for (int i = 0; i < g->groups.count; i++) {
        const tcc_group *group = &g->groups.data[i];
        if (group->hero->op != hero) continue;
        *loops = !strcmp(group->implementation->name, "loops");
        return (double)tcc_implementation_ns(group->implementation);
    }
    fail_msg("no group of %s", tcc_op_get_info(hero)->text);
    return 0;
}

static double multiply_adds(const tcc_hardware *hw, const char *type) {
    if (!strcmp(type, "f64")) return hw->fma_f64;
    if (!strcmp(type, "f32")) return hw->fma_f32;
    double most = hw->fma_f32;
    if (hw->fma_f16 > most) most = hw->fma_f16;
    if (hw->fma_bf16_pairs > most) most = hw->fma_bf16_pairs;
    return hw->fma_bf16_tiles > most ? hw->fma_bf16_tiles : most;
}

/* Multiply-adds of the gradients by plain loops: an element of dq computes both products of its query with each key,
 * of dk likewise with each query, and one of dv the first. */
static double loops_of_gradients(void) {
    const double pairs = (double)HEADS * QUERIES * KEYS, again = (double)WIDTH * WIDTH;
    return pairs * (2 * again + 2 * again + again);
}

static void check(const char *type, const char *arch) {
    tcc_context cx = {0};
    tcc_llvm_target target;
    tcc_selector *selector;
    char text[4096];
    assert_int_equal(tcc_context_init(&cx), TCC_OK);
    assert_ok(arch ? tcc_llvm_target_cuda(arch, NULL, &cx.diag, &target)
                   : tcc_llvm_target_host("x86-64-v4", &cx.diag, &target),
              &cx.diag);
    assert_ok(tcc_selector_create(&cx, &(tcc_codegen_options){.target = &target}, false, &selector), &cx.diag);
    attention_graph_text(text, sizeof text,
                         &(attention_graph){"8,", QUERIES, KEYS, WIDTH, WIDTH, "scale=0.125", .type = type});
    if (!strcmp(type, "f64"))
        for (char *at = text; (at = strstr(at, "f32[")); at++) memcpy(at, "f64", 3); /* lse */
    tcc_graph *g = parse_graph(text, &cx.diag);
    tcc_graph *chosen = run_passes(g, "fuse,select", &(tcc_pass_options){.target = tcc_selector_target(selector)});
    const double pairs = (double)HEADS * QUERIES * KEYS;
    const double a_ns = 1e-9 * multiply_adds(&target.hw, type) * target.hw.processors * target.hw.clock_hz;
    const struct {
        tcc_op hero;
        double work;
    } all[] = {{TCC_OP_SDPA, pairs * 2 * WIDTH}, {TCC_OP_SDPA_GRAD_Q, pairs * 5 * WIDTH}};
    for (int i = 0; i < 2; i++) {
        bool loops = false;
        const double ns = predicted_ns(chosen, all[i].hero, &loops);
        const double least = (loops && i ? loops_of_gradients() : all[i].work) / a_ns;
        if (!(ns >= least && ns <= 100 * least + 10000))
            fail_msg("%s of %s on %s: %g ns are predicted, the products alone take %g", i ? "gradients" : "attention",
                     type, arch ? arch : "the host", ns, least);
        if (!strcmp(type, "f64")) assert_true(loops);
    }
    tcc_graph_destroy(g);
    tcc_graph_destroy(chosen);
    tcc_selector_destroy(selector);
    tcc_llvm_target_clear(&target);
    tcc_context_clear(&cx);
}

static void attention(void **state) {
    (void)state;
    static const char *const types[] = {"f64", "f32", "bf16"}, *const archs[] = {NULL, "sm_80", "sm_90"};
    for (int t = 0; t < 3; t++)
        for (int a = 0; a < 3; a++) check(types[t], archs[a]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
