/* SPDX-License-Identifier: MIT
 * Ranks of an MPI library: exchanges by its sends and receives, polled, so that a rank that does not answer is seen.
 * MPI's own reductions are not used, as their order is the library's.
 *
 * Each rank sends each other one last message: why it gives up, or nothing when its end is closed. Whoever waits for
 * that rank's data reads it. */
#include "runtime/comm/mpi_module.h"

#include "ir/support/alloc.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    DATA_TAG = 1,
    LAST_TAG = 2,
    REASON_BYTES = 512,
    PIECE_BYTES = 1 << 30, /* a count is an int */
    YIELDS = 2000,         /* polls before the first sleep, */
    MOST_SLEEP_NS = 500000 /* which grow to that */
};
static const double grace_s = 3; /* that ranks have to say their last after an error */

typedef struct piece {
    int rank, bytes;
    bool received;
} piece;

typedef struct mpi_end {
    tcc_mpi_end base;
    MPI_Comm comm;
    bool owns_mpi, failed;
    bool stuck;   /* MPI holds memory of the caller, who may free it: from then on MPI is called no more */
    int capacity; /* of these, for one exchange: */
    MPI_Request *requests;
    MPI_Status *statuses;
    piece *pieces;
    int *done;
    bool *ended;                   /* by rank: its last message is here, */
    char (*reasons)[REASON_BYTES]; /* and says that; "": its end was closed */
    bool said;                     /* our last message is on its way: */
    char last[REASON_BYTES];
    MPI_Request *last_requests; /* by rank */
} mpi_end;

static mpi_end *end_of(tcc_mpi_end *e) { return (mpi_end *)e; }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Between two polls. */
static void rest(int polls) {
    if (polls < YIELDS) {
        sched_yield();
        return;
    }
    const long ns = (long)(polls - YIELDS) * 1000;
    const struct timespec t = {.tv_nsec = ns < MOST_SLEEP_NS ? ns : MOST_SLEEP_NS};
    nanosleep(&t, NULL);
}

#define SAY(...) snprintf(why, TCC_MPI_TEXT_BYTES, __VA_ARGS__)

static tcc_status mpi_failed(const mpi_end *e, int error, int rank, char *why) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(error, text, &length);
    if (rank < 0) SAY("rank %d: MPI: %s", e->base.rank, text);
    else SAY("rank %d: MPI: %s", rank, text);
    return TCC_EIO;
}

/* -- Opening -- */

static tcc_status initialize(mpi_end *e, bool may_initialize, char *why) {
    int initialized = 0, finalized = 0, level = 0, main_thread = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized || (!initialized && !may_initialize)) {
        SAY("MPI is %s", finalized ? "finalized" : "not initialized");
        return TCC_EINVAL;
    }
    if (!initialized && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS) {
        SAY("MPI_Init_thread failed");
        return TCC_EIO;
    }
    e->owns_mpi = !initialized;
    MPI_Query_thread(&level);
    MPI_Is_thread_main(&main_thread);
    /* the program's own calls may go on at the same time, ours not */
    e->base.any_thread = level >= (e->owns_mpi ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE);
    if (level >= MPI_THREAD_SERIALIZED || main_thread) return TCC_OK;
    SAY("MPI was initialized for calls by its main thread alone, and this is another: it needs "
        "MPI_Init_thread(..., MPI_THREAD_SERIALIZED, ...)");
    return TCC_EINVAL;
}

/* Collective, but nobody waits longer than the limit. */
static tcc_status duplicate(mpi_end *e, MPI_Comm from, double timeout_s, char *why) {
    const double until = now() + timeout_s;
    MPI_Request request;
    int done = 0, error = MPI_Comm_idup(from, &e->comm, &request);
    for (int polls = 0; error == MPI_SUCCESS && !done; polls++) {
        error = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done && now() > until) {
            SAY("not all ranks came within %g s", timeout_s);
            return TCC_EIO;
        }
        if (!done) rest(polls);
    }
    if (error != MPI_SUCCESS) return mpi_failed(e, error, -1, why);
    MPI_Comm_set_errhandler(e->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(e->comm, &e->base.rank);
    MPI_Comm_size(e->comm, &e->base.size);
    return TCC_OK;
}

