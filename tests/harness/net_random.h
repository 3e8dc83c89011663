/* SPDX-License-Identifier: MIT
 * Random networks of the sizes that people train: 16 to 96 channels, images and sequences, batches of 4 to 64. Layers
 * of nn.h with all of their options, norms and activations in front of and behind them, residuals, branches, heads and
 * the losses of losses.h. Such a network is a user_program, so it is printed, traced and shortened as those are. */
#ifndef TCC_TESTS_HARNESS_NET_RANDOM_H
#define TCC_TESTS_HARNESS_NET_RANDOM_H

#include "harness/user_program.h"

typedef struct net_options {
    bool small; /* images of a few pixels, batches of 2: for a device that is simulated */
    bool few;   /* one block between the first layer and the loss, of few sizes, so that networks share kernels */
} net_options;

/* A function of its arguments alone. Returns NULL, or in words what the API refused: a fault, for all that is made is
 * valid. The words are in a static buffer. The precision, the budget, segments, micro-batches and chunks of rows are
 * chosen too. */
const char *net_random(const net_options *options, uint64_t seed, user_program *out);

#endif
