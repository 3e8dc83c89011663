/* SPDX-License-Identifier: MIT
 * A sample of what a graph computes, where computing all of it would take the interpreter too long. A dim that every op
 * takes index by index - rows of a product, channels of a norm, images of a convolution - need not be whole: a few of
 * its indices, the last among them and the others drawn, give the very values that they have in the whole graph. So the
 * sample is a graph of the same ops on smaller shapes. Dims that are summed, scanned, or moved through as windows stay
 * whole. Where a reshape cuts a dim otherwise, its indices are taken in blocks that both shapes have. */
#ifndef TCC_IR_SAMPLE_H
#define TCC_IR_SAMPLE_H

#include "ir/eval.h"

/* Dims that share their indices: a tree (parent), whose root says in how many equal blocks the indices come (units),
 * and which of them are taken (count; ascending in `taken`). */
typedef struct tcc_sample_dim {
    int parent;
    int64_t units, count;
    int64_t *taken;
} tcc_sample_dim;

typedef struct tcc_sample {
    const tcc_graph *whole; /* borrowed */
    tcc_graph *graph;       /* inputs: those of the whole one, then values that follow from an element's position;
                               outputs: those of the whole one that are wanted */
    bool all;               /* nothing is left out */
    bool *live;             /* by node of the whole graph: an output that is wanted needs it */
    int n_placed;
    const tcc_node **placed; /* of the whole graph: iota, draws, literals, which are inputs here */
    tcc_sample_dim *dims;    /* TCC_MAX_RANK a node */
    tcc_value_pool *pool;    /* for values that are asked for; NULL: none. To be set when the sample is there */
    tcc_arena memory;
} tcc_sample;

/* What an evaluation of the graph costs: products and, about, simple operations on elements. */
double tcc_graph_work(const tcc_graph *g);
/* As much of `whole` as costs at most `most_work`, about, but at least one index of each dim; the same for the same
 * `seed`. `output`: the one that is wanted, and the only one of the sample's graph; -1: all are. An output alone may be
 * cut where others need all of a dim. To be freed after an error, too. */
tcc_status tcc_sample_create(const tcc_graph *whole, int output, double most_work, uint64_t seed, tcc_sample *out,
                             tcc_diag *diag);
void tcc_sample_free(tcc_sample *s);
/* The share of a value of the whole graph; `packed` is all of it. `out` is created. */
tcc_status tcc_sample_value(const tcc_sample *s, const tcc_node *n, const void *packed, tcc_value *out, tcc_diag *diag);
/* Values of all inputs of s->graph, from packed ones of those of the whole graph. `out` is zeroed; the caller frees
 * each of its values, after an error, too. */
tcc_status tcc_sample_inputs(const tcc_sample *s, const void *const *packed, tcc_value *out, tcc_diag *diag);
/* Which element of the whole value element `e` of the share is. */
int64_t tcc_sample_element(const tcc_sample *s, const tcc_node *n, int64_t e);

#endif
