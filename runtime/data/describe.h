/* SPDX-License-Identifier: MIT
 * What was read, in words. */
#ifndef TCC_RUNTIME_DATA_DESCRIBE_H
#define TCC_RUNTIME_DATA_DESCRIBE_H

#include "ir/support/hash.h"
#include "ir/support/strbuf.h"

/* A line that says what may be a mistake. */
#define tcc__warn(out, format, ...) tcc_strbuf_printf(out, "warning: " format "\n", __VA_ARGS__)

/* Of a sample's bytes; `rough`: of some in their middle. */
static inline uint64_t tcc__sample_hash(const void *bytes, size_t size, bool rough) {
    enum { FEW = 64 };
    const size_t from = rough && size > FEW ? (size - FEW) / 2 : 0;
    return tcc_hash_bytes(0, (const uint8_t *)bytes + from, rough && size > FEW ? FEW : size);
}

#endif
