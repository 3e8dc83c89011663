/* SPDX-License-Identifier: MIT
 * Lines in sorted order on a device, against places that are counted. */
#ifndef TCC_TESTS_HARNESS_SORTED_LINES_H
#define TCC_TESTS_HARNESS_SORTED_LINES_H

#include "traincc/traincc.h"

enum { SORTED_ROWS = 2, SORTED_LONGEST = 40000, SORTED_KINDS = 8 };

typedef struct sorted_line {
    int n, k; /* the first k of n are asked for; descending if k < n */
    bool descending;
    tcc_dtype dtype; /* f32, bf16, i32 or u8 */
} sorted_line;

/* Values of `kinds` elements that are often equal, among them infinities, NaN and zeros of both signs; 0: of many. The
 * device NULL: a CPU. Kernels are how many the program has, if `kernels` is not NULL. */
void check_sorted_line(const char *device, sorted_line line, int kinds, int *kernels);

#endif
