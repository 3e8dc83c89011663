/* SPDX-License-Identifier: MIT
 * Networks with hundreds of operands of one kind: long recurrences, slices, windows, nested concatenations. */
#ifndef TCC_TESTS_HARNESS_MANY_OPERANDS_H
#define TCC_TESTS_HARNESS_MANY_OPERANDS_H

#include "traincc/traincc.h"

/* Trains one step of each with `n` operands and checks losses and gradients against sums made here, and that the number
 * of kernels does not grow with n. */
void check_many_operands(const char *device, tcc_mode mode, int n);
/* Thirty of other things in one expression: sums, products, takes, scatters, pads, outputs, attention heads. */
void check_thirty_of_each(const char *device, tcc_mode mode);
/* Forty blocks with zeros around them, added up by a kernel that sums rows and columns. */
void check_forty_blocks(const char *device, tcc_mode mode);

#endif
