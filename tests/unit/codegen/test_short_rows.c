/* SPDX-License-Identifier: MIT
 * Reductions of rows of a few elements that lie one behind the other: a row for each lane. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include "codegen/emit/emitter.h"

#include <stdio.h>

/* Softmax of each row, its gradient's sum beside a mask by class, and where the largest is. */
static tcc_graph *softmax(const char *type, int images, int count, int length, tcc_diag *diag) {
    char text[4096], x[64], kept[64];
    snprintf(x, sizeof x, "%s[%d,%d,%d]", type, images, count, length);
    snprintf(kept, sizeof kept, "[%d,%d]", images, count);
    snprintf(text, sizeof text,
             "graph @rows {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = input {name=\"of\"} : i32%s\n"
             "  %%2 = reduce_max(%%0) {axes=[2]} : %s%s\n"
             "  %%3 = broadcast(%%2) {dims=[0, 1]} : %s\n  %%4 = sub(%%0, %%3) : %s\n  %%5 = exp(%%4) : %s\n"
             "  %%6 = reduce_sum(%%5) {axes=[2]} : %s%s\n"
             "  %%7 = broadcast(%%6) {dims=[0, 1]} : %s\n  %%8 = div(%%5, %%7) : %s\n"
             "  %%9 = iota {axis=2} : i32[%d,%d,%d]\n  %%10 = broadcast(%%1) {dims=[0, 1]} : i32[%d,%d,%d]\n"
             "  %%11 = eq(%%9, %%10) : bool[%d,%d,%d]\n  %%12 = constant {values=[0]} : %s[]\n"
             "  %%13 = broadcast(%%12) {dims=[]} : %s\n  %%14 = select(%%11, %%8, %%13) : %s\n"
             "  %%15 = reduce_sum(%%14) {axes=[2]} : %s%s\n  %%16 = argmax(%%0) {axis=2} : i32%s\n"
             "  output \"y\" %%14\n  output \"p\" %%15\n  output \"at\" %%16\n  output \"s\" %%8\n"
             "  output \"hit\" %%11\n  output \"place\" %%9\n}\n",
             x, kept, type, kept, x, x, x, type, kept, x, x, images, count, length, images, count, length, images,
             count, length, type, x, x, type, kept, kept);
    return parse_graph(text, diag);
}

static void rows_of_all_lengths(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16", "f16", "f64"};
    static const int counts[] = {1, 7, 15, 16, 17, 40, 64, 100, 1000};
    for (int t = 0; t < 4; t++)
        for (int c = 0; c < 9; c++)
            for (int length = 1; length <= 6; length++) {
                tcc_diag diag = {0};
                tcc_graph *g = softmax(types[t], 1 + c % 3, counts[c], length, &diag);
                assert_non_null(g);
                check_compiled(g, &(compiled_options){.limit = 4});
                tcc_graph_destroy(g);
                tcc_diag_clear(&diag);
            }
}

static void none_are_scattered(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64");
    static const char *const cpus[] = {"x86-64-v3", "x86-64-v4"};
    for (int c = 0; c < 2; c++)
        for (int length = 2; length <= 4; length++) {
            tcc_diag diag = {0};
            tcc_graph *g = softmax("f32", 2, 64, length, &diag);
            assert_int_equal(count_in_code(g, cpus[c], "@llvm.masked.scatter"), 0);
            assert_int_equal(count_in_code(g, cpus[c], "@llvm.masked.gather"), 0);
            assert_true(count_in_code(g, cpus[c], c ? "<16 x float>" : "<8 x float>") > 20);
            tcc_graph_destroy(g);
            tcc_diag_clear(&diag);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_all_lengths), cmocka_unit_test(none_are_scattered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
