/* SPDX-License-Identifier: MIT
 * simplify as a whole: it ends, doing it again changes nothing, and it keeps the meaning. */
#include "harness/check.h"
#include "harness/passes.h"

static void check_idempotent(const char *model, const char *before) {
    tcc_diag diag = {0};
    tcc_graph *traced = model_graph(model, 1, &diag), *g = run_passes(traced, before, NULL);
    tcc_graph *once = run_passes(g, "simplify", NULL), *twice = run_passes(once, "simplify", NULL);
    assert_true(tcc_graph_equal(once, twice));
    assert_same_meaning(g, once, 1e-6);
    tcc_graph_destroy(twice);
    tcc_graph_destroy(once);
    tcc_graph_destroy(g);
    tcc_graph_destroy(traced);
    tcc_diag_clear(&diag);
}

static void test_gpt(void **state) {
    (void)state;
    check_idempotent("gpt", "autodiff,decompose");
}

static void test_resnet(void **state) {
    (void)state;
    check_idempotent("resnet", "autodiff,decompose");
}

static void test_mlp(void **state) {
    (void)state;
    check_idempotent("mlp", "autodiff,decompose");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mlp), cmocka_unit_test(test_gpt),
                                       cmocka_unit_test(test_resnet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
