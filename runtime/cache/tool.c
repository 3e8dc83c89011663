/* SPDX-License-Identifier: MIT
 * The cache as people see it: how much there is, what, why something was made anew; to a file and from one. */
#include "ir/support/alloc.h"
#include "runtime/cache/internal.h"
#include "runtime/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static tcc_status need(const tcc_cache *c, tcc_diag *d) {
    return c ? TCC_OK : tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "the cache is switched off by TCC_CACHE_DISABLE");
}

/* -- stat, list -- */

tcc_status tcc_cache_print_stat(tcc_cache *c, tcc_diag *d, tcc_strbuf *out) {
    TCC_TRY(need(c, d));
    tcc_query *q;
    bool row;
    int64_t count = 0, bytes = 0;
    tcc_strbuf_printf(out, "%s%s\n", c->path, c->read_only ? " (cannot be written)" : "");
    TCC_TRY(
        tcc_query_begin(c->db, d, &q, "SELECT kind, count(*), sum(size), sum(made_ns) FROM entries GROUP BY kind", ""));
    tcc_status status = tcc_query_step(q, d, &row);
    for (; status == TCC_OK && row; status = tcc_query_step(q, d, &row)) {
        const int64_t kind = tcc_query_i64(q, 0);
        tcc_strbuf_printf(out, "%8lld %-8s ", (long long)tcc_query_i64(q, 1),
                          kind >= 0 && kind < TCC_CACHE_KIND_COUNT ? tcc_cache_kind_text((tcc_cache_kind)kind)
                                                                   : "other");
        tcc_strbuf_bytes(out, (double)tcc_query_i64(q, 2));
        tcc_strbuf_printf(out, ", made in %.1f s\n", 1e-9 * (double)tcc_query_i64(q, 3));
        count += tcc_query_i64(q, 1);
        bytes += tcc_query_i64(q, 2);
    }
    tcc_query_end(q);
    tcc_strbuf_printf(out, "%8lld entries  ", (long long)count);
    tcc_strbuf_bytes(out, (double)bytes);
    tcc_strbuf_add(out, " of at most ");
    tcc_strbuf_bytes(out, (double)c->max_bytes);
    tcc_strbuf_add(out, " (TCC_CACHE_MAX)\n");
    return status;
}

/* The parts of a key on one line. */
static void print_parts(const char *text, tcc_strbuf *out) {
    enum { MOST = 40 };
    tcc_cache_line line;
    while (tcc_cache_next_line(&text, &line))
        tcc_strbuf_printf(out, "  %.*s=%.*s%s", line.name_length, line.name,
                          line.text_length < MOST ? line.text_length : MOST, line.text,
                          line.text_length < MOST ? "" : "...");
}

static void print_entry(tcc_query *q, tcc_strbuf *out) {
    int64_t size;
    const void *bytes = tcc_query_blob(q, TCC_COLUMN_HASH, &size);
    tcc_cache_hash hash = {0};
    if (bytes && size == TCC_CACHE_HASH_BYTES) memcpy(hash.bytes, bytes, sizeof hash.bytes);
    const int64_t kind = tcc_query_i64(q, TCC_COLUMN_KIND);
    const time_t used = (time_t)tcc_query_i64(q, TCC_COLUMN_USED);
    struct tm when = {0};
    char date[32] = "";
    if (localtime_r(&used, &when)) strftime(date, sizeof date, "%Y-%m-%d %H:%M", &when);
    tcc_strbuf_printf(out, "%-8s",
                      kind >= 0 && kind < TCC_CACHE_KIND_COUNT ? tcc_cache_kind_text((tcc_cache_kind)kind) : "?");
    tcc_cache_print_hash(&hash, out);
    tcc_strbuf_printf(out, "  %s  ", date);
    tcc_strbuf_bytes(out, (double)tcc_query_i64(q, TCC_COLUMN_SIZE));
    tcc_strbuf_printf(out, ", %.1f ms", 1e-6 * (double)tcc_query_i64(q, TCC_COLUMN_MADE_NS));
}

