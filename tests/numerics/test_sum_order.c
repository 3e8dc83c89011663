/* SPDX-License-Identifier: MIT
 * The order of a sum follows from its shape, whatever is fused with it: sums in kernels of their own (eager) and sums
 * whose operands their kernels compute have the same bits. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/evaluate.h"
#include "harness/graphs.h"
#include "ir/support/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Terms of all magnitudes, so that hardly two orders give the same bits. */
static void fill(tcc_value *v, uint64_t seed) {
    for (int64_t e = 0, count = tcc_type_numel(&v->type); e < count; e++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        v->f[e] = (float)((double)(seed >> 40) / 0x1p23 - 1) * (float)(1 + (seed >> 33) % 1000);
    }
}

static tcc_strbuf run(const tcc_graph *g, bool eager) {
    tcc_strbuf bytes = {0};
    compiled *c = compiled_run_filled(g, &(compiled_options){.eager = eager}, fill);
    for (int i = 0; i < g->outputs.count; i++)
        tcc_strbuf_addn(&bytes, compiled_output(c, i), (size_t)(tcc_type_numel(&g->outputs.data[i].node->type) * 4));
    compiled_destroy(c);
    return bytes;
}

static bool agrees(const char *text) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    assert_non_null(g);
    tcc_strbuf alone = run(g, true), fused = run(g, false);
    bool same = alone.length == fused.length && !memcmp(alone.text, fused.text, alone.length);
    if (!same) print_message("other bits: %s\n", text);
    tcc_strbuf_free(&alone);
    tcc_strbuf_free(&fused);
    tcc_graph_destroy(g);
    return same;
}

static void neighbouring_axes(void **state) {
    (void)state;
    /* Of x, whose axes are summed up, with a factor for each index of one of them. */
    static const struct {
        const char *x, *axes, *kept;
        int rank, dims[4];
    } cases[] = {
        {"17,17", "0, 1", "", 2, {17, 17}},
        {"40,28", "0, 1", "", 2, {40, 28}},
        {"64,32", "0, 1", "", 2, {64, 32}},
        {"3,5,7,3", "1, 2, 3", "3", 4, {3, 5, 7, 3}},
        {"4,3,28,28", "0, 2, 3", "3", 4, {4, 3, 28, 28}},
        {"9,14,14,5", "0, 1, 2", "5", 4, {9, 14, 14, 5}},
        {"6,56,56,24", "0, 1, 2", "24", 4, {6, 56, 56, 24}},
        {"300,301", "0, 1", "", 2, {300, 301}},
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_strbuf text = {0};
        int next = cases[i].rank + 1;
        tcc_strbuf_printf(&text, "graph @g {\n  %%0 = input {name=\"x\"} : f32[%s]\n", cases[i].x);
        for (int d = 0; d < cases[i].rank; d++)
            tcc_strbuf_printf(&text, "  %%%d = input {name=\"v%d\"} : f32[%d]\n", d + 1, d, cases[i].dims[d]);
        for (int d = 0; d < cases[i].rank; d++, next += 3) {
            tcc_strbuf_printf(&text, "  %%%d = broadcast(%%%d) {dims=[%d]} : f32[%s]\n", next, d + 1, d, cases[i].x);
            tcc_strbuf_printf(&text, "  %%%d = mul(%%0, %%%d) : f32[%s]\n", next + 1, next, cases[i].x);
            tcc_strbuf_printf(&text, "  %%%d = reduce_sum(%%%d) {axes=[%s]} : f32[%s]\n", next + 2, next + 1,
                              cases[i].axes, cases[i].kept);
        }
        for (int d = 0; d < cases[i].rank; d++)
            tcc_strbuf_printf(&text, "  output \"y%d\" %%%d\n", d, cases[i].rank + 3 + 3 * d);
        tcc_strbuf_add(&text, "}\n");
        ok = agrees(text.text) && ok;
        tcc_strbuf_free(&text);
    }
    assert_true(ok);
}

