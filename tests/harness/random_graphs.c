/* SPDX-License-Identifier: MIT
 * Random graphs, each compiled fused, and some of them op by op. */
#include "harness/random_graphs.h"
#include "harness/check.h"

#include "harness/generator.h"

#include <stdio.h>
#include <stdlib.h>

static graph_check *check_graph;
static double share;

static uint64_t setting(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void check_seeds(const tcc_random_options *random, double wanted, double tolerance) {
    uint64_t first = setting("TCC_TEST_SEED", 1);
    uint64_t count = setting("TCC_TEST_COUNT", (uint64_t)wanted);
    for (uint64_t seed = first; seed < first + count; seed++) {
        tcc_diag diag = {0};
        tcc_graph *g = tcc_graph_random(random, seed, &diag);
        if (!g) fail_msg("seed %llu: %s", (unsigned long long)seed, tcc_diag_text(&diag));
        if (getenv("TCC_TEST_VERBOSE")) {
            tcc_strbuf text = {0};
            tcc_graph_print(&text, g, (tcc_print_options){0});
            fprintf(stderr, "seed %llu\n%s", (unsigned long long)seed, text.text);
            tcc_strbuf_free(&text);
        }
        for (int eager = 0; eager <= (seed % 3 == 0); eager++) /* kernels of single ops repeat themselves */
            check_graph(g, &(compiled_options){.eager = eager,
                                               .operand_sums = seed % 2 == 0,
                                               .simplify = !eager,
                                               .seed = seed,
                                               .generated = true,
                                               .tolerance = tolerance});
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

static void graphs_of_all_classes(void **state) {
    (void)state;
    check_seeds(&(tcc_random_options){.nodes = 24, .max_elements = 2048}, share * 300, TCC_RANDOM_TOLERANCE);
}

static void graphs_of_elementwise_work_and_reductions(void **state) {
    (void)state;
    unsigned classes = 1u << TCC_FUSION_POINT | 1u << TCC_FUSION_VIEW | 1u << TCC_FUSION_REDUCE;
    check_seeds(&(tcc_random_options){.nodes = 30, .classes = classes}, share * 150, TCC_RANDOM_TOLERANCE);
}

static void graphs_of_mixed_element_types(void **state) {
    (void)state;
    check_seeds(&(tcc_random_options){.nodes = 20, .mixed = true, .max_elements = 1024}, share * 100,
                TCC_RANDOM_TOLERANCE_MIXED);
}

int random_graphs_run(graph_check *check, double share_of_all) {
    check_graph = check;
    share = share_of_all;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_of_all_classes),
        cmocka_unit_test(graphs_of_elementwise_work_and_reductions),
        cmocka_unit_test(graphs_of_mixed_element_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
