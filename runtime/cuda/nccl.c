/* SPDX-License-Identifier: MIT
 * Finding NCCL, and its words for what went wrong. */
#include "runtime/cuda/nccl.h"
#include "runtime/wanted.h"

#include "ir/support/alloc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char lost[] = "several CUDA devices cannot train together";

static const char *find_functions(void *handle, tcc_nccl *f) {
    void *address;
#define X(field, result, symbol, parameters)                           \
    if (!(address = dlsym(handle, symbol))) return "it lacks " symbol; \
    memcpy(&f->field, &address, sizeof address); /* ISO C has no cast from object to function pointer */
    TCC_NCCL_CALLS(X)
#undef X
    return NULL;
}

void tcc_nccl_find(tcc_nccl *out) {
    static const char *const files[] = {"libnccl.so.2", NULL};
    char file[PATH_MAX];
    *out = (tcc_nccl){0};
    if (!tcc_library_wanted("nccl")) {
        snprintf(out->text, sizeof out->text, "switched off by TCC_LIBRARIES: %s", lost);
        return;
    }
    void *handle = tcc_cuda_library_open(files, file); /* stays open: it keeps threads of its own */
    if (!handle) {
        snprintf(out->text, sizeof out->text,
                 "%s not found (TCC_CUDA_PATH names its folder; pip install nvidia-nccl-cu13 or -cu12 brings it): %s",
                 *files, lost);
        return;
    }
    const char *refused = find_functions(handle, out);
    if (!refused && out->get_version(&out->version)) refused = "it does not say its version";
    if (!refused && out->version < TCC_NCCL_OLDEST) refused = "2.14 or newer is needed";
    out->usable = !refused;
    const int v = out->version, major = v / 10000;
    char number[64];
    snprintf(number, sizeof number, "%d.%d.%d", major, v / 100 % 100, v % 100);
    if (!refused) snprintf(out->text, sizeof out->text, "%s (%s)", number, file);
    else snprintf(out->text, sizeof out->text, "%s (%s) cannot be used: %s; %s", number, file, refused, lost);
}

void tcc__nccl_describe(tcc_strbuf *out) {
    tcc_nccl *nccl = tcc__calloc(1, sizeof *nccl);
    if (!nccl) return;
    tcc_nccl_find(nccl);
    tcc_strbuf_printf(out, "nccl: %s\n", nccl->text);
    tcc__free(nccl);
}

tcc_status tcc__nccl_failed(const tcc_nccl *nccl, tcc_diag *d, tcc_nccl_result result, tcc_nccl_comm comm,
                            const char *call) {
    const bool others = result == TCC_NCCL_SYSTEM_ERROR || result == TCC_NCCL_REMOTE_ERROR;
    const char *words = nccl->error_string(result), *more = nccl->last_error(comm);
    const int length = more ? (int)strcspn(more, "\r\n") : 0;
    return tcc_error(d, others ? TCC_EIO : TCC_EDEVICE, TCC_NOWHERE, length ? "%s: %s (%.*s)" : "%s: %s%.*s", call,
                     words ? words : "unknown result", length, more ? more : "");
}
