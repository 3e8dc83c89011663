/* SPDX-License-Identifier: MIT
 * Whether a given network trains alike in all modes, with budgets of memory and on all devices, at sizes that the
 * interpreter cannot bear. */
#ifndef TCC_TESTS_HARNESS_NETWORK_MODES_H
#define TCC_TESTS_HARNESS_NETWORK_MODES_H

#include <traincc/traincc.h>

typedef struct network_case {
    tcc_model_fn build;
    void *user;
    tcc_status (*begin)(tcc_model *m); /* parameters to begin with; NULL: the model's own */
    tcc_array *batch;
    int n_inputs;
    tcc_optimizer_options optimizer;
    tcc_mixed_precision precision;
    const char *device;
    int steps;
} network_case;

typedef struct network_result {
    const char *way; /* mode or budget */
    bool refused;    /* a budget that cannot be met */
    char wrong[512]; /* what disagrees; empty: nothing does */
    double worst;    /* largest error over what is allowed; 0 where bits are equal */
    char worst_name[128];
    double seconds;
} network_result;

enum { NETWORK_WAYS = 5 };

/* Trains the network eagerly on the CPU, a few times more with its parameters and floats of the batch disturbed by a
 * few units in their last place, and then in each way on the device: default and max-autotune leave losses, gradients
 * of the first step, states and parameters within the noise that the disturbed runs show; reduce-overhead and budgets
 * leave the bits of the default. Returns how many results there are, of the first `ways`: fewer than asked for only
 * where the default fails. */
int network_check(const network_case *c, int ways, network_result results[NETWORK_WAYS]);

#endif
