/* SPDX-License-Identifier: MIT
 * scatter_add at indices of all forms, for whatever runs a graph and compares it with the interpreter. */
#ifndef TCC_TESTS_HARNESS_SCATTER_CASES_H
#define TCC_TESTS_HARNESS_SCATTER_CASES_H

#include "harness/compiled.h"

/* Indices that repeat: constant, counting along one axis, the same along one axis, read, and computed in the group. */
void scatter_at_repeated_indices(graph_check *check);

#endif
