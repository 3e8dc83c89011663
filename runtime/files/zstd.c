/* SPDX-License-Identifier: MIT
 * Zstandard, by libzstd. */
#include "runtime/files/zstd.h"
#include "ir/support/alloc.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

enum { PIECE_BYTES = 1 << 17 };

struct tcc__zstd {
    int fd;
    ZSTD_DStream *stream;
    ZSTD_inBuffer in;
    size_t expected; /* what the decoder still waits for; 0: it is between two frames */
    int64_t position;
    bool ended;
    char piece[PIECE_BYTES];
};

bool tcc__zstd_is(int fd) {
    static const uint8_t magic[4] = {0x28, 0xB5, 0x2F, 0xFD};
    uint8_t first[4];
    return pread(fd, first, sizeof first, 0) == sizeof first && !memcmp(first, magic, sizeof magic);
}

tcc__zstd *tcc__zstd_open(int fd) {
    tcc__zstd *z = tcc__calloc(1, sizeof *z);
    ZSTD_DStream *stream = z ? ZSTD_createDStream() : NULL;
    if (!stream) {
        tcc__free(z);
        return NULL;
    }
    z->fd = fd;
    z->stream = stream;
    z->in.src = z->piece;
    return z;
}

static bool fill(tcc__zstd *z) {
    ssize_t got;
    do got = read(z->fd, z->piece, sizeof z->piece);
    while (got < 0 && errno == EINTR);
    if (got < 0) return false;
    z->ended = !got;
    z->in.size = (size_t)got;
    z->in.pos = 0;
    z->position += got;
    return true;
}

bool tcc__zstd_read(tcc__zstd *z, void *to, size_t capacity, size_t *got, const char **problem) {
    ZSTD_outBuffer out = {.dst = to, .size = capacity};
    *got = 0;
    while (out.pos < out.size) {
        *problem = "reading failed";
        if (z->in.pos == z->in.size && !z->ended && !fill(z)) return false;
        const size_t before = out.pos,
                     result = z->ended && !z->expected ? 0 : ZSTD_decompressStream(z->stream, &out, &z->in);
        errno = 0;
        *problem = ZSTD_isError(result) ? ZSTD_getErrorName(result) : "is truncated";
        if (ZSTD_isError(result)) return false;
        *got = out.pos;
        if (z->ended && out.pos == before) return !z->expected;
        z->expected = result;
    }
    return true;
}

int64_t tcc__zstd_position(const tcc__zstd *z) { return z->position; }

void tcc__zstd_close(tcc__zstd *z) {
    if (!z) return;
    ZSTD_freeDStream(z->stream);
    close(z->fd);
    tcc__free(z);
}
