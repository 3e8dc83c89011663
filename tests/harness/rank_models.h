/* SPDX-License-Identifier: MIT
 * Whole networks on several ranks: N ranks with a part of each batch give the bits of one rank that takes it in N
 * micro-batches. */
#ifndef TCC_TESTS_HARNESS_RANK_MODELS_H
#define TCC_TESTS_HARNESS_RANK_MODELS_H

#include <traincc/traincc.h>

enum { RANK_MODELS_MOST_RANKS = 4 };

typedef struct rank_model_case {
    const char *network; /* of rank_model_names */
    tcc_optimizer_options optimizer;
    tcc_model_options options; /* but for optimizer and comm */
} rank_model_case;

extern const char *const rank_model_names[]; /* NULL ends them */

/* Trains some steps, of which the last has a smaller batch. NULL where all ranks agree in each bit with the one that
 * has micro-batches: losses, parameters, the optimizer's states and skipped steps; buffers are each rank's own. Else
 * what differs, or what failed; overwritten by the next call. */
const char *rank_model_differs(const rank_model_case *c, int ranks);

#endif
