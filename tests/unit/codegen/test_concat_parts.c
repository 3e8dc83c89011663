/* SPDX-License-Identifier: MIT
 * Rows that are concatenations of several parts: right for parts of all extents, and each vector reads those parts
 * alone that it is of. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include "codegen/emit/emitter.h"
#include "ir/support/strbuf.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 7 };

/* Part k has `extent` columns, and `more` for each part before it. A concatenation alone is a copy of each part. */
static tcc_graph *concat(const char *type, int parts, int extent, int more, tcc_diag *diag) {
    tcc_strbuf text = {0}, list = {0};
    int columns = 0;
    tcc_strbuf_add(&text, "graph @rows {\n");
    for (int k = 0; k < parts; k++) {
        tcc_strbuf_printf(&text, "  %%%d = input {name=\"x%d\"} : %s[%d,%d]\n", k, k, type, ROWS, extent + k * more);
        tcc_strbuf_printf(&list, "%s%%%d", k ? ", " : "", k);
        columns += extent + k * more;
    }
    tcc_strbuf_printf(&text,
                      "  %%%d = concat(%s) {axis=1} : %s[%d,%d]\n  %%%d = add(%%%d, %%%d) : %s[%d,%d]\n"
                      "  output \"o\" %%%d\n}\n",
                      parts, list.text, type, ROWS, columns, parts + 1, parts, parts, type, ROWS, columns, parts + 1);
    tcc_graph *g = parse_graph(text.text, diag);
    tcc_strbuf_free(&text);
    tcc_strbuf_free(&list);
    return g;
}

static void parts_of_all_extents(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16", "i32", "f64"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int parts = 3; parts <= 12; parts += 3)
            for (int extent = 1; extent <= 33; extent += 16)
                for (int more = 0; more <= 3; more += 3) {
                    tcc_diag diag = {0};
                    tcc_graph *g = concat(types[t], parts, extent, more, &diag);
                    check_compiled(g, &(compiled_options){.seed = t + 1, .exact = true});
                    tcc_graph_destroy(g);
                }
}

/* Loads of a row in the code of a graph called @rows. */
static int count_loads(const tcc_graph *g) {
    tcc_llvm_target target;
    tcc_context cx = {0};
    tcc_diag diag = {0};
    tcc_program *program;
    tcc_graph *graph;
    char line[4096];
    int count = 0;
    assert_int_equal(tcc_llvm_target_host("x86-64-v4", &diag, &target), TCC_OK);
    compiled_build(g, &(compiled_options){.dump_dir = "."}, &target, &cx, &graph, &program);
    FILE *f = fopen("./rows.module00.s", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) count += strstr(line, "{z}") && strchr(line, '(');
    fclose(f);
    tcc_program_destroy(program);
    tcc_graph_destroy(graph);
    tcc_llvm_target_clear(&target);
    return count;
}

/* A loop over the vectors would have a load of each part, and no more of them. */
static void a_vector_reads_its_parts(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v4");
    enum { PARTS = 10, EXTENT = 19, VECTORS = (PARTS * EXTENT + 15) / 16 };
    tcc_diag diag = {0};
    tcc_graph *g = concat("f32", PARTS, EXTENT, 0, &diag);
    const int loads = count_loads(g);
    if (loads < VECTORS || loads > VECTORS + PARTS) fail_msg("%d masked loads of %d vectors", loads, VECTORS);
    tcc_graph_destroy(g);
}

/* An image that is padded with what it has: `before` and `behind` columns, and if `rows` a row above and below. */
static tcc_graph *border(const char *type, int columns, int before, int behind, bool rows, tcc_diag *diag) {
    enum { IMAGES = 5, HEIGHT = 6 };
    const int height = rows ? HEIGHT + 2 : HEIGHT, width = before + columns + behind;
    char text[2048];
    int n = snprintf(text, sizeof text, "graph @border {\n  %%0 = input {name=\"x\"} : %s[%d,%d,%d]\n", type, IMAGES,
                     HEIGHT, columns);
    if (rows)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "  %%1 = slice(%%0) {start=[0, 1, 0], limit=[%d, 2, %d], stride=[1, 1, 1]} : %s[%d,1,%d]\n"
                      "  %%2 = slice(%%0) {start=[0, 4, 0], limit=[%d, 5, %d], stride=[1, 1, 1]} : %s[%d,1,%d]\n"
                      "  %%3 = concat(%%1, %%0, %%2) {axis=1} : %s[%d,%d,%d]\n",
                      IMAGES, columns, type, IMAGES, columns, IMAGES, columns, type, IMAGES, columns, type, IMAGES,
                      height, columns);
    const int of = rows ? 3 : 0;
    snprintf(text + n, sizeof text - (size_t)n,
             "  %%4 = slice(%%%d) {start=[0, 0, 1], limit=[%d, %d, %d], stride=[1, 1, 1]} : %s[%d,%d,%d]\n"
             "  %%5 = slice(%%%d) {start=[0, 0, %d], limit=[%d, %d, %d], stride=[1, 1, 1]} : %s[%d,%d,%d]\n"
             "  %%6 = concat(%%4, %%%d, %%5) {axis=2} : %s[%d,%d,%d]\n  output \"y\" %%6\n}\n",
             of, IMAGES, height, 1 + before, type, IMAGES, height, before, of, columns - 1 - behind, IMAGES, height,
             columns - 1, type, IMAGES, height, behind, of, type, IMAGES, height, width);
    return parse_graph(text, diag);
}

static void borders_of_rows(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16", "i32", "f64", "bool"};
    static const int columns[] = {5, 8, 16, 17, 56, 63, 200};
    for (int t = 0; t < 5; t++)
        for (int c = 0; c < 7; c++)
            for (int before = 1; before <= 3; before++)
                for (int rows = 0; rows < 2; rows++) {
                    tcc_diag diag = {0};
                    tcc_graph *g = border(types[t], columns[c], before, 4 - before, rows, &diag);
                    assert_non_null(g);
                    check_compiled(g, &(compiled_options){.seed = 3, .exact = true});
                    tcc_graph_destroy(g);
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_of_all_extents), cmocka_unit_test(borders_of_rows),
                                       cmocka_unit_test(a_vector_reads_its_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
