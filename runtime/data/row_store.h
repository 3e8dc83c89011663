/* SPDX-License-Identifier: MIT
 * Rows of one size each, appended and then read in any order, by several threads at once. They lie in memory while they
 * are few. Where they would take over 16 MiB and over a quarter of the memory that is left, they lie in a file without
 * a name, in the folder TMPDIR, else /var/tmp. It is read with pread: the system keeps in its page cache what there is
 * room for, and no limit of the address space counts. */
#ifndef TCC_RUNTIME_DATA_ROW_STORE_H
#define TCC_RUNTIME_DATA_ROW_STORE_H

#include "ir/support/diag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tcc__row_store {
    size_t row_bytes;
    int64_t count;
    int64_t limit_bytes; /* of rows in memory; negative: nobody has asked yet */
    char *data;          /* all rows; of a file those that are not written yet */
    size_t capacity_bytes;
    int64_t written; /* rows that the file has */
    int fd;
    bool in_file;
} tcc__row_store;

/* `expected`: how many rows there will be, 0 where that is not known. Does nothing to a store that has begun. */
void tcc__row_store_begin(tcc__row_store *s, size_t row_bytes, int64_t expected);
/* Errors: ENOMEM; EIO, where the file cannot be made or the disk is full. */
tcc_status tcc__row_store_append(tcc_diag *d, tcc__row_store *s, const void *row);
/* After the last row, and before one is read. */
tcc_status tcc__row_store_finish(tcc_diag *d, tcc__row_store *s);
/* A row that lies in memory; NULL: it does not. */
static inline const void *tcc__row_store_at(const tcc__row_store *s, int64_t row) {
    return s->in_file ? NULL : s->data + (size_t)row * s->row_bytes;
}
tcc_status tcc__row_store_read(tcc_diag *d, const tcc__row_store *s, int64_t row, void *to);
/* All rows in their order. */
typedef tcc_status (*tcc__row_visit)(void *user, int64_t number, const void *row);
tcc_status tcc__row_store_each(tcc_diag *d, const tcc__row_store *s, tcc__row_visit visit, void *user);
void tcc__row_store_free(tcc__row_store *s);

/* Test hook: stores that begin from now on have this limit; negative: the one above. Process-wide; for tests alone. */
void tcc__row_store_limit(int64_t bytes);

#endif
