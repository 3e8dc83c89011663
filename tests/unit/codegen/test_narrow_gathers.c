/* SPDX-License-Identifier: MIT
 * Elements of 8 and 16 bits that are read at computed places, or a stride apart: from rows that begin at any element,
 * by vectors and what is left of them. And choices between such elements. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include "codegen/emit/emitter.h"

#include <stdio.h>
#include <string.h>

static void elements_of_all_sizes(void **state) {
    (void)state;
    static const char *const types[] = {"bf16", "f16", "u8", "bool", "f32"};
    enum { ROWS = 5 };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int width = 24; width < 28; width++) /* of rows, which begin at multiples of it */
            for (int count = 1; count <= 70; count += 23) {
                char text[1024];
                tcc_diag diag = {0};
                snprintf(text, sizeof text,
                         "graph @take {\n"
                         "  %%0 = input {name=\"x\"} : %s[%d,%d]\n"
                         "  %%1 = input {name=\"at\"} : i32[%d,%d]\n"
                         "  %%2 = constant {values=[1]} : i32[%d,%d]\n"
                         "  %%3 = add(%%1, %%2) : i32[%d,%d]\n"
                         "  %%4 = take_along(%%0, %%3) {axis=1} : %s[%d,%d]\n"
                         "  output \"o\" %%4\n}\n",
                         types[t], ROWS, width, ROWS, count, ROWS, count, ROWS, count, types[t], ROWS, count);
                tcc_graph *g = parse_graph(text, &diag);
                check_compiled(g, &(compiled_options){.seed = t + 1, .limit = width - 2, .exact = true});
                tcc_graph_destroy(g);
                tcc_diag_clear(&diag);
            }
}

static tcc_graph *slice(const char *type, int width, int start, int stride, tcc_diag *diag) {
    enum { ROWS = 3 };
    const int count = (width - start + stride - 1) / stride;
    char text[512];
    snprintf(text, sizeof text,
             "graph @rows {\n"
             "  %%0 = input {name=\"x\"} : %s[%d,%d]\n"
             "  %%1 = slice(%%0) {start=[0, %d], limit=[%d, %d], stride=[1, %d]} : %s[%d,%d]\n"
             "  output \"o\" %%1\n}\n",
             type, ROWS, width, start, ROWS, width, stride, type, ROWS, count);
    return parse_graph(text, diag);
}

/* The last row ends with the memory: nothing behind its last element is read. */
static void elements_a_stride_apart(void **state) {
    (void)state;
    static const char *const types[] = {"bf16", "f16", "u8", "bool", "f32"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int stride = 2; stride <= 9; stride++)
            for (int width = 5; width < 150; width += 29) {
                tcc_diag diag = {0};
                tcc_graph *g = slice(types[t], width, width % 3, stride, &diag);
                check_compiled(g, &(compiled_options){.seed = t + 1, .exact = true});
                tcc_graph_destroy(g);
                tcc_diag_clear(&diag);
            }
}

/* Without loads under a mask: what is left of a row of whole vectors has masks that are constants, so nothing goes from
 * bit to bit. */
static void rests_of_rows_have_constant_masks(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v3");
    for (int stride = 2; stride <= 4; stride++) {
        tcc_diag diag = {0};
        tcc_graph *g = slice("bf16", 100 * stride + 1, 1, stride, &diag);
        assert_int_equal(count_in_code(g, "x86-64-v3", "call i64 @llvm.cttz.i64"), 0);
        tcc_graph_destroy(g);
    }
}

static tcc_graph *rows_at(const char *type, int width, tcc_diag *diag) {
    char text[512];
    snprintf(text, sizeof text,
             "graph @rows {\n"
             "  %%0 = input {name=\"x\"} : %s[6,%d]\n"
             "  %%1 = input {name=\"at\"} : i32[23]\n"
             "  %%2 = take(%%0, %%1) {axis=0} : %s[23,%d]\n"
             "  output \"o\" %%2\n}\n",
             type, width, type, width);
    return parse_graph(text, diag);
}

/* Whole rows at computed places, some of which are not there: all lanes of a vector or none, so nothing goes from bit
 * to bit. */
static void rows_are_loaded_or_not(void **state) {
    (void)state;
    static const char *const types[] = {"bf16", "f16", "u8", "bool", "f32", "f64"};
    static const int widths[] = {1, 31, 64, 256, 300};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            tcc_diag diag = {0};
            tcc_graph *g = rows_at(types[t], widths[w], &diag);
            check_compiled(g, &(compiled_options){.seed = t + 1, .limit = 7, .exact = true});
            if (ON_X86_64 && widths[w] > 1)
                assert_int_equal(count_in_code(g, "x86-64-v3", "call i64 @llvm.cttz.i64"), 0);
            tcc_graph_destroy(g);
            tcc_diag_clear(&diag);
        }
}

