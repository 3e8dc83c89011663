/* SPDX-License-Identifier: MIT
 * Inside ir/sample: which dims go together. */
#ifndef TCC_IR_SAMPLE_DIMS_H
#define TCC_IR_SAMPLE_DIMS_H

#include "ir/sample.h"

/* The dim that speaks for this one and all that go with it. */
tcc_sample_dim *tcc__sample_dim(const tcc_sample *s, const tcc_node *n, int dim);
/* Ties the dims of the node and its operands, or keeps them whole. */
void tcc__sample_tie(tcc_sample *s, const tcc_node *n);
/* Whether the node's elements follow from their positions, so that they are given to the sample's graph. */
bool tcc__sample_is_placed(const tcc_node *n);

#endif
