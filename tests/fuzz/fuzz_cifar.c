/* SPDX-License-Identifier: MIT
 * Fuzzes the check of CIFAR's records. So that a mutation makes whole records, each input byte
 * stands for the first bytes of one. */
#include "runtime/data/images.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(const uint8_t *bytes, size_t size) {
    tcc_diag d = {0};
    tcc__bytes file = {(uint8_t *)(uintptr_t)bytes, size};
    int64_t count = 0;
    tcc_status status = tcc__cifar_check(&d, "fuzz", &file, &count);
    if (status == TCC_OK && (size_t)count * TCC__CIFAR_RECORD != size) abort();
    if (status != TCC_OK && !*tcc_diag_text(&d)) abort(); /* an error without words */
    tcc_diag_clear(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    check(bytes, size);
    size_t records = size < 16 ? size : 16;
    uint8_t *file = malloc(records * TCC__CIFAR_RECORD + 1);
    if (!file) return 0;
    for (size_t i = 0; i < records; i++) memset(file + i * TCC__CIFAR_RECORD, bytes[i], TCC__CIFAR_RECORD);
    check(file, records * TCC__CIFAR_RECORD);
    free(file);
    return 0;
}
