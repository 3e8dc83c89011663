/* SPDX-License-Identifier: MIT
 * Rows that are made of several parts, one after the other (row_parts.c). */
#ifndef TCC_CODEGEN_SCHEDULE_ROW_PARTS_H
#define TCC_CODEGEN_SCHEDULE_ROW_PARTS_H

#include "codegen/schedule/lowering.h"

enum { TCC_MAX_ROW_PARTS = 4 };

/* Whether the parts of a concatenation along the last dim are better made row by row: some are less than a line. All
 * have the same dims before that one. */
bool tcc_row_parts_fit(const tcc_lowering *l, const tcc_node *concat, tcc_node *const *parts, int n);
/* A launch that stores them, from element `start` of `output` on, which is `concat` up to a reshape. *done: false if
 * they are better made apart. */
tcc_status tcc_lower_row_parts(tcc_lowering *l, const tcc_node *output, const tcc_node *concat, tcc_node *const *parts,
                               int n, int64_t start, bool *done);

#endif
