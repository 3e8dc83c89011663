/* SPDX-License-Identifier: MIT
 * Elements of 8 and 16 bits that are read at computed places, or a stride apart: from rows that begin at any element,
 * by vectors and what is left of them. */
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
        for (int stride = 2; stride <= 5; stride++)
            for (int width = 5; width < 150; width += 29) {
                tcc_diag diag = {0};
                tcc_graph *g = slice(types[t], width, width % 3, stride, &diag);
                check_compiled(g, &(compiled_options){.seed = t + 1, .exact = true});
                tcc_graph_destroy(g);
                tcc_diag_clear(&diag);
            }
}

/* Without loads under a mask: one question about the lanes of a load, not one for each vector of what lies between
 * them. A load asks, and so does a store; what is not whole goes from bit to bit. */
static void whole_vectors_are_looked_for(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v3");
    for (int stride = 2; stride <= 4; stride++) {
        tcc_llvm_target target;
        tcc_context cx = {0};
        tcc_diag diag = {0};
        tcc_program *program;
        tcc_graph *g = slice("bf16", 100 * stride + 1, 1, stride, &diag), *graph;
        char line[4096];
        int questions = 0;
        assert_int_equal(tcc_llvm_target_host("x86-64-v3", &diag, &target), TCC_OK);
        compiled_build(g, &(compiled_options){.dump_dir = "."}, &target, &cx, &graph, &program);
        FILE *f = fopen("./rows.module00.ll", "r");
        assert_non_null(f);
        while (fgets(line, sizeof line, f)) questions += strstr(line, "call i64 @llvm.cttz.i64") != NULL;
        fclose(f);
        assert_int_equal(questions, 2);
        tcc_program_destroy(program);
        tcc_graph_destroy(graph);
        tcc_graph_destroy(g);
        tcc_llvm_target_clear(&target);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(elements_of_all_sizes),
                                       cmocka_unit_test(elements_a_stride_apart),
                                       cmocka_unit_test(whole_vectors_are_looked_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
