/* SPDX-License-Identifier: MIT
 * Sums of channels beside rows that are groups of channels, as gradients of a group norm's weights: the rows' kernel
 * makes them as sums of parts of its rows. Against the interpreter, and how often memory is read. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"
#include "harness/norm_cases.h"
#include "harness/passes.h"

#include "passes/group.h"

#include <string.h>

typedef struct shape {
    int images[4], groups;
    const char *type;
    bool staged; /* parts are long enough */
    bool parts;  /* and rows are short enough and many */
} shape;

static const shape shapes[] = {{{16, 6, 5, 7}, 2, "f32", true, true},    {{17, 10, 8, 8}, 2, "f32", true, true},
                               {{16, 14, 9, 11}, 2, "f32", true, true},  {{33, 12, 7, 7}, 1, "f32", true, true},
                               {{3, 6, 5, 7}, 6, "f32", true, false},    {{4, 6, 1, 1}, 2, "f32", false, false},
                               {{4, 6, 1, 31}, 2, "f32", false, false},  {{16, 6, 3, 11}, 2, "f32", true, true},
                               {{16, 8, 16, 16}, 2, "bf16", true, true}, {{17, 6, 7, 9}, 2, "f16", true, true},
                               {{31, 4, 9, 9}, 1, "f32", true, false},   {{32, 2, 120, 120}, 1, "f32", true, false},
                               {{8, 8, 56, 56}, 4, "f32", true, true},   {{11, 30, 13, 13}, 3, "f32", true, true},
                               {{130, 4, 4, 8}, 2, "f32", true, true},   {{16, 4, 32, 64}, 2, "f32", true, true},
                               {{8, 12, 41, 20}, 4, "f32", true, true},  {{16, 8, 6, 6}, 2, "f64", true, true},
                               {{32, 2, 50, 139}, 1, "f32", true, true}, {{700, 2, 2, 16}, 1, "f32", true, true},
                               {{8, 20, 3, 97}, 4, "bf16", true, true}};

/* How many sums of parts are in groups with the rows. */
static int parts_of(const tcc_graph *g) {
    int parts = 0;
    for (int k = 0; k < g->groups.count; k++) {
        const tcc_group *group = &g->groups.data[k];
        for (int i = 0; group->kind == TCC_GROUP_REDUCE && i < group->n_nodes; i++)
            parts += tcc_sums_parts(group->hero, group->nodes[i]);
    }
    return parts;
}

static void check_parts(const tcc_graph *g, int parts, const compiled_options *options) {
    tcc_graph *staged = run_passes(g, "stages", &(tcc_pass_options){0});
    assert_same_meaning(g, staged, options->tolerance);
    gpu_program *p = gpu_program_create(staged, options, "sm_90");
    if (parts_of(p->graph) != parts) fail_msg("%d sums of parts in groups, not %d", parts_of(p->graph), parts);
    gpu_program_destroy(p);
    check_gpu(staged, options);
    tcc_graph_destroy(staged);
}

static void weights_of_group_norms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = group_norm_gradients(&diag, shapes[i].type, shapes[i].images, shapes[i].groups),
                  *staged = run_passes(g, "stages", &(tcc_pass_options){0});
        const bool narrow = strchr(shapes[i].type, '1') != NULL;
        const compiled_options options = {.seed = i, .tolerance = narrow ? 2e-2 : 2e-4};
        if (tcc_graph_equal(g, staged) == shapes[i].staged) fail_msg("shape %zu: staged or not", i);
        tcc_graph_destroy(staged);
        check_parts(g, shapes[i].parts ? 2 : 0, &options);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

/* Sums of channels beside those of groups of them, by hand: in one sweep; beside a mean and a variance, which a GPU may
 * make in one sweep of segments, and which nothing else follows. */
static const char *const texts[] = {
    "graph @sums {\n  %0 = input {name=\"x\"} : f32[8,4,3,11,13]\n"
    "  %1 = reduce_max(%0) {axes=[2, 3, 4]} : f32[8,4]\n  %2 = reduce_sum(%0) {axes=[3, 4]} : f32[8,4,3]\n"
    "  output \"rows\" %1\n  output \"parts\" %2\n}\n",
    "graph @moments {\n  %0 = input {name=\"x\"} : f32[8,4,5,40]\n"
    "  %1 = reduce_mean(%0) {axes=[2, 3]} : f32[8,4]\n  %2 = reduce_m2(%0) {axes=[2, 3]} : f32[8,4]\n"
    "  %3 = reduce_sum(%0) {axes=[3]} : f32[8,4,5]\n"
    "  output \"mean\" %1\n  output \"m2\" %2\n  output \"parts\" %3\n}\n",
    "graph @segments {\n  %0 = input {name=\"x\"} : f64[8,4,5,40]\n"
    "  %1 = reduce_mean(%0) {axes=[2, 3]} : f64[8,4]\n  %2 = reduce_m2(%0) {axes=[2, 3]} : f64[8,4]\n"
    "  %3 = reduce_sum(%0) {axes=[3]} : f64[8,4,5]\n"
    "  output \"mean\" %1\n  output \"m2\" %2\n  output \"parts\" %3\n}\n",
    "graph @first {\n  %0 = input {name=\"x\"} : f32[64,3,7,50]\n  %1 = exp(%0) : f32[64,3,7,50]\n"
    "  %2 = reduce_sum(%1) {axes=[3]} : f32[64,3,7]\n  %3 = reduce_max(%1) {axes=[1, 2, 3]} : f32[64]\n"
    "  %4 = broadcast(%3) {dims=[0]} : f32[64,3,7,50]\n  %5 = sub(%1, %4) : f32[64,3,7,50]\n"
    "  output \"parts\" %2\n  output \"y\" %5\n}\n",
    "graph @places {\n  %0 = input {name=\"x\"} : f32[8,12,6,8]\n"
    "  %1 = reshape(%0) : f32[8,4,3,6,8]\n  %2 = reduce_max(%1) {axes=[2, 3, 4]} : f32[8,4]\n"
    "  %3 = iota {axis=3} : f32[8,12,6,8]\n  %4 = mul(%0, %3) : f32[8,12,6,8]\n"
    "  %5 = reduce_sum(%4) {axes=[0, 2, 3]} : f32[12]\n"
    "  output \"rows\" %2\n  output \"channels\" %5\n}\n"};

static void sums_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tcc_diag diag = {0};
        const compiled_options options = {.seed = i, .tolerance = 2e-4};
        tcc_graph *g = parse_graph(texts[i], &diag);
        check_parts(g, 1, &options);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_of_group_norms), cmocka_unit_test(sums_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
