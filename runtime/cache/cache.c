/* SPDX-License-Identifier: MIT
 * The cache as a run sees it: found, kept, written at the end, and given up where it fails. */
#include "ir/support/alloc.h"
#include "ir/support/size.h"
#include "runtime/cache/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TOUCH_SECONDS = 3600 }; /* a last use is kept no finer, so that a run that finds all writes nothing */
static const int64_t default_bytes = INT64_C(2) << 30;

const char *tcc_cache_kind_text(tcc_cache_kind kind) {
    static const char *const texts[] = {
#define TCC_CACHE_KIND(id, text, what) text,
        TCC_CACHE_KINDS(TCC_CACHE_KIND)
#undef TCC_CACHE_KIND
    };
    return texts[kind];
}

static bool is_disabled(void) {
    const char *text = getenv("TCC_CACHE_DISABLE");
    return text && *text && strcmp(text, "0") != 0;
}

static tcc_status read_limit(tcc_diag *d, const tcc_cache_options *options, int64_t *out) {
    const char *text = getenv("TCC_CACHE_MAX");
    *out = options->max_bytes ? options->max_bytes : default_bytes;
    if (options->max_bytes || !text || !*text || tcc_size_parse(text, out)) return TCC_OK;
    return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "TCC_CACHE_MAX=%s: must be a size, as in \"2GiB\"", text);
}

tcc_status tcc_cache_open(tcc_diag *d, const tcc_cache_options *options, tcc_cache **out) {
    *out = NULL;
    if (is_disabled()) return TCC_OK;
    tcc_cache *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(d);
    pthread_mutex_init(&c->mutex, NULL);
    c->tell = options->tell;
    c->user = options->user;
    tcc_status status = read_limit(d, options, &c->max_bytes);
    if (status == TCC_OK) status = tcc_cache_find(d, options, &c->path);
    if (status == TCC_OK) status = tcc_cache_prepare(d, c->path, &c->read_only);
    if (status == TCC_OK) status = tcc_cache_open_table(d, c->path, c->read_only, &c->db);
    if (status == TCC_OK) *out = c;
    else tcc_cache_close(c);
    return status;
}

static void forget_pending(tcc_cache *c) {
    for (int i = 0; i < c->pending.count; i++) {
        tcc__free(c->pending.data[i].key);
        tcc__free(c->pending.data[i].value);
    }
    c->pending.count = 0;
}

void tcc_cache_close(tcc_cache *c) {
    if (!c) return;
    if (c->db) tcc_cache_flush(c);
    forget_pending(c);
    tcc_vec_free(&c->pending);
    tcc_vec_free(&c->touched);
    tcc_database_close(c->db);
    tcc__free(c->path);
    pthread_mutex_destroy(&c->mutex);
    tcc__free(c);
}

static void tell(tcc_cache *c, const char *text) {
    if (!c->told && c->tell) c->tell(c->user, text);
    c->told = true;
}

/* From now on there is nothing in it. Frees what `d` has. */
static void give_up(tcc_cache *c, tcc_diag *d) {
    tcc_diag quiet = {0};
    const bool damaged = !c->read_only && tcc_database_is_damaged(c->db);
    tell(c, tcc_diag_words(d));
    tcc_diag_clear(d);
    if (damaged) tcc_database_reset(c->db, &quiet); /* so that the next run has one */
    tcc_diag_clear(&quiet);
    c->off = true;
}

/* The value of the row at hand, copied. */
static bool take(tcc_cache *c, tcc_query *q, tcc_cache_kind kind, const tcc_cache_hash *hash, void **value,
                 int64_t *size_bytes) {
    if (!tcc_cache_row_is_sound(q, kind, hash)) {
        tell(c, "an entry of the cache is damaged; it is made again");
        return false;
    }
    const void *data = tcc_query_blob(q, TCC_COLUMN_VALUE, size_bytes);
    *value = tcc__malloc(*size_bytes ? (size_t)*size_bytes : 1);
    if (!*value) return false;
    if (*size_bytes) memcpy(*value, data, (size_t)*size_bytes);
    if (tcc_query_i64(q, TCC_COLUMN_USED) + TOUCH_SECONDS < (int64_t)time(NULL))
        (void)tcc_vec_push(&c->touched, tcc_query_i64(q, TCC_COLUMN_ID)); /* forgotten where memory is short */
    return true;
}

static bool find_written(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_hash *hash, void **value,
                         int64_t *size_bytes) {
    tcc_diag d = {0};
    tcc_query *q;
    bool row = false;
    tcc_status status = tcc_query_begin(c->db, &d, &q,
                                        "SELECT " TCC_CACHE_COLUMNS ", value FROM entries WHERE kind = ? AND hash = ?",
                                        "ib", (int64_t)kind, hash->bytes, (size_t)TCC_CACHE_HASH_BYTES);
    if (status == TCC_OK) status = tcc_query_step(q, &d, &row);
    const bool found = status == TCC_OK && row && take(c, q, kind, hash, value, size_bytes);
    tcc_query_end(q);
    if (status != TCC_OK) give_up(c, &d);
    return found;
}