/* Up to eight elements from lane to lane are loaded with what lies between them where any mask is cheap. */
static void wide_vectors_gather_less(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64");
    for (int stride = 2; stride <= 9; stride++) {
        tcc_diag diag = {0};
        tcc_graph *g = slice("f32", 100 * stride + 1, 1, stride, &diag);
        assert_int_equal(count_in_code(g, "x86-64-v4", "@llvm.masked.gather") > 0, stride > 8);
        assert_int_equal(count_in_code(g, "x86-64-v3", "@llvm.masked.gather") > 0, stride > 4);
        tcc_graph_destroy(g);
    }
}

/* Of a long row with little to do, whole vectors have no mask; of a short one, or one of whole vectors, there is one
 * kind of vector. */
static void masks_are_of_the_last_vector(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v4");
    static const struct {
        int length, masked, plain;
    } rows[] = {{1000, 1, 1}, {100, 1, 0}, {1024, 0, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = slice("bf16", rows[i].length + 1, 1, 1, &diag);
        assert_int_equal(count_in_code(g, "x86-64-v4", "call void @llvm.masked.store"), rows[i].masked);
        assert_int_equal(count_in_code(g, "x86-64-v4", " store <64 x i16>"), rows[i].plain);
        check_compiled(g, &(compiled_options){.exact = true});
        tcc_graph_destroy(g);
    }
}

/* A choice between elements, one of a row for all, or a number, and a change of signs: made of their 16 bits, unless it
 * is computed with. */
static void choices_are_of_bits(void **state) {
    (void)state;
    static const struct {
        const char *nodes;
        bool floats;
    } cases[] = {{"  %4 = select(%0, %1, %2) : bf16[3,1000]\n", false},
                 {"  %4 = select(%0, %1, %3) : bf16[3,1000]\n", false},
                 {"  %5 = constant {values=[-3]} : bf16[3,1000]\n  %6 = select(%0, %3, %5) : bf16[3,1000]\n"
                  "  %4 = select(%0, %6, %1) : bf16[3,1000]\n",
                  false},
                 {"  %4 = neg(%1) : bf16[3,1000]\n", false},
                 {"  %4 = abs(%1) : bf16[3,1000]\n", false},
                 {"  %5 = abs(%1) : bf16[3,1000]\n  %6 = neg(%5) : bf16[3,1000]\n"
                  "  %4 = select(%0, %6, %2) : bf16[3,1000]\n",
                  false},
                 {"  %5 = select(%0, %1, %2) : bf16[3,1000]\n  %4 = mul(%5, %3) : bf16[3,1000]\n", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        tcc_diag diag = {0};
        snprintf(text, sizeof text,
                 "graph @rows {\n"
                 "  %%0 = input {name=\"c\"} : bool[3,1000]\n"
                 "  %%1 = input {name=\"a\"} : bf16[3,1000]\n"
                 "  %%2 = input {name=\"b\"} : bf16[3,1000]\n"
                 "  %%7 = input {name=\"of_rows\"} : bf16[3]\n"
                 "  %%3 = broadcast(%%7) {dims=[0]} : bf16[3,1000]\n"
                 "%s  output \"o\" %%4\n}\n",
                 cases[i].nodes);
        tcc_graph *g = parse_graph(text, &diag);
        check_compiled(g, &(compiled_options){.exact = true});
        if (ON_X86_64) assert_int_equal(count_in_code(g, "x86-64-v4", " = trunc <") > 0, cases[i].floats);
        tcc_graph_destroy(g);
    }
}

/* One for each 16 bytes at AVX2; what copies them stores the 16 bits, and LLVM drops the shuffle. */
static void halves_are_widened_by_a_shuffle(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v3");
    static const char *const ops[] = {"add(%0, %0)", "slice(%0) {start=[0, 1], limit=[3, 1025], stride=[1, 1]}"};
    for (int copied = 0; copied < 2; copied++) {
        char text[256];
        tcc_diag diag = {0};
        snprintf(text, sizeof text,
                 "graph @rows {\n  %%0 = input {name=\"x\"} : bf16[3,%d]\n  %%1 = %s : bf16[3,1024]\n"
                 "  output \"o\" %%1\n}\n",
                 copied ? 1025 : 1024, ops[copied]);
        tcc_graph *g = parse_graph(text, &diag);
        assert_true(count_in_code(g, "x86-64-v3", "call <32 x i8> @llvm.x86.avx2.pshuf.b") > 0);
        assert_int_equal(count_in_code(g, "x86-64-v3", " = trunc <") > 0, !copied);
        check_compiled(g, &(compiled_options){.exact = true});
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(elements_of_all_sizes),
                                       cmocka_unit_test(elements_a_stride_apart),
                                       cmocka_unit_test(rests_of_rows_have_constant_masks),
                                       cmocka_unit_test(rows_are_loaded_or_not),
                                       cmocka_unit_test(masks_are_of_the_last_vector),
                                       cmocka_unit_test(choices_are_of_bits),
                                       cmocka_unit_test(halves_are_widened_by_a_shuffle),
                                       cmocka_unit_test(wide_vectors_gather_less)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
