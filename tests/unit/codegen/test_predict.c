/* SPDX-License-Identifier: MIT
 * Predicted times are possible: no implementation of attention is expected to do its products faster than the target
 * multiplies, and plain loops pay for what they compute again at each element of a result. On a host all products are
 * predicted to be as fast, beside its bandwidth, as they are. */
#include "codegen/emit/emitter.h"
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

/* The graph of `text` as select would run it on the target. */
static tcc_graph *choose(tcc_context *cx, tcc_llvm_target *target, const char *text) {
    tcc_selector *selector;
    assert_ok(tcc_selector_create(cx, &(tcc_codegen_options){.target = target}, false, &selector), &cx->diag);
    tcc_graph *g = parse_graph(text, &cx->diag);
    tcc_graph *chosen = run_passes(g, "fuse,select", &(tcc_pass_options){.target = tcc_selector_target(selector)});
    tcc_graph_destroy(g);
    tcc_selector_destroy(selector);
    return chosen;
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
    char text[4096];
    assert_int_equal(tcc_context_init(&cx), TCC_OK);
    assert_ok(arch ? tcc_llvm_target_cuda(arch, NULL, &cx.diag, &target)
                   : tcc_llvm_target_host("x86-64-v4", &cx.diag, &target),
              &cx.diag);
    attention_graph_text(text, sizeof text,
                         &(attention_graph){"8,", QUERIES, KEYS, WIDTH, WIDTH, "scale=0.125", .type = type});
    if (!strcmp(type, "f64"))
        for (char *at = text; (at = strstr(at, "f32[")); at++) memcpy(at, "f64", 3); /* lse */
    tcc_graph *chosen = choose(&cx, &target, text);
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
    tcc_graph_destroy(chosen);
    tcc_llvm_target_clear(&target);
    tcc_context_clear(&cx);
}

static void attention(void **state) {
    (void)state;
    static const char *const types[] = {"f64", "f32", "bf16"}, *const archs[] = {NULL, "sm_80", "sm_90"};
    for (int t = 0; t < 3; t++)
        for (int a = 0; a < 3; a++) check(types[t], archs[a]);
}

/* GFLOP/s that are predicted for the product of two square matrices, or for a convolution by Winograd's algorithm. */
static double predicted_gflop_per_s(tcc_op hero, const char *type, const char *cpu) {
    enum { SIDE = 2048, IMAGES = 32, ROWS = 32, CHANNELS = 256 };
    static const double winograd = 4.0 / 9; /* of the products that the definition has */
    tcc_context cx = {0};
    tcc_llvm_target target;
    char text[1024];
    bool loops;
    assert_int_equal(tcc_context_init(&cx), TCC_OK);
    assert_ok(tcc_llvm_target_host(cpu, &cx.diag, &target), &cx.diag);
    if (hero == TCC_OP_DOT)
        snprintf(text, sizeof text,
                 "graph @g {\n  %%0 = input {name=\"a\"} : %s[%d,%d]\n  %%1 = input {name=\"b\"} : %s[%d,%d]\n"
                 "  %%2 = dot(%%0, %%1) {contract_a=[1], contract_b=[0]} : %s[%d,%d]\n  output \"y\" %%2\n}\n",
                 type, SIDE, SIDE, type, SIDE, SIDE, type, SIDE, SIDE);
    else
        snprintf(text, sizeof text,
                 "graph @g {\n  %%0 = input {name=\"x\"} : %s[%d,%d,%d,%d]\n"
                 "  %%1 = input {name=\"w\"} : %s[%d,3,3,%d]\n  %%2 = conv(%%0, %%1) {stride=[1, 1], pad_lo=[1, 1], "
                 "pad_hi=[1, 1], dilation=[1, 1], groups=1, channels_last=true} : %s[%d,%d,%d,%d]\n"
                 "  output \"y\" %%2\n}\n",
                 type, IMAGES, ROWS, ROWS, CHANNELS, type, CHANNELS, CHANNELS, type, IMAGES, ROWS, ROWS, CHANNELS);
    tcc_graph *chosen = choose(&cx, &target, text);
    const double ns = predicted_ns(chosen, hero, &loops);
    tcc_graph_destroy(chosen);
    tcc_llvm_target_clear(&target);
    tcc_context_clear(&cx);
    const double dot = 2.0 * SIDE * SIDE * SIDE, pixels = (double)IMAGES * ROWS * ROWS;
    return (hero == TCC_OP_DOT ? dot : winograd * 2 * pixels * CHANNELS * CHANNELS * 9) / ns;
}

/* Two cores of Zen 4, which have the bandwidth that is predicted, multiply with some 210 GFLOP/s in f32 (their peak is
 * 235), and bf16 twice as fast. */
static void products_of_host(void **state) {
    (void)state;
    static const tcc_op heroes[] = {TCC_OP_DOT, TCC_OP_CONV};
    for (int i = 0; i < 2; i++)
        for (int low = 0; low < 2; low++) {
            const double rate = predicted_gflop_per_s(heroes[i], low ? "bf16" : "f32", low ? "znver4" : "x86-64-v4");
            if (!(rate > 150 * (1 + low) && rate < 250 * (1 + low)))
                fail_msg("%s of %s: %g GFLOP/s are predicted", tcc_op_get_info(heroes[i])->text, low ? "bf16" : "f32",
                         rate);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention), cmocka_unit_test(products_of_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