static void release(mpi_end *e) {
    tcc__free(e->requests);
    tcc__free(e->statuses);
    tcc__free(e->pieces);
    tcc__free(e->done);
    tcc__free(e->ended);
    tcc__free(e->reasons);
    tcc__free(e->last_requests);
    tcc__free(e);
}

static tcc_status allocate(mpi_end *e, char *why) {
    const size_t size = (size_t)e->base.size;
    e->ended = tcc__calloc(size, sizeof *e->ended);
    e->reasons = tcc__calloc(size, sizeof *e->reasons);
    e->last_requests = tcc__calloc(size, sizeof *e->last_requests);
    if (e->ended && e->reasons && e->last_requests) return TCC_OK;
    SAY("out of memory");
    return TCC_ENOMEM;
}

static MPI_Comm comm_of(const void *mpi_comm, bool of_fortran) {
    if (!mpi_comm) return MPI_COMM_WORLD;
    return of_fortran ? MPI_Comm_f2c(*(const int *)mpi_comm) : *(const MPI_Comm *)mpi_comm;
}

static tcc_status open_end(const void *mpi_comm, bool of_fortran, double timeout_s, tcc_mpi_end **out, char *why) {
    mpi_end *e = tcc__calloc(1, sizeof *e);
    if (!e) {
        SAY("out of memory");
        return TCC_ENOMEM;
    }
    tcc_status status = initialize(e, !mpi_comm, why);
    if (status == TCC_OK) status = duplicate(e, comm_of(mpi_comm, of_fortran), timeout_s, why);
    if (status == TCC_OK) status = allocate(e, why);
    if (status != TCC_OK) {
        release(e);
        return status;
    }
    *out = &e->base;
    return TCC_OK;
}

/* -- Exchanges -- */

static int pieces_of(int64_t bytes) { return (int)((bytes + PIECE_BYTES - 1) / PIECE_BYTES); }

static tcc_status reserve(mpi_end *e, const tcc_comm_part *parts, char *why) {
    int count = 0;
    for (int r = 0; r < e->base.size; r++)
        if (r != e->base.rank) count += pieces_of(parts[r].from_bytes) + pieces_of(parts[r].to_bytes);
    if (count <= e->capacity) return TCC_OK;
    tcc__free(e->requests);
    tcc__free(e->statuses);
    tcc__free(e->pieces);
    tcc__free(e->done);
    e->requests = tcc__malloc((size_t)count * sizeof *e->requests);
    e->statuses = tcc__malloc((size_t)count * sizeof *e->statuses);
    e->pieces = tcc__malloc((size_t)count * sizeof *e->pieces);
    e->done = tcc__malloc((size_t)count * sizeof *e->done);
    e->capacity = e->requests && e->statuses && e->pieces && e->done ? count : 0;
    if (e->capacity) return TCC_OK;
    SAY("out of memory");
    return TCC_ENOMEM;
}

/* Begins to move the bytes of one part, in pieces; *n: requests so far. */
static tcc_status begin(mpi_end *e, int rank, bool receives, char *data, int64_t bytes, int *n, char *why) {
    for (int64_t at = 0; at < bytes; at += PIECE_BYTES) {
        const int count = (int)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES);
        const int error = receives ? MPI_Irecv(data + at, count, MPI_BYTE, rank, DATA_TAG, e->comm, &e->requests[*n])
                                   : MPI_Isend(data + at, count, MPI_BYTE, rank, DATA_TAG, e->comm, &e->requests[*n]);
        if (error != MPI_SUCCESS) return mpi_failed(e, error, rank, why);
        e->pieces[(*n)++] = (piece){rank, count, receives};
    }
    return TCC_OK;
}

