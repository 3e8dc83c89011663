/* SPDX-License-Identifier: MIT
 * Sums over images beside rows of these, as gradients of a norm's weights: the rows' kernel makes their first stage.
 * Against the interpreter, and how often memory is read. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/norm_cases.h"
#include "harness/passes.h"

#include "passes/group.h"

#include <string.h>

typedef struct shape {
    int images[4];
    const char *type;
    bool stages; /* rows are worth it */
} shape;

static const shape shapes[] = {
    {{4, 6, 5, 7}, "f32", true},    {{3, 5, 4, 4}, "f32", true},  {{2, 8, 16, 32}, "bf16", true},
    {{3, 3, 9, 11}, "f16", true},   {{1, 6, 5, 7}, "f32", true},  {{5, 3, 1, 15}, "f32", false},
    {{130, 2, 1, 33}, "f32", true}, {{2, 1, 3, 19}, "f32", true}, {{6, 6, 6, 6}, "f32", true},
    {{2, 3, 41, 100}, "f32", true}, {{3, 4, 5, 8}, "f64", true},  {{700, 1, 2, 16}, "f32", true}};

/* How many groups read input number `i`. */
static int readers_of(const tcc_graph *g, int i) {
    int readers = 0;
    for (int k = 0; k < g->groups.count; k++) {
        const tcc_group *group = &g->groups.data[k];
        bool reads = false;
        for (int j = 0; j < group->n_nodes; j++)
            for (int m = 0; m < group->nodes[j]->n_operands; m++)
                reads = reads || group->nodes[j]->operands[m] == g->inputs.data[i];
        readers += reads;
    }
    return readers;
}

static void weights_of_instance_norms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = group_norm_gradients(&diag, shapes[i].type, shapes[i].images, shapes[i].images[1]),
                  *staged = run_passes(g, "stages", &(tcc_pass_options){0});
        const bool narrow = strchr(shapes[i].type, '1') != NULL;
        const compiled_options options = {.seed = i, .tolerance = narrow ? 2e-2 : 2e-4};
        assert_true(tcc_graph_equal(g, staged) != shapes[i].stages);
        assert_same_meaning(g, staged, options.tolerance);
        gpu_program *p = gpu_program_create(staged, &options, "sm_90");
        if (shapes[i].stages && shapes[i].type[1] == '3') {
            assert_int_equal(readers_of(p->graph, 0), 1);
            assert_int_equal(readers_of(p->graph, 3), 1);
        }
        gpu_program_destroy(p);
        check_gpu(staged, &options);
        tcc_graph_destroy(staged);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_of_instance_norms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
