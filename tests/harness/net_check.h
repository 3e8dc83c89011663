/* SPDX-License-Identifier: MIT
 * Whether a network trains in the default mode as op by op (mode eager), at sizes that the interpreter cannot bear. */
#ifndef TCC_TESTS_HARNESS_NET_CHECK_H
#define TCC_TESTS_HARNESS_NET_CHECK_H

#include "harness/user_program.h"

enum {
    NET_DEFAULT = 1, /* within the noise of eager's values; with the program's micro-batches and chunks of rows */
    NET_BUDGET = 2,  /* within the program's budget, or with its segments: the bits of the default */
    NET_THREADS = 4, /* with three threads: the same bits */
    NET_REPLAY = 8,  /* mode reduce-overhead: the same bits */
    NET_GPU = 16,    /* on a CUDA device: within the noise of eager's values on the CPU */
    NET_MODES = 5    /* bits */
};

const char *net_mode_name(unsigned mode);

typedef struct net_verdict {
    unsigned mode;  /* that disagrees; 0: none does */
    char text[768]; /* what disagrees */
    double worst;   /* largest error over what is allowed, of all that agrees */
    char worst_name[128];
    int compared, vague; /* arrays; those that are not finite, of which nothing can be said */
    bool refused;        /* the loss cannot be had in micro-batches, which the library has said */
} net_verdict;

/* Trains the network for a step in each mode, from the same state and on the same batch, and compares loss, gradients,
 * moments, buffers and what became of parameters, each array by the L2 norm of the difference. How much may differ is
 * measured: eager trains a few times more with its parameters and floats of the batch disturbed by a few units in their
 * last place. Bits are compared after two steps. */
void net_check(const user_program *p, unsigned modes, net_verdict *out);
/* The same with the reference of another network, so that a test can see that a difference is found. */
void net_compare(const user_program *p, const user_program *reference, unsigned modes, net_verdict *out);

/* Makes `p` smaller while it still disagrees; at most `seconds`. */
void net_shrink(user_program *p, const net_verdict *verdict, double seconds);

#endif
