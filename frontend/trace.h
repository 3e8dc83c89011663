/* SPDX-License-Identifier: MIT
 * A trace in progress, and the parameters that outlive it. Shared by the frontend's files and compile.c. */
#ifndef TCC_FRONTEND_TRACE_H
#define TCC_FRONTEND_TRACE_H

#include "ir/build.h"
#include "ir/ir.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "traincc/model.h"
#include "traincc/nn.h"

#include <string.h>

/* A parameter (role PARAM) or buffer (STATE): host memory of the model, 64-byte aligned, elements of its type. */
typedef struct tcc_stored {
    const char *name;
    tcc_type type;
    tcc_role role;
    tcc_init init;
    void *data; /* of the store's; NULL until tcc_store_fill */
    /* A derived state (compile_state.c): */
    const char *copy_of; /* the entry whose value it is, cast to its type; NULL: it is none */
    bool stale;          /* to be made again before a program reads it */
    /* On a device with memory of its own (compile_memory.c): */
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
    tcc_vec(tcc_stored_block) blocks; /* one for all entries that got their memory together */
    int filled;                       /* entries that have their values */
    uint64_t seed;
} tcc_store;

/* Index of the entry `name`, or -1. */
int tcc_store_find(const tcc_store *s, const char *name);
/* Adds an entry, without memory. */
tcc_status tcc_store_add(tcc_store *s, const char *name, tcc_role role, const tcc_type *type, const tcc_init *init,
                         tcc_diag *diag, tcc_loc at, int *index);
/* Gives memory and initial values to the entries that have none. */
tcc_status tcc_store_fill(tcc_store *s, tcc_diag *diag);
/* The same in steps: memory; values, whose parts [0, parts) several threads may share; done. */
tcc_status tcc_store_reserve(tcc_store *s, tcc_diag *diag, int64_t *parts);
void tcc_store_initialize(const tcc_store *s, int64_t begin, int64_t end);
void tcc_store_filled(tcc_store *s);
void tcc_store_free(tcc_store *s);

struct tcc_trace {
    uint64_t id;      /* no other trace of the process has it */
    tcc_trace *outer; /* the one that this thread goes on with after it; NULL: none */
    tcc_graph *graph;
    tcc_store *store;
    const tcc_array *batch;
    int n_batch;
    bool training;
    tcc_strbuf prefix;          /* "transformer.h.0." */
    tcc_vec(size_t) scopes;     /* lengths of prefix before each open scope */
    tcc_vec(tcc_node *) stored; /* input node by index in the store; NULL: not used yet in this trace */
    int full_depth;             /* open tcc_full_precision */
    int segment_depth;          /* open tcc_checkpoint_segment */
    int segments;               /* outermost ones so far */
    tcc_node *rng_key;          /* input "rng", made when first needed */
    int64_t next_random_id;
};

/* Starts a trace into a new graph named `name`. */
tcc_status tcc_trace_begin(tcc_trace *t, const char *name, tcc_store *store, bool training, const tcc_array *batch,
                           int n_batch, tcc_diag *diag);
/* Gives the graph, or the first error of the trace. Frees the trace's own memory in any case. */
tcc_status tcc_trace_end(tcc_trace *t, tcc_graph **out);

/* Names that begin with '@' belong to states that passes add, so that no model's name is one of theirs. */
static inline bool tcc_name_is_reserved(const char *name) { return *name == '@'; }
/* Full name within the open scopes, in the graph's arena; NULL when memory is short (reported). */
const char *tcc_trace_name(tcc_trace *t, const char *name, const char *suffix);
tcc_node *tcc_trace_rng_key(tcc_trace *t);

/* Handles may be stale: kept from an earlier trace, or never assigned. So nothing that they point to is looked at
 * before they were compared with the trace that runs on this thread. */

/* Whether all are values of the running trace. If not, the result of `op` is tcc_trace_poison(), and the error is
 * recorded, at the user's place, unless one of them is the result of an earlier error. */
bool tcc_trace_takes(const char *op, tcc_loc at, int count, const tcc_tensor *xs);
/* The same of a trace that a call was given. */
bool tcc_trace_is_open(const tcc_trace *t, const char *op, tcc_loc at);
tcc_tensor tcc_trace_poison(void);

static inline tcc_tensor tcc_trace_wrap(tcc_trace *t, tcc_node *n) { return (tcc_tensor){t, n, t->id}; }
/* A poisoned tensor after recording an error at the user's place. */
tcc_tensor tcc_trace_error(tcc_trace *t, tcc_status status, tcc_loc at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Options structs grow at their end: a caller compiled against an older header has a smaller size, and new fields are
 * zero. */
#define TCC_OPTIONS(type, local, given) \
    type local = {0};                   \
    if (given) memcpy(&local, (given), (given)->size && (given)->size < sizeof local ? (given)->size : sizeof local)

#endif
