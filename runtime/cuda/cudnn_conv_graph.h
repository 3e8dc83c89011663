/* SPDX-License-Identifier: MIT
 * A convolution as a graph of cuDNN's. */
#ifndef TCC_RUNTIME_CUDA_CUDNN_CONV_GRAPH_H
#define TCC_RUNTIME_CUDA_CUDNN_CONV_GRAPH_H

#include "runtime/cuda/cudnn_graph.h"

typedef enum tcc_cudnn_conv_kind {
    TCC_CUDNN_CONV_FORWARD,
    TCC_CUDNN_CONV_DATA_GRADIENT,
    TCC_CUDNN_CONV_FILTER_GRADIENT
} tcc_cudnn_conv_kind;

/* The graph of one convolution: its tensors with memory in the order of the entry's buffers, without a bias that there
 * is not. */
tcc_status tcc_cudnn_conv_describe(tcc_cudnn_graph *g, tcc_diag *d, tcc_cudnn_conv_kind kind,
                                   const tcc_cudnn_conv_params *p);
/* What an engine for it may do. */
tcc_cudnn_limits tcc_cudnn_conv_limits(const tcc_cudnn_conv_params *p);
/* Describes it in *out, and plans it with the engine that p->by asks for: any, the one that it names, or that of a
 * rank, whose name it then has. The workspace is lowered to what that takes. *out is to be destroyed after an error,
 * too. */
tcc_status tcc_cudnn_conv_plan(const tcc_cudnn *cudnn, tcc_diag *d, tcc_cudnn_conv_kind kind, tcc_cudnn_conv_params *p,
                               tcc_cudnn_graph **out);

#endif
