/* SPDX-License-Identifier: MIT
 * NVIDIA's libraries beside the driver: which are there. */
#ifndef TCC_RUNTIME_LIBRARY_CUDA_H
#define TCC_RUNTIME_LIBRARY_CUDA_H

#include "ir/support/strbuf.h"

/* One line a library: version and file, or that it was not found. */
void tcc_cuda_libraries_describe(tcc_strbuf *out);

#endif
