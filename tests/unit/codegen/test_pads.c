/* SPDX-License-Identifier: MIT
 * Padding: elements apart from each other, the diagonals of matrices, which are such of their rows as one, and sums of
 * borders. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include "codegen/emit/emitter.h"

#include <stdio.h>
#include <string.h>

static const char *const types[] = {"f32", "bf16", "f16", "u8", "i32", "f64"};
enum { TYPES = sizeof types / sizeof *types };

/* Rows of `width` elements that lie `step` apart, with places around them; and what they are added to, if anything. */
static tcc_graph *apart(const char *type, int width, int step, int before, int after, bool added, tcc_diag *diag) {
    enum { ROWS = 3 };
    const int out = before + (width - 1) * step + 1 + after;
    char text[1024];
    int at = snprintf(text, sizeof text,
                      "graph @rows {\n"
                      "  %%0 = input {name=\"x\"} : %s[%d,%d]\n"
                      "  %%1 = pad(%%0) {value=%d, lo=[0, %d], hi=[0, %d], interior=[0, %d]} : %s[%d,%d]\n",
                      type, ROWS, width, added ? 0 : 3, before, after, step - 1, type, ROWS, out);
    if (added)
        at += snprintf(text + at, sizeof text - (size_t)at,
                       "  %%2 = input {name=\"y\"} : %s[%d,%d]\n  %%3 = add(%%1, %%2) : %s[%d,%d]\n", type, ROWS, out,
                       type, ROWS, out);
    snprintf(text + at, sizeof text - (size_t)at, "  output \"o\" %s\n}\n", added ? "%3" : "%1");
    return parse_graph(text, diag);
}

static void check_exact(tcc_graph *g, uint64_t seed) {
    check_compiled(g, &(compiled_options){.seed = seed, .exact = true});
    tcc_graph_destroy(g);
}

/* Rows of less than a vector, of whole ones, and of what is left of them. */
static void elements_lie_apart(void **state) {
    (void)state;
    static const int widths[] = {1, 2, 7, 32, 75};
    for (int step = 2; step <= 9; step++)
        for (int w = 0; w < 5; w++)
            for (int before = 0; before <= 3; before++) {
                const int t = (step + w + before) % TYPES, after = (step * (w + 1) + before) % 3;
                tcc_diag diag = {0};
                check_exact(apart(types[t], widths[w], step, before, after, false, &diag), 1);
                check_exact(apart(types[t % 3], widths[w], step, before, after, true, &diag), 2);
            }
}

/* The k-th diagonal of matrices. */
static tcc_graph *diagonal(const char *type, int rows, int columns, int k, tcc_diag *diag) {
    enum { MATRICES = 2 };
    const int start = k < 0 ? -k * columns : k, down = k < 0 ? rows + k : rows, across = k < 0 ? columns : columns - k,
              n = down < across ? down : across, end = start + (n - 1) * (columns + 1) + 1;
    char text[1024];
    snprintf(text, sizeof text,
             "graph @rows {\n"
             "  %%0 = input {name=\"x\"} : %s[%d,%d]\n"
             "  %%1 = pad(%%0) {value=0, lo=[0, %d], hi=[0, %d], interior=[0, %d]} : %s[%d,%d]\n"
             "  %%2 = reshape(%%1) : %s[%d,%d,%d]\n"
             "  output \"o\" %%2\n}\n",
             type, MATRICES, n, start, rows * columns - end, columns, type, MATRICES, rows * columns, type, MATRICES,
             rows, columns);
    return parse_graph(text, diag);
}

static void diagonals_of_matrices(void **state) {
    (void)state;
    static const int extents[] = {2, 5, 16, 37};
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++)
            for (int k = 1 - extents[r]; k < extents[c]; k += 1 + extents[r] / 4) {
                tcc_diag diag = {0};
                check_exact(diagonal(types[(r + c + k + 99) % TYPES], extents[r], extents[c], k, &diag), 1);
            }
}

/* A row to both of whose ends `border` elements from elsewhere are added. */
static tcc_graph *bordered(const char *type, int width, int border, tcc_diag *diag) {
    enum { ROWS = 5 };
    char text[1024];
    snprintf(text, sizeof text,
             "graph @rows {\n"
             "  %%0 = input {name=\"x\"} : %s[%d,%d]\n"
             "  %%1 = input {name=\"first\"} : %s[%d,%d]\n"
             "  %%2 = input {name=\"last\"} : %s[%d,%d]\n"
             "  %%3 = pad(%%1) {value=0, lo=[0, 0], hi=[0, %d], interior=[0, 0]} : %s[%d,%d]\n"
             "  %%4 = pad(%%2) {value=0, lo=[0, %d], hi=[0, 0], interior=[0, 0]} : %s[%d,%d]\n"
             "  %%5 = add(%%0, %%3) : %s[%d,%d]\n"
             "  %%6 = add(%%5, %%4) : %s[%d,%d]\n"
             "  output \"o\" %%6\n}\n",
             type, ROWS, width, type, ROWS, border, type, ROWS, border, width - border, type, ROWS, width,
             width - border, type, ROWS, width, type, ROWS, width, type, ROWS, width);
    return parse_graph(text, diag);
}

static void borders_are_added(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int width = 3; width < 300; width += width < 40 ? 9 : 83)
            for (int border = 1; border <= 3; border++) {
                tcc_diag diag = {0};
                check_exact(bordered(types[t], width, border, &diag), 1);
            }
}

/* Every second, fourth or eighth place of a vector, one place of it, and its first or last: nothing is gathered. */
static void nothing_is_gathered(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64");
    static const char *const cpus[] = {"x86-64-v3", "x86-64-v4"};
    for (int c = 0; c < 2; c++)
        for (int t = 0; t < 2; t++) {
            tcc_diag diag = {0};
            tcc_graph *graphs[] = {
                apart(types[t], 128, 2, 0, 1, false, &diag), apart(types[t], 128, 4, 1, 2, false, &diag),
                apart(types[t], 128, 8, 5, 2, true, &diag),  diagonal(types[t], 64, 64, 0, &diag),
                diagonal(types[t], 64, 64, 5, &diag),        bordered(types[t], 56, 1, &diag)};
            for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
                assert_int_equal(count_in_code(graphs[i], cpus[c], "@llvm.masked.gather"), 0);
                assert_int_equal(count_in_code(graphs[i], cpus[c], "rem <"), 0);
                tcc_graph_destroy(graphs[i]);
            }
        }
}

/* Rows with borders: masks are constants, and such lanes are parts of registers. Nothing goes lane by lane. */
static void borders_are_parts_of_vectors(void **state) {
    (void)state;
    static const int widths[] = {3, 17, 56, 100, 150};
    for (int w = 0; w < 5; w++)
        for (int t = 0; t < TYPES; t++)
            for (int before = 0; before <= 5; before += 1 + t % 2) {
                tcc_diag diag = {0};
                check_exact(apart(types[t], widths[w], 1, before, 1 + (w + t) % 3, (w + before) % 2, &diag), 3);
            }
    if (!(ON_X86_64)) return;
    for (int t = 0; t < 2; t++) {
        tcc_diag diag = {0};
        tcc_graph *g = apart(types[t], 56, 1, 1, 1, true, &diag);
        assert_int_equal(count_in_code(g, "x86-64-v3", "@llvm.cttz.i64"), 0);
        tcc_graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(elements_lie_apart), cmocka_unit_test(diagonals_of_matrices),
                                       cmocka_unit_test(borders_are_added), cmocka_unit_test(nothing_is_gathered),
                                       cmocka_unit_test(borders_are_parts_of_vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