/* Takes what is done off the list, *left: pieces that are not. */
static tcc_status take_done(mpi_end *e, int n, int *left, char *why) {
    int count = 0;
    const int error = MPI_Testsome(n, e->requests, &count, e->done, e->statuses);
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) return mpi_failed(e, error, -1, why);
    for (int i = 0; count != MPI_UNDEFINED && i < count; i++) {
        piece *p = &e->pieces[e->done[i]];
        int bytes = p->bytes;
        if (error == MPI_ERR_IN_STATUS && e->statuses[i].MPI_ERROR != MPI_SUCCESS)
            return mpi_failed(e, e->statuses[i].MPI_ERROR, p->rank, why);
        if (p->received) MPI_Get_count(&e->statuses[i], MPI_BYTE, &bytes);
        if (bytes != p->bytes) {
            SAY("rank %d sent something else than was awaited: is it another version?", p->rank);
            return TCC_EIO;
        }
        p->bytes = 0; /* done */
        --*left;
    }
    return TCC_OK;
}

/* Reads last messages that have come. */
static tcc_status take_last(mpi_end *e, char *why) {
    for (;;) {
        int there = 0, bytes = 0;
        MPI_Status s;
        int error = MPI_Iprobe(MPI_ANY_SOURCE, LAST_TAG, e->comm, &there, &s);
        if (error != MPI_SUCCESS) return mpi_failed(e, error, -1, why);
        if (!there) return TCC_OK;
        const int rank = s.MPI_SOURCE;
        error = MPI_Recv(e->reasons[rank], REASON_BYTES - 1, MPI_BYTE, rank, LAST_TAG, e->comm, &s);
        if (error != MPI_SUCCESS) return mpi_failed(e, error, rank, why);
        MPI_Get_count(&s, MPI_BYTE, &bytes);
        e->reasons[rank][bytes] = '\0';
        e->ended[rank] = true;
    }
}

/* The first rank for which pieces are not done, and, with `ended`, that has sent its last message; -1: none. */
static int waits_for(const mpi_end *e, int n, bool ended) {
    for (int i = 0; i < n; i++)
        if (e->pieces[i].bytes && (!ended || e->ended[e->pieces[i].rank])) return e->pieces[i].rank;
    return -1;
}

static tcc_status too_late(const mpi_end *e, int n, double timeout_s, char *why) {
    const int first = waits_for(e, n, false);
    int length = SAY("rank %d did not answer within %g s", first, timeout_s);
    for (int i = 0, said = first; i < n && length < TCC_MPI_TEXT_BYTES - 32; i++)
        if (e->pieces[i].bytes && e->pieces[i].received && e->pieces[i].rank > said) {
            said = e->pieces[i].rank;
            length += snprintf(why + length, (size_t)(TCC_MPI_TEXT_BYTES - length), ", nor did rank %d", said);
        }
    return TCC_EIO;
}

/* Until all n pieces are done. What a rank sent before its last message is here when that is: it is looked for once
 * more before that rank's data is given up. */
static tcc_status finish(mpi_end *e, int n, double timeout_s, char *why) {
    const double until = now() + timeout_s;
    int left = n, polls = 0;
    TCC_TRY(take_done(e, n, &left, why));
    while (left) {
        const int before = left;
        TCC_TRY(take_last(e, why));
        TCC_TRY(take_done(e, n, &left, why));
        const int rank = waits_for(e, n, true);
        if (rank >= 0) {
            if (e->reasons[rank][0]) SAY("rank %d gave up: %s", rank, e->reasons[rank]);
            else SAY("rank %d is gone: it has closed its communicator", rank);
            return TCC_EIO;
        }
        if (left && now() > until) return too_late(e, n, timeout_s, why);
        if (left) rest(polls = left < before ? 0 : polls + 1);
    }
    return TCC_OK;
}

