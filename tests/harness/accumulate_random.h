/* SPDX-License-Identifier: MIT
 * Random pairs of a small network and a loss: a step in micro-batches against that of the whole batch; and, on the CPU
 * with every eighth seed, a step on as many ranks, which has the same bits. */
#ifndef TCC_TESTS_HARNESS_ACCUMULATE_RANDOM_H
#define TCC_TESTS_HARNESS_ACCUMULATE_RANDOM_H

#include <traincc/traincc.h>

typedef enum accumulate_verdict {
    ACCUMULATE_EQUAL,     /* loss and gradients, within rounding */
    ACCUMULATE_REFUSED,   /* with a line of the network's code, and a part of the loss that may be */
    ACCUMULATE_DIFFERENT, /* or refused without reason */
    ACCUMULATE_VERDICTS
} accumulate_verdict;

typedef struct accumulate_result {
    accumulate_verdict verdict;
    char network[128]; /* what it is made of */
    char text[512];    /* what differs, or the message */
    double worst;      /* difference over what is allowed */
} accumulate_result;

/* `precision` TCC_MIXED_NONE or TCC_MIXED_BF16. */
void accumulate_random(uint64_t seed, tcc_mixed_precision precision, const char *device, accumulate_result *out);

#endif