/* Sums of short rows have a row for each lane, whatever else is made of them. */
static void rows_of_few(void **state) {
    (void)state;
    bool ok = true;
    for (int length = 1; length <= 6; length++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "graph @g {\n  %%0 = input {name=\"x\"} : f32[3,80,%d]\n  %%1 = input {name=\"y\"} : f32[3,%d,80]\n"
                 "  %%2 = transpose(%%1) {perm=[0, 2, 1]} : f32[3,80,%d]\n"
                 "  %%3 = reduce_sum(%%0) {axes=[2]} : f32[3,80]\n"
                 "  %%4 = broadcast(%%3) {dims=[0, 1]} : f32[3,80,%d]\n  %%5 = mul(%%0, %%4) : f32[3,80,%d]\n"
                 "  %%6 = reduce_sum(%%5) {axes=[2]} : f32[3,80]\n  %%7 = mul(%%5, %%2) : f32[3,80,%d]\n"
                 "  %%8 = reduce_sum(%%7) {axes=[2]} : f32[3,80]\n"
                 "  output \"a\" %%3\n  output \"b\" %%6\n  output \"c\" %%8\n  output \"d\" %%5\n}\n",
                 length, length, length, length, length, length);
        ok = agrees(text) && ok;
    }
    assert_true(ok);
}

/* Sums of rows that lie across memory are made in columns. */
static void rows_across_memory(void **state) {
    (void)state;
    static const int channels[] = {3, 19, 64, 300, 5000};
    bool ok = true;
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        char text[1000];
        const int c = channels[i];
        snprintf(text, sizeof text,
                 "graph @g {\n  %%0 = input {name=\"x\"} : f32[2,%d,80]\n"
                 "  %%1 = transpose(%%0) {perm=[0, 2, 1]} : f32[2,80,%d]\n"
                 "  %%2 = mul(%%1, %%1) : f32[2,80,%d]\n"
                 "  %%3 = reduce_sum(%%2) {axes=[2]} : f32[2,80]\n"
                 "  %%4 = reduce_max(%%1) {axes=[2]} : f32[2,80]\n"
                 "  %%5 = broadcast(%%4) {dims=[0, 1]} : f32[2,80,%d]\n"
                 "  %%6 = sub(%%1, %%5) : f32[2,80,%d]\n"
                 "  %%7 = reduce_sum(%%6) {axes=[2]} : f32[2,80]\n"
                 "  output \"a\" %%3\n  output \"b\" %%7\n}\n",
                 c, c, c, c, c);
        ok = agrees(text) && ok;
    }
    assert_true(ok);
}

/* One kernel makes sums of rows and of columns, whether its loops over rows are one or, as `other` lies otherwise,
 * several or joined. */
static void columns_beside_rows(void **state) {
    (void)state;
    static const struct {
        const char *x, *other, *perm, *rows, *axes;
        int rank, columns;
    } cases[] = {
        {"169,3", "3,169", "1, 0", "169", "0", 2, 3},
        {"600,70", "70,600", "1, 0", "600", "0", 2, 70},
        {"1027,300", "300,1027", "1, 0", "1027", "0", 2, 300},
        {"9001,40", "40,9001", "1, 0", "9001", "0", 2, 40},
        {"300,2000", "2000,300", "1, 0", "300", "0", 2, 2000},
        {"40,7000", "7000,40", "1, 0", "40", "0", 2, 7000},
        {"9000,1030", "1030,9000", "1, 0", "9000", "0", 2, 1030},
        {"13,13,3", "13,3,13", "0, 2, 1", "13,13", "0, 1", 3, 3},
        {"4,256,96", "4,96,256", "0, 2, 1", "4,256", "0, 1", 3, 96},
        {"4,256,1100", "256,4,1100", "1, 0, 2", "4,256", "0, 1", 3, 1100},
        {"2,67,3,16", "2,16,67,3", "0, 2, 3, 1", "2,67,3", "0, 1, 2", 4, 16},
        {"20,14,30,33", "20,33,14,30", "0, 2, 3, 1", "20,14,30", "0, 1, 2", 4, 33},
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *x = cases[i].x, *rows = cases[i].rows;
        char text[1000];
        snprintf(text, sizeof text,
                 "graph @g {\n  %%0 = input {name=\"x\"} : f32[%s]\n  %%1 = input {name=\"other\"} : f32[%s]\n"
                 "  %%2 = transpose(%%1) {perm=[%s]} : f32[%s]\n  %%3 = mul(%%0, %%2) : f32[%s]\n"
                 "  %%4 = reduce_sum(%%3) {axes=[%d]} : f32[%s]\n"
                 "  %%5 = reduce_sum(%%3) {axes=[%s]} : f32[%d]\n  %%6 = reduce_sum(%%0) {axes=[%s]} : f32[%d]\n"
                 "  output \"rows\" %%4\n  output \"columns\" %%5\n  output \"more\" %%6\n}\n",
                 x, cases[i].other, cases[i].perm, x, x, cases[i].rank - 1, rows, cases[i].axes, cases[i].columns,
                 cases[i].axes, cases[i].columns);
        ok = agrees(text) && ok;
    }
    assert_true(ok);
}

