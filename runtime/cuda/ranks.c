/* SPDX-License-Identifier: MIT
 * Meeting the devices of other ranks, waiting for them, and parting. The communicator is a non-blocking one: a call
 * that has to wait for others returns, and here the clock is looked at until it is done. */
#include "runtime/cuda/ranks.h"
#include "runtime/program.h"

#include "ir/support/alloc.h"
#include "ir/support/clock.h"
#include "ir/support/thread.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const double SPIN_SECONDS = 100e-6, /* of waiting, before the thread sleeps between looks */
    LOOK_SECONDS = 0.05,                   /* between looks at other ranks */
    GRACE_SECONDS = 2,   /* for what runs to end, once a rank was seen to be gone: it may have ended */
    PARTING_SECONDS = 5; /* for others to part, too: meanwhile NCCL passes on what was sent last */

/* A wait: since when nothing has changed, and since when a rank is gone. */
typedef struct patience {
    double begin, looked, gone;
    int32_t progress;
} patience;

static void pause_between(const patience *p, double now) {
    if (now - p->begin < SPIN_SECONDS) sched_yield();
    else nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static patience begin_waiting(const tcc_device_ranks *r) {
    const double now = tcc_clock_seconds();
    return (patience){now, now, 0, r->progress ? __atomic_load_n(r->progress, __ATOMIC_RELAXED) : 0};
}

/* -- Giving up -- */

/* "all_reduce (sum) of 24 f32, in program 'train', step 7 (...)" */
static void note_collective(const tcc_device_ranks *r, tcc_diag *d) {
    const int32_t step = __atomic_load_n(r->progress, __ATOMIC_RELAXED) - 1;
    if (r->program && step >= 0 && step < r->program->n_steps) tcc_program_note_step(d, r->program, step);
    else tcc_note(d, TCC_NOWHERE, "no collective of a program was running");
}

void tcc__cuda_ranks_add_graphs(tcc_device_ranks *r, tcc_ranks_graphs *graphs) {
    graphs->of = r;
    graphs->next = r->graphs;
    r->graphs = graphs;
}

void tcc__cuda_ranks_remove_graphs(tcc_ranks_graphs *graphs) {
    tcc_ranks_graphs **at = graphs->of ? &graphs->of->graphs : NULL;
    while (at && *at && *at != graphs) at = &(*at)->next;
    if (at && *at) *at = graphs->next;
    graphs->of = NULL;
}

/* None of them runs. */
static void drop_graphs(tcc_device_ranks *r) {
    while (r->graphs) {
        tcc_ranks_graphs *graphs = r->graphs;
        tcc__cuda_ranks_remove_graphs(graphs);
        graphs->drop(graphs->user);
    }
}

/* ncclCommAbort under way. */
typedef struct aborting {
    tcc_nccl calls;
    tcc_nccl_comm comm;
    bool done;
} aborting;

static void *end_comm(void *user) {
    aborting *a = user;
    a->calls.abort(a->comm);
    __atomic_store_n(&a->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static bool has_ended(const void *user) {
    const aborting *a = user;
    return __atomic_load_n(&a->done, __ATOMIC_ACQUIRE);
}

static bool is_idle(const void *user) {
    const tcc_device_ranks *r = user;
    const tcc_cuda_driver *cu = &r->cuda->cu;
    return cu->stream_query(r->cuda->compute) != TCC_CUDA_NOT_READY &&
           cu->stream_query(r->stream) != TCC_CUDA_NOT_READY;
}

/* False: it is not so, though enough time for parting went by. */
static bool wait_until(const tcc_device_ranks *r, bool (*is_so)(const void *of), const void *of) {
    const patience p = begin_waiting(r);
    while (!is_so(of)) {
        const double now = tcc_clock_seconds();
        if (now - p.begin >= PARTING_SECONDS) return false;
        pause_between(&p, now);
    }
    return true;
}

/* NCCL's kernels end. What is to abort waits for graphs, and a graph that still runs would wait for those kernels: so
 * another thread aborts, while this one waits for what runs and drops the graphs behind it. An abort that does not come
 * back nevertheless keeps its thread. */
static void abort_comm(tcc_device_ranks *r) {
    aborting *a = r->graphs ? tcc__calloc(1, sizeof *a) : NULL;
    pthread_t thread;
    if (a) *a = (aborting){.calls = r->nccl, .comm = r->comm};
    if (!a || tcc__thread_create(&thread, end_comm, a)) {
        tcc__free(a);
        drop_graphs(r);
        r->nccl.abort(r->comm);
        return;
    }
    wait_until(r, is_idle, r);
    drop_graphs(r);
    if (!wait_until(r, has_ended, a)) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    tcc__free(a);
}

/* NCCL's kernels end, and no further call is made. */
static void give_up(tcc_device_ranks *r, const char *why) {
    if (*r->failed) return;
    snprintf(r->failed, sizeof r->failed, "%s", why);
    if (r->comm) abort_comm(r);
    r->comm = NULL;
}

tcc_status tcc__cuda_ranks_check(const tcc_device_ranks *r, tcc_diag *d) {
    if (!*r->failed) return TCC_OK;
    return tcc_error(d, TCC_EIO, TCC_NOWHERE, "rank %d of %d: its device left the others before: %s", r->with.rank,
                     r->with.ranks, r->failed);
}

static tcc_status fail(tcc_device_ranks *r, tcc_diag *d, const char *why) {
    tcc_error(d, TCC_EIO, TCC_NOWHERE, "rank %d of %d, on cuda:%d: %s", r->with.rank, r->with.ranks, r->cuda->ordinal,
              why);
    if (r->program) note_collective(r, d);
    give_up(r, why);
    return TCC_EIO;
}

/* -- Patience -- */

/* Whether to go on waiting: TCC_OK, or TCC_EIO once the communicator was given up. */
static tcc_status look(tcc_device_ranks *r, tcc_diag *d, patience *p) {
    const double now = tcc_clock_seconds();
    const int32_t progress = r->progress ? __atomic_load_n(r->progress, __ATOMIC_RELAXED) : 0;
    if (progress != p->progress) *p = (patience){now, p->looked, p->gone, progress};
    pause_between(p, now);
    if (now - p->looked < LOOK_SECONDS) return TCC_OK;
    p->looked = now;
    char text[512] = "", other[512] = "";
    tcc_nccl_result state = 0;
    if (r->comm && r->nccl.async_error(r->comm, &state) == 0 && state && state != TCC_NCCL_IN_PROGRESS) {
        tcc_diag why = {0};
        tcc__nccl_failed(&r->nccl, &why, state, r->comm, "a collective");
        snprintf(text, sizeof text, "%.500s", tcc_diag_words(&why));
        tcc_diag_clear(&why);
        return fail(r, d, text);
    }
    if (r->with.is_gone && r->with.is_gone(r->with.user, other, sizeof other) && p->gone == 0) p->gone = now;
    const double grace = r->parts ? 0 : GRACE_SECONDS;
    if (p->gone != 0 && now - p->gone >= grace && now - p->begin >= grace) return fail(r, d, other);
    if (now - p->begin < r->with.timeout_s) return TCC_OK;
    snprintf(text, sizeof text, "the other ranks' devices did not answer within %g s", r->with.timeout_s);
    return fail(r, d, text);
}

tcc_status tcc__cuda_ranks_settle(tcc_device_ranks *r, tcc_diag *d, tcc_nccl_result result, const char *call) {
    patience p = begin_waiting(r);
    while (result == TCC_NCCL_IN_PROGRESS) {
        TCC_TRY(look(r, d, &p));
        const tcc_nccl_result asked = r->nccl.async_error(r->comm, &result);
        if (asked) result = asked;
    }
    if (!result) return TCC_OK;
    const tcc_status status = tcc__nccl_failed(&r->nccl, d, result, r->comm, call);
    tcc_note(d, TCC_NOWHERE, "on rank %d of %d, cuda:%d", r->with.rank, r->with.ranks, r->cuda->ordinal);
    give_up(r, tcc_diag_words(d));
    return status;
}

/* The query of a stream or an event until it is no more NOT_READY. */
static tcc_status wait_for(tcc_device_cuda *cuda, tcc_diag *d, tcc_cuda_stream stream, tcc_cuda_event event) {
    patience p = begin_waiting(cuda->ranks);
    for (;;) {
        const tcc_cuda_result result = event ? cuda->cu.event_query(event) : cuda->cu.stream_query(stream);
        for (tcc_device_ranks *r = cuda->ranks; r; r = r->next) TCC_TRY(tcc__cuda_ranks_check(r, d));
        if (!result) return TCC_OK;
        if (result != TCC_CUDA_NOT_READY)
            return tcc__cuda_failed(cuda, d, result,
                                    event ? tcc__cuda_symbol_event_query : tcc__cuda_symbol_stream_query);
        for (tcc_device_ranks *r = cuda->ranks; r; r = r->next) TCC_TRY(look(r, d, &p));
    }
}

tcc_status tcc__cuda_wait_stream(tcc_device_cuda *cuda, tcc_diag *d, tcc_cuda_stream stream) {
    if (cuda->ranks) return wait_for(cuda, d, stream, NULL);
    TCC_CUDA_TRY(cuda, d, stream_synchronize, stream);
    return TCC_OK;
}

tcc_status tcc__cuda_wait_event(tcc_device_cuda *cuda, tcc_diag *d, tcc_cuda_event event) {
    if (cuda->ranks) return wait_for(cuda, d, NULL, event);
    TCC_CUDA_TRY(cuda, d, event_synchronize, event);
    return TCC_OK;
}

/* -- Meeting -- */

/* What a rank says before: its library, and of rank 0 the id of the communicator. */
typedef struct greeting {
    int64_t version;
    tcc_nccl_id id;
} greeting;

static tcc_status agree(tcc_device_ranks *r, tcc_diag *d, greeting *all, tcc_nccl_id *id) {
    greeting mine = {.version = r->nccl.version};
    if (r->with.rank == 0) TCC_NCCL_TRY(r, d, unique_id, &mine.id);
    TCC_TRY(r->with.gather(r->with.user, d, &mine, all, sizeof mine));
    for (int i = 0; i < r->with.ranks; i++)
        if (all[i].version != mine.version)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                             "rank %d has version %lld of NCCL, rank %d has %lld: all ranks must have the same", i,
                             (long long)all[i].version, r->with.rank, (long long)mine.version);
    *id = all[0].id;
    return TCC_OK;
}

static tcc_status connect(tcc_device_ranks *r, tcc_diag *d) {
    tcc_device_cuda *cuda = r->cuda;
    tcc_nccl_config config = {sizeof config, TCC_NCCL_MAGIC, TCC_NCCL_OLDEST, 0};
    tcc_nccl_id id;
    greeting *all = tcc__calloc((size_t)r->with.ranks, sizeof *all);
    if (!all) return tcc_enomem(d);
    const tcc_status status = agree(r, d, all, &id);
    tcc__free(all);
    TCC_TRY(status);
    TCC_CUDA_TRY(cuda, d, stream_create, &r->stream, TCC_CUDA_STREAM_NON_BLOCKING);
    TCC_TRY(tcc__cuda_host_alloc(cuda, d, sizeof *r->progress, (void **)&r->progress));
    *r->progress = 0;
    TCC_NCCL_TRY(r, d, init, &r->comm, r->with.ranks, id, r->with.rank, &config);
    r->next = cuda->ranks;
    cuda->ranks = r;
    return TCC_OK;
}

static void release(tcc_device_ranks *r) {
    tcc_device_cuda *cuda = r->cuda;
    if (r->comm) r->nccl.abort(r->comm);
    if (r->stream) cuda->cu.stream_destroy(r->stream);
    if (r->progress) cuda->cu.host_free(r->progress);
}

tcc_status tcc__cuda_join(tcc_device *device, tcc_diag *d, const tcc_meeting *with, tcc_device_ranks **out) {
    tcc_device_cuda *cuda = (tcc_device_cuda *)device;
    *out = NULL;
    tcc_device_ranks *r = tcc__calloc(1, sizeof *r);
    if (!r) return tcc_enomem(d);
    r->cuda = cuda;
    r->with = *with;
    tcc_nccl_find(&r->nccl);
    tcc_status status = TCC_OK;
    if (!r->nccl.usable) status = tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "nccl: %s", r->nccl.text);
    if (status == TCC_OK) status = tcc__cuda_enter(cuda, d);
    if (status != TCC_OK) {
        tcc__free(r);
        return status;
    }
    status = connect(r, d);
    if (status != TCC_OK) release(r);
    tcc__cuda_leave(cuda);
    if (status != TCC_OK) tcc__free(r);
    else *out = r;
    return status;
}

/* All that was started is done everywhere, or this rank gives up. */
static void finish(tcc_device_ranks *r) {
    tcc_diag d = {0};
    tcc_status status = tcc__cuda_wait_stream(r->cuda, &d, r->cuda->compute);
    if (status == TCC_OK) status = tcc__cuda_wait_stream(r->cuda, &d, r->stream);
    r->parts = true;
    if (r->with.timeout_s > PARTING_SECONDS) r->with.timeout_s = PARTING_SECONDS;
    drop_graphs(r);
    if (status == TCC_OK && r->comm)
        status = tcc__cuda_ranks_settle(r, &d, r->nccl.finalize(r->comm), tcc__nccl_symbol_finalize);
    if (status == TCC_OK && r->comm && !r->nccl.destroy(r->comm)) r->comm = NULL;
    tcc_diag_clear(&d);
}

void tcc__cuda_leave_ranks(tcc_device_ranks *r, bool orderly) {
    if (!r) return;
    tcc_device_cuda *cuda = r->cuda;
    if (tcc__cuda_enter_to_free(cuda)) {
        if (orderly && !*cuda->lost && !*r->failed) finish(r);
        if (r->comm) give_up(r, "the model ends");
        release(r);
        tcc__cuda_leave(cuda);
    }
    while (r->graphs) tcc__cuda_ranks_remove_graphs(r->graphs);
    tcc_device_ranks **at = &cuda->ranks;
    while (*at && *at != r) at = &(*at)->next;
    if (*at) *at = r->next;
    tcc__free(r);
}
