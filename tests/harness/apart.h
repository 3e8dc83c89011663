/* SPDX-License-Identifier: MIT
 * Two ranks of tcc-train that are started by themselves, as torchrun does. */
#ifndef TCC_TESTS_HARNESS_APART_H
#define TCC_TESTS_HARNESS_APART_H

#include "harness/program.h"

/* How the second rank is started otherwise than the first; NULL: it is not. */
typedef struct apart {
    const char *folder, *environment, *program;
    const char *given; /* an argument beside those that both get */
} apart;

/* tcc-train --device cpu RECIPE --run-dir FOLDER/run in both. */
void start_apart(void **state, const char *recipe, const char *run, const apart *second, program_process ranks[2]);

#endif
