/* SPDX-License-Identifier: MIT
 * A trace in progress. Shared by the frontend's files and compile.c. */
#ifndef TCC_FRONTEND_TRACE_H
#define TCC_FRONTEND_TRACE_H

#include "frontend/run/store.h"
#include "ir/build.h"
#include "ir/ir.h"
#include "ir/support/context.h"
#include "traincc/model.h"
#include "traincc/nn.h"

#include <string.h>

/* A random draw that the user has named. */
typedef struct tcc_trace_draw {
    const char *name;
    int64_t id;
    tcc_loc at;
} tcc_trace_draw;

struct tcc_trace {
    uint64_t id;      /* no other trace of the process has it */
    tcc_trace *outer; /* the one that this thread goes on with after it; NULL: none */
    tcc_graph *graph;
    tcc_store *store;
    const tcc_array *batch;
    int n_batch;
    bool training;
    int ranks;                                                /* that train together; 0 or 1: this one alone */
    bool whole;                                               /* the batch of all of them, as one would have it */
    bool sync_norms;                                          /* batch norms take the batch of all of them */
    bool (*keeps_statistics)(void *user, const char *weight); /* of a batch norm that training leaves; NULL: of none */
    void *keeps_user;
    tcc_strbuf prefix;             /* "transformer.h.0." */
    tcc_vec(size_t) scopes;        /* lengths of prefix before each open scope */
    tcc_vec(tcc_node *) stored;    /* input node by index in the store; NULL: not used yet in this trace */
    int full_depth;                /* open tcc_full_precision */
    tcc_vec(tcc_dtype) types;      /* of parameters: open tcc_param_type */
    int segment_depth;             /* open tcc_checkpoint_segment */
    int segments;                  /* outermost ones so far */
    tcc_node *rng_key;             /* input "rng", made when first needed */
    int64_t next_random_id;        /* of draws without a name: counted from 0, named ones have the upper half */
    tcc_vec(tcc_trace_draw) draws; /* that have a name */
};

/* Starts a trace into a new graph named `name`. */
tcc_status tcc_trace_begin(tcc_trace *t, const char *name, tcc_store *store, bool training, const tcc_array *batch,
                           int n_batch, tcc_diag *diag);
/* Gives the graph, or the first error of the trace. Frees the trace's own memory in any case. */
tcc_status tcc_trace_end(tcc_trace *t, tcc_graph **out);

/* Full name within the open scopes, in the graph's arena; NULL when memory is short (reported). */
const char *tcc_trace_name(tcc_trace *t, const char *name, const char *suffix);
tcc_node *tcc_trace_rng_key(tcc_trace *t);
/* Where nodes come from that are built from now on, and their marks, after something else has set them. */
void tcc_trace_resume(tcc_trace *t, tcc_loc at);

/* Handles may be stale: kept from an earlier trace, or never assigned. So nothing that they point to is looked at
 * before they were compared with the trace that runs on this thread. */

/* Whether all are values of the running trace. If not, the result of `op` is tcc_trace_poison(), and the error is
 * recorded, at the user's place, unless one of them is the result of an earlier error. */
bool tcc_trace_takes(const char *op, tcc_loc at, int count, const tcc_tensor *xs);
/* The same of a trace that a call was given. */
bool tcc_trace_is_open(const tcc_trace *t, const char *op, tcc_loc at);
tcc_tensor tcc_trace_poison(void);
/* Whether a caller's options are as large as those of the first version, `least`, or of no size, as of this one. */
bool tcc_trace_takes_size(const char *op, size_t size, size_t least, tcc_loc at);
/* Whether a list that a call was given is there; `count` of `what`. */
bool tcc_trace_takes_list(tcc_trace *t, const char *op, const char *what, int count, const void *list, tcc_loc at);
/* Whether a name that the running trace was given is there and not empty. */
bool tcc_trace_takes_name(const char *op, const char *name, tcc_loc at);

static inline tcc_tensor tcc_trace_wrap(tcc_trace *t, tcc_node *n) { return (tcc_tensor){t, n, t->id}; }
/* A poisoned tensor after recording an error at the user's place. */
tcc_tensor tcc_trace_error(tcc_trace *t, tcc_status status, tcc_loc at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
