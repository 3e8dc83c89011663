/* SPDX-License-Identifier: MIT
 * Any bytes as a kernel's object: loaded or refused with a message; nothing in it is called. */
#include "runtime/cpu/object.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tcc_diag d = {0};
    tcc_host_object *object;
    if (tcc_host_object_load(&d, "fuzz", data, (int64_t)size, &object) == TCC_OK) {
        tcc_host_object_kernel(object, "kernel");
        tcc_host_object_destroy(object);
    } else if (object || !*tcc_diag_text(&d)) {
        abort();
    }
    tcc_diag_clear(&d);
    return 0;
}
