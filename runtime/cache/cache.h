/* SPDX-License-Identifier: MIT
 * The cache on disk: compiled programs and kernels and measured choices, kept from run to run and shared by processes.
 * One SQLite database in one folder. An entry is found by a key, which has all that its value depends on.
 *
 * The cache never stops or changes a run. What is wrong with it - damaged, locked, read-only, a full disk, another
 * user's - is told once, and from then on nothing is found and nothing is kept. Calls may come from several threads. */
#ifndef TCC_RUNTIME_CACHE_CACHE_H
#define TCC_RUNTIME_CACHE_CACHE_H

#include "ir/support/diag.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tcc_cache tcc_cache;

/* TCC_CACHE_KIND(identifier, "text", "what a value is"); the database has their numbers, so new ones come last. */
#define TCC_CACHE_KINDS(TCC_CACHE_KIND)                                 \
    TCC_CACHE_KIND(PROGRAM, "program", "a whole compiled program")      \
    TCC_CACHE_KIND(KERNEL, "kernel", "machine code that a driver made") \
    TCC_CACHE_KIND(CHOICE, "choice", "what was measured to be best")    \
    TCC_CACHE_KIND(CODE, "code", "what a kernel was compiled to, or a module of a few kernels")

typedef enum tcc_cache_kind {
#define TCC_CACHE_KIND(id, text, what) TCC_CACHE_##id,
    TCC_CACHE_KINDS(TCC_CACHE_KIND)
#undef TCC_CACHE_KIND
        TCC_CACHE_KIND_COUNT
} tcc_cache_kind;

const char *tcc_cache_kind_text(tcc_cache_kind kind);

/* A key: parts with names, as "llvm" and "19.1.7", in an order of the caller's that is always the same for a kind. Two
 * keys are equal if all of their parts are. */
enum { TCC_CACHE_MOST_PARTS = 24 };
typedef struct tcc_cache_part {
    const char *name, *text;
} tcc_cache_part;
typedef struct tcc_cache_key {
    int count;
    tcc_cache_part parts[TCC_CACHE_MOST_PARTS];
} tcc_cache_key;

typedef struct tcc_cache_options {
    const char *folder; /* NULL: $TCC_CACHE_DIR, else $XDG_CACHE_HOME/traincc, else ~/.cache/traincc */
    int64_t max_bytes;  /* of all values; 0: $TCC_CACHE_MAX, else 2 GiB */
    void (*tell)(void *user, const char *text); /* once, why the cache is not used; NULL: nobody is told */
    void *user;
} tcc_cache_options;

/* Opens the cache, or makes it. *out is NULL, with TCC_OK, where $TCC_CACHE_DISABLE is set to something other than 0.
 * Errors, after which a run goes on without: TCC_EINVAL ($TCC_CACHE_MAX), TCC_EIO, TCC_EFORMAT (no database of ours,
 * damaged, or of a newer version), TCC_EUNSUPPORTED (another user owns it or may write to it), TCC_ENOMEM. */
tcc_status tcc_cache_open(tcc_diag *d, const tcc_cache_options *options, tcc_cache **out);
/* Writes what is still to be written. NULL is allowed. */
void tcc_cache_close(tcc_cache *c);

/* Every function below takes NULL for "there is no cache". */

/* Whether there is a value for the key; the caller frees *value with tcc__free. */
bool tcc_cache_get(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, void **value, int64_t *size_bytes);
/* Keeps a value, which took `made_ns` to make; it is written at the latest by tcc_cache_flush or tcc_cache_close. */
void tcc_cache_put(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, const void *value, int64_t size_bytes,
                   int64_t made_ns);
/* Writes what was put, in one transaction, and drops what was not used for longest where there is too much. */
void tcc_cache_flush(tcc_cache *c);

/* Once over all processes: waits, `wait_ms` at most, until no other process makes the value of this key. Then ask for
 * it again: the other may have made it. Release the claim after tcc_cache_flush. A killed process has none. */
typedef struct tcc_cache_claim {
    int fd; /* -1: none */
} tcc_cache_claim;
tcc_cache_claim tcc_cache_wait(tcc_cache *c, tcc_cache_kind kind, const tcc_cache_key *key, int wait_ms);
void tcc_cache_release(tcc_cache_claim *claim);

/* -- For people (tool.c) -- */

/* How much there is, by kind. */
tcc_status tcc_cache_print_stat(tcc_cache *c, tcc_diag *d, tcc_strbuf *out);
/* A line for each entry, those used last first. */
tcc_status tcc_cache_print_list(tcc_cache *c, tcc_diag *d, tcc_strbuf *out);
/* Why the entry whose key begins with `key` was made (NULL: the newest program): which parts of its key the nearest
 * older entry of its kind has otherwise. Errors: TCC_ENOTFOUND. */
tcc_status tcc_cache_print_why(tcc_cache *c, tcc_diag *d, const char *key, tcc_strbuf *out);
/* All of it to a file that does not exist yet. */
tcc_status tcc_cache_copy_out(tcc_cache *c, tcc_diag *d, const char *path);
/* What `path` has, an exported file. Refused are entries that are damaged, and those whose key has a part with the name
 * of some of `facts` and the text of none of these; `out` says how many were taken, and how many were refused for what.
 */
tcc_status tcc_cache_take_in(tcc_cache *c, tcc_diag *d, const char *path, const tcc_cache_key *facts, tcc_strbuf *out);
/* Removes the database in the folder that the options name, whatever is wrong with it. */
tcc_status tcc_cache_remove(tcc_diag *d, const tcc_cache_options *options);

#endif
