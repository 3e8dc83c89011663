/* SPDX-License-Identifier: MIT
 * Graphs from text, for tests. */
#ifndef TCC_TESTS_HARNESS_GRAPHS_H
#define TCC_TESTS_HARNESS_GRAPHS_H

#include "ir/ir.h"

/* The graph, which must parse and verify; the test fails otherwise. The caller destroys it. */
tcc_graph *parse_graph(const char *text, tcc_diag *diag);
/* Its text with or without locations; the caller frees it with free. */
char *print_graph(const tcc_graph *g, bool locs);

/* A convolution with bias and activation, and both its gradients, as text: images n x c x h x w, o kernels of kh x kw,
 * results oh x ow, channels first or last; `attrs` without groups. */
typedef struct conv_graph {
    int n, c, h, w, o, kh, kw;
    const char *attrs;
    int oh, ow, groups;
    bool last;
} conv_graph;
void conv_graph_text(char *text, size_t size, const conv_graph *c);

/* Attention as text: its result, denominators and all gradients, of one element type but for the denominators, which
 * are f32. */
typedef struct attention_graph {
    const char *lead; /* extents of the batch dims, each with a comma: "2,3," */
    int T, S, D, E;
    const char *attrs;  /* "scale=0.5, causal=true" */
    const char *mask;   /* dims of the mask, as many as the scores have: "2,1,5,7"; NULL: none */
    double p;           /* dropout */
    const char *type;   /* NULL: f32 */
    bool forward;       /* without the gradients */
    const char *shared; /* as `lead`, of k and v; NULL: the same */
} attention_graph;
void attention_graph_text(char *text, size_t size, const attention_graph *a);

/* Dots with work behind them, over views, with several batch and summed dimensions: for every target. */
enum { DOT_GRAPHS = 4 };
extern const char *const dot_graphs[DOT_GRAPHS];

/* A loss that is the sum of the squares of `count` parameters p0, p1, ... with so many elements, and a step of AdamW on
 * them. The caller destroys it. */
tcc_graph *adamw_graph(const int64_t *sizes, int count, tcc_diag *diag);

#endif
