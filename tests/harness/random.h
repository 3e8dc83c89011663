/* SPDX-License-Identifier: MIT
 * Random graphs with their data, for tests that compare two ways to compute one. */
#ifndef TCC_TESTS_HARNESS_RANDOM_H
#define TCC_TESTS_HARNESS_RANDOM_H

#include "ir/eval.h"
#include "harness/generator.h"

typedef struct random_case {
    tcc_graph *graph;
    tcc_value *inputs, *outputs; /* what the interpreter makes of it */
    tcc_diag diag;
} random_case;

/* Fails the test when the graph cannot be made. */
random_case *random_case_create(const tcc_random_options *options, uint64_t seed);
void random_case_destroy(random_case *c);
/* Values for the inputs of `g`, made from the case's graph: the case's by name; hyper-parameters that a pass added are
 * 1/8, states 0. The caller frees them with random_case_free. */
tcc_value *random_case_inputs(const random_case *c, const tcc_graph *g);
void random_case_free(tcc_value *values, int count);
/* Evaluates `g` on these inputs, and compares the outputs of the same names as the case's. Returns what differs by more
 * than `tolerance` (absolutely; integers: at all) in a static buffer, or NULL. */
const char *random_case_compare(const random_case *c, const tcc_graph *g, double tolerance);
/* For messages when a test fails: writes the graph to $TMPDIR/random-SEED.tir and returns the file's name in a static
 * buffer. */
const char *random_case_write(const random_case *c, uint64_t seed);

#endif
