/* SPDX-License-Identifier: MIT
 * Loads of all elements of short rows, a row for each lane: transposed in registers. So are windows beside each
 * other. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include "codegen/emit/emitter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* -- Windows beside each other -- */

typedef struct windows {
    int height, width, stride, pad; /* of a window; along both dims */
    int count;                      /* of windows in a row */
    int loads;                      /* whose product is pooled */
} windows;

static tcc_graph *pool(const char *op, const char *type, const windows *w, tcc_diag *diag) {
    enum { PLANES = 3, DOWN = 2 };
    char text[4096];
    const int in_rows = DOWN * w->height, in_columns = (w->count - 1) * w->stride + w->width - 2 * w->pad;
    int n = snprintf(text, sizeof text, "graph @rows {\n"), value = w->loads - 1;
    for (int i = 0; i < w->loads; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "  %%%d = input {name=\"x%d\"} : %s[1,%d,%d,%d]\n", i, i, type,
                      PLANES, in_rows, in_columns);
    for (int i = 1; i < w->loads; i++, value++)
        n += snprintf(text + n, sizeof text - (size_t)n, "  %%%d = mul(%%%d, %%%d) : %s[1,%d,%d,%d]\n", value + 1,
                      i == 1 ? 0 : value, i, type, PLANES, in_rows, in_columns);
    n += snprintf(text + n, sizeof text - (size_t)n, "  %%%d = %s(%%%d) ", value + 1, op, value);
    if (strncmp(op, "adaptive", 8) != 0)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "{window=[%d, %d], stride=[%d, %d], pad_lo=[0, %d], pad_hi=[0, %d]} ", w->height, w->width,
                      w->height, w->stride, w->pad, w->pad);
    snprintf(text + n, sizeof text - (size_t)n, ": %s[1,%d,%d,%d]\n  output \"o\" %%%d\n}\n", type, PLANES, DOWN,
             w->count, value + 1);
    return parse_graph(text, diag);
}

static void check_pools(const char *op, const char *type, const windows *all, int n) {
    static const int counts[] = {5, 16, 19};
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 3; c++) {
            windows w = all[i];
            tcc_diag diag = {0};
            w.count = counts[c];
            tcc_graph *g = pool(op, type, &w, &diag);
            check_compiled(g, &(compiled_options){.exact = !strcmp(op, "max_pool")});
            tcc_graph_destroy(g);
            tcc_diag_clear(&diag);
        }
}

static void check_windows(void) {
    static const char *const types[] = {"f32", "bf16", "f16"};
    static const windows own[] = {
        {4, 4, 4, 0, 0, 1},    {8, 8, 8, 0, 0, 1}, {8, 8, 9, 0, 0, 1},    {8, 8, 8, 1, 0, 1},
        {16, 16, 16, 0, 0, 1}, {8, 8, 8, 0, 0, 3}, {16, 16, 16, 0, 0, 2}, {3, 16, 24, 0, 0, 1},
    };
    static const windows even[] = {{4, 4, 4, 0, 0, 1}, {8, 8, 8, 0, 0, 1}, {16, 16, 16, 0, 0, 1}};
    for (int t = 0; t < 3; t++) {
        check_pools("max_pool", types[t], own, 8);
        check_pools("avg_pool", types[t], own, 8);
        check_pools("adaptive_avg_pool", types[t], even, 3);
    }
}

static void windows_are_transposed(void **state) {
    (void)state;
    check_windows();
}

/* The last vector of a row of windows may be a part: what lies behind the value is not the kernel's to read. */
static void windows_alone_are_read(void **state) {
    (void)state;
    setenv("TCC_CHECK_ACCESS", "1", 1);
    check_windows();
    unsetenv("TCC_CHECK_ACCESS");
}

static void windows_are_not_gathered(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64");
    static const char *const cpus[] = {"x86-64-v3", "x86-64-v4"};
    for (int c = 0; c < 2; c++)
        for (int count = 16; count <= 19; count += 3)
            for (int missing = 0; missing < 2; missing++) {
                tcc_diag diag = {0};
                const int width = c ? 16 : 8;
                const windows w = {width, width - missing, width, 0, count, 1};
                tcc_graph *g = pool("max_pool", "f32", &w, &diag);
                assert_int_equal(count_in_code(g, cpus[c], "@llvm.masked.gather") > 0, missing);
                tcc_graph_destroy(g);
                tcc_diag_clear(&diag);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_transposed), cmocka_unit_test(whole_rows_are_not_gathered),
        cmocka_unit_test(windows_are_transposed), cmocka_unit_test(windows_alone_are_read),
        cmocka_unit_test(windows_are_not_gathered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
