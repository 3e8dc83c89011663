/* SPDX-License-Identifier: MIT
 * What cuDNN's documentation of max(0, x) leaves open is asked of an engine on the device itself. */
#ifndef TCC_RUNTIME_CUDA_CUDNN_PROBE_H
#define TCC_RUNTIME_CUDA_CUDNN_PROBE_H

#include "runtime/cuda/cudnn_conv_graph.h"

/* The small convolution that an engine is tried with. */
void tcc__cudnn_probe_params(const tcc_cudnn_conv_params *like, tcc_cudnn_conv_params *out);
/* Whether NaN stays NaN, and infinities and negative numbers become what they should, through the max(0, x) behind a
 * small forward convolution by this engine: of the types, the kernel, the bias, the channels (64 at most) and the order
 * of dimensions of `like`, which has one group. `*differs`: how the engine's is not so, or that it does not do the
 * small one; NULL: it is so.
 * Waits for the device; entered. Errors: TCC_EUNSUPPORTED, TCC_ENOMEM, TCC_EDEVICE. */
tcc_status tcc__cudnn_probe_relu(tcc_device_cuda *cuda, const tcc_cudnn *cudnn, tcc_diag *d,
                                 const tcc_cudnn_conv_params *like, int64_t engine, const char **differs);

#endif
