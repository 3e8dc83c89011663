/* SPDX-License-Identifier: MIT
 * Convolutions by cuDNN. */
#ifndef TCC_RUNTIME_CUDA_CUDNN_CONV_H
#define TCC_RUNTIME_CUDA_CUDNN_CONV_H

#include "runtime/cuda/library.h"

extern const tcc_cuda_entry tcc__cudnn_conv_forward, tcc__cudnn_conv_data_gradient, tcc__cudnn_conv_filter_gradient;

#endif
