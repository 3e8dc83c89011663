/* SPDX-License-Identifier: MIT
 * scatter_add on the CPU: indices that repeat, and sums of bf16, which are f32 until they are rounded. */
#include "harness/check.h"
#include "harness/evaluate.h"
#include "harness/graphs.h"
#include "harness/scatter_cases.h"

#include <math.h>
#include <string.h>

static void repeated_indices(void **state) {
    (void)state;
    scatter_at_repeated_indices(check_compiled);
}

/* What the gradient of a table in bf16 is made of: sums in f32, rounded. */
static const char sums[] = "graph @g {\n"
                           "  %0 = input {name=\"i\"} : i32[3,67]\n"
                           "  %1 = input {name=\"u\"} : bf16[3,67,21]\n"
                           "  %2 = input {name=\"base\"} : bf16[70,21]\n"
                           "  %3 = cast(%1) : f32[3,67,21]\n"
                           "  %4 = cast(%2) : f32[70,21]\n"
                           "  %5 = constant {values=[0]} : f32[70,21]\n"
                           "  %6 = scatter_add(%4, %0, %3) : f32[70,21]\n"
                           "  %7 = scatter_add(%5, %0, %3) : f32[70,21]\n"
                           "  %8 = cast(%6) : bf16[70,21]\n"
                           "  %9 = cast(%7) : bf16[70,21]\n"
                           "  output \"onto\" %8\n"
                           "  output \"alone\" %9\n"
                           "}\n";

/* Indices on both sides of the range, most of them of few rows; numbers beside which small ones vanish until they
 * cancel, so that hardly two orders give the same bits, and some that are none. */
static void fill(tcc_value *v, uint64_t seed) {
    for (int64_t e = 0, count = tcc_type_numel(&v->type); e < count; e++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int pick = (int)(seed >> 33 & 255);
        if (v->type.dtype == TCC_I32) v->i[e] = pick < 200 ? pick % 9 : pick - 190 - (pick > 250) * 400;
        else if (pick < 2) v->f[e] = pick ? NAN : -INFINITY;
        else if (pick % 4 == 0) v->f[e] = pick % 8 ? 0x1p30f : -0x1p30f;
        else v->f[e] = (float)(pick - 128);
    }
}

static int count_wide(const tcc_graph *g) {
    int count = 0;
    for (int i = 0; i < g->nodes.count; i++)
        count += g->nodes.data[i]->op == TCC_OP_SCATTER_ADD && g->nodes.data[i]->type.dtype == TCC_F32;
    return count;
}

/* They need no table in f32, and have the bits of one. */
static void narrow_sums(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(sums, &diag);
    compiled *wide = compiled_run_filled(g, &(compiled_options){0}, fill),
             *narrow = compiled_run_filled(g, &(compiled_options){.simplify = true}, fill);
    assert_int_equal(count_wide(wide->graph), 2);
    assert_int_equal(count_wide(narrow->graph), 0);
    for (int i = 0; i < g->outputs.count; i++)
        assert_memory_equal(compiled_output(wide, i), compiled_output(narrow, i),
                            (size_t)tcc_type_bytes(&g->outputs.data[i].node->type));
    compiled_destroy(wide);
    compiled_destroy(narrow);
    tcc_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(repeated_indices), cmocka_unit_test(narrow_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
