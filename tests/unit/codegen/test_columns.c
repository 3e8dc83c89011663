/* SPDX-License-Identifier: MIT
 * Loads of all elements of short rows, a row for each lane: transposed in registers. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include "codegen/emit/emitter.h"

#include <stdio.h>

enum { ROWS = 3 };

/* The products of `taken` elements of each `length`. */
static tcc_graph *products(const char *type, int count, int length, int taken, tcc_diag *diag) {
    char text[16384];
    int n = snprintf(text, sizeof text, "graph @rows {\n  %%0 = input {name=\"x\"} : %s[%d,%d]\n", type, ROWS,
                     count * length);
    for (int i = 0; i < taken; i++)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "  %%%d = slice(%%0) {start=[0, %d], limit=[%d, %d], stride=[1, %d]} : %s[%d,%d]\n", i + 1, i,
                      ROWS, count * length, length, type, ROWS, count);
    for (int i = 1; i < taken; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "  %%%d = mul(%%%d, %%%d) : %s[%d,%d]\n", taken + i,
                      i == 1 ? 1 : taken + i - 1, i + 1, type, ROWS, count);
    snprintf(text + n, sizeof text - (size_t)n, "  output \"o\" %%%d\n}\n", 2 * taken - 1);
    return parse_graph(text, diag);
}

static void rows_are_transposed(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16", "f16"};
    static const int counts[] = {7, 16, 40, 64, 100, 256};
    for (int t = 0; t < 3; t++)
        for (int c = 0; c < 6; c++)
            for (int length = 8; length <= 32; length *= 2)
                for (int missing = 0; missing < 2; missing++) {
                    tcc_diag diag = {0};
                    tcc_graph *g = products(types[t], counts[c], length, length - missing, &diag);
                    check_compiled(g, &(compiled_options){.exact = true, .low = 0.9, .high = 1.2});
                    tcc_graph_destroy(g);
                    tcc_diag_clear(&diag);
                }
}

/* Where an element is missing, what lies there is not the kernel's to read. */
static void whole_rows_are_not_gathered(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64");
    static const char *const cpus[] = {"x86-64-v3", "x86-64-v4"};
    for (int c = 0; c < 2; c++)
        for (int missing = 0; missing < 2; missing++) {
            tcc_diag diag = {0};
            tcc_graph *g = products("f32", 64, 16, 16 - missing, &diag);
            assert_int_equal(count_in_code(g, cpus[c], "@llvm.masked.gather") > 0, missing);
            tcc_graph_destroy(g);
            tcc_diag_clear(&diag);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_transposed),
                                       cmocka_unit_test(whole_rows_are_not_gathered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
