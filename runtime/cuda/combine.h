/* SPDX-License-Identifier: MIT
 * Kernels that collectives need on a CUDA device, as PTX: combining what ranks have sent, in their order. */
#ifndef TCC_RUNTIME_CUDA_COMBINE_H
#define TCC_RUNTIME_CUDA_COMBINE_H

#include "ir/support/dtype.h"
#include "ir/support/reduction.h"
#include "ir/support/strbuf.h"

#include <stdint.h>

enum { TCC_COMBINE_THREADS = 256 }; /* of a block */

/* The parameters of such a kernel: to[i] becomes slots[i], slots[i + stride], ... of `ranks` ranks, combined from the
 * left as tcc_combine does on the host. `to` may be one of the slots. Any grid will do. */
typedef struct tcc_combine_params {
    uint64_t slots, to;
    int64_t count, stride, ranks;
} tcc_combine_params;

/* The text begins with this. */
void tcc_combine_begin(tcc_strbuf *ptx);
/* A kernel that stores the number `value` (an i32) at the address `at`: parameters of 8 and of 4 bytes. */
#define TCC_COMBINE_MARK "tcc_mark"
/* Adds one; its name is tcc_combine_name's. */
void tcc_combine_add(tcc_strbuf *ptx, tcc_rank_reduction reduction, tcc_dtype type);
void tcc_combine_name(char name[32], tcc_rank_reduction reduction, tcc_dtype type);

#endif
