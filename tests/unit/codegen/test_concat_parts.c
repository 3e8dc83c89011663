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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_of_all_extents),
                                       cmocka_unit_test(a_vector_reads_its_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
