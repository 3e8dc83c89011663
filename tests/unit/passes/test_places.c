/* SPDX-License-Identifier: MIT
 * places: of windows of up to 256 elements they are bytes for the gradient; what else reads them reads i32. */
#include "harness/check.h"
#include "harness/passes.h"

#include <stdio.h>
#include <string.h>

/* `given`: places that are an input, not those of a pool. */
static void check_places(int rows, int columns, bool given, bool narrows) {
    char text[1024], attributes[128], of[256];
    tcc_diag diag = {0};
    tcc_graph *g;
    snprintf(attributes, sizeof attributes, "{window=[%d, %d], stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0]}", rows,
             columns);
    snprintf(of, sizeof of, "%s%s", given ? "input {name=\"places\"}" : "max_pool_place(%0) ", given ? "" : attributes);
    snprintf(text, sizeof text,
             "graph @pool {\n%%0 = input {name=\"x\"} : f64[1,1,%d,%d]\n%%1 = %s : i32[1,1,3,2]\n"
             "%%2 = input {name=\"dy\"} : f64[1,1,3,2]\n%%3 = max_pool_grad(%%1, %%2) %s : f64[1,1,%d,%d]\n"
             "output \"place\" %%1\noutput \"dx\" %%3\n}\n",
             rows + 2, columns + 1, of, attributes, rows + 2, columns + 1);
    assert_ok(tcc_graph_parse(text, strlen(text), "text", &diag, &g), &diag);
    tcc_graph *after = run_passes(g, "places", &(tcc_pass_options){0});
    const tcc_dtype read = after->outputs.data[1].node->operands[0]->type.dtype;
    if (read != (narrows ? TCC_U8 : TCC_I32)) fail_msg("%s places of %s", narrows ? "wide" : "narrow", text);
    assert_int_equal(after->outputs.data[0].node->type.dtype, TCC_I32);
    assert_same_meaning(g, after, 0);
    tcc_graph_destroy(after);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static void test_places(void **state) {
    (void)state;
    check_places(3, 2, false, true);
    check_places(16, 16, false, true);
    check_places(257, 1, false, false);
    check_places(16, 17, false, false);
}

/* How large they are is not known. */
static void test_given_places(void **state) {
    (void)state;
    check_places(3, 2, true, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_given_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
