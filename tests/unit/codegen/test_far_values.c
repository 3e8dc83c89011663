/* SPDX-License-Identifier: MIT
 * Values that have left the caches before anyone reads them are stored past these, and they alone; and what is stored
 * so is what would be stored otherwise. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include <stdio.h>

static int count_past_caches(const char *text) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    const int count = count_in_code(g, "x86-64-v3", "!nontemporal");
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
    return count;
}

/* Of a program that moves more than a cache holds. */
static void large_results_alone(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v3");
    static const char negated[] = "graph @rows {\n"
                                  "  %%0 = input {name=\"x\"} : f32[%d]\n"
                                  "  %%1 = neg(%%0) : f32[%d]\n"
                                  "  output \"o\" %%1\n}\n";
    char text[512];
    snprintf(text, sizeof text, negated, 4 << 20, 4 << 20);
    assert_int_equal(count_past_caches(text), 1);
    snprintf(text, sizeof text, negated, 3 << 20, 3 << 20);
    assert_int_equal(count_past_caches(text), 0);
}

/* Rows that are no whole lines: what one row begins of a line, the next one ends. */
static void whole_lines_alone(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v3");
    for (int width = 1000; width <= 1024; width += 24) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph @rows {\n"
                 "  %%0 = input {name=\"x\"} : f32[5000,%d]\n"
                 "  %%1 = flip(%%0) {axes=[1]} : f32[5000,%d]\n"
                 "  output \"o\" %%1\n}\n",
                 width, width);
        assert_int_equal(count_past_caches(text) > 0, width == 1024);
    }
}

static const char transposed[] = "graph @rows {\n"
                                 "  %%0 = input {name=\"x\"} : %s[%d,%d]\n"
                                 "  %%1 = transpose(%%0) {perm=[1, 0]} : %s[%d,%d]\n"
                                 "  output \"o\" %%1\n}\n";

/* Squares are transposed: their rows are whole lines where a row of the result is such. What the next squares read is
 * fetched before. */
static void transposed_ones_too(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v3");
    static const struct {
        int rows, columns;
        bool past_caches, fetched;
    } cases[] = {{2048, 2064, true, true}, {2050, 2048, false, true}, {1024, 1024, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text, transposed, "f32", cases[i].rows, cases[i].columns, "f32", cases[i].columns,
                 cases[i].rows);
        assert_int_equal(count_past_caches(text) > 0, cases[i].past_caches);
        tcc_diag diag = {0};
        tcc_graph *g = parse_graph(text, &diag);
        assert_int_equal(count_in_code(g, "x86-64-v3", "call void @llvm.prefetch") > 0, cases[i].fetched);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

static void not_what_the_next_kernel_reads(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v3");
    assert_int_equal(count_past_caches("graph @rows {\n"
                                       "  %0 = input {name=\"x\"} : f32[4096,1024]\n"
                                       "  %1 = input {name=\"y\"} : f32[1024,16]\n"
                                       "  %2 = softmax(%0) {axis=1} : f32[4096,1024]\n"
                                       "  %3 = dot(%2, %1) {contract_a=[1], contract_b=[0]} : f32[4096,16]\n"
                                       "  output \"s\" %2\n"
                                       "  output \"o\" %3\n}\n"),
                     0);
}

/* A state that is written where it is read. */
static void not_what_is_overwritten(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v3");
    assert_int_equal(count_past_caches("graph @rows {\n"
                                       "  %0 = input {name=\"w\", role=param} : f32[4096,1024]\n"
                                       "  %1 = neg(%0) : f32[4096,1024]\n"
                                       "  output \"w\" %1 alias %0\n}\n"),
                     0);
}

/* The base of a scatter, whose updates touch a few of its rows, or nearly each line of it. */
static void not_what_updates_touch(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v3");
    assert_int_equal(count_past_caches("graph @rows {\n"
                                       "  %0 = input {name=\"b\"} : f32[32000,512]\n"
                                       "  %1 = input {name=\"i\"} : i32[4096]\n"
                                       "  %2 = input {name=\"u\"} : f32[4096,512]\n"
                                       "  %3 = scatter_add(%0, %1, %2) {axis=0} : f32[32000,512]\n"
                                       "  output \"o\" %3\n}\n"),
                     1);
    assert_int_equal(count_past_caches("graph @rows {\n"
                                       "  %0 = input {name=\"b\"} : f32[16000,1024]\n"
                                       "  %1 = input {name=\"i\"} : i32[16000,128]\n"
                                       "  %2 = input {name=\"u\"} : f32[16000,128]\n"
                                       "  %3 = scatter_add_along(%0, %1, %2) {axis=1} : f32[16000,1024]\n"
                                       "  output \"o\" %3\n}\n"),
                     0);
}

static void check_exact(const char *text, uint64_t seed) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    check_compiled(g, &(compiled_options){.seed = seed, .exact = true});
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

/* Of rows that are whole vectors, and of others: rows backwards, parts of a concatenation, which begin at lines or
 * elsewhere, and squares. One graph has all of a type: it moves more than a cache holds, and each result is no larger
 * than it must be. */
static void print_rows(FILE *out, const char *type, int rows, int width, int nth) {
    enum { VALUES = 7 };
    const int first = VALUES * nth, tall = 2 * rows + nth;
    fprintf(out, "  %%%d = input {name=\"x%d\"} : %s[%d,%d]\n", first, nth, type, rows, width);
    fprintf(out, "  %%%d = input {name=\"y%d\"} : %s[%d,%d]\n", first + 1, nth, type, rows, width);
    fprintf(out, "  %%%d = input {name=\"z%d\"} : %s[%d,%d]\n", first + 2, nth, type, tall, width);
    fprintf(out, "  %%%d = flip(%%%d) {axes=[1]} : %s[%d,%d]\n", first + 3, first, type, rows, width);
    fprintf(out, "  %%%d = neg(%%%d) : %s[%d,%d]\n", first + 4, first + 1, type, rows, width);
    fprintf(out, "  %%%d = concat(%%%d, %%%d) {axis=1} : %s[%d,%d]\n", first + 5, first, first + 1, type, rows,
            2 * width);
    fprintf(out, "  %%%d = transpose(%%%d) {perm=[1, 0]} : %s[%d,%d]\n", first + 6, first + 2, type, width, tall);
    for (int i = 3; i < VALUES; i++) fprintf(out, "  output \"o%d\" %%%d\n", first + i, first + i);
}

static void the_same_values(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16", "f16", "i32", "f64", "i64"};
    static const int widths[] = {1024, 1000, 1017};
    char text[4096];
    for (int t = 0; t < 6; t++) {
        FILE *out = fmemopen(text, sizeof text, "w");
        assert_non_null(out);
        fprintf(out, "graph @rows {\n");
        for (int w = 0; w < 3; w++) print_rows(out, types[t], 160, widths[w] * (t == 1 || t == 2 ? 4 : 2), w);
        fprintf(out, "}\n");
        assert_int_equal(fclose(out), 0);
        if (ON_X86_64) assert_true(count_past_caches(text) >= 9); /* of each row that has whole lines */
        check_exact(text, (uint64_t)t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_results_alone),     cmocka_unit_test(whole_lines_alone),
        cmocka_unit_test(transposed_ones_too),     cmocka_unit_test(not_what_the_next_kernel_reads),
        cmocka_unit_test(not_what_is_overwritten), cmocka_unit_test(not_what_updates_touch),
        cmocka_unit_test(the_same_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