/* Short rows are made several at a time, but not where their kernel stores more than a number a row. Rows of all pairs
 * share an operand; some rows are no whole vectors, nor their number whole blocks. */
static void short_rows(void **state) {
    (void)state;
    static const struct {
        int rows, columns, row;
    } cases[] = {{1, 64, 64}, {3, 37, 21}, {7, 16, 3}, {40, 40, 100}, {2, 300, 250}, {5, 17, 256}, {2, 33, 5}};
    bool ok = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1200];
        const int m = cases[i].rows, n = cases[i].columns, d = cases[i].row;
        snprintf(text, sizeof text,
                 "graph @g {\n  %%0 = input {name=\"x\"} : f32[%d,%d]\n  %%1 = input {name=\"y\"} : f32[%d,%d]\n"
                 "  %%2 = broadcast(%%0) {dims=[0, 2]} : f32[%d,%d,%d]\n"
                 "  %%3 = broadcast(%%1) {dims=[1, 2]} : f32[%d,%d,%d]\n"
                 "  %%4 = sub(%%2, %%3) : f32[%d,%d,%d]\n  %%5 = mul(%%4, %%4) : f32[%d,%d,%d]\n"
                 "  %%6 = reduce_sum(%%5) {axes=[2]} : f32[%d,%d]\n  %%7 = sqrt(%%6) : f32[%d,%d]\n"
                 "  %%8 = broadcast(%%7) {dims=[0, 1]} : f32[%d,%d,%d]\n"
                 "  %%9 = mul(%%4, %%8) : f32[%d,%d,%d]\n"
                 "  output \"distance\" %%7\n  output \"way\" %%9\n}\n",
                 m, d, n, d, m, n, d, m, n, d, m, n, d, m, n, d, m, n, m, n, m, n, d, m, n, d);
        ok = agrees(text) && ok;
    }
    assert_true(ok);
}

/* Several vectors of a row at once, where a function is long and there are many: in one run, in several, and by parts;
 * with vectors left that are no such group, with a rest that is no vector, and with both. */
static void rows_of_functions(void **state) {
    (void)state;
    static const char *const x[] = {"512,1024", "32,32768", "1,1048576", "400,1032", "600,1040",
                                    "512,1005", "512,5000", "64,50257",  "2,300001", "1,1048683"};
    bool ok = true;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        char text[1024];
        const int rows = atoi(x[i]);
        snprintf(text, sizeof text,
                 "graph @g {\n  %%0 = input {name=\"x\"} : f32[%s]\n  %%1 = erf(%%0) : f32[%s]\n"
                 "  %%2 = mul(%%0, %%1) : f32[%s]\n  %%3 = reduce_sum(%%2) {axes=[1]} : f32[%d]\n"
                 "  %%4 = reduce_max(%%2) {axes=[1]} : f32[%d]\n  output \"sum\" %%3\n  output \"max\" %%4\n}\n",
                 x[i], x[i], x[i], rows, rows);
        ok = agrees(text) && ok;
    }
    /* And a factor that is one for a group of 64, which parts begin in the midst of. */
    ok = agrees("graph @g {\n  %0 = input {name=\"x\"} : f32[2,300032]\n  %1 = input {name=\"v\"} : f32[4688]\n"
                "  %2 = broadcast(%1) {dims=[1]} : f32[2,4688,64]\n"
                "  %3 = reshape(%2) : f32[2,300032]\n  %4 = erf(%0) : f32[2,300032]\n"
                "  %5 = mul(%4, %3) : f32[2,300032]\n  %6 = reduce_sum(%5) {axes=[1]} : f32[2]\n"
                "  output \"sum\" %6\n}\n") &&
         ok;
    assert_true(ok);
}

