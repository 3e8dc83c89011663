/* SPDX-License-Identifier: MIT
 * Means and variances of data that are hard on an algorithm, for whatever runs a graph and compares it with the
 * interpreter. */
#ifndef TCC_TESTS_HARNESS_MOMENT_CASES_H
#define TCC_TESTS_HARNESS_MOMENT_CASES_H

#include "harness/compiled.h"

int moment_cases_run(graph_check *check); /* as a group of tests; the number that failed */

#endif