tcc_status tcc_cache_print_list(tcc_cache *c, tcc_diag *d, tcc_strbuf *out) {
    TCC_TRY(need(c, d));
    tcc_query *q;
    bool row;
    TCC_TRY(tcc_query_begin(c->db, d, &q, "SELECT " TCC_CACHE_COLUMNS " FROM entries ORDER BY used DESC, id DESC", ""));
    tcc_status status = tcc_query_step(q, d, &row);
    for (; status == TCC_OK && row; status = tcc_query_step(q, d, &row)) {
        print_entry(q, out);
        print_parts(tcc_query_text(q, TCC_COLUMN_KEY), out);
        tcc_strbuf_add(out, "\n");
    }
    tcc_query_end(q);
    return status;
}

/* -- why -- */

/* How many lines of the two keys are equal; prints those that are not, unless `out` is NULL. */
static int compare(const char *a, const char *b, tcc_strbuf *out) {
    int equal = 0;
    tcc_cache_line x, y;
    while (tcc_cache_next_line(&a, &x)) {
        const char *at = b;
        bool there = false;
        while (!there && tcc_cache_next_line(&at, &y))
            there = x.name_length == y.name_length && !memcmp(x.name, y.name, (size_t)x.name_length);
        if (there && !memcmp(x.digits, y.digits, TCC_CACHE_HASH_DIGITS)) equal++;
        else if (out && !there)
            tcc_strbuf_printf(out, "  %.*s is new: %.*s\n", x.name_length, x.name, x.text_length, x.text);
        else if (out)
            tcc_strbuf_printf(out, "  %.*s is      %.*s\n  %*s instead of %.*s\n", x.name_length, x.name, x.text_length,
                              x.text, x.name_length > 4 ? x.name_length - 5 : 0, "", y.text_length, y.text);
    }
    return equal;
}

/* The entry asked about: its row's columns, copied. */
typedef struct entry {
    int64_t id, kind;
    char *key;
} entry;

static tcc_status find(tcc_cache *c, tcc_diag *d, const char *prefix, entry *out, tcc_strbuf *text) {
    tcc_query *q;
    bool row = false;
    tcc_status status =
        prefix ? tcc_query_begin(c->db, d, &q,
                                 "SELECT " TCC_CACHE_COLUMNS
                                 " FROM entries WHERE instr(lower(hex(hash)), lower(?)) = 1 ORDER BY id DESC",
                                 "t", prefix)
               : tcc_query_begin(c->db, d, &q,
                                 "SELECT " TCC_CACHE_COLUMNS " FROM entries ORDER BY kind, id DESC LIMIT 1", "");
    TCC_TRY(status);
    status = tcc_query_step(q, d, &row);
    if (status == TCC_OK && !row)
        status = prefix ? tcc_error(d, TCC_ENOTFOUND, TCC_NOWHERE,
                                    "no entry of the cache has a key that begins with '%s'", prefix)
                        : tcc_error(d, TCC_ENOTFOUND, TCC_NOWHERE, "the cache is empty");
    if (status == TCC_OK) {
        *out = (entry){tcc_query_i64(q, TCC_COLUMN_ID), tcc_query_i64(q, TCC_COLUMN_KIND),
                       tcc__strdup(tcc_query_text(q, TCC_COLUMN_KEY))};
        print_entry(q, text);
        tcc_strbuf_add(text, "\n");
        if (!out->key) status = tcc_enomem(d);
    }
    tcc_query_end(q);
    return status;
}

