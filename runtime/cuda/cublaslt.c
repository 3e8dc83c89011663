/* SPDX-License-Identifier: MIT
 * The library cuBLASLt: found, opened, and given back. */
#include "runtime/cuda/cublaslt.h"

#include "ir/support/alloc.h"

#include <stdio.h>
#include <string.h>

static const char *check(const void *table, char version[TCC_VENDOR_VERSION]) {
    const int v = (int)((const tcc_cublaslt_functions *)table)->version(), major = v / 10000;
    snprintf(version, TCC_VENDOR_VERSION, "%d.%d.%d", major, v / 100 % 100, v % 100);
    return major != 12 && major != 13 ? "only versions 12 and 13 are known" : NULL;
}

static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
static const tcc_vendor_function functions[] = {
#define X(field, result, symbol, parameters) {symbol, offsetof(tcc_cublaslt_functions, field), false},
    TCC_CUBLASLT_CALLS(X)
#undef X
};

/* For drivers of CUDA 13, and of 12. */
#define LIBRARY(files_, packages_)                        \
    {.name = "cublaslt",                                  \
     .files = files_,                                     \
     .packages = packages_,                               \
     .lost = "large matrix products use our own kernels", \
     .table_bytes = sizeof(tcc_cublaslt_functions),       \
     .functions = functions,                              \
     .n_functions = sizeof functions / sizeof *functions, \
     .check = check}
static const tcc_vendor_library libraries[] = {LIBRARY(files, "nvidia-cublas"),
                                               LIBRARY(files + 1, "nvidia-cublas-cu12")};

const tcc_vendor_library *tcc__cublaslt_library(const tcc_cuda_driver *driver) {
    return &libraries[driver->version < 13000];
}

void tcc_cublaslt_find(const tcc_cuda_driver *driver, tcc_cublaslt_library *out) {
    *out = (tcc_cublaslt_library){0};
    out->usable = tcc_vendor_find(tcc__cublaslt_library(driver), &out->f, out->text);
}

tcc_status tcc__cublaslt_failed(const tcc_cublaslt_functions *f, tcc_diag *d, tcc_cublas_status r, const char *call) {
    tcc_status s = TCC_EDEVICE;
    if (r == TCC_CUBLAS_NOT_SUPPORTED || r == TCC_CUBLAS_INVALID_VALUE || r == TCC_CUBLAS_ARCH_MISMATCH)
        s = TCC_EUNSUPPORTED;
    if (r == TCC_CUBLAS_ALLOC_FAILED) s = TCC_ENOMEM;
    const char *name = f->status_name(r);
    return tcc_error(d, s, TCC_NOWHERE, "%s: %s", call, name ? name : "unknown status");
}

tcc_status tcc__cublaslt_open(tcc_device_cuda *cuda, tcc_diag *d) {
    if (!cuda->cublaslt) {
        cuda->cublaslt = tcc__calloc(1, sizeof *cuda->cublaslt);
        if (!cuda->cublaslt) return tcc_enomem(d);
        tcc_cublaslt_find(&cuda->cu, &cuda->cublaslt->library);
    }
    struct tcc_cublaslt *lt = cuda->cublaslt;
    if (!lt->library.usable) return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "cublaslt: %s", lt->library.text);
    if (!lt->handle && !lt->refused) lt->refused = lt->library.f.create(&lt->handle);
    return lt->refused ? tcc__cublaslt_failed(&lt->library.f, d, lt->refused, "cublasLtCreate") : TCC_OK;
}

void tcc__cublaslt_close(tcc_device_cuda *cuda) {
    if (cuda->cublaslt && cuda->cublaslt->handle) cuda->cublaslt->library.f.destroy(cuda->cublaslt->handle);
    tcc__free(cuda->cublaslt);
    cuda->cublaslt = NULL;
}
