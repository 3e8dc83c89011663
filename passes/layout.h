/* SPDX-License-Identifier: MIT
 * Which parts of a network layout.c leaves as they are. */
#ifndef TCC_PASSES_LAYOUT_H
#define TCC_PASSES_LAYOUT_H

#include "passes/pass.h"

/* An op with an order of dims of its own: a convolution, a pool, a resizing. */
bool tcc_layout_computes(const tcc_node *n);
/* One that has that of its operands: arithmetic and moves inside an image. */
bool tcc_layout_follows(const tcc_node *n);

/* Marks, by id, the convolutions of `g` that are better left with channels first; `lanes`: of a vector of f32 of the
 * host, 0: all are better moved. */
tcc_status tcc_layout_find_plain(const tcc_graph *g, const bool *live, int lanes, bool *plain);

/* The last form of a value has its channels, k dims from dim 1 on, at the end. Where these are k dims there, too, dim i
 * is dim tcc_layout_dim of the plain form, whose dim i is at tcc_layout_place. */
static inline int tcc_layout_dim(int rank, int k, int i) {
    return i == 0 ? 0 : i < rank - k ? i + k : i - (rank - k) + 1;
}
static inline int tcc_layout_place(int rank, int k, int i) { return i == 0 ? 0 : i <= k ? rank - k + i - 1 : i - k; }

/* The plain result of reduction `old` of x, the last form of its operand, in which the k dims of channels are one. */
tcc_node *tcc_layout_reduce(tcc_graph *g, const tcc_node *old, tcc_node *x, int k);

#endif
