/* SPDX-License-Identifier: MIT
 * Files read in pieces, or whole. */
#include "runtime/files/inflate.h"
#include "ir/support/alloc.h"
#include "runtime/files/file.h"
#include "runtime/files/zstd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* More than this belongs in a file that is read piece by piece (kind tokens), and is more likely a
 * damaged gzip stream. */
static const size_t load_limit_bytes = (size_t)8 << 30;

/* ---- pieces ---- */

static tcc_status read_error(tcc_diag *d, const tcc__inflate *s) {
    int code;
    const char *text = gzerror(s->file, &code);
    tcc_loc place = {s->path, 0};
    if (code == Z_ERRNO)
        return tcc_error(d, TCC_EIO, place, "reading failed at byte %lld: %s", (long long)s->offset,
                         tcc__errno(errno).text);
    if (code == Z_MEM_ERROR) return tcc_enomem(d);
    return tcc_error(d, TCC_EFORMAT, place,
                     code == Z_BUF_ERROR ? "gzip stream is truncated after %lld inflated bytes"
                                         : "gzip stream is damaged after %lld inflated bytes: %s",
                     (long long)s->offset, text);
}

tcc_status tcc__inflate_open(tcc_diag *d, const char *path, tcc__inflate *out) {
    *out = (tcc__inflate){.path = path};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int error = errno;
        return tcc_error(d, error == ENOENT ? TCC_ENOTFOUND : TCC_EIO, (tcc_loc){path, 0}, "cannot open the file: %s",
                         tcc__errno(error).text);
    }
    struct stat info;
    if (fstat(fd, &info) || S_ISDIR(info.st_mode)) {
        close(fd);
        return tcc_error(d, TCC_EIO, (tcc_loc){path, 0}, "is a folder where a file is expected");
    }
    out->size_bytes = info.st_size;
    if (tcc__zstd_is(fd)) out->zstd = tcc__zstd_open(fd);
    else out->file = gzdopen(fd, "rb");
    if (!out->file && !out->zstd) {
        close(fd);
        return tcc_enomem(d);
    }
    if (out->file) gzbuffer(out->file, 1 << 17);
    return TCC_OK;
}

static tcc_status read_zstd(tcc_diag *d, tcc__inflate *s, void *to, size_t capacity, size_t *got) {
    const char *problem;
    const bool ok = tcc__zstd_read(s->zstd, to, capacity, got, &problem);
    const int error = errno;
    s->offset += (int64_t)*got;
    s->position_bytes = tcc__zstd_position(s->zstd);
    if (ok) return TCC_OK;
    tcc__inflate_close(s);
    return tcc_error(d, error ? TCC_EIO : TCC_EFORMAT, (tcc_loc){s->path, 0},
                     "zstd stream, after %lld inflated bytes: %s", (long long)s->offset,
                     error ? tcc__errno(error).text : problem);
}

tcc_status tcc__inflate_read(tcc_diag *d, tcc__inflate *s, void *to, size_t capacity, size_t *got) {
    *got = 0;
    if (s->zstd) return read_zstd(d, s, to, capacity, got);
    while (*got < capacity) {
        size_t piece = capacity - *got < ((size_t)1 << 24) ? capacity - *got : (size_t)1 << 24;
        int more = gzread(s->file, (char *)to + *got, (unsigned)piece);
        int code = Z_OK;
        if (more >= 0) gzerror(s->file, &code); /* a stream cut short gives its data first, and the error beside */
        if (more > 0) s->offset += more;
        if (more < 0 || code == Z_BUF_ERROR) {
            tcc_status status = read_error(d, s);
            tcc__inflate_close(s);
            return status;
        }
        if (more == 0) break;
        *got += (size_t)more;
    }
    s->position_bytes = gzoffset(s->file);
    return TCC_OK;
}

void tcc__inflate_close(tcc__inflate *s) {
    if (s->file) gzclose(s->file);
    tcc__zstd_close(s->zstd);
    s->file = NULL;
    s->zstd = NULL;
}

/* ---- whole files ---- */

static tcc_status load_all(tcc_diag *d, tcc__inflate *file, size_t first_capacity, tcc__bytes *out) {
    size_t capacity = first_capacity, size = 0;
    uint8_t *data = tcc__malloc(capacity);
    if (!data) return tcc_enomem(d);
    for (;;) {
        size_t got;
        tcc_status status = tcc__inflate_read(d, file, data + size, capacity - size, &got);
        size += got;
        if (status == TCC_OK && size < capacity) break;
        if (status == TCC_OK && capacity >= load_limit_bytes)
            status = tcc_error(d, TCC_EFORMAT, (tcc_loc){file->path, 0},
                               "file is larger than %zu bytes, too large to hold in memory", load_limit_bytes);
        uint8_t *larger = status == TCC_OK ? tcc__realloc(data, capacity * 2) : NULL;
        if (!larger) {
            tcc__free(data);
            return status == TCC_OK ? tcc_enomem(d) : status;
        }
        data = larger;
        capacity *= 2;
    }
    *out = (tcc__bytes){data, size};
    return TCC_OK;
}

tcc_status tcc__file_load(tcc_diag *d, const char *path, tcc__bytes *out) {
    *out = (tcc__bytes){0};
    tcc__inflate file;
    TCC_TRY(tcc__inflate_open(d, path, &file));
    /* One byte more than a plain file needs, so that its end is seen without growing. */
    size_t size = (size_t)file.size_bytes, capacity = size && size < load_limit_bytes ? size + 1 : 4096;
    tcc_status status = load_all(d, &file, capacity, out);
    tcc__inflate_close(&file);
    return status;
}
