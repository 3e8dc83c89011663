/* SPDX-License-Identifier: MIT
 * Values that trials run on. */
#include "frontend/tune/tune.h"

#include "ir/support/element.h"
#include "ir/support/hash.h"

#include <string.h>

double tcc__tune_draw(int stream, int64_t i) {
    const uint64_t bits = tcc_hash_add((uint64_t)stream + 1, (uint64_t)i);
    return (double)(bits >> 11) * 0x1p-53;
}

void tcc__tune_fill(const tcc_type *type, tcc_tune_value value, const void *user, void *packed) {
    enum { BLOCK = 256, PERIOD = 1048573 };
    const int64_t n = tcc_type_numel(type), drawn = n < PERIOD ? n : PERIOD;
    const size_t bytes = (size_t)tcc_dtype_bytes(type->dtype);
    double row[BLOCK];
    for (int64_t at = 0; at < drawn; at += BLOCK) {
        const int64_t count = drawn - at < BLOCK ? drawn - at : BLOCK;
        for (int64_t i = 0; i < count; i++) row[i] = value(user, at + i);
        tcc_elements_cast(type->dtype, (char *)packed + (size_t)at * bytes, TCC_F64, row, count);
    }
    for (int64_t at = drawn; at < n; at += drawn)
        memcpy((char *)packed + (size_t)at * bytes, packed, (size_t)(n - at < drawn ? n - at : drawn) * bytes);
}
