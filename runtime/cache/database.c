/* SPDX-License-Identifier: MIT */
#include "runtime/cache/database.h"
#include "ir/support/alloc.h"

#include <sqlite3.h>
#include <string.h>

struct tcc_database {
    sqlite3 *handle;
    char *path;
};

struct tcc_query {
    tcc_database *db;
    sqlite3_stmt *statement;
};

static tcc_status report(tcc_database *db, tcc_diag *d, int code) {
    const tcc_loc at = {db->path, 0};
    switch (code & 0xff) {
    case SQLITE_NOMEM: return tcc_enomem(d);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return tcc_error(d, TCC_EFORMAT, at, "the database is damaged, or is none");
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return tcc_error(d, TCC_EIO, at, "another process keeps the database locked");
    case SQLITE_FULL: return tcc_error(d, TCC_EIO, at, "the disk is full");
    default: return tcc_error(d, TCC_EIO, at, "%s", db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(code));
    }
}

tcc_status tcc_database_open(tcc_diag *d, const char *path, bool read_only, int wait_ms, tcc_database **out) {
    tcc_database *db = *out = tcc__calloc(1, sizeof *db);
    if (!db || !(db->path = tcc__strdup(path))) {
        tcc__free(db);
        *out = NULL;
        return tcc_enomem(d);
    }
    const int flags = (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_NOMUTEX;
    const int code = sqlite3_open_v2(path, &db->handle, flags, NULL);
    tcc_status status = TCC_OK;
    if (code == SQLITE_OK) sqlite3_busy_timeout(db->handle, wait_ms);
    else status = report(db, d, code);
    if (status == TCC_OK) status = tcc_database_run(db, d, "PRAGMA trusted_schema = OFF");
    if (status == TCC_OK) return TCC_OK;
    tcc_database_close(db);
    *out = NULL;
    return status;
}

void tcc_database_close(tcc_database *db) {
    if (!db) return;
    sqlite3_close(db->handle);
    tcc__free(db->path);
    tcc__free(db);
}

tcc_status tcc_database_run(tcc_database *db, tcc_diag *d, const char *sql) {
    const int code = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? TCC_OK : report(db, d, code);
}

static tcc_status begin(tcc_database *db, tcc_diag *d, tcc_query **out, const char *sql, const char *types,
                        va_list args) {
    tcc_query *q = *out = tcc__calloc(1, sizeof *q);
    if (!q) return tcc_enomem(d);
    q->db = db;
    int code = sqlite3_prepare_v2(db->handle, sql, -1, &q->statement, NULL);
    for (int i = 0; code == SQLITE_OK && types[i]; i++) {
        if (types[i] == 'i') {
            code = sqlite3_bind_int64(q->statement, i + 1, va_arg(args, int64_t));
        } else if (types[i] == 't') {
            code = sqlite3_bind_text(q->statement, i + 1, va_arg(args, const char *), -1, SQLITE_STATIC);
        } else {
            const void *data = va_arg(args, const void *);
            code = sqlite3_bind_blob64(q->statement, i + 1, data, va_arg(args, size_t), SQLITE_STATIC);
        }
    }
    if (code == SQLITE_OK) return TCC_OK;
    const tcc_status status = report(db, d, code);
    tcc_query_end(q);
    *out = NULL;
    return status;
}

tcc_status tcc_query_begin(tcc_database *db, tcc_diag *d, tcc_query **out, const char *sql, const char *types, ...) {
    va_list args;
    va_start(args, types);
    const tcc_status status = begin(db, d, out, sql, types, args);
    va_end(args);
    return status;
}

tcc_status tcc_query_step(tcc_query *q, tcc_diag *d, bool *row) {
    const int code = sqlite3_step(q->statement);
    *row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? TCC_OK : report(q->db, d, code);
}

void tcc_query_end(tcc_query *q) {
    if (!q) return;
    sqlite3_finalize(q->statement);
    tcc__free(q);
}

int64_t tcc_query_i64(tcc_query *q, int column) { return sqlite3_column_int64(q->statement, column); }

const char *tcc_query_text(tcc_query *q, int column) {
    const unsigned char *text = sqlite3_column_text(q->statement, column);
    return text ? (const char *)text : "";
}

const void *tcc_query_blob(tcc_query *q, int column, int64_t *size_bytes) {
    const void *data = sqlite3_column_blob(q->statement, column);
    *size_bytes = sqlite3_column_bytes(q->statement, column);
    return data;
}

tcc_status tcc_database_do(tcc_database *db, tcc_diag *d, const char *sql, const char *types, ...) {
    tcc_query *q;
    bool row;
    va_list args;
    va_start(args, types);
    tcc_status status = begin(db, d, &q, sql, types, args);
    va_end(args);
    if (status == TCC_OK) status = tcc_query_step(q, d, &row);
    tcc_query_end(q);
    return status;
}

tcc_status tcc_database_ask(tcc_database *db, tcc_diag *d, const char *sql, int64_t *out) {
    tcc_query *q;
    bool row = false;
    *out = 0;
    tcc_status status = tcc_query_begin(db, d, &q, sql, "");
    if (status == TCC_OK) status = tcc_query_step(q, d, &row);
    if (row) *out = tcc_query_i64(q, 0);
    tcc_query_end(q);
    return status;
}

bool tcc_database_is_damaged(const tcc_database *db) {
    const int code = sqlite3_errcode(db->handle) & 0xff;
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

tcc_status tcc_database_reset(tcc_database *db, tcc_diag *d) {
    if (!sqlite3_get_autocommit(db->handle)) sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_RESET_DATABASE, 1, 0);
    const tcc_status status = tcc_database_run(db, d, "VACUUM");
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_RESET_DATABASE, 0, 0);
    return status;
}
