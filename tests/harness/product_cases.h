/* SPDX-License-Identifier: MIT
 * Products over dims with their gradients, for whatever runs a graph and compares it with the interpreter. */
#ifndef TCC_TESTS_HARNESS_PRODUCT_CASES_H
#define TCC_TESTS_HARNESS_PRODUCT_CASES_H

#include "harness/compiled.h"

/* Over the last dim, of extents that kernels have at once and of others; over dims further out; over several. Lines
 * have no zero, one or two of them, a NaN or an infinite factor. Of every type that has products. */
void products(graph_check *check);

#endif
