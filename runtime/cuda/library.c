/* SPDX-License-Identifier: MIT
 * NVIDIA's libraries beside the driver: the table of their entries, and which are there. Every operation has a kernel
 * of ours, so none of them is needed. */
#include "runtime/cuda/library.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/cublaslt_matmul.h"
#include "runtime/cuda/cudnn_conv.h"
#include "runtime/cuda/cudnn_norm.h"
#include "runtime/cuda/cudnn_sdpa.h"
#include "runtime/cuda/nccl.h"

#include "ir/support/alloc.h"

#include <string.h>

static const tcc_cuda_entry *const entries[] = {&tcc__cublaslt_matmul,          &tcc__cudnn_conv_forward,
                                                &tcc__cudnn_conv_data_gradient, &tcc__cudnn_conv_filter_gradient,
                                                &tcc__cudnn_sdpa_forward,       &tcc__cudnn_sdpa_backward,
                                                &tcc__cudnn_norm_forward,       &tcc__cudnn_norm_backward};

const tcc_cuda_entry *tcc__cuda_entry_find(const char *name) {
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (!strcmp(tcc_call_get_info(entries[i]->call)->name, name)) return entries[i];
    return NULL;
}

struct tcc_cuda_call {
    struct tcc_cuda_call *next;
    const tcc_cuda_entry *entry;
    void *call;
    int64_t params[]; /* as create left them, then as they were asked for; n_params each */
};

tcc_status tcc__cuda_call(tcc_device_cuda *cuda, tcc_diag *d, const tcc_cuda_entry *entry, int64_t *params,
                          void **call) {
    const size_t n = (size_t)tcc_call_get_info(entry->call)->n_params, bytes = n * sizeof *params;
    for (struct tcc_cuda_call *c = cuda->calls; c; c = c->next)
        if (c->entry == entry && (!memcmp(c->params, params, bytes) || !memcmp(c->params + n, params, bytes))) {
            memcpy(params, c->params, bytes);
            *call = c->call;
            return TCC_OK;
        }
    TCC_TRY(tcc_call_check(d, entry->call, params));
    struct tcc_cuda_call *made = tcc__calloc(1, sizeof *made + 2 * bytes);
    if (!made) return tcc_enomem(d);
    memcpy(made->params, params, bytes);
    memcpy(made->params + n, params, bytes);
    tcc_status s = entry->create(cuda, d, made->params, &made->call);
    if (s != TCC_OK) {
        memcpy(params, made->params, bytes); /* the name of what was declined */
        tcc__free(made);
        return s;
    }
    made->entry = entry;
    made->next = cuda->calls;
    cuda->calls = made;
    memcpy(params, made->params, bytes);
    *call = made->call;
    return TCC_OK;
}

bool tcc__cuda_takes_call(tcc_device *device, tcc_context *cx, const char *name, int64_t *params) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    const tcc_cuda_entry *entry = tcc__cuda_entry_find(name);
    tcc_diag why = {0};
    void *call = NULL;
    if (!entry || tcc__cuda_enter(cuda, &why) != TCC_OK) {
        tcc_diag_clear(&why); /* a lost device is reported by what is done with it next */
        return false;
    }
    tcc_status s = tcc__cuda_call(cuda, &why, entry, params, &call);
    if (s != TCC_OK) tcc_logf(cx, TCC_LOG_LIBRARY, "our own kernel instead: %s", tcc_diag_words(&why));
    tcc__cuda_leave(cuda);
    tcc_diag_clear(&why);
    return s == TCC_OK;
}

void tcc__cuda_libraries_close(tcc_device_cuda *cuda) {
    while (cuda->calls) {
        struct tcc_cuda_call *c = cuda->calls;
        cuda->calls = c->next;
        c->entry->destroy(c->call);
        tcc__free(c);
    }
    tcc__cublaslt_close(cuda);
    tcc__cudnn_close(cuda);
}

/* --- describing --- */

void tcc__cuda_libraries_describe(const tcc_cuda_driver *driver, tcc_strbuf *out) {
    tcc__vendor_describe(tcc__cublaslt_library(driver), out);
    tcc__vendor_describe(&tcc__cudnn_library, out);
}

void tcc_cuda_libraries_describe(tcc_strbuf *out) {
    tcc_cuda_driver driver;
    tcc_diag why = {0};
    if (tcc_cuda_driver_open(&why, &driver) == TCC_OK) {
        tcc__cuda_libraries_describe(&driver, out);
        tcc__vendor_describe(&tcc__nccl_library,
                             out); /* no program depends on its version, so a device does not name it */
    }
    tcc_diag_clear(&why); /* without a driver there is no device to use them */
}
