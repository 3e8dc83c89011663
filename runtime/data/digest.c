/* SPDX-License-Identifier: MIT
 * Digests of data: hashes of sizes, names and bytes. A file of any size takes a moment, so a change that
 * keeps the size and lies between the places that are looked at is missed. */
#include "ir/support/alloc.h"
#include "ir/support/hash.h"
#include "runtime/data/learned.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLACES = 64, PLACE_BYTES = 1 << 16 };

static tcc_status digest_file(tcc_diag *d, const char *path, int64_t size, uint64_t *hash) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return tcc_error(d, TCC_EIO, (tcc_loc){path, 0}, "cannot be opened: %s", tcc__errno(errno).text);
    uint8_t *bytes = tcc__malloc(PLACE_BYTES);
    tcc_status status = bytes ? TCC_OK : tcc_enomem(d);
    const int64_t pieces = (size + PLACE_BYTES - 1) / PLACE_BYTES, looked = pieces < PLACES ? pieces : PLACES;
    for (int64_t i = 0; i < looked && status == TCC_OK; i++) {
        const int64_t piece = looked < 2 ? 0 : i * (pieces - 1) / (looked - 1), at = piece * PLACE_BYTES;
        const int64_t count = size - at < PLACE_BYTES ? size - at : PLACE_BYTES;
        status = tcc__file_read_at(d, path, fd, at, bytes, count);
        if (status == TCC_OK) *hash = tcc_hash_bytes(*hash, bytes, (size_t)count);
    }
    tcc__free(bytes);
    close(fd);
    return status;
}

/* The names in it, as far as they are below `path`, and their sizes. */
static tcc_status digest_folder(tcc_diag *d, const char *path, uint64_t *hash) {
    tcc__file_list files = {0};
    tcc_status status = tcc__file_list_add(d, path, &files);
    for (int i = 0; i < files.count && status == TCC_OK; i++) {
        struct stat info;
        const char *name = files.data[i] + strlen(path);
        if (stat(files.data[i], &info)) continue; /* who needs it says what is wrong */
        *hash = tcc_hash_add(tcc_hash_string(*hash, name), (uint64_t)info.st_size);
    }
    tcc__file_list_free(&files);
    return status;
}

/* The same of the files that a pattern names. */
static tcc_status digest_pattern(tcc_diag *d, const char *path, tcc__digest *out) {
    tcc__file_list files = {0};
    uint64_t hash = 0;
    tcc_status status = tcc__file_list_match(d, path, &files);
    for (int i = 0; i < files.count && status == TCC_OK; i++) {
        struct stat info;
        if (stat(files.data[i], &info)) continue;
        hash = tcc_hash_add(tcc_hash_string(hash, tcc__path_name(files.data[i])), (uint64_t)info.st_size);
    }
    tcc__file_list_free(&files);
    snprintf(out->text, sizeof out->text, "%016llx", (unsigned long long)hash);
    return status;
}

tcc_status tcc__digest_of(tcc_diag *d, const char *path, tcc__digest *out) {
    struct stat info;
    uint64_t hash = 0;
    *out = (tcc__digest){{0}};
    if (stat(path, &info) && errno == ENOENT && strpbrk(path, "*?[")) return digest_pattern(d, path, out);
    if (stat(path, &info))
        return tcc_error(d, errno == ENOENT ? TCC_ENOTFOUND : TCC_EIO, (tcc_loc){path, 0}, "cannot be opened: %s",
                         tcc__errno(errno).text);
    if (S_ISREG(info.st_mode)) {
        hash = tcc_hash_add(hash, (uint64_t)info.st_size);
        TCC_TRY(digest_file(d, path, info.st_size, &hash));
    } else if (S_ISDIR(info.st_mode)) TCC_TRY(digest_folder(d, path, &hash));
    else return TCC_OK;
    snprintf(out->text, sizeof out->text, "%016llx", (unsigned long long)hash);
    return TCC_OK;
}

uint64_t tcc__file_hash(const char *path, bool rough) {
    struct stat info;
    uint64_t hash = 0;
    if (stat(path, &info)) return 0;
    hash = tcc_hash_add(hash, (uint64_t)info.st_size);
    if (!rough) (void)digest_file(NULL, path, info.st_size, &hash);
    return hash;
}
