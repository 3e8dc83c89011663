/* SPDX-License-Identifier: MIT
 * A named array in host memory: how batches, weights and checkpoints pass through the API. */
#ifndef TRAINCC_ARRAY_H
#define TRAINCC_ARRAY_H

#include "traincc/api.h"
#include "traincc/dtype_enum.h"

#include <stdint.h>

/* Dense, row-major. `name` and `data` are borrowed; the call that takes or gives an array says for
 * how long. */
typedef struct tcc_array {
    const char *name;
    tcc_dtype dtype;
    int rank;                   /* 0: a scalar */
    int64_t dims[TCC_MAX_RANK]; /* entries past rank are 0 */
    void *data;
} tcc_array;

#endif
