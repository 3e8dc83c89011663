/* SPDX-License-Identifier: MIT
 * The library cuBLASLt: found, opened, and given back. */
#include "runtime/cuda/cublaslt.h"
#include "runtime/wanted.h"

#include "ir/support/alloc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char lost[] = "large matrix products use our own kernels";

static const char *find_functions(void *handle, tcc_cublaslt_functions *f) {
    void *address;
#define X(field, result, symbol, parameters)                           \
    if (!(address = dlsym(handle, symbol))) return "it lacks " symbol; \
    memcpy(&f->field, &address, sizeof address); /* ISO C has no cast from object to function pointer */
    TCC_CUBLASLT_CALLS(X)
#undef X
    return NULL;
}

void tcc_cublaslt_find(const tcc_cuda_driver *driver, tcc_cublaslt_library *out) {
    static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    const char *const *wanted = driver->version >= 13000 ? files : files + 1;
    char file[PATH_MAX];
    *out = (tcc_cublaslt_library){0};
    if (!tcc_library_wanted("cublaslt")) {
        snprintf(out->text, sizeof out->text, "switched off by TCC_LIBRARIES");
        return;
    }
    void *handle = tcc_cuda_library_open(wanted, file); /* stays open: it keeps thread-local data */
    if (!handle) {
        snprintf(out->text, sizeof out->text,
                 "%s not found (TCC_CUDA_PATH names its folder; pip install nvidia-cublas%s brings it): %s", *wanted,
                 driver->version >= 13000 ? "" : "-cu12", lost);
        return;
    }
    const char *refused = find_functions(handle, &out->f);
    int version = refused ? 0 : (int)out->f.version(), major = version / 10000;
    if (!refused && major != 12 && major != 13) refused = "only versions 12 and 13 are known";
    out->usable = !refused;
    if (!refused)
        snprintf(out->text, sizeof out->text, "%d.%d.%d (%s)", major, version / 100 % 100, version % 100, file);
    else
        snprintf(out->text, sizeof out->text, "%d.%d.%d (%s) cannot be used: %s; %s", major, version / 100 % 100,
                 version % 100, file, refused, lost);
}

void tcc__cublaslt_describe(const tcc_cuda_driver *driver, tcc_strbuf *out) {
    tcc_cublaslt_library *library = tcc__calloc(1, sizeof *library);
    if (!library) return;
    tcc_cublaslt_find(driver, library);
    tcc_strbuf_printf(out, "cublaslt: %s\n", library->text);
    tcc__free(library);
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
