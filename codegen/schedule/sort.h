/* SPDX-License-Identifier: MIT
 * Which lines the schedule of argsort takes (sort.c). */
#ifndef TCC_CODEGEN_SCHEDULE_SORT_H
#define TCC_CODEGEN_SCHEDULE_SORT_H

#include "codegen/schedule/lowering.h"

/* The elements of the longest line, a power of two; 0: none. */
int64_t tcc_sort_longest(const tcc_llvm_target *t);

#endif
