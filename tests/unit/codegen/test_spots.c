/* SPDX-License-Identifier: MIT
 * Conditions that hold at a few places of a row: on a diagonal, above or below it, and at a label, which may lie
 * anywhere, or nowhere. Of rows of all lengths, in whole vectors and with a rest. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include <stdio.h>

static void check(const char *text, const compiled_options *options) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    assert_non_null(g);
    check_compiled(g, options);
    tcc_graph_destroy(g);
}

/* x[3, n] on a diagonal of n rows of as many columns and `more`. */
static void diagonals(void **state) {
    (void)state;
    static const char *const types[] = {"bf16", "f16", "bool", "u8", "f32"};
    static const int sizes[] = {31, 64, 128, 129, 200, 256, 511};
    for (int t = 0; t < 5; t++)
        for (int s = 0; s < 7; s++)
            for (int first = 0; first <= 40; first += 20) {
                const int n = sizes[s], columns = n + 64, apart = columns; /* places between two elements */
                char text[1024];
                snprintf(text, sizeof text,
                         "graph @g {\n  %%0 = input {name=\"x\"} : %s[3,%d]\n"
                         "  %%1 = pad(%%0) {lo=[0, %d], hi=[0, %d], interior=[0, %d]} : %s[3,%d]\n"
                         "  %%2 = reshape(%%1) : %s[3,%d,%d]\n  output \"y\" %%2\n}\n",
                         types[t], n, first, columns * n - first - ((n - 1) * (apart + 1) + 1), apart, types[t],
                         columns * n, types[t], n, columns);
                check(text, &(compiled_options){.seed = 5, .exact = true});
            }
}

/* A number at each row's label. */
static void labels(void **state) {
    (void)state;
    static const char *const types[] = {"bf16", "bool"}, *const indices[] = {"i32", "i64"};
    static const int sizes[] = {100, 128, 160, 500, 1001};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 2; i++)
            for (int s = 0; s < 5; s++)
                for (int sides = 0; sides < 2; sides++) {
                    const int n = sizes[s];
                    char text[2048];
                    snprintf(text, sizeof text,
                             "graph @g {\n  %%0 = input {name=\"label\"} : f32[77]\n"
                             "  %%1 = input {name=\"x\"} : f32[77]\n"
                             "  %%2 = cast(%%0) : %s[77]\n  %%3 = cast(%%1) : %s[77]\n"
                             "  %%4 = iota {axis=1} : %s[77,%d]\n"
                             "  %%5 = broadcast(%%2) {dims=[0]} : %s[77,%d]\n"
                             "  %%6 = eq(%s) : bool[77,%d]\n"
                             "  %%7 = broadcast(%%3) {dims=[0]} : %s[77,%d]\n"
                             "  %%8 = constant {values=[0]} : %s[77,%d]\n"
                             "  %%9 = select(%%6, %%7, %%8) : %s[77,%d]\n  output \"y\" %%9\n}\n",
                             indices[i], types[t], indices[i], n, indices[i], n, sides ? "%5, %4" : "%4, %5", n,
                             types[t], n, types[t], n, types[t], n);
                    check(text, &(compiled_options){.seed = 7, .low = -20, .high = n + 20, .exact = true});
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(diagonals), cmocka_unit_test(labels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
