/* SPDX-License-Identifier: MIT
 * A CUDA device's context: entering and leaving it, its memory, and what an error makes of it. */
#include "runtime/cuda/context.h"

#include <stdio.h>

enum { ALIGNMENT = 256 };

/* --- errors --- */

/* "3.9 GiB of 4.0 GiB"; nothing where the driver does not say. */
static void describe_free(tcc_device_cuda *cuda, tcc_strbuf *out) {
    size_t free_bytes, total;
    if (cuda->cu.memory_info(&free_bytes, &total)) return;
    tcc_strbuf_bytes(out, (double)free_bytes);
    tcc_strbuf_add(out, " of ");
    tcc_strbuf_bytes(out, (double)total);
}

tcc_status tcc__cuda_failed(tcc_device_cuda *cuda, tcc_diag *d, tcc_cuda_result r, const char *call) {
    tcc_status s = tcc_cuda_error(&cuda->cu, d, r, call);
    if (r == TCC_CUDA_OUT_OF_MEMORY) {
        tcc_strbuf text = {0};
        describe_free(cuda, &text);
        if (text.text) tcc_note(d, TCC_NOWHERE, "%s are free on cuda:%d (%s)", text.text, cuda->ordinal, cuda->name);
        tcc_strbuf_free(&text);
    }
    if (!tcc_cuda_is_sticky(r)) return s;
    if (!*cuda->lost) snprintf(cuda->lost, sizeof cuda->lost, "%s: %s", call, tcc_cuda_error_name(&cuda->cu, r));
    if (r == TCC_CUDA_DEVICE_UNAVAILABLE || r == TCC_CUDA_ECC_UNCORRECTABLE || r == TCC_CUDA_CONTAINED)
        tcc_note(d, TCC_NOWHERE, "cuda:%d (%s) is lost: nvidia-smi or the system's log may say why", cuda->ordinal,
                 cuda->name);
    else if (!cuda->blocking)
        tcc_note(d, TCC_NOWHERE, "a kernel on cuda:%d (%s) failed while it ran; TCC_LAUNCH_BLOCKING=1 names it",
                 cuda->ordinal, cuda->name);
    return s;
}

tcc_status tcc__cuda_enter(tcc_device_cuda *cuda, tcc_diag *d) {
    pthread_mutex_lock(&cuda->lock);
    tcc_status s = TCC_OK;
    if (*cuda->lost)
        s = tcc_error(d, TCC_EDEVICE, TCC_NOWHERE,
                      "cuda:%d (%s) is of no more use to this process since an earlier error: %s", cuda->ordinal,
                      cuda->name, cuda->lost);
    if (s == TCC_OK) {
        tcc_cuda_result r = cuda->cu.context_push(cuda->context);
        if (r) s = tcc__cuda_failed(cuda, d, r, tcc__cuda_symbol_context_push);
    }
    if (s != TCC_OK) pthread_mutex_unlock(&cuda->lock);
    return s;
}

bool tcc__cuda_enter_to_free(tcc_device_cuda *cuda) {
    pthread_mutex_lock(&cuda->lock);
    if (!cuda->cu.context_push(cuda->context)) return true;
    pthread_mutex_unlock(&cuda->lock);
    return false;
}

void tcc__cuda_leave(tcc_device_cuda *cuda) {
    tcc_cuda_context own;
    cuda->cu.context_pop(&own);
    pthread_mutex_unlock(&cuda->lock);
}

/* --- memory --- */

static tcc_status out_of_memory(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, const char *purpose) {
    tcc_strbuf text = {0};
    tcc_strbuf_bytes(&text, (double)size_bytes);
    tcc_strbuf_add(&text, " asked for, ");
    describe_free(cuda, &text);
    tcc_error(d, TCC_ENOMEM, TCC_NOWHERE, "out of memory on cuda:%d (%s): %s free", cuda->ordinal, cuda->name,
              text.text ? text.text : "none");
    if (purpose) tcc_note(d, TCC_NOWHERE, "for %s", purpose);
    tcc_strbuf_free(&text);
    return TCC_ENOMEM;
}

tcc_status tcc__cuda_alloc(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, const char *purpose,
                           tcc_cuda_address *out) {
    size_t rounded = size_bytes < 1 ? ALIGNMENT : ((size_t)size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    tcc_cuda_result r = size_bytes < 0 ? TCC_CUDA_OUT_OF_MEMORY : cuda->cu.alloc(out, rounded);
    if (!r) return TCC_OK;
    *out = 0;
    return r == TCC_CUDA_OUT_OF_MEMORY ? out_of_memory(cuda, d, size_bytes, purpose)
                                       : tcc__cuda_failed(cuda, d, r, tcc__cuda_symbol_alloc);
}

enum { PORTABLE = 1 }; /* pinned for every context */

static tcc_status not_pinned(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, tcc_cuda_result r,
                             const char *call) {
    if (r != TCC_CUDA_OUT_OF_MEMORY) return tcc__cuda_failed(cuda, d, r, call);
    tcc_strbuf size = {0};
    tcc_strbuf_bytes(&size, (double)size_bytes);
    tcc_error(d, TCC_ENOMEM, TCC_NOWHERE,
              "no pinned memory for cuda:%d (%s): the driver could not lock %s of this machine's memory (%s: %s)",
              cuda->ordinal, cuda->name, size.text ? size.text : "some", call, tcc_cuda_error_name(&cuda->cu, r));
    tcc_strbuf_free(&size);
    return TCC_ENOMEM;
}

tcc_status tcc__cuda_host_alloc(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, void **out) {
    tcc_cuda_result r = cuda->cu.host_alloc(out, (size_t)size_bytes, PORTABLE);
    if (!r) return TCC_OK;
    *out = NULL;
    return not_pinned(cuda, d, size_bytes, r, tcc__cuda_symbol_host_alloc);
}

tcc_status tcc__cuda_host_register(tcc_device_cuda *cuda, tcc_diag *d, void *memory, int64_t size_bytes) {
    tcc_cuda_result r = cuda->cu.host_register(memory, (size_t)size_bytes, PORTABLE);
    return r ? not_pinned(cuda, d, size_bytes, r, tcc__cuda_symbol_host_register) : TCC_OK;
}
