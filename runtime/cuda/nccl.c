/* SPDX-License-Identifier: MIT
 * Finding NCCL, and its words for what went wrong. */
#include "runtime/cuda/nccl.h"

#include "ir/support/alloc.h"

#include <stdio.h>
#include <string.h>

static const char *check(const void *table, char version[TCC_VENDOR_VERSION]) {
    int v;
    if (((const tcc_nccl *)table)->get_version(&v)) return "it does not say its version";
    snprintf(version, TCC_VENDOR_VERSION, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return v < TCC_NCCL_OLDEST ? "2.14 or newer is needed" : NULL;
}

static const char *const files[] = {"libnccl.so.2", NULL};
static const tcc_vendor_function functions[] = {
#define X(field, result, symbol, parameters) {symbol, offsetof(tcc_nccl, field), false},
    TCC_NCCL_CALLS(X)
#undef X
};
const tcc_vendor_library tcc__nccl_library = {.name = "nccl",
                                              .files = files,
                                              .packages = "nvidia-nccl-cu13 or -cu12",
                                              .lost = "several CUDA devices cannot train together",
                                              .table_bytes = sizeof(tcc_nccl),
                                              .functions = functions,
                                              .n_functions = sizeof functions / sizeof *functions,
                                              .check = check};

void tcc_nccl_find(tcc_nccl *out) {
    *out = (tcc_nccl){0};
    out->usable = tcc_vendor_find(&tcc__nccl_library, out, out->text);
    if (out->usable) out->get_version(&out->version);
}

tcc_status tcc__nccl_failed(const tcc_nccl *nccl, tcc_diag *d, tcc_nccl_result result, tcc_nccl_comm comm,
                            const char *call) {
    const bool others = result == TCC_NCCL_SYSTEM_ERROR || result == TCC_NCCL_REMOTE_ERROR;
    const char *words = nccl->error_string(result), *more = nccl->last_error(comm);
    const int length = more ? (int)strcspn(more, "\r\n") : 0;
    return tcc_error(d, others ? TCC_EIO : TCC_EDEVICE, TCC_NOWHERE, length ? "%s: %s (%.*s)" : "%s: %s%.*s", call,
                     words ? words : "unknown result", length, more ? more : "");
}