/* The older entry of its kind that has most parts in common; the newest of these. */
static tcc_status find_nearest(tcc_cache *c, tcc_diag *d, const entry *of, char **nearest) {
    tcc_query *q;
    bool row;
    int best = -1;
    *nearest = NULL;
    TCC_TRY(tcc_query_begin(c->db, d, &q, "SELECT key FROM entries WHERE kind = ? AND id < ? ORDER BY id DESC", "ii",
                            of->kind, of->id));
    tcc_status status = tcc_query_step(q, d, &row);
    for (; status == TCC_OK && row; status = tcc_query_step(q, d, &row)) {
        const int equal = compare(of->key, tcc_query_text(q, 0), NULL);
        if (equal <= best) continue;
        best = equal;
        tcc__free(*nearest);
        if (!(*nearest = tcc__strdup(tcc_query_text(q, 0)))) status = tcc_enomem(d);
        if (status != TCC_OK) break;
    }
    tcc_query_end(q);
    return status;
}

tcc_status tcc_cache_print_why(tcc_cache *c, tcc_diag *d, const char *key, tcc_strbuf *out) {
    TCC_TRY(need(c, d));
    entry of = {0};
    char *nearest = NULL;
    tcc_status status = find(c, d, key, &of, out);
    if (status == TCC_OK) status = find_nearest(c, d, &of, &nearest);
    if (status == TCC_OK && !nearest) tcc_strbuf_add(out, "  it is the oldest of its kind\n");
    if (status == TCC_OK && nearest) {
        tcc_strbuf_add(out, "beside the nearest that was there before:\n");
        compare(of.key, nearest, out);
    }
    tcc__free(of.key);
    tcc__free(nearest);
    return status;
}

/* -- export, import, clear -- */

tcc_status tcc_cache_copy_out(tcc_cache *c, tcc_diag *d, const char *path) {
    TCC_TRY(need(c, d));
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return tcc_error(d, TCC_EIO, (tcc_loc){path, 0}, "cannot create the file: %s", tcc__errno(errno).text);
    close(fd);
    const tcc_status status = tcc_database_do(c->db, d, "VACUUM INTO ?", "t", path);
    if (status != TCC_OK) unlink(path);
    return status;
}

/* What the entries of an imported file were refused for. */
typedef struct import {
    int64_t taken, there, damaged, foreign;
    tcc_strbuf reason; /* of the first foreign one */
} import;

static bool is_sound(tcc_query *q, tcc_cache_hash *hash) {
    int64_t size;
    const int64_t kind = tcc_query_i64(q, TCC_COLUMN_KIND);
    const void *bytes = tcc_query_blob(q, TCC_COLUMN_HASH, &size);
    return kind >= 0 && kind < TCC_CACHE_KIND_COUNT && bytes && size == TCC_CACHE_HASH_BYTES &&
           tcc_cache_hash_text(tcc_query_text(q, TCC_COLUMN_KEY), hash) && !memcmp(bytes, hash->bytes, sizeof *hash) &&
           tcc_query_i64(q, TCC_COLUMN_MADE_NS) >= 0 && tcc_cache_row_is_sound(q, kind, hash);
}

/* The fact that a line contradicts; NULL: there is none of its name, or it agrees with one of these. */
static const tcc_cache_part *contradicted(const tcc_cache_line *line, const tcc_cache_key *facts) {
    const tcc_cache_part *against = NULL;
    for (int i = 0; i < facts->count; i++) {
        const tcc_cache_part *fact = &facts->parts[i];
        if (strlen(fact->name) != (size_t)line->name_length) continue;
        if (memcmp(fact->name, line->name, (size_t)line->name_length) != 0) continue;
        if (tcc_cache_line_is(line, fact)) return NULL;
        against = fact;
    }
    return against;
}

static bool is_foreign(const char *key, const tcc_cache_key *facts, tcc_strbuf *reason) {
    tcc_cache_line line;
    while (tcc_cache_next_line(&key, &line)) {
        const tcc_cache_part *against = contradicted(&line, facts);
        if (!against) continue;
        if (!reason->text)
            tcc_strbuf_printf(reason, "%s is %.*s there and %s here", against->name, line.text_length, line.text,
                              against->text);
        return true;
    }
    return false;
}

