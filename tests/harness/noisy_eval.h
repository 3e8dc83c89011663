/* SPDX-License-Identifier: MIT
 * What rounding may do to a graph's results, by experiment: the interpreter with every float result disturbed as much
 * as computing it in its own type may (Monte Carlo arithmetic, Parker 1997). How far such runs are apart is the noise
 * that a compiled program may show; what exceeds a small multiple of it is a fault.
 *
 * An element-wise result is disturbed by a few units in its last place, unless its type holds it exactly. A sum is
 * disturbed by units of the sum of its terms' magnitudes, for it may cancel; sums of whole numbers that f32 holds stay
 * exact. Moving, comparing and choosing are exact. So activations near 0, ties and jumps fall to one side or the other
 * as they do in real arithmetic. */
#ifndef TCC_TESTS_HARNESS_NOISY_EVAL_H
#define TCC_TESTS_HARNESS_NOISY_EVAL_H

#include "ir/eval.h"

typedef struct noise {
    uint64_t seed;
    bool round;  /* also round each result to its type: what overflows or underflows there shows */
    bool chains; /* sums are taken for one chain of additions each: where terms are alike, all of them err the same way
                  */
} noise;

/* As tcc_graph_eval on a graph without composites; `n` NULL: that itself. */
tcc_status noisy_eval(const tcc_graph *g, const tcc_value *inputs, const noise *n, tcc_value *outputs, tcc_diag *diag);

#endif
