/* SPDX-License-Identifier: MIT
 * A named array in host memory: how batches, weights and checkpoints pass through the API. */
#ifndef TRAINCC_ARRAY_H
#define TRAINCC_ARRAY_H

#include "traincc/api.h"
#include "traincc/dtype_enum.h"

#include <stdint.h>

/* Dense, row-major. The array owns neither `name` nor `data`; the call that takes or gives one says how long they must
 * live. */
typedef struct tcc_array {
    const char *name;
    tcc_dtype dtype;
    int rank;                   /* 0: a scalar */
    int64_t dims[TCC_MAX_RANK]; /* entries past rank are 0 */
    void *data;
} tcc_array;

#endif