static tcc_status import_row(tcc_cache *c, tcc_diag *d, tcc_query *q, const tcc_cache_key *facts, import *x) {
    tcc_cache_hash hash;
    int64_t size, before, after;
    if (!is_sound(q, &hash)) {
        x->damaged++;
        return TCC_OK;
    }
    if (is_foreign(tcc_query_text(q, TCC_COLUMN_KEY), facts, &x->reason)) {
        x->foreign++;
        return TCC_OK;
    }
    const void *value = tcc_query_blob(q, TCC_COLUMN_VALUE, &size);
    TCC_TRY(tcc_database_ask(c->db, d, "SELECT count(*) FROM entries", &before));
    TCC_TRY(tcc_cache_insert(c->db, d, tcc_query_i64(q, TCC_COLUMN_KIND), &hash, tcc_query_text(q, TCC_COLUMN_KEY),
                             tcc_query_i64(q, TCC_COLUMN_MADE_NS), value, size));
    TCC_TRY(tcc_database_ask(c->db, d, "SELECT count(*) FROM entries", &after));
    if (after > before) x->taken++;
    else x->there++;
    return TCC_OK;
}

static tcc_status import_all(tcc_cache *c, tcc_diag *d, tcc_database *from, const tcc_cache_key *facts, import *x) {
    tcc_query *q;
    bool row;
    TCC_TRY(tcc_query_begin(from, d, &q, "SELECT " TCC_CACHE_COLUMNS ", value FROM entries", ""));
    tcc_status status = tcc_query_step(q, d, &row);
    for (; status == TCC_OK && row; status = tcc_query_step(q, d, &row))
        if ((status = import_row(c, d, q, facts, x)) != TCC_OK) break;
    tcc_query_end(q);
    return status;
}

static void print_import(const import *x, tcc_strbuf *out) {
    tcc_strbuf_printf(out, "%lld taken, %lld there before\n", (long long)x->taken, (long long)x->there);
    if (x->damaged) tcc_strbuf_printf(out, "%lld refused: damaged\n", (long long)x->damaged);
    if (x->foreign)
        tcc_strbuf_printf(out, "%lld refused: made for another machine or version (%s)\n", (long long)x->foreign,
                          x->reason.text ? x->reason.text : "");
}

tcc_status tcc_cache_take_in(tcc_cache *c, tcc_diag *d, const char *path, const tcc_cache_key *facts, tcc_strbuf *out) {
    TCC_TRY(need(c, d));
    tcc_database *from;
import x = {0 };
    tcc_diag quiet = {0};
    if (!tcc__file_exists(path)) return tcc_error(d, TCC_ENOTFOUND, (tcc_loc){path, 0}, "there is no such file");
    TCC_TRY(tcc_cache_open_table(d, path, true, &from));
    tcc_status status = tcc_database_run(c->db, d, "BEGIN IMMEDIATE");
    if (status == TCC_OK) {
        status = import_all(c, d, from, facts, &x);
        if (status == TCC_OK) status = tcc_cache_evict(c->db, d, c->max_bytes);
        if (status == TCC_OK) status = tcc_database_run(c->db, d, "COMMIT");
        if (status != TCC_OK) tcc_database_run(c->db, &quiet, "ROLLBACK");
    }
    tcc_diag_clear(&quiet);
    tcc_database_close(from);
    if (status == TCC_OK) print_import(&x, out);
    tcc_strbuf_free(&x.reason);
    return status;
}

tcc_status tcc_cache_remove(tcc_diag *d, const tcc_cache_options *options) {
    static const char *const suffixes[] = {"", "-journal", ".lock"};
    char *path;
    tcc_status status = tcc_cache_find(d, options, &path);
    for (int i = 0; status == TCC_OK && i < 3; i++) {
        tcc_strbuf file = {0};
        tcc_strbuf_printf(&file, "%s%s", path, suffixes[i]);
        if (file.failed) status = tcc_enomem(d);
        else if (unlink(file.text) && errno != ENOENT)
            status = tcc_error(d, TCC_EIO, (tcc_loc){file.text, 0}, "cannot remove the file: %s",
                               tcc__errno(errno).text);
        tcc_strbuf_free(&file);
    }
    tcc__free(path);
    return status;
}
