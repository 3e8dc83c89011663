/* SPDX-License-Identifier: MIT
 * Any bytes as the body of a plan, under a header that fits: what decodes encodes again to the same bytes, or is
 * refused with a message. With TCC_FUZZ_ACCEPTED in the environment nothing may be refused. */
#include "frontend/run/compiled_file.h"

#include <stdlib.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { HEADER = TCC_STREAM_HEADER_BYTES };
    unsigned char *bytes = malloc(HEADER + size);
    if (!bytes) return 0;
    memcpy(bytes, "TCCPLAN\0\0\0\0\0\0\0\0", 16);
    bytes[8] = TCC_PLAN_VERSION;
    const uint64_t whole = HEADER + size, crc = crc32_z(0, data, size);
    for (int i = 0; i < 8; i++) {
        bytes[16 + i] = (unsigned char)(whole >> 8 * i);
        bytes[24 + i] = (unsigned char)(crc >> 8 * i);
    }
    if (size) memcpy(bytes + HEADER, data, size);

    tcc_context *cx = NULL;
    tcc_arena memory = {0};
    const char *about = NULL;
    tcc_model *m = tcc__calloc(1, sizeof *m);
    if (!m || tcc_context_create(&cx) != TCC_OK) abort();
    m->cx = cx;
    if (tcc__plan_decode(m, "fuzz", bytes, (int64_t)whole, &memory, &about) == TCC_OK) {
        void *again;
        int64_t again_bytes;
        if (tcc__plan_encode(m, about, &again, &again_bytes) != TCC_OK) abort();
        if (again_bytes != (int64_t)whole || memcmp(again, bytes, whole)) abort();
        tcc__free(again);
    } else if (!*tcc_context_error(cx) || (size && getenv("TCC_FUZZ_ACCEPTED"))) {
        abort();
    }
    tcc_model_destroy(m);
    tcc_arena_free(&memory);
    tcc_context_destroy(cx);
    free(bytes);
    return 0;
}
