/* SPDX-License-Identifier: MIT
 * Random graphs with their data, for tests that compare two ways to compute one. */
#ifndef TCC_TESTS_HARNESS_RANDOM_H
#define TCC_TESTS_HARNESS_RANDOM_H

#include "ir/eval.h"
#include "ir/random.h"

typedef struct random_case {
    tcc_graph *graph;
    tcc_value *inputs, *outputs; /* what the interpreter makes of it */
    tcc_diag diag;
} random_case;

/* Fails the test when the graph cannot be made. */
random_case *random_case_create(const tcc_random_options *options, uint64_t seed);
void random_case_destroy(random_case *c);
/* Evaluates `g`, whose inputs have the names and types of the case's inputs (others are 0), and compares the outputs of the same
 * names. Returns what differs by more than `tolerance` (absolutely; integers: at all) in a static buffer, or NULL. */
const char *random_case_compare(const random_case *c, const tcc_graph *g, double tolerance);
/* For messages when a test fails: writes the graph to $TMPDIR/random-SEED.tir and returns the file's name in a static buffer. */
const char *random_case_write(const random_case *c, uint64_t seed);

#endif
