/* SPDX-License-Identifier: MIT
 * Matrix products by cuBLASLt. */
#ifndef TCC_RUNTIME_CUDA_CUBLASLT_MATMUL_H
#define TCC_RUNTIME_CUDA_CUBLASLT_MATMUL_H

#include "runtime/cuda/library.h"

extern const tcc_cuda_entry tcc__cublaslt_matmul;

#endif
