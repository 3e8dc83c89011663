/* SPDX-License-Identifier: MIT
 * Ranges that NVIDIA's profilers show, by their library NVTX, which is found at run time. With TCC_NVTX=1 only. */
#ifndef TCC_RUNTIME_CUDA_NVTX_H
#define TCC_RUNTIME_CUDA_NVTX_H

#include "ir/support/diag.h"

typedef struct tcc_nvtx {
    int (*push)(const char *name); /* NULL: nobody wants ranges */
    int (*pop)(void);
} tcc_nvtx;

/* Fills *out: with zeros where TCC_NVTX=1 is not set. The library stays loaded. Errors: TCC_EUNSUPPORTED (there is
 * none). */
tcc_status tcc_nvtx_open(tcc_diag *d, tcc_nvtx *out);

static inline void tcc_nvtx_push(const tcc_nvtx *nvtx, const char *name) {
    if (nvtx->push) nvtx->push(name);
}
static inline void tcc_nvtx_pop(const tcc_nvtx *nvtx) {
    if (nvtx->pop) nvtx->pop();
}

#endif