/* MPI lets go of the caller's memory, as far as it can: what it has begun to send it does not take back. */
static void cancel(mpi_end *e, int n) {
    for (int i = 0; i < n; i++) {
        int done = 0;
        if (!e->pieces[i].bytes || e->requests[i] == MPI_REQUEST_NULL) continue;
        if (e->pieces[i].received) MPI_Cancel(&e->requests[i]);
        for (int polls = 0; !done && polls < 100; polls++) MPI_Test(&e->requests[i], &done, MPI_STATUS_IGNORE);
        e->stuck |= !done;
    }
}

static tcc_status exchange(tcc_mpi_end *end, const tcc_comm_part *parts, double timeout_s, char *why) {
    mpi_end *e = end_of(end);
    int n = 0;
    tcc_status status = reserve(e, parts, why);
    for (int r = 0; r < end->size && status == TCC_OK; r++)
        if (r != end->rank) status = begin(e, r, true, parts[r].from, parts[r].from_bytes, &n, why);
    for (int r = 0; r < end->size && status == TCC_OK; r++)
        if (r != end->rank) status = begin(e, r, false, (char *)parts[r].to, parts[r].to_bytes, &n, why);
    if (status == TCC_OK) status = finish(e, n, timeout_s, why);
    if (status != TCC_OK) cancel(e, n);
    return status;
}

/* -- Ends -- */

static void say_last(mpi_end *e, const char *text) {
    if (e->said) return;
    e->said = true;
    snprintf(e->last, sizeof e->last, "%s", text);
    for (int r = 0; r < e->base.size; r++) {
        e->last_requests[r] = MPI_REQUEST_NULL;
        if (r != e->base.rank)
            MPI_Isend(e->last, (int)strlen(e->last), MPI_BYTE, r, LAST_TAG, e->comm, &e->last_requests[r]);
    }
}

/* Whether all ranks have said their last, and heard ours. */
static bool wait_for_last(mpi_end *e, double timeout_s) {
    const double until = now() + timeout_s;
    char why[TCC_MPI_TEXT_BYTES];
    for (int polls = 0;; polls++) {
        bool all = true;
        if (take_last(e, why) != TCC_OK) return false;
        for (int r = 0; r < e->base.size; r++) {
            int heard = 0;
            if (r == e->base.rank) continue;
            if (MPI_Test(&e->last_requests[r], &heard, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
            all = all && heard && e->ended[r];
        }
        if (all) return true;
        if (now() > until) return false;
        rest(polls);
    }
}

/* Where others wait for what MPI holds, they hear the last message now or never. */
static void abort_end(tcc_mpi_end *end, const char *why) {
    mpi_end *e = end_of(end);
    e->failed = true;
    say_last(e, *why ? why : "without a reason");
    if (e->stuck) wait_for_last(e, grace_s);
}

/* After an error neither the communicator nor MPI can be ended in order: others may never come. The process ends with
 * a status that tells whoever has started it. */
static void close_end(tcc_mpi_end *end, double timeout_s) {
    mpi_end *e = end_of(end);
    int finalized = 0;
    if (e->stuck) return;
    MPI_Finalized(&finalized);
    if (!finalized) {
        say_last(e, "");
        const bool all = wait_for_last(e, e->failed && timeout_s > grace_s ? grace_s : timeout_s);
        if (all && !e->failed) MPI_Comm_free(&e->comm);
        if (all && !e->failed && e->owns_mpi) MPI_Finalize();
        if (!all) return; /* MPI may still read what is on its way */
    }
    release(e);
}

__attribute__((visibility("default"))) const tcc_mpi_module *tcc_mpi_module_table(void) {
    static const tcc_mpi_module module = {
        TCC_MPI_MODULE_VERSION, TCC_MPI_LIBRARY, open_end, exchange, abort_end, close_end};
    return &module;
}
