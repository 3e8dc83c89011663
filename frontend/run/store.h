/* SPDX-License-Identifier: MIT
 * Parameters, buffers and states: named host memory of a model, which outlives traces and programs. */
#ifndef TCC_FRONTEND_RUN_STORE_H
#define TCC_FRONTEND_RUN_STORE_H

#include "ir/support/alloc.h"
#include "ir/support/arena.h"
#include "ir/support/diag.h"
#include "ir/support/dtype.h"
#include "ir/support/role.h"
#include "ir/support/vec.h"
#include "traincc/array.h"
#include "traincc/nn.h"

#include <string.h>

/* A parameter (role PARAM) or buffer (STATE): host memory of the model, 64-byte aligned, elements of its type. */
typedef struct tcc_stored {
    const char *name;
    uint64_t name_hash;
    tcc_type type;
    tcc_role role;
    tcc_init init;
    int64_t zero_row; /* one more than the index of dim 0 whose values begin as zeros; 0: none */
    void *data;       /* of the store's; NULL until tcc_store_fill */
    /* A derived state (state.c): */
    const char *copy_of; /* the entry whose value it is, cast to its type; NULL: it is none */
    int64_t from;        /* the first of that one's elements; of a rank's own part, behind which there may be none */
    bool stale;          /* to be made again before a program reads it */
    bool counted;        /* of what is shared: in kept_bytes */
    const char *shown;   /* the name that the user sees; NULL: `name` */
    /* A state that ranks share out (shards.c), of which this is the rank's part: */
    bool shared_out, begun; /* begun: its values may differ from those at the start */
    bool given;             /* the user has `gathered`, and may have written it */
    bool shown_whole; /* `gathered` is in use on all ranks: the parameters are in it, and averages in their place */
    tcc_type whole;
    void *gathered; /* of all parts; NULL: they are not */
    bool behind;    /* a parameter: ranks have newer values in their own parts of it, and `data` means nothing */
    /* On a device with memory of its own (memory.c): */
    void *device;                  /* NULL: not there yet */
    bool host_newer, device_newer; /* what the other side lacks; never both */
} tcc_stored;

typedef struct tcc_stored_block {
    void *data;
    int64_t bytes;
} tcc_stored_block;

typedef struct tcc_store {
    tcc_arena arena; /* names */
    tcc_vec(tcc_stored) entries;
    int *table; /* entries by the hash of their name, in the first free slot from there; -1: free */
    int slots;  /* a power of 2, more than twice the entries; 0: no table yet */
    tcc_vec(tcc_stored_block) blocks; /* one for all entries that got their memory together */
    int filled;                       /* entries that have their values */
    uint64_t seed;
} tcc_store;

/* Index of the entry `name`, or -1. */
int tcc_store_find(const tcc_store *s, const char *name);
/* Adds an entry, without memory. */
tcc_status tcc_store_add(tcc_store *s, const char *name, tcc_role role, const tcc_type *type, const tcc_init *init,
                         tcc_diag *diag, tcc_loc at, int *index);
/* Takes back the last entries, so that `count` are left, and all that have their values. */
void tcc_store_truncate(tcc_store *s, int count);
/* Gives memory and initial values to the entries that have none. */
tcc_status tcc_store_fill(tcc_store *s, tcc_diag *diag);
/* The same in steps: memory; values, whose parts [0, parts) several threads may share; done. */
tcc_status tcc_store_reserve(tcc_store *s, tcc_diag *diag, int64_t *parts);
void tcc_store_initialize(const tcc_store *s, int64_t begin, int64_t end);
void tcc_store_filled(tcc_store *s);
void tcc_store_free(tcc_store *s);

/* Element type and shape of a caller's array. */
tcc_type tcc__array_type(const tcc_array *a);
/* Names that begin with '@' belong to states that passes add, so that no model's name is one of theirs. */
static inline bool tcc_name_is_reserved(const char *name) { return *name == '@'; }
/* Options structs grow at their end: a caller compiled against an older header has a smaller size, and new fields are
 * zero. */
#define TCC_OPTIONS(type, local, given) \
    type local = {0};                   \
    if (given) memcpy(&local, (given), (given)->size && (given)->size < sizeof local ? (given)->size : sizeof local)

#endif
