/* SPDX-License-Identifier: MIT
 * Seeded random graphs: valid, over all classes of ops, and numerically tame, so that two ways to
 * compute one can be compared.
 *
 * While it builds, the generator tracks for every value an interval, a bound of its rounding error,
 * and whether it is computed without any rounding at all. Arguments are scaled into safe ranges;
 * ops with jumps (floor, comparisons, argmax, casts to integers) are only applied where no rounding
 * can tip them over. */
#ifndef TCC_TEST_GENERATOR_H
#define TCC_TEST_GENERATOR_H

#include "ir/ir.h"

typedef struct tcc_random_options {
    int nodes;            /* at least so many nodes, about; 0: 40 */
    unsigned classes;     /* bits 1u << TCC_FUSION_...; 0: all. POINT ops are always among them */
    bool differentiable;  /* one scalar output "loss" that depends on PARAM inputs, ops with
                             gradients alone */
    int64_t max_elements; /* of one tensor; 0: 4096 */
    bool mixed;           /* also f16, bf16 and f64; else floats are f32 */
    int ranks;            /* with collectives of so many ranks; 0: without */
} tcc_random_options;

/* Values of two backends differ by less than this, absolutely. */
#define TCC_RANDOM_TOLERANCE 1e-3
#define TCC_RANDOM_TOLERANCE_MIXED 0.25

/* A function of its arguments alone. NULL after an error. The graph verifies; outputs are "o0",
 * "o1", ... and sometimes a STATE input's next value, or "loss" alone. */
tcc_graph *tcc_graph_random(const tcc_random_options *options, uint64_t seed, tcc_diag *diag);

/* Data for input `index` of a graph that tcc_graph_random made: writes all its elements, packed, of
 * its element type. Indices are mostly in range. The same arguments give the same data. */
void tcc_random_input(const tcc_graph *g, int index, uint64_t seed, void *packed);

#endif
