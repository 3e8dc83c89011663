/* SPDX-License-Identifier: MIT
 * One matrix product by cuBLASLt: described to the library, with the algorithm that it chose. */
#ifndef TCC_RUNTIME_CUDA_CUBLASLT_PRODUCT_H
#define TCC_RUNTIME_CUDA_CUBLASLT_PRODUCT_H

#include "runtime/cuda/cublaslt.h"

#include "codegen/calls.h"
#include "codegen/program.h"

typedef struct tcc_cublaslt_product tcc_cublaslt_product;

/* The library is open; entered. `p` has passed tcc_call_check; its workspace is lowered to what the algorithm takes.
 * Errors: TCC_EUNSUPPORTED, TCC_ENOMEM, TCC_EDEVICE. */
tcc_status tcc__cublaslt_product_create(tcc_device_cuda *cuda, tcc_diag *d, tcc_matmul_params *p,
                                        tcc_cublaslt_product **out);
void tcc__cublaslt_product_destroy(tcc_cublaslt_product *c); /* NULL is allowed */
/* Enqueue it. `buffers`: those of the entry "cublaslt.matmul". */
tcc_status tcc__cublaslt_product_run(tcc_cublaslt_product *c, tcc_diag *d, const tcc_cuda_address *buffers);

#endif
