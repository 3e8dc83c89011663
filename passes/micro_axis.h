/* SPDX-License-Identifier: MIT
 * The position of a batch's samples in a value, and how an op moves them.
 *
 * A value has rows if it is the concatenation of the micro-batches' values along one dim. That dim may hold more than
 * samples: it has `outer` blocks, each of which has all samples in order, with the same number of elements for each. So
 * [T, N, C] as [T * N, C] has rows along dim 0 with T blocks, and [N, T, C] as [N * T, C] with one. */
#ifndef TCC_PASSES_MICRO_AXIS_H
#define TCC_PASSES_MICRO_AXIS_H

#include "ir/ir.h"

typedef struct tcc_axis {
    int dim;
    int64_t outer;
} tcc_axis;

/* What else stands for a dim. */
enum {
    TCC_AXIS_NONE = -1,   /* the value has no rows: it is the same for all samples */
    TCC_AXIS_SUMMED = -2, /* the op takes all rows together: by a sum, a maximum or the like */
    TCC_AXIS_MIXED = -3   /* the op reads across rows in another way, or moves them out of their order */
};

static inline bool tcc_axis_equal(tcc_axis a, tcc_axis b) { return a.dim == b.dim && a.outer == b.outer; }

/* The rows of n, whose operand k has rows x. */
tcc_axis tcc_axis_of_result(const tcc_node *n, int k, tcc_axis x);
/* The rows that operand k needs for n to have rows y. */
tcc_axis tcc_axis_of_operand(const tcc_node *n, int k, tcc_axis y);
/* The rows that operand j needs where n takes the rows x of operand k together. */
tcc_axis tcc_axis_summed_with(const tcc_node *n, int k, tcc_axis x, int j);

#endif
