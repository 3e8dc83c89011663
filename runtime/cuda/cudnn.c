/* SPDX-License-Identifier: MIT
 * Finding cuDNN, its handle on a device, and its words for what went wrong. */
#include "runtime/cuda/cudnn.h"

#include "ir/support/alloc.h"

#include <stdio.h>
#include <string.h>

/* --- finding --- */

static const char *check(const void *table, char version[TCC_VENDOR_VERSION]) {
    const size_t v = ((const tcc_cudnn_functions *)table)->version(), unit = v >= 90000 ? 10000 : 1000;
    snprintf(version, TCC_VENDOR_VERSION, "%zu.%zu.%zu", v / unit, v % unit / 100, v % 100);
    return v / unit != 9 ? "only version 9 is known" : NULL;
}

static const char *const files[] = {"libcudnn.so.9", NULL};
static const tcc_vendor_function functions[] = {
#define X(field, result, symbol, parameters) {symbol, offsetof(tcc_cudnn_functions, field), false},
    TCC_CUDNN_CALLS(X)
#undef X
        {"cudnnGetLastErrorString", offsetof(tcc_cudnn_functions, last_error), true},
};
const tcc_vendor_library tcc__cudnn_library = {.name = "cudnn",
                                               .files = files,
                                               .packages = "nvidia-cudnn-cu13 or -cu12",
                                               .lost = "convolutions, attention and batch norms use our own kernels",
                                               .table_bytes = sizeof(tcc_cudnn_functions),
                                               .functions = functions,
                                               .n_functions = sizeof functions / sizeof *functions,
                                               .check = check};

void tcc_cudnn_find(tcc_cudnn_library *out) {
    *out = (tcc_cudnn_library){0};
    out->usable = tcc_vendor_find(&tcc__cudnn_library, &out->f, out->text);
}

/* --- errors --- */

static tcc_status status_of(tcc_cudnn_status r) {
    if (r == TCC_CUDNN_HOST_ALLOCATION_FAILED || r == TCC_CUDNN_DEVICE_ALLOCATION_FAILED) return TCC_ENOMEM;
    const int kind = r / 1000 * 1000;
    return kind == TCC_CUDNN_BAD_PARAM || kind == TCC_CUDNN_NOT_SUPPORTED ? TCC_EUNSUPPORTED : TCC_EDEVICE;
}

/* "CUDNN_STATUS_BAD_PARAM (what the library says more, on one line)" */
static void words_of(const tcc_cudnn_functions *f, tcc_cudnn_status r, char *out, size_t bytes) {
    char more[512] = "";
    const char *name = f->error_string(r);
    if (f->last_error) f->last_error(more, sizeof more);
    more[sizeof more - 1] = 0;
    more[strcspn(more, "\r\n")] = 0;
    snprintf(out, bytes, *more ? "%s (%s)" : "%s%s", name ? name : "unknown status", more);
}

tcc_status tcc__cudnn_failed(const tcc_cudnn_functions *f, tcc_diag *d, tcc_cudnn_status result, const char *call) {
    char words[640];
    words_of(f, result, words, sizeof words);
    return tcc_error(d, status_of(result), TCC_NOWHERE, "%s: %s", call, words);
}

/* --- the handle --- */

static void make_handle(tcc_cudnn *c) {
    const tcc_cudnn_functions *f = &c->library.f;
    const char *call = tcc__cudnn_symbol_create;
    c->refused = f->create(&c->handle);
    if (!c->refused) {
        call = tcc__cudnn_symbol_set_stream;
        c->refused = f->set_stream(c->handle, c->stream);
    }
    if (!c->refused) return;
    char words[200];
    words_of(f, c->refused, words, sizeof words);
    snprintf(c->refused_words, sizeof c->refused_words, "%s: %s", call, words);
    if (c->handle) f->destroy(c->handle);
    c->handle = NULL;
}

tcc_status tcc__cudnn_open(tcc_device_cuda *cuda, tcc_diag *d, const tcc_cudnn **out) {
    if (!cuda->cudnn) {
        cuda->cudnn = tcc__calloc(1, sizeof *cuda->cudnn);
        if (!cuda->cudnn) return tcc_enomem(d);
        cuda->cudnn->stream = cuda->compute;
        tcc_cudnn_find(&cuda->cudnn->library);
    }
    tcc_cudnn *c = cuda->cudnn;
    if (!c->library.usable) return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "cudnn: %s", c->library.text);
    if (!c->handle && !c->refused) make_handle(c);
    if (c->refused) return tcc_error(d, status_of(c->refused), TCC_NOWHERE, "%s", c->refused_words);
    *out = c;
    return TCC_OK;
}

void tcc__cudnn_close(tcc_device_cuda *cuda) {
    if (cuda->cudnn && cuda->cudnn->handle) cuda->cudnn->library.f.destroy(cuda->cudnn->handle);
    tcc__free(cuda->cudnn);
    cuda->cudnn = NULL;
}
