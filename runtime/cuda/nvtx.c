/* SPDX-License-Identifier: MIT */
#include "runtime/cuda/nvtx.h"
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

tcc_status tcc_nvtx_open(tcc_diag *d, tcc_nvtx *out) {
    static const char *const files[] = {"libnvToolsExt.so.1", NULL};
    const char *wanted = getenv("TCC_NVTX");
    char found[PATH_MAX];
    *out = (tcc_nvtx){0};
    if (!wanted || strcmp(wanted, "1")) return TCC_OK;
    void *handle = tcc_cuda_library_open(files, found);
    if (!handle)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE,
                         "TCC_NVTX=1: libnvToolsExt.so.1, which comes with the CUDA toolkit, was not found; name its "
                         "folder in TCC_CUDA_PATH, or unset TCC_NVTX");
    void *push = dlsym(handle, "nvtxRangePushA"), *pop = dlsym(handle, "nvtxRangePop");
    if (!push || !pop)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "TCC_NVTX=1: %s has no nvtxRangePushA and nvtxRangePop",
                         found);
    memcpy(&out->push, &push, sizeof push); /* ISO C has no cast from object to function pointer */
    memcpy(&out->pop, &pop, sizeof pop);
    return TCC_OK;
}
