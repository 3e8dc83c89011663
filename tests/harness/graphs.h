/* SPDX-License-Identifier: MIT
 * Graphs from text, for tests. */
#ifndef TCC_TESTS_HARNESS_GRAPHS_H
#define TCC_TESTS_HARNESS_GRAPHS_H

#include "ir/ir.h"

/* The graph, which must parse and verify; the test fails otherwise. The caller destroys it. */
tcc_graph *parse_graph(const char *text, tcc_diag *diag);
/* Its text with or without locations; the caller frees it with free. */
char *print_graph(const tcc_graph *g, bool locs);

#endif
