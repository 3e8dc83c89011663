/* SPDX-License-Identifier: MIT
 * The table of entries in the database. */
#include "runtime/cache/internal.h"

#include <time.h>

enum { APPLICATION = 0x54434343 /* "TCCC" */, VERSION = 1, WAIT_MS = 2000 };

static const char create[] = "BEGIN IMMEDIATE;"
                             "CREATE TABLE IF NOT EXISTS entries(id INTEGER PRIMARY KEY, kind INTEGER NOT NULL,"
                             " hash BLOB NOT NULL, size INTEGER NOT NULL, checksum INTEGER NOT NULL,"
                             " made_ns INTEGER NOT NULL, used INTEGER NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,"
                             " UNIQUE(kind, hash));"
                             "PRAGMA application_id = 1413694275; PRAGMA user_version = 1; COMMIT";

static tcc_status check(tcc_database *db, tcc_diag *d, const char *path, bool read_only) {
    int64_t application, version, tables;
    TCC_TRY(tcc_database_run(db, d, "BEGIN")); /* all of one moment: another process may make the table just now */
    TCC_TRY(tcc_database_ask(db, d, "SELECT count(*) FROM sqlite_schema", &tables));
    TCC_TRY(tcc_database_ask(db, d, "PRAGMA application_id", &application));
    TCC_TRY(tcc_database_ask(db, d, "PRAGMA user_version", &version));
    TCC_TRY(tcc_database_run(db, d, "COMMIT"));
    const tcc_loc at = {path, 0};
    if (!application && !version && !tables) {
        if (read_only) return tcc_error(d, TCC_EIO, at, "it is empty, and cannot be written");
        TCC_TRY(tcc_database_run(db, d, "PRAGMA auto_vacuum = INCREMENTAL"));
        return tcc_database_run(db, d, create);
    }
    if (application != APPLICATION) return tcc_error(d, TCC_EFORMAT, at, "it is a database of another program");
    if (version != VERSION)
        return tcc_error(d, TCC_EFORMAT, at, "it has version %lld, and this is for version %d: use another folder",
                         (long long)version, VERSION);
    return TCC_OK;
}

tcc_status tcc_cache_open_table(tcc_diag *d, const char *path, bool read_only, tcc_database **out) {
    TCC_TRY(tcc_database_open(d, path, read_only, WAIT_MS, out));
    tcc_status status = check(*out, d, path, read_only);
    if (status == TCC_EFORMAT && !read_only && tcc_database_is_damaged(*out)) { /* once: then it is begun anew */
        tcc_diag_clear(d);
        status = tcc_database_reset(*out, d);
        if (status == TCC_OK) status = check(*out, d, path, read_only);
    }
    if (status == TCC_OK) return TCC_OK;
    tcc_database_close(*out);
    *out = NULL;
    return status;
}

bool tcc_cache_row_is_sound(tcc_query *q, int64_t kind, const tcc_cache_hash *hash) {
    int64_t size;
    const void *value = tcc_query_blob(q, TCC_COLUMN_VALUE, &size);
    return size == tcc_query_i64(q, TCC_COLUMN_SIZE) &&
           tcc_cache_checksum(kind, hash, value, size) == (uint64_t)tcc_query_i64(q, TCC_COLUMN_CHECKSUM);
}

tcc_status tcc_cache_insert(tcc_database *db, tcc_diag *d, int64_t kind, const tcc_cache_hash *hash, const char *key,
                            int64_t made_ns, const void *value, int64_t size_bytes) {
    return tcc_database_do(db, d,
                           "INSERT OR REPLACE INTO entries(kind, hash, size, checksum, made_ns, used, key, value)"
                           " VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
                           "ibiiiitb", kind, hash->bytes, (size_t)TCC_CACHE_HASH_BYTES, size_bytes,
                           (int64_t)tcc_cache_checksum(kind, hash, value, size_bytes), made_ns, (int64_t)time(NULL),
                           key, value, (size_t)size_bytes);
}

tcc_status tcc_cache_evict(tcc_database *db, tcc_diag *d, int64_t max_bytes) {
    int64_t total, last = 0, used = 0;
    tcc_query *q;
    bool row;
    TCC_TRY(tcc_database_ask(db, d, "SELECT sum(size) FROM entries", &total));
    if (total <= max_bytes) return TCC_OK;
    TCC_TRY(tcc_query_begin(db, d, &q, "SELECT id, size, used FROM entries ORDER BY used, id", ""));
    tcc_status status = tcc_query_step(q, d, &row);
    for (; status == TCC_OK && row && total > max_bytes / 10 * 9; status = tcc_query_step(q, d, &row)) {
        last = tcc_query_i64(q, 0);
        used = tcc_query_i64(q, 2);
        total -= tcc_query_i64(q, 1);
    }
    tcc_query_end(q);
    TCC_TRY(status);
    TCC_TRY(tcc_database_do(db, d, "DELETE FROM entries WHERE used < ? OR (used = ? AND id <= ?)", "iii", used, used,
                            last));
    return tcc_database_run(db, d, "PRAGMA incremental_vacuum");
}
