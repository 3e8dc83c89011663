/* SPDX-License-Identifier: MIT
 * A program's PTX on a CUDA device. */
#include "module_cuda.h"

#include "ir/support/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOG_BYTES = 1024 /* of what the driver says: the first errors tell most */ };

static tcc_status load(tcc_device_cuda *cuda, tcc_diag *d, const tcc_program *p, int module, tcc_cuda_module *out) {
    char log[LOG_BYTES] = "";
    int options[] = {TCC_CUDA_JIT_ERROR_LOG, TCC_CUDA_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    tcc_cuda_result r = cuda->cu.module_load(out, p->modules[module].code, 2, options, values);
    if (!r) return TCC_OK;
    *out = NULL;
    for (size_t end = strlen(log); end && strchr("\n ", log[end - 1]); end--) log[end - 1] = 0;
    char call[LOG_BYTES + 128];
    snprintf(call, sizeof call, "the driver refuses module %d of program '%s'%s%s", module, p->name ? p->name : "", *log ? ": " : "", log);
    tcc_status s = tcc__cuda_failed(cuda, d, r, call);
    if (r == TCC_CUDA_UNSUPPORTED_PTX_VERSION)
        tcc_note(d, TCC_NOWHERE, "this driver speaks CUDA %d.%d: a newer one takes the PTX", cuda->cu.version / 1000, cuda->cu.version % 1000 / 10);
    if (*log) tcc__cuda_module_save(d, p, module);
    return s;
}

tcc_status tcc__cuda_modules_load(tcc_device_cuda *cuda, tcc_diag *d, const tcc_program *p, tcc_cuda_module *modules) {
    for (int i = 0; i < p->n_modules; i++) TCC_TRY(load(cuda, d, p, i, &modules[i]));
    return TCC_OK;
}

void tcc__cuda_module_save(tcc_diag *d, const tcc_program *p, int module) {
    const char *folder = getenv("TMPDIR");
    tcc_strbuf path = {0};
    tcc_strbuf_printf(&path, "%s/traincc-module%d-XXXXXX.ptx", folder && *folder ? folder : "/tmp", module);
    int file = path.text ? mkstemps(path.text, 4) : -1;
    const char *code = p->modules[module].code;
    size_t length = strlen(code);
    bool written = file >= 0 && write(file, code, length) == (ssize_t)length;
    if (file >= 0 && close(file)) written = false;
    if (written) tcc_note(d, TCC_NOWHERE, "its PTX is in %s", path.text);
    tcc_strbuf_free(&path);
}
