/* SPDX-License-Identifier: MIT
 * Random graphs, each compiled fused, some of them op by op too. TCC_TEST_SEED and TCC_TEST_COUNT choose others. */
#ifndef TCC_TESTS_HARNESS_RANDOM_GRAPHS_H
#define TCC_TESTS_HARNESS_RANDOM_GRAPHS_H

#include "harness/compiled.h"

/* A share of 550 graphs, as a group of tests; the number of tests that failed. */
int random_graphs_run(graph_check *check, double share_of_all);

#endif
