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

#endif
