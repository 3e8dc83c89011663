/* SPDX-License-Identifier: MIT
 * Attention by cuDNN. */
#ifndef TCC_RUNTIME_CUDA_CUDNN_SDPA_H
#define TCC_RUNTIME_CUDA_CUDNN_SDPA_H

#include "runtime/cuda/cudnn_graph.h"

/* The graph of attention, or of its gradients: its tensors with memory in the order of the entry's buffers, without an
 * lse that is not written; for the gradients, last of all memory for sums. Errors:
 * TCC_EUNSUPPORTED where this version of the library is known to compute it wrongly, and as the graph's. */
tcc_status tcc_cudnn_sdpa_describe(const tcc_cudnn *cudnn, tcc_cudnn_graph *g, tcc_diag *d, bool backward,
                                   const tcc_sdpa_params *p);

extern const tcc_cuda_entry tcc__cudnn_sdpa_forward, tcc__cudnn_sdpa_backward;

#endif
