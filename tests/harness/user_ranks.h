/* SPDX-License-Identifier: MIT
 * Users' programs on ranks: N ranks train with the bits of one rank that takes N micro-batches. */
#ifndef TCC_TESTS_HARNESS_USER_RANKS_H
#define TCC_TESTS_HARNESS_USER_RANKS_H

#include "harness/user_program.h"

enum { USER_MOST_RANKS = 4 };

/* Trains USER_TRAIN_STEPS steps of the program on so many ranks, by options that its seed chooses: whether the
 * optimizer's states are shared out, clipping, averages. What programs keep from step to step themselves is left out:
 * it is each rank's own. NULL where losses, parameters, averages and states have the same bits; else what differs or
 * failed, in words that the next call overwrites. */
const char *user_ranks_differ(const user_program *p, int ranks);

#endif
