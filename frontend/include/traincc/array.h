/* SPDX-License-Identifier: MIT
 * A named array: how batches, outputs, weights and checkpoints pass through the API. */
#ifndef TRAINCC_ARRAY_H
#define TRAINCC_ARRAY_H

#include "traincc/api.h"
#include "traincc/dtype_enum.h"

#include <stdint.h>

typedef enum tcc_memory {
    TCC_MEMORY_HOST,   /* in the host's memory */
    TCC_MEMORY_DEVICE, /* in the memory of the GPU that the model computes on */
} tcc_memory;

/* Dense, row-major. The array owns neither `name` nor `data`; the call that takes or gives one says how long they must
 * live. Begin an array with zeros: then it lies on the host.
 *
 * An array on the device is for a program that computes on the same GPU. `data` is a device address, a multiple of 16
 * bytes, as cudaMalloc, cudaMallocAsync and cudaMallocManaged give it. `stream` is the one on which the caller's work
 * with the array is in order. A call that takes the array waits for nothing: the model's work comes after all that the
 * stream was given before the call, and what the stream is given after the call comes after the model's work. So the
 * caller may write the array again, or free it on that stream, when the call has returned. It must not do so on another
 * stream, unless that waits for this one. Errors, which name the array: TCC_EINVAL for NULL, an address that is no
 * multiple of 16, memory of the host or of another device, a model on the CPU, a stream of another context, and a
 * stream that is being captured. Functions that do not speak of arrays on the device take none of them. */
typedef struct tcc_array {
    const char *name;
    tcc_dtype dtype;
    int rank;                   /* 0: a scalar */
    int64_t dims[TCC_MAX_RANK]; /* entries past rank are 0 */
    void *data;
    tcc_memory memory;
    /* TCC_MEMORY_DEVICE: a cudaStream_t (CUstream) of the device's primary context, which is the one that the CUDA
     * runtime uses. NULL: the default stream. */
    void *stream;
} tcc_array;

#endif
