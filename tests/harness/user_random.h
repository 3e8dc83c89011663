/* SPDX-License-Identifier: MIT
 * Random programs that look like users' code: layers and tensor operations in the patterns that people write, with
 * equal extents on purpose, values used many times, indices of all kinds. */
#ifndef TCC_TESTS_HARNESS_USER_RANDOM_H
#define TCC_TESTS_HARNESS_USER_RANDOM_H

#include "harness/user_program.h"

typedef struct user_random_options {
    int least, most; /* layers; 0: 2 and 8 */
    bool huge;       /* one sum of millions of elements */
    bool largest;    /* with huge: of 10^7 */
    bool exact;      /* nothing that depends on our random numbers (dropout) */
} user_random_options;

/* A function of its arguments alone. Returns NULL, or in words what the API refused: a fault, for all that is made is
 * valid. The words are in a static buffer. */
const char *user_program_random(const user_random_options *options, uint64_t seed, user_program *out);

#endif
