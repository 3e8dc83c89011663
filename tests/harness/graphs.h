/* SPDX-License-Identifier: MIT
 * Graphs from text, for tests. */
#ifndef TCC_TESTS_HARNESS_GRAPHS_H
#define TCC_TESTS_HARNESS_GRAPHS_H

#include "ir/ir.h"

/* The graph, which must parse and verify; the test fails otherwise. The caller destroys it. */
tcc_graph *parse_graph(const char *text, tcc_diag *diag);
/* Its text with or without locations; the caller frees it with free. */
char *print_graph(const tcc_graph *g, bool locs);

/* A convolution with bias and activation, and both its gradients, as text: images n x c x h x w, o kernels of kh x kw, results oh x ow,
 * channels first or last; `attrs` without groups. */
typedef struct conv_graph {
    int n, c, h, w, o, kh, kw;
    const char *attrs;
    int oh, ow, groups;
    bool last;
} conv_graph;
void conv_graph_text(char *text, size_t size, const conv_graph *c);

#endif
