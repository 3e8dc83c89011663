/* SPDX-License-Identifier: MIT
 * Combining elements of two ranks. */
#ifndef TCC_RUNTIME_COMM_COMBINE_H
#define TCC_RUNTIME_COMM_COMBINE_H

#include "traincc/comm.h"

/* all[i] becomes all[i] and x[i] combined, as the ops add, max and min compute it. */
void tcc_combine(tcc_comm_op reduction, tcc_dtype type, void *all, const void *x, int64_t count);

#endif
