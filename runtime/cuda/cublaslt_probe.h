/* SPDX-License-Identifier: MIT
 * What the documentation of cuBLASLt's epilogues leaves open is asked of the library on the device itself. */
#ifndef TCC_RUNTIME_CUDA_CUBLASLT_PROBE_H
#define TCC_RUNTIME_CUDA_CUBLASLT_PROBE_H

#include "runtime/cuda/context.h"

#include "codegen/calls.h"
#include "codegen/program.h"

/* Whether a product with the types and the activation (RELU or RELU_GRADIENT) of `like` is what codegen/program.h says:
 * NaN stays NaN through max(0, x); bits lie in the order that they are packed in; an infinity or NaN that its bit hides
 * is 0. The product is large enough for tensor cores. `*differs`: how the library's is not; NULL: it is the same. Waits
 * for the device; entered. Errors: TCC_EUNSUPPORTED (the library declines the product), TCC_ENOMEM, TCC_EDEVICE. */
tcc_status tcc__cublaslt_probe(tcc_device_cuda *cuda, tcc_diag *d, const tcc_matmul_params *like, const char **differs);

#endif
