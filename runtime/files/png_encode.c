/* SPDX-License-Identifier: MIT
 * A PNG file is a signature and chunks: length, name, data, and the checksum of name and data; numbers are big-endian.
 * The pixels are rows, each behind a byte that says how it is predicted (0: not at all), compressed by zlib.
 *
 * Source: the PNG specification, W3C, second edition. */
#include "runtime/files/png_encode.h"
#include "ir/support/alloc.h"

#include <string.h>
#include <zlib.h>

static void add_number(tcc_strbuf *b, uint32_t x) {
    const char bytes[] = {(char)(x >> 24), (char)(x >> 16), (char)(x >> 8), (char)x};
    tcc_strbuf_addn(b, bytes, sizeof bytes);
}

static void add_chunk(tcc_strbuf *b, const char *name, const void *data, size_t size_bytes) {
    uLong crc = crc32(crc32(0, NULL, 0), (const Bytef *)name, 4);
    add_number(b, (uint32_t)size_bytes);
    tcc_strbuf_addn(b, name, 4);
    if (size_bytes) {
        tcc_strbuf_addn(b, data, size_bytes);
        crc = crc32_z(crc, data, size_bytes);
    }
    add_number(b, (uint32_t)crc);
}

static void add_head(tcc_strbuf *b, int64_t height, int64_t width, int channels) {
    enum { BITS = 8, GREY = 0, RGB = 2 };
    tcc_strbuf head = {0};
    const char form[] = {BITS, (char)(channels == 3 ? RGB : GREY), 0, 0, 0};
    add_number(&head, (uint32_t)width);
    add_number(&head, (uint32_t)height);
    tcc_strbuf_addn(&head, form, sizeof form);
    if (!head.failed) add_chunk(b, "IHDR", head.text, head.length);
    b->failed |= head.failed;
    tcc_strbuf_free(&head);
}

tcc_status tcc__png_encode(tcc_diag *d, const uint8_t *pixels, int64_t height, int64_t width, int channels,
                           tcc_strbuf *out) {
    const size_t row = (size_t)(width * channels), raw_bytes = (size_t)height * (row + 1);
    uLongf packed_bytes = compressBound((uLong)raw_bytes);
    uint8_t *raw = tcc__malloc(raw_bytes), *packed = tcc__malloc(packed_bytes);
    bool done = raw && packed;
    for (int64_t y = 0; y < height && done; y++) {
        raw[(size_t)y * (row + 1)] = 0;
        memcpy(raw + (size_t)y * (row + 1) + 1, pixels + (size_t)y * row, row);
    }
    done = done && compress(packed, &packed_bytes, raw, (uLong)raw_bytes) == Z_OK;
    if (done) {
        tcc_strbuf_addn(out, "\x89PNG\r\n\x1a\n", 8);
        add_head(out, height, width, channels);
        add_chunk(out, "IDAT", packed, packed_bytes);
        add_chunk(out, "IEND", NULL, 0);
        done = !out->failed;
    }
    tcc__free(raw);
    tcc__free(packed);
    if (done) return TCC_OK;
    tcc_strbuf_free(out);
    return tcc_enomem(d);
}
