/* SPDX-License-Identifier: MIT
 * Rows in memory or in a file. */
#include "runtime/data/row_store.h"
#include "ir/support/alloc.h"
#include "runtime/files/file.h"
#include "runtime/memory_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FIRST_ROWS = 64,
    BLOCK_BYTES = 1 << 20,
    FEW_BYTES = 16 << 20 /* in memory without asking how much of it there is, which takes longer than a few rows do */
};

static atomic_int_least64_t test_limit = -1;

void tcc__row_store_limit(int64_t bytes) { atomic_store(&test_limit, bytes); }

/* Whether so many bytes of rows may lie in memory. */
static bool fits(tcc__row_store *s, int64_t bytes) {
    if (s->limit_bytes < 0) {
        if (bytes <= FEW_BYTES) return true;
        const int64_t left = tcc_memory_left("/proc", "/sys/fs/cgroup"), most = left ? left / 4 : INT64_MAX;
        s->limit_bytes = most > FEW_BYTES ? most : FEW_BYTES;
    }
    return bytes <= s->limit_bytes;
}

void tcc__row_store_begin(tcc__row_store *s, size_t row_bytes, int64_t expected) {
    if (s->row_bytes) return;
    *s = (tcc__row_store){.row_bytes = row_bytes, .limit_bytes = atomic_load(&test_limit), .fd = -1};
    if (expected <= 0 || expected > INT64_MAX / (int64_t)row_bytes || !fits(s, expected * (int64_t)row_bytes)) return;
    /* As it grows it would take up to three times as much. */
    s->data = tcc__malloc((size_t)expected * row_bytes);
    if (s->data) s->capacity_bytes = (size_t)expected * row_bytes;
}

/* ---- writing ---- */

static const char *folder(void) {
    const char *given = getenv("TMPDIR");
    return given && *given ? given : "/var/tmp";
}

static int open_nameless(void) {
    int fd = open(folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
    char *path = tcc__path_join(folder(), "traincc-rows-XXXXXX"); /* a file system that has only files with names */
    if (path && (fd = mkostemp(path, O_CLOEXEC)) >= 0) unlink(path);
    const int error = path ? errno : ENOMEM;
    tcc__free(path);
    errno = error;
    return fd;
}

static tcc_status write_block(tcc_diag *d, tcc__row_store *s) {
    const int64_t rows = s->count - s->written;
    const int error = tcc__write_all(s->fd, s->data, (size_t)rows * s->row_bytes);
    s->written = s->count;
    if (!error) return TCC_OK;
    return tcc_error(d, TCC_EIO, (tcc_loc){folder(), 0},
                     "the rows of a large table are written to a temporary file in this folder; writing failed: %s; "
                     "TMPDIR names another folder",
                     tcc__errno(error).text);
}

/* From now on rows lie in a file. */
static tcc_status leave_memory(tcc_diag *d, tcc__row_store *s) {
    s->fd = open_nameless();
    if (s->fd < 0)
        return tcc_error(d, TCC_EIO, (tcc_loc){folder(), 0},
                         "the rows of a large table lie in a temporary file, which cannot be made in this folder: %s; "
                         "TMPDIR names another folder",
                         tcc__errno(errno).text);
    s->in_file = true;
    TCC_TRY(write_block(d, s));
    tcc__free(s->data);
    s->capacity_bytes = s->row_bytes > BLOCK_BYTES ? s->row_bytes : BLOCK_BYTES;
    s->data = tcc__malloc(s->capacity_bytes);
    return s->data ? TCC_OK : tcc_enomem(d);
}

static tcc_status grow(tcc_diag *d, tcc__row_store *s) {
    const size_t larger = s->capacity_bytes ? 2 * s->capacity_bytes : FIRST_ROWS * s->row_bytes;
    char *moved = tcc__realloc(s->data, larger);
    if (!moved) return tcc_enomem(d);
    s->data = moved;
    s->capacity_bytes = larger;
    return TCC_OK;
}

tcc_status tcc__row_store_append(tcc_diag *d, tcc__row_store *s, const void *row) {
    if (!s->in_file && !fits(s, (s->count + 1) * (int64_t)s->row_bytes)) TCC_TRY(leave_memory(d, s));
    const size_t at = (size_t)(s->count - s->written) * s->row_bytes;
    if (at + s->row_bytes > s->capacity_bytes) {
        TCC_TRY(s->in_file ? write_block(d, s) : grow(d, s));
        return tcc__row_store_append(d, s, row);
    }
    memcpy(s->data + at, row, s->row_bytes);
    s->count++;
    return TCC_OK;
}

tcc_status tcc__row_store_finish(tcc_diag *d, tcc__row_store *s) {
    if (!s->in_file) return TCC_OK;
    TCC_TRY(write_block(d, s));
    tcc__free(s->data);
    s->data = NULL;
    s->capacity_bytes = 0;
    return TCC_OK;
}

/* ---- reading ---- */

tcc_status tcc__row_store_read(tcc_diag *d, const tcc__row_store *s, int64_t row, void *to) {
    const void *here = tcc__row_store_at(s, row);
    if (!here) return tcc__file_read_at(d, folder(), s->fd, row * (int64_t)s->row_bytes, to, (int64_t)s->row_bytes);
    memcpy(to, here, s->row_bytes);
    return TCC_OK;
}

static tcc_status visit_rows(const tcc__row_store *s, const char *rows, int64_t first, int64_t count,
                             tcc__row_visit visit, void *user) {
    for (int64_t i = 0; i < count; i++) TCC_TRY(visit(user, first + i, rows + (size_t)i * s->row_bytes));
    return TCC_OK;
}

tcc_status tcc__row_store_each(tcc_diag *d, const tcc__row_store *s, tcc__row_visit visit, void *user) {
    if (!s->in_file) return visit_rows(s, s->data, 0, s->count, visit, user);
    const int64_t most = (int64_t)s->row_bytes < BLOCK_BYTES ? BLOCK_BYTES / (int64_t)s->row_bytes : 1;
    char *block = tcc__malloc((size_t)most * s->row_bytes);
    tcc_status status = block ? TCC_OK : tcc_enomem(d);
    for (int64_t first = 0; first < s->count && status == TCC_OK; first += most) {
        const int64_t rows = s->count - first < most ? s->count - first : most;
        status = tcc__file_read_at(d, folder(), s->fd, first * (int64_t)s->row_bytes, block,
                                   rows * (int64_t)s->row_bytes);
        if (status == TCC_OK) status = visit_rows(s, block, first, rows, visit, user);
    }
    tcc__free(block);
    return status;
}

void tcc__row_store_free(tcc__row_store *s) {
    tcc__free(s->data);
    if (s->in_file && s->fd >= 0) close(s->fd);
    *s = (tcc__row_store){0};
}
