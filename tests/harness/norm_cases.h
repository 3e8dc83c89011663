/* SPDX-License-Identifier: MIT
 * Training graphs whose gradients are sums over rows and over columns of the same values, for whatever runs a graph and
 * compares it with the interpreter. */
#ifndef TCC_TESTS_HARNESS_NORM_CASES_H
#define TCC_TESTS_HARNESS_NORM_CASES_H

#include "harness/compiled.h"

/* A norm of x [rows, columns] with all its gradients and a loss, output 0: "layer_norm", "layer_norm_plain" (no bias),
 * "rms_norm", and others that norm_cases.c has. The caller destroys it; it reports to `diag`. */
tcc_graph *norm_gradients(tcc_diag *diag, const char *name, int rows, int columns);
/* A group norm of images [n, channels, height, width], with all its gradients, decomposed. Input 0 is images, input 3
 * the gradient of the result. */
tcc_graph *group_norm_gradients(tcc_diag *diag, const char *type, const int images[4], int groups);
int norm_cases_run(graph_check *check); /* as a group of tests; the number that failed */

#endif
