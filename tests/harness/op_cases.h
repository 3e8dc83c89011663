/* SPDX-License-Identifier: MIT
 * Small graphs of single ops and of forms that random graphs seldom make, for whatever runs a graph and compares it
 * with the interpreter. */
#ifndef TCC_TESTS_HARNESS_OP_CASES_H
#define TCC_TESTS_HARNESS_OP_CASES_H

#include "harness/compiled.h"

int op_cases_run(graph_check *check); /* as a group of tests; the number that failed */

#endif
