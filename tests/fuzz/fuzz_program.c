/* SPDX-License-Identifier: MIT
 * Any bytes as the body of a stored program, under a header that fits: what decodes encodes again to the same bytes, or
 * is refused with a message. With TCC_FUZZ_ACCEPTED in the environment nothing may be refused. */
#include "ir/support/alloc.h"
#include "runtime/program_file.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { HEADER_BYTES = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char *bytes = malloc(HEADER_BYTES + size);
    if (!bytes) return 0;
    memcpy(bytes, "TCCPROG\0\0\0\0\0\0\0\0", 16);
    bytes[8] = TCC_PROGRAM_FILE_VERSION;
    uint64_t whole = HEADER_BYTES + size, crc = crc32_z(0, data, size);
    for (int i = 0; i < 8; i++) {
        bytes[16 + i] = (unsigned char)(whole >> 8 * i);
        bytes[24 + i] = (unsigned char)(crc >> 8 * i);
    }
    if (size) memcpy(bytes + HEADER_BYTES, data, size);

    tcc_diag d = {0};
    tcc_program *p;
    if (tcc_program_decode(&d, "fuzz", bytes, (int64_t)whole, &p) == TCC_OK) {
        void *again;
        int64_t again_bytes;
        if (tcc_program_encode(&d, p, &again, &again_bytes) != TCC_OK) abort();
        if (again_bytes != (int64_t)whole || memcmp(again, bytes, whole)) abort();
        tcc__free(again);
        tcc_program_destroy(p);
    } else if (p || !*tcc_diag_text(&d) || (size && getenv("TCC_FUZZ_ACCEPTED"))) {
        abort();
    }
    tcc_diag_clear(&d);
    free(bytes);
    return 0;
}
