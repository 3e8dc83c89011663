/* SPDX-License-Identifier: MIT
 * A group norm's row has several channels, whose weights are read at a quotient of the position. Where no vector has
 * positions of two channels, a weight is one load for all lanes; elsewhere it is gathered, and the values are right
 * in both. */
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include "codegen/emit/emitter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A group norm of `groups` groups of two channels of `points`. */
static tcc_graph *group_norm(int groups, int points, tcc_diag *diag) {
    char text[512];
    const int channels = 2 * groups;
    snprintf(text, sizeof text,
             "graph @rows {\n"
             "  %%0 = input {name=\"x\"} : f32[2,%d,%d]\n"
             "  %%1 = input {name=\"w\"} : f32[%d]\n"
             "  %%2 = input {name=\"b\"} : f32[%d]\n"
             "  %%3 = group_norm(%%0, %%1, %%2) {eps=0x1p-10, axis=1, groups=%d} : f32[2,%d,%d]\n"
             "  output \"o\" %%3\n}\n",
             channels, points, channels, channels, groups, channels, points);
    return parse_graph(text, diag);
}

static bool gathers(const tcc_graph *g, const tcc_llvm_target *target) {
    tcc_context cx = {0};
    tcc_graph *graph;
    tcc_program *p;
    compiled_build(g, &(compiled_options){.simplify = true, .dump_dir = "."}, target, &cx, &graph, &p);
    FILE *f = fopen("./rows.module00.ll", "r");
    char line[4096];
    bool found = false;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) found = found || strstr(line, "call <16 x float> @llvm.masked.gather");
    fclose(f);
    tcc_program_destroy(p);
    tcc_graph_destroy(graph);
    return found;
}

static void weights_of_channels(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at code for x86-64-v4");
    /* the second and third have a channel's end inside of a vector */
    static const struct {
        int points;
        bool gathers;
    } cases[] = {{3136, false}, {3140, true}, {3137, true}, {1568, false}};
    tcc_llvm_target target;
    tcc_diag diag = {0};
    assert_int_equal(tcc_llvm_target_host("x86-64-v4", &diag, &target), TCC_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_graph *g = group_norm(6, cases[i].points, &diag);
        if (gathers(g, &target) != cases[i].gathers)
            fail_msg("channels of %d: weights are %s", cases[i].points, cases[i].gathers ? "no gather" : "gathered");
        tcc_graph_destroy(g);
    }
    tcc_llvm_target_clear(&target);
}

static void values_are_right(void **state) {
    (void)state;
    static const int points[] = {3136, 3140, 3137, 3152, 33, 48};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        for (int groups = 1; groups <= 7; groups += 3) { /* few rows are summed up in parts */
            tcc_diag diag = {0};
            tcc_graph *g = group_norm(groups, points[i], &diag);
            check_compiled(g, &(compiled_options){.simplify = true, .seed = i, .tolerance = 1e-4});
            tcc_graph_destroy(g);
            tcc_diag_clear(&diag);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_of_channels), cmocka_unit_test(values_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
