/* SPDX-License-Identifier: MIT
 * Fuzzes the safetensors parser: whatever the bytes, every tensor of a file that is accepted lies
 * within it. */
#include "ir/support/context.h"
#include "ir/support/dtype.h"
#include "runtime/files/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tcc_context cx = {0};
    tcc_safetensors *f;
    if (tcc__safetensors_parse(&cx.diag, "fuzz", bytes, size, &f) == TCC_OK) {
        for (int i = 0; i < tcc_safetensors_count(f); i++) {
            tcc_array a = tcc_safetensors_get(f, i);
            if (tcc_safetensors_find(f, a.name) != i) abort();
            tcc_array to = a;
            size_t bytes_needed = (size_t)tcc_dtype_bytes(a.dtype);
            for (int j = 0; j < a.rank; j++) bytes_needed *= (size_t)a.dims[j];
            to.data = malloc(bytes_needed ? bytes_needed : 1);
            if (!to.data) abort();
            tcc_diag_clear(&cx.diag);
            tcc_safetensors_load(&cx, f, &to, 1, TCC_LOAD_ALLOW_UNEXPECTED);
            free(to.data);
        }
        tcc_safetensors_metadata(f, "format");
        tcc_safetensors_close(f);
    } else if (!*tcc_diag_text(&cx.diag)) {
        abort(); /* an error without words */
    }
    tcc_diag_clear(&cx.diag);
    return 0;
}