/* Runs of a row of 16-bit elements are made several at once, but not those of what is stored as f32: in whole groups of
 * runs, with runs left, with a part of one, and with less than a vector; by parts, too. */
static void runs_at_once(void **state) {
    (void)state;
    static const char *const x[] = {"4,32768", "3,40960", "9,8192",    "2,33000",  "5,70001",
                                    "9,20011", "2,4099",  "1,1048576", "1,300001", "600,1040"};
    bool ok = true;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        char text[1024];
        const int rows = atoi(x[i]);
        snprintf(text, sizeof text,
                 "graph @g {\n  %%0 = input {name=\"x\"} : bf16[%s]\n  %%1 = cast(%%0) : f32[%s]\n"
                 "  %%2 = mul(%%1, %%1) : f32[%s]\n  %%3 = reduce_sum(%%2) {axes=[1]} : f32[%d]\n"
                 "  %%4 = reduce_sum(%%1) {axes=[1]} : f32[%d]\n  output \"a\" %%3\n  output \"b\" %%4\n}\n",
                 x[i], x[i], x[i], rows, rows);
        ok = agrees(text) && ok;
    }
    assert_true(ok);
}

/* The first `count` elements of an output of `text`. */
static tcc_strbuf start_of(const char *text, int output, int count) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    tcc_strbuf bytes = {0};
    assert_non_null(g);
    compiled *c = compiled_run_filled(g, &(compiled_options){0}, fill);
    assert_true(output < g->outputs.count);
    tcc_strbuf_addn(&bytes, compiled_output(c, output), (size_t)count * 4);
    compiled_destroy(c);
    tcc_graph_destroy(g);
    return bytes;
}

/* Rows of `d`: a softmax in place of the product that it is of, beside what follows on its sums alone: a bool, a
 * number that is read at a place of the row's own, and a row's largest number. */
static void print_rows(tcc_strbuf *text, int outer, int rows, int d) {
    char kept[32], all[32];
    snprintf(kept, sizeof kept, "%d,%d", outer, rows);
    snprintf(all, sizeof all, "%d,%d,%d", outer, rows, d);
    tcc_strbuf_printf(text,
                      "graph @g {\n  %%0 = input {name=\"x\"} : f32[%s,4]\n"
                      "  %%1 = input {name=\"w\"} : f32[4,%d]\n"
                      "  %%2 = dot(%%0, %%1) {contract_a=[2], contract_b=[0]} : f32[%s]\n",
                      kept, d, all);
    tcc_strbuf_printf(text,
                      "  %%3 = reduce_max(%%2) {axes=[2]} : f32[%s]\n"
                      "  %%4 = broadcast(%%3) {dims=[0, 1]} : f32[%s]\n"
                      "  %%5 = sub(%%2, %%4) : f32[%s]\n  %%6 = exp(%%5) : f32[%s]\n"
                      "  %%7 = reduce_sum(%%6) {axes=[2]} : f32[%s]\n"
                      "  %%8 = broadcast(%%7) {dims=[0, 1]} : f32[%s]\n  %%9 = div(%%6, %%8) : f32[%s]\n",
                      kept, all, all, all, kept, all, all);
    tcc_strbuf_printf(text,
                      "  %%10 = constant {values=[0]} : f32[%s]\n  %%11 = gt(%%3, %%10) : bool[%s]\n"
                      "  %%12 = broadcast(%%11) {dims=[0, 1]} : bool[%s]\n"
                      "  %%13 = select(%%12, %%9, %%5) : f32[%s]\n"
                      "  %%14 = log(%%7) : f32[%s]\n  %%15 = add(%%14, %%3) : f32[%s]\n"
                      "  output \"soft\" %%13\n  output \"log\" %%15\n"
                      "  %%16 = mul(%%13, %%2) : f32[%s]\n  %%17 = reduce_sum(%%16) {axes=[2]} : f32[%s]\n"
                      "  output \"mean\" %%17\n}\n",
                      kept, kept, all, all, kept, kept, all, kept);
}

/* Short rows of several sweeps take turns in blocks. Each row has the bits that it has alone, in whole blocks and in
 * the last one; of many rows several vectors are made at once, with and without a rest. */
