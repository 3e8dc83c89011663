/* SPDX-License-Identifier: MIT
 * Batch norm by cuDNN: the entries of the library table, and their graphs. */
#ifndef TCC_RUNTIME_CUDA_CUDNN_NORM_H
#define TCC_RUNTIME_CUDA_CUDNN_NORM_H

#include "runtime/cuda/cudnn_graph.h"

/* Into a fresh graph; params as codegen/program.h says, well-formed. Tensors in the order of the entry's buffers.
 * Errors: those of cudnn_graph.h. */
tcc_status tcc_cudnn_norm_describe(tcc_cudnn_graph *g, tcc_diag *d, bool backward, const tcc_norm_params *p);

extern const tcc_cuda_entry tcc__cudnn_norm_forward, tcc__cudnn_norm_backward;

#endif
