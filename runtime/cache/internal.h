/* SPDX-License-Identifier: MIT
 * What the cache's files share. */
#ifndef TCC_RUNTIME_CACHE_INTERNAL_H
#define TCC_RUNTIME_CACHE_INTERNAL_H

#include "ir/support/vec.h"
#include "runtime/cache/cache.h"
#include "runtime/cache/database.h"

#include <pthread.h>

/* -- Keys (key.c). A key is kept as text, a line a part: its name, the hash of its text, and how that begins; between
 * them tabs. What the key hashes to follows from names and hashes. -- */

enum { TCC_CACHE_HASH_BYTES = 16, TCC_CACHE_HASH_DIGITS = 32, TCC_CACHE_NAME_BYTES = 32 };
typedef struct tcc_cache_hash {
    unsigned char bytes[TCC_CACHE_HASH_BYTES];
} tcc_cache_hash;

/* A line of that text, in place. */
typedef struct tcc_cache_line {
    const char *name, *digits, *text;
    int name_length, text_length;
} tcc_cache_line;

tcc_cache_hash tcc_cache_hash_key(const tcc_cache_key *key);
void tcc_cache_print_key(const tcc_cache_key *key, tcc_strbuf *out);
/* The hash of a key from its text; false: it is none. */
bool tcc_cache_hash_text(const char *text, tcc_cache_hash *out);
/* The line at *at, which moves to the next; false at the end, and where the text is none of a key. */
bool tcc_cache_next_line(const char **at, tcc_cache_line *out);
/* Whether the line is that part. */
bool tcc_cache_line_is(const tcc_cache_line *line, const tcc_cache_part *part);
void tcc_cache_print_hash(const tcc_cache_hash *h, tcc_strbuf *out);
/* Of an entry: its kind, key and value. */
uint64_t tcc_cache_checksum(int64_t kind, const tcc_cache_hash *hash, const void *value, int64_t size_bytes);

/* -- Where it is (place.c) -- */

/* The path of the database in the options' folder, to be freed. */
tcc_status tcc_cache_find(tcc_diag *d, const tcc_cache_options *options, char **path);
/* Makes the folder and an empty file where there are none, and checks that both are ours alone. *read_only: the file
 * cannot be written. */
tcc_status tcc_cache_prepare(tcc_diag *d, const char *path, bool *read_only);

/* -- The table (table.c) -- */

/* A database with the table, made if it is empty; TCC_EFORMAT for one that is not ours. */
tcc_status tcc_cache_open_table(tcc_diag *d, const char *path, bool read_only, tcc_database **out);

/* Columns of `entries`, in this order in TCC_CACHE_COLUMNS. The value is last, so that it is read only if asked for. */
enum {
    TCC_COLUMN_ID,
    TCC_COLUMN_KIND,
    TCC_COLUMN_HASH,
    TCC_COLUMN_SIZE,
    TCC_COLUMN_CHECKSUM,
    TCC_COLUMN_MADE_NS,
    TCC_COLUMN_USED,
    TCC_COLUMN_KEY,
    TCC_COLUMN_VALUE
};
#define TCC_CACHE_COLUMNS "id, kind, hash, size, checksum, made_ns, used, key"

/* Whether the row's value, in column TCC_COLUMN_VALUE, is what was written for that kind and key: of a damaged index,
 * another row may come. */
bool tcc_cache_row_is_sound(tcc_query *q, int64_t kind, const tcc_cache_hash *hash);
tcc_status tcc_cache_insert(tcc_database *db, tcc_diag *d, int64_t kind, const tcc_cache_hash *hash, const char *key,
                            int64_t made_ns, const void *value, int64_t size_bytes);
/* Drops what was not used for longest, until all values take no more than nine tenths of max_bytes; nothing where they
 * take no more than max_bytes. */
tcc_status tcc_cache_evict(tcc_database *db, tcc_diag *d, int64_t max_bytes);

typedef struct tcc_cache_pending {
    tcc_cache_kind kind;
    tcc_cache_hash hash;
    char *key;
    void *value;
    int64_t size_bytes, made_ns;
} tcc_cache_pending;

struct tcc_cache {
    pthread_mutex_t mutex; /* of all below */
    char *path;
    tcc_database *db;
    bool read_only, told, off;
    int64_t max_bytes;
    void (*tell)(void *user, const char *text);
    void *user;
    tcc_vec(tcc_cache_pending) pending;
    tcc_vec(int64_t) touched; /* ids of entries whose last use is to be written */
};

#endif