/* What this process has put and not written yet. */
static bool find_pending(const tcc_cache *c, tcc_cache_kind kind, const tcc_cache_hash *hash, void **value,
                         int64_t *size_bytes) {
    for (int i = 0; i < c->pending.count; i++) {
        const tcc_cache_pending *p = &c->pending.data[i];
        if (p->kind != kind || memcmp(&p->hash, hash, sizeof *hash) != 0) continue;
        *value = tcc__malloc(p->size_bytes ? (size_t)p->size_bytes : 1);
        if (*value) memcpy(*value, p->value, (size_t)p->size_bytes);
        *size_bytes = p->size_bytes;
        return *value != NULL;
    }
    return false;
}

bool tcc_cache_get(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, void **value, int64_t *size_bytes) {
    *value = NULL;
    *size_bytes = 0;
    if (!c) return false;
    const tcc_cache_hash hash = tcc_cache_hash_key(key);
    pthread_mutex_lock(&c->mutex);
    const bool found = !c->off && (find_pending(c, kind, &hash, value, size_bytes) ||
                                   find_written(c, kind, &hash, value, size_bytes));
    pthread_mutex_unlock(&c->mutex);
    return found;
}

void tcc_cache_put(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, const void *value, int64_t size_bytes,
                   int64_t made_ns) {
    if (!c || size_bytes > c->max_bytes / 2) return;
    tcc_cache_pending p = {.kind = kind, .hash = tcc_cache_hash_key(key), .size_bytes = size_bytes, .made_ns = made_ns};
    tcc_strbuf text = {0};
    tcc_cache_print_key(key, &text);
    p.key = tcc_strbuf_take(&text);
    p.value = tcc__malloc(size_bytes ? (size_t)size_bytes : 1);
    if (p.value) memcpy(p.value, value, (size_t)size_bytes);
    pthread_mutex_lock(&c->mutex);
    const bool kept = p.key && p.value && !c->off && tcc_vec_push(&c->pending, p);
    pthread_mutex_unlock(&c->mutex);
    if (kept) return;
    tcc__free(p.key);
    tcc__free(p.value);
}

static tcc_status write_all(tcc_cache *c, tcc_diag *d) {
    TCC_TRY(tcc_database_run(c->db, d, "BEGIN IMMEDIATE"));
    for (int i = 0; i < c->pending.count; i++) {
        const tcc_cache_pending *p = &c->pending.data[i];
        TCC_TRY(tcc_cache_insert(c->db, d, p->kind, &p->hash, p->key, p->made_ns, p->value, p->size_bytes));
    }
    for (int i = 0; i < c->touched.count; i++)
        TCC_TRY(tcc_database_do(c->db, d, "UPDATE entries SET used = ? WHERE id = ?", "ii", (int64_t)time(NULL),
                                c->touched.data[i]));
    if (c->pending.count) TCC_TRY(tcc_cache_evict(c->db, d, c->max_bytes));
    return tcc_database_run(c->db, d, "COMMIT");
}

void tcc_cache_flush(tcc_cache *c) {
    if (!c) return;
    tcc_diag d = {0}, quiet = {0};
    pthread_mutex_lock(&c->mutex);
    if (!c->off && c->read_only && c->pending.count) {
        tcc_error(&d, TCC_EIO, (tcc_loc){c->path, 0},
                  "it cannot be written; what is compiled now will be compiled again");
        tell(c, tcc_diag_words(&d));
        tcc_diag_clear(&d);
    } else if (!c->off && !c->read_only && (c->pending.count || c->touched.count) && write_all(c, &d) != TCC_OK) {
        give_up(c, &d);
        tcc_database_run(c->db, &quiet, "ROLLBACK");
        tcc_diag_clear(&quiet);
    }
    forget_pending(c);
    c->touched.count = 0;
    pthread_mutex_unlock(&c->mutex);
}

/* -- Claims: a lock on one byte of a file beside the database, at a place that the key says. The system releases what a
 * killed process held. -- */

static bool try_lock(int fd, const tcc_cache_hash *hash) {
    uint64_t place;
    memcpy(&place, hash->bytes, sizeof place);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(place >> 2), .l_len = 1};
    return !fcntl(fd, F_OFD_SETLK, &lock);
}

tcc_cache_claim tcc_cache_wait(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, int wait_ms) {
    enum { POLL_MS = 10 };
    tcc_cache_claim claim = {-1};
    if (!c || c->read_only) return claim;
    tcc_cache_hash hash = tcc_cache_hash_key(key);
    hash.bytes[0] = (unsigned char)(hash.bytes[0] ^ kind);
    tcc_strbuf path = {0};
    tcc_strbuf_printf(&path, "%s.lock", c->path);
    claim.fd = path.failed ? -1 : open(path.text, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    tcc_strbuf_free(&path);
    if (claim.fd < 0) return claim;
    for (int waited = 0; !try_lock(claim.fd, &hash); waited += POLL_MS) {
        if ((errno == EAGAIN || errno == EACCES) && waited < wait_ms) {
            nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000}, NULL);
            continue;
        }
        tcc_cache_release(&claim);
        break;
    }
    return claim;
}

void tcc_cache_release(tcc_cache_claim *claim) {
    if (claim->fd >= 0) close(claim->fd);
    claim->fd = -1;
}
