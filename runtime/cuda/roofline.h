/* SPDX-License-Identifier: MIT
 * What a CUDA device reaches. */
#ifndef TCC_RUNTIME_CUDA_ROOFLINE_H
#define TCC_RUNTIME_CUDA_ROOFLINE_H

#include "runtime/cuda/context.h"

/* device_ops.measure. */
tcc_status tcc__device_cuda_measure(tcc_device *device, tcc_diag *d, tcc_roofline *out);

#endif
