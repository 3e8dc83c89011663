/* SPDX-License-Identifier: MIT
 * Running sums, for whatever runs a graph and compares it with the interpreter. */
#ifndef TCC_TESTS_HARNESS_SCAN_CASES_H
#define TCC_TESTS_HARNESS_SCAN_CASES_H

#include "harness/compiled.h"

/* Lines of ones behind 2^24, which in f32 would add nothing to it: as in lines of 2^25 ones. Along the innermost dim,
 * along another, with work on both sides; forward and in reverse. */
void running_sums_of_long_lines(graph_check *check);
/* Of values that do not change along the line. */
void running_sums_of_equal_values(graph_check *check);

#endif
