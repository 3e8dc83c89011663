/* SPDX-License-Identifier: MIT
 * Every pass on random graphs: the result verifies, means the same, and the memory plan holds. */
#include "harness/check.h"
#include "harness/plan_check.h"
#include "harness/passes.h"

#include "ir/eval.h"
#include "harness/generator.h"
#include "passes/memory/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 150 };

/* Outputs of the interpreter on the generator's inputs; the caller frees them with drop. */
static tcc_value *evaluate(const tcc_graph *g, const tcc_graph *made, uint64_t seed) {
    tcc_value *inputs = calloc((size_t)g->inputs.count + 1, sizeof *inputs),
              *outputs = calloc((size_t)g->outputs.count + 1, sizeof *outputs);
    for (int i = 0; i < g->inputs.count; i++) {
        void *packed = malloc((size_t)tcc_type_bytes(&g->inputs.data[i]->type));
        tcc_random_input(made, i, seed, packed);
        assert_ok(tcc_value_create(&g->inputs.data[i]->type, &inputs[i], g->diag), g->diag);
        tcc_value_load(&inputs[i], packed);
        free(packed);
    }
    assert_ok(tcc_graph_eval(g, inputs, outputs, g->diag), g->diag);
    for (int i = 0; i < g->inputs.count; i++) tcc_value_free(&inputs[i]);
    free(inputs);
    return outputs;
}

static void drop(tcc_value *values, int count) {
    for (int i = 0; i < count; i++) tcc_value_free(&values[i]);
    free(values);
}

static void compare(const tcc_graph *g, const tcc_value *a, const tcc_value *b, uint64_t seed, const char *passes) {
    for (int i = 0; i < g->outputs.count; i++)
        for (int64_t e = 0; e < tcc_type_numel(&a[i].type); e++) {
            bool is_float = tcc_dtype_is_float(a[i].type.dtype);
            double x = is_float ? a[i].f[e] : (double)a[i].i[e], y = is_float ? b[i].f[e] : (double)b[i].i[e];
            if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= 1e-5 * (1 + fabs(x))) continue;
            fail_msg("seed %llu, %s: output %s, element %lld: %.17g became %.17g", (unsigned long long)seed, passes,
                     g->outputs.data[i].name, (long long)e, x, y);
        }
}

static void test_all_passes(void **state) {
    static const char *const steps[] = {"simplify", "layout", "simplify", "fuse", "order", "plan-memory"};
    (void)state;
    double worst = 1;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        tcc_diag diag = {0};
        tcc_random_options options = {.nodes = 10 + (int)(seed % 50), .max_elements = 600};
        tcc_graph *made = tcc_graph_random(&options, seed, &diag);
        assert_non_null(made);
        tcc_value *expected = evaluate(made, made, seed);
        tcc_graph *g = run_passes(made, "decompose", NULL);
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            tcc_graph *next = run_passes(g, steps[i], &(tcc_pass_options){.eager = i > 2 && seed % 4 == 0});
            if (i < 4) {
                tcc_value *got = evaluate(next, made, seed);
                compare(made, expected, got, seed, steps[i]);
                drop(got, next->outputs.count);
            }
            if (i == 0) { /* doing it again changes nothing */
                tcc_graph *again = run_passes(next, "simplify", NULL);
                if (!tcc_graph_equal(next, again))
                    fail_msg("seed %llu: simplify is not done after one run", (unsigned long long)seed);
                tcc_graph_destroy(again);
            }
            tcc_graph_destroy(g);
            g = next;
        }
        assert_ok(check_plan(g, &diag), &diag);
        tcc_plan plan;
        assert_ok(tcc_plan_read(g, &plan, &diag), &diag);
        if (plan.peak_bytes && (double)g->arena_bytes / (double)plan.peak_bytes > worst)
            worst = (double)g->arena_bytes / (double)plan.peak_bytes;
        tcc_plan_free(&plan);
        drop(expected, made->outputs.count);
        tcc_graph_destroy(g);
        tcc_graph_destroy(made);
        tcc_diag_clear(&diag);
    }
    printf("arenas are at most %.2f of what is alive at once\n", worst);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_passes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
