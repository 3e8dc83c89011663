/* SPDX-License-Identifier: MIT
 * A little of SQLite: what the cache needs of it, with our errors. */
#ifndef TCC_RUNTIME_CACHE_DATABASE_H
#define TCC_RUNTIME_CACHE_DATABASE_H

#include "ir/support/diag.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tcc_database tcc_database;
typedef struct tcc_query tcc_query;

/* The file must exist; an empty one becomes a database at the first write. Errors, here and below: TCC_EIO (the disk,
 * or another process that keeps it locked for `wait_ms`), TCC_EFORMAT (damaged, or no database), TCC_ENOMEM; `path`
 * stands in front of their text. */
tcc_status tcc_database_open(tcc_diag *d, const char *path, bool read_only, int wait_ms, tcc_database **out);
void tcc_database_close(tcc_database *db); /* NULL is allowed */
tcc_status tcc_database_run(tcc_database *db, tcc_diag *d, const char *sql);

/* A statement with arguments: `types` has a letter for each, in order: i: int64_t; t: const char *; b: const void *,
 * size_t. What they point to must live until the query ends. */
tcc_status tcc_query_begin(tcc_database *db, tcc_diag *d, tcc_query **out, const char *sql, const char *types, ...);
/* The next row; *row is false where there is none. */
tcc_status tcc_query_step(tcc_query *q, tcc_diag *d, bool *row);
void tcc_query_end(tcc_query *q); /* NULL is allowed */
/* Columns of the row, from 0; borrowed until the next step. A text is "" and a blob NULL where there is none. */
int64_t tcc_query_i64(tcc_query *q, int column);
const char *tcc_query_text(tcc_query *q, int column);
const void *tcc_query_blob(tcc_query *q, int column, int64_t *size_bytes);
/* A statement without rows. */
tcc_status tcc_database_do(tcc_database *db, tcc_diag *d, const char *sql, const char *types, ...);
/* The first column of a statement's first row; 0 where there is none. */
tcc_status tcc_database_ask(tcc_database *db, tcc_diag *d, const char *sql, int64_t *out);
/* Whether the last call failed as the file is damaged, or no database at all. */
bool tcc_database_is_damaged(const tcc_database *db);
/* Makes a database empty, also a damaged one, under the locks of those who use it. */
tcc_status tcc_database_reset(tcc_database *db, tcc_diag *d);

#endif