static void rows_in_turn(void **state) {
    (void)state;
    static const struct {
        int outer, rows, row;
    } cases[] = {{1, 16, 2},  {1, 17, 19},  {3, 37, 33}, {2, 147, 19},  {1, 40, 64},
                 {5, 16, 49}, {1, 31, 100}, {2, 33, 3},  {1, 9001, 64}, {1, 2003, 265}};
    enum { FEW = 3 };
    bool ok = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_strbuf all = {0}, few = {0};
        const int d = cases[i].row;
        print_rows(&all, cases[i].outer, cases[i].rows, d);
        print_rows(&few, 1, FEW, d);
        ok = agrees(all.text) && ok;
        for (int output = 0; output < 3; output++) {
            const int count = output ? FEW : FEW * d;
            tcc_strbuf a = start_of(all.text, output, count), b = start_of(few.text, output, count);
            if (memcmp(a.text, b.text, a.length)) ok = false, print_message("rows alone differ: %s\n", all.text);
            tcc_strbuf_free(&a);
            tcc_strbuf_free(&b);
        }
        tcc_strbuf_free(&all);
        tcc_strbuf_free(&few);
    }
    assert_true(ok);
}

/* A mean is made as it would be beside its M2, also where it is computed without that. */
static void means(void **state) {
    (void)state;
    static const struct {
        const char *x, *axes, *kept;
    } cases[] = {
        {"33,11", "0", "11"},       {"300,301", "0", "301"}, {"300,301", "1", "300"},
        {"7,300,5", "0, 2", "300"}, {"2,70001", "1", "2"},   {"70001,2", "0", "2"},
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "graph @g {\n  %%0 = input {name=\"x\"} : f32[%s]\n"
                 "  %%1 = reduce_mean(%%0) {axes=[%s]} : f32[%s]\n"
                 "  %%2 = reduce_m2(%%0) {axes=[%s]} : f32[%s]\n"
                 "  output \"mean\" %%1\n  output \"m2\" %%2\n}\n",
                 cases[i].x, cases[i].axes, cases[i].kept, cases[i].axes, cases[i].kept);
        ok = agrees(text) && ok;
    }
    assert_true(ok);
}

/* Maxima have loops of their own, also in parts: each element is looked at, whatever loops there are. The largest
 * product lies towards the end of each axis in turn. */
static void maxima(void **state) {
    (void)state;
    static const struct {
        const char *x;
        int rank;
    } cases[] = {{"256,160,9", 3}, {"3,4,30000", 3}, {"5,3,9000,7", 4}, {"7,30011", 2}, {"70001,3", 2}};
    static const char *const axes[] = {"", "0", "0, 1", "0, 1, 2", "0, 1, 2, 3"};
    bool ok = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_strbuf text = {0};
        tcc_strbuf_printf(&text, "graph @g {\n  %%0 = input {name=\"x\"} : f32[%s]\n", cases[i].x);
        for (int d = 0, next = 1; d < cases[i].rank; d++, next += 4)
            tcc_strbuf_printf(&text,
                              "  %%%d = iota {axis=%d} : i32[%s]\n  %%%d = cast(%%%d) : f32[%s]\n"
                              "  %%%d = mul(%%0, %%%d) : f32[%s]\n  %%%d = reduce_max(%%%d) {axes=[%s]} : f32[]\n",
                              next, d, cases[i].x, next + 1, next, cases[i].x, next + 2, next + 1, cases[i].x, next + 3,
                              next + 2, axes[cases[i].rank]);
        for (int d = 0; d < cases[i].rank; d++) tcc_strbuf_printf(&text, "  output \"y%d\" %%%d\n", d, 4 * d + 4);
        tcc_strbuf_add(&text, "}\n");
        ok = agrees(text.text) && ok;
        tcc_strbuf_free(&text);
    }
    assert_true(ok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbouring_axes),   cmocka_unit_test(rows_of_few), cmocka_unit_test(rows_across_memory),
        cmocka_unit_test(columns_beside_rows), cmocka_unit_test(short_rows),  cmocka_unit_test(rows_in_turn),
        cmocka_unit_test(rows_of_functions),   cmocka_unit_test(means),       cmocka_unit_test(maxima),
        cmocka_unit_test(runs_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
