/* SPDX-License-Identifier: MIT
 * Collectives, from exchanges. Each begins with an exchange of what the ranks call, so that a difference is an error
 * before any data moves. A rank that is at work says so there, and those who wait for it ask again. A reduction over
 * ranks gives each rank one part of the elements, of which it gets all ranks'
 * values and combines them in the order of ranks; then everybody gets all parts. */
#include "runtime/comm/comm.h"

#include "ir/support/alloc.h"
#include "ir/support/clock.h"
#include "ir/support/dtype.h"
#include "runtime/comm/combine.h"
#include "runtime/comm/queue.h"
#include "runtime/comm/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_ALIGNMENT = 64 };
static const double BEAT_SECONDS = 0.25, BEATS_IN_TIME = 8; /* of a rank at work, at least within the time limit */

/* WORK is a rank's sign of life: it makes no call now, but will. */
typedef enum comm_kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, BARRIER, WORK, KINDS } comm_kind;
static const char *const kinds[KINDS] = {"all_reduce", "reduce_scatter", "all_gather",
                                         "broadcast",  "barrier",        "a sign of life"};
static const char *const reductions[] = {"sum", "max", "min"};

typedef tcc_comm_call comm_call;
typedef tcc_comm_job comm_job;

/* All but the queue and the work is a thread's while the queue has jobs or the rank is at work, and the caller's
 * otherwise. */
struct tcc_comm {
    tcc_context *cx;
    tcc_transport *transport;
    tcc_comm_queue *queue; /* NULL: nothing was started yet */
    tcc_comm_work *work;   /* NULL: this rank is not at work */
    tcc_diag *diag;        /* of a call: the context's, or */
    tcc_diag own;          /* the thread's */
    double timeout_s;      /* of calls from now on, and */
    double limit_s;        /* of this one */
    double waited_s;       /* by the caller */
    int64_t calls;
    int64_t made;         /* that were to be started, where no thread may make them */
    tcc_comm_part *parts; /* by rank; */
    comm_call *others;    /* what each rank calls */
    char *scratch;
    int64_t scratch_bytes;
    bool wants_cuda;
    tcc_status failed; /* what each call gives; */
    char *why;         /* NULL where memory was short */
};

tcc_status tcc_comm_over(tcc_context *cx, tcc_transport *t, tcc_comm **out) {
    tcc_comm *c = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(&cx->diag);
    c->parts = tcc__calloc((size_t)t->size, sizeof *c->parts);
    c->others = tcc__calloc((size_t)t->size, sizeof *c->others);
    c->cx = cx;
    c->diag = &cx->diag;
    c->timeout_s = 60;
    if (!c->parts || !c->others) {
        tcc_comm_destroy(c);
        return tcc_enomem(&cx->diag);
    }
    c->transport = t;
    *out = c;
    return TCC_OK;
}

void tcc_comm_destroy(tcc_comm *c) {
    if (!c) return;
    tcc_comm_work_end(c->work);
    tcc_comm_queue_destroy(c->queue);
    tcc_diag_clear(&c->own);
    if (c->transport) c->transport->ops->destroy(c->transport, c->timeout_s);
    tcc__free(c->parts);
    tcc__free(c->others);
    tcc__free(c->scratch);
    tcc__free(c->why);
    tcc__free(c);
}

tcc_context *tcc_comm_context(const tcc_comm *c) { return c->cx; }
int tcc_comm_rank(const tcc_comm *c) { return c->transport->rank; }
int tcc_comm_size(const tcc_comm *c) { return c->transport->size; }
bool tcc_comm_is_planned(const tcc_comm *c) { return c->transport->planned; }
const tcc_network *tcc_comm_network(const tcc_comm *c) { return &c->transport->network; }
void tcc_comm_set_network(tcc_comm *c, const tcc_network *n) { c->transport->network = *n; }
void tcc_comm_set_timeout(tcc_comm *c, double seconds) { c->timeout_s = seconds; }
double tcc_comm_waited(const tcc_comm *c) { return c->waited_s; }
double tcc_comm_get_timeout(const tcc_comm *c) { return c->timeout_s; }
bool tcc_comm_has_failed(const tcc_comm *c) { return c->failed != TCC_OK; }
int tcc_comm_local_rank(const tcc_comm *c) { return c->transport->local_rank; }
bool tcc_comm_wants_cuda(const tcc_comm *c) { return c->wants_cuda; }
void tcc_comm_set_wants_cuda(tcc_comm *c) { c->wants_cuda = true; }

bool tcc_comm_is_gone(tcc_comm *c, char *words, size_t size) {
    char why[512] = "";
    const int rank = c->transport->ops->find_gone ? c->transport->ops->find_gone(c->transport, why, sizeof why) : -1;
    if (rank < 0) return false;
    if (*why) snprintf(words, size, "rank %d gave up: %s", rank, why);
    else snprintf(words, size, "rank %d is gone: it ended, or the connection to it broke", rank);
    return true;
}

int tcc_comm_number_of_environment(const char *const *names, int otherwise) {
    for (; *names; names++) {
        const char *text = getenv(*names);
        char *end;
        const long number = text ? strtol(text, &end, 10) : -1;
        if (text && *text && !*end && number >= 0 && number < TCC_COMM_MOST_RANKS) return (int)number;
    }
    return otherwise;
}

static void keep_failure(tcc_comm *c, tcc_status status, const char *why) {
    if (c->failed) return;
    c->why = tcc__strdup(why);
    c->failed = status;
    c->transport->ops->abort(c->transport, why);
}

static void end_work(tcc_comm *c) {
    tcc_comm_work_end(c->work);
    c->work = NULL;
}

void tcc_comm_abort(tcc_comm *c, const char *why) {
    end_work(c);
    tcc_comm_queue_drain(c->queue);
    keep_failure(c, TCC_EIO, why);
}

/* -- Calls -- */

static bool is_known(const comm_call *a) {
    return a->kind >= 0 && a->kind < KINDS && a->type >= 0 && a->type < TCC_DTYPE_COUNT && a->reduction >= 0 &&
           a->reduction <= TCC_COMM_MIN;
}

static void print_call(tcc_strbuf *out, const comm_call *a) {
    if (!is_known(a)) {
        tcc_strbuf_add(out, "something unknown");
        return;
    }
    tcc_strbuf_add(out, kinds[a->kind]);
    if (a->kind == WORK) tcc_strbuf_add(out, "nothing, as it is at work");
    else if (a->kind == ALL_REDUCE || a->kind == REDUCE_SCATTER)
        tcc_strbuf_printf(out, " (%s) of %lld %s", reductions[a->reduction], (long long)a->count,
                          tcc_dtype_text((tcc_dtype)a->type));
    else if (a->kind != BARRIER) tcc_strbuf_printf(out, " of %lld bytes", (long long)a->count);
    if (a->kind == BROADCAST) tcc_strbuf_printf(out, " from rank %lld", (long long)a->root);
}

static tcc_status different(tcc_comm *c, const comm_call *mine, int rank) {
    tcc_strbuf own = {0}, other = {0};
    print_call(&own, mine);
    print_call(&other, &c->others[rank]);
    tcc_error(c->diag, TCC_EINVAL, TCC_NOWHERE, "collective %lld: rank %d calls %s, but rank %d calls %s",
              (long long)mine->number, tcc_comm_rank(c), own.text ? own.text : "", rank, other.text ? other.text : "");
    tcc_strbuf_free(&own);
    tcc_strbuf_free(&other);
    return TCC_EINVAL;
}

/* All parts are set but their sizes and places, which are nothing's. */
static tcc_comm_part *no_parts(tcc_comm *c) {
    memset(c->parts, 0, (size_t)tcc_comm_size(c) * sizeof *c->parts);
    return c->parts;
}

static tcc_status exchange(tcc_comm *c) {
    return c->transport->ops->exchange(c->transport, c->diag, c->parts, c->limit_s);
}

/* Tells the others what this rank calls, and hears what they do. *waits: one of them is at work. */
static tcc_status tell_call(tcc_comm *c, const comm_call *mine, bool *waits) {
    tcc_comm_part *parts = no_parts(c);
    for (int r = 0; r < tcc_comm_size(c); r++)
        parts[r] = (tcc_comm_part){mine, &c->others[r], sizeof *mine, sizeof *mine};
    c->others[tcc_comm_rank(c)] = *mine;
    TCC_TRY(exchange(c));
    *waits = false;
    for (int r = 0; r < tcc_comm_size(c); r++) {
        const bool works = c->others[r].kind == WORK, same_number = c->others[r].number == mine->number;
        if (same_number && (works || mine->kind == WORK)) *waits |= works;
        else if (memcmp(mine, &c->others[r], sizeof *mine) != 0) return different(c, mine, r);
    }
    return TCC_OK;
}

/* Each time that is told anew whoever is waited for has the whole time limit. */
static tcc_status agree(tcc_comm *c, const comm_call *mine) {
    bool waits = true;
    while (waits) TCC_TRY(tell_call(c, mine, &waits));
    return TCC_OK;
}

static tcc_status check_arguments(tcc_comm *c, const comm_call *a) {
    tcc_diag *d = c->diag;
    const char *name = kinds[a->kind];
    int64_t bytes;
    if (c->failed)
        return tcc_error(d, c->failed, TCC_NOWHERE, "the communicator failed before: %s", c->why ? c->why : "");
    if (!is_known(a))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%s: no type %lld or no reduction %lld", name, (long long)a->type,
                         (long long)a->reduction);
    if (a->root < 0 || a->root >= tcc_comm_size(c))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%s: no rank %lld of %d", name, (long long)a->root,
                         tcc_comm_size(c));
    if (a->count >= 0 && !__builtin_mul_overflow(a->count, 16 * (int64_t)tcc_comm_size(c), &bytes)) return TCC_OK;
    return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%s: a count of %lld is out of range", name, (long long)a->count);
}

/* What is wrong with the arguments on one rank would leave the others waiting: they get that error, too. */
static tcc_status begin(tcc_comm *c, comm_call a) {
    tcc_status status = check_arguments(c, &a);
    a.number = c->calls++;
    return status == TCC_OK ? agree(c, &a) : status;
}

static tcc_status reserve(tcc_comm *c, int64_t bytes) {
    if (bytes <= c->scratch_bytes) return TCC_OK;
    tcc__free(c->scratch);
    c->scratch_bytes = 0;
    c->scratch = tcc__aligned(SLOT_ALIGNMENT, (size_t)bytes);
    if (!c->scratch) return tcc_enomem(c->diag);
    c->scratch_bytes = bytes;
    return TCC_OK;
}

/* Ends a call: an error is the communicator's last word. */
static tcc_status end(tcc_comm *c, comm_kind kind, tcc_status status) {
    tcc_diag *d = c->diag;
    if (status == TCC_OK || c->failed) return status;
    char *why = tcc__strdup(tcc_diag_words(d));
    if (status == TCC_EIO) { /* the transport's, which knows no collective */
        tcc_diag_begin(d);
        tcc_error(d, status, TCC_NOWHERE, "%s, collective %lld, on rank %d of %d: %s", kinds[kind],
                  (long long)c->calls - 1, tcc_comm_rank(c), tcc_comm_size(c), why ? why : "");
    }
    keep_failure(c, status, tcc_diag_words(d));
    tcc__free(why);
    return status;
}

/* -- Reductions -- */

/* Where rank r's part of `count` elements begins. */
static int64_t part_begin(const tcc_comm *c, int64_t count, int r) {
    const int64_t size = tcc_comm_size(c);
    return count / size * r + (count % size < r ? count % size : r);
}

static int64_t slot_bytes(int64_t bytes) { return (bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT; }

/* Gets `count` elements of each rank, which at `from` begin at element begins(r), and combines them into `to`, which
 * may be this rank's own. */
static tcc_status reduce_part(tcc_comm *c, const comm_call *a, const char *from,
                              int64_t (*begins)(const tcc_comm *c, int64_t count, int r), void *to) {
    const int size = tcc_comm_size(c), rank = tcc_comm_rank(c);
    const int64_t element = tcc_dtype_bytes((tcc_dtype)a->type);
    const int64_t count = begins(c, a->count, rank + 1) - begins(c, a->count, rank);
    const int64_t slot = slot_bytes(count * element);
    tcc_comm_part *parts = no_parts(c);
    TCC_TRY(reserve(c, slot * size));
    for (int r = 0; r < size; r++) {
        const int64_t begin = begins(c, a->count, r), end = begins(c, a->count, r + 1);
        parts[r] = (tcc_comm_part){from + begin * element, slot ? c->scratch + r * slot : NULL, (end - begin) * element,
                                   count * element};
    }
    TCC_TRY(exchange(c));
    if (!count) return TCC_OK; /* there are fewer elements than ranks */
    const void *own = parts[rank].to;
    if (rank == 0) memcpy(c->scratch, own, (size_t)(count * element));
    for (int r = 1; r < size; r++)
        tcc_combine((tcc_comm_op)a->reduction, (tcc_dtype)a->type, c->scratch, r == rank ? own : c->scratch + r * slot,
                    count);
    memcpy(to, c->scratch, (size_t)(count * element));
    return TCC_OK;
}

static tcc_status gather_parts(tcc_comm *c, const comm_call *a, char *data) {
    const int size = tcc_comm_size(c), rank = tcc_comm_rank(c);
    const int64_t element = tcc_dtype_bytes((tcc_dtype)a->type);
    const int64_t begin = part_begin(c, a->count, rank), end = part_begin(c, a->count, rank + 1);
    tcc_comm_part *parts = no_parts(c);
    for (int r = 0; r < size; r++) {
        const int64_t first = part_begin(c, a->count, r);
        parts[r] = (tcc_comm_part){data + begin * element, data + first * element, (end - begin) * element,
                                   (part_begin(c, a->count, r + 1) - first) * element};
    }
    return exchange(c);
}

static tcc_status all_reduce(tcc_comm *c, const comm_job *job) {
    const comm_call *a = &job->call;
    if (tcc_comm_size(c) == 1 || !a->count) return TCC_OK;
    const int64_t first = part_begin(c, a->count, tcc_comm_rank(c));
    TCC_TRY(reduce_part(c, a, job->to, part_begin, (char *)job->to + first * tcc_dtype_bytes((tcc_dtype)a->type)));
    return gather_parts(c, a, job->to);
}

static int64_t block_begin(const tcc_comm *c, int64_t count, int r) {
    (void)c;
    return count * r;
}

static tcc_status reduce_scatter(tcc_comm *c, const comm_job *job) {
    return job->call.count ? reduce_part(c, &job->call, job->from, block_begin, job->to) : TCC_OK;
}

/* -- Copies -- */

static tcc_status all_gather(tcc_comm *c, const comm_job *job) {
    const int64_t bytes = job->call.count;
    tcc_comm_part *parts = no_parts(c);
    if (!bytes) return TCC_OK;
    for (int r = 0; r < tcc_comm_size(c); r++)
        parts[r] = (tcc_comm_part){job->from, (char *)job->to + r * bytes, bytes, bytes};
    memcpy(parts[tcc_comm_rank(c)].from, job->from, (size_t)bytes);
    return exchange(c);
}

static tcc_status broadcast(tcc_comm *c, const comm_job *job) {
    const int root = (int)job->call.root;
    const int64_t bytes = job->call.count;
    tcc_comm_part *parts = no_parts(c);
    for (int r = 0; r < tcc_comm_size(c) && root == tcc_comm_rank(c); r++)
        parts[r] = (tcc_comm_part){.to = job->to, .to_bytes = bytes};
    if (root != tcc_comm_rank(c)) parts[root] = (tcc_comm_part){.from = job->to, .from_bytes = bytes};
    return exchange(c);
}

static tcc_status barrier(tcc_comm *c, const comm_job *job) {
    (void)c;
    (void)job;
    return TCC_OK; /* that all have begun is enough */
}

/* -- Now, or by the thread -- */

static tcc_status run(tcc_comm *c, const comm_job *job, tcc_diag *d) {
    static tcc_status (*const bodies[])(tcc_comm *, const comm_job *) = {all_reduce, reduce_scatter, all_gather,
                                                                         broadcast, barrier};
    c->diag = d;
    c->limit_s = job->timeout_s;
    tcc_diag_begin(d);
    tcc_status status = begin(c, job->call);
    if (status == TCC_OK) status = bodies[job->call.kind](c, job);
    return end(c, (comm_kind)job->call.kind, status);
}

static tcc_status run_started(void *comm, const comm_job *job) {
    tcc_comm *c = comm;
    return run(c, job, &c->own);
}

static tcc_status call(tcc_comm *c, comm_job job) {
    const double start = tcc_clock_seconds();
    end_work(c);
    tcc_comm_queue_drain(c->queue);
    job.timeout_s = c->timeout_s;
    const tcc_status status = run(c, &job, &c->cx->diag);
    c->waited_s += tcc_clock_seconds() - start;
    return status;
}

static tcc_status start(tcc_comm *c, comm_job job, int64_t *request) {
    tcc_diag_begin(&c->cx->diag);
    if (!c->transport->any_thread) {
        TCC_TRY(call(c, job));
        *request = c->made++;
        return TCC_OK;
    }
    end_work(c);
    if (!c->queue) TCC_TRY(tcc_comm_queue_create(&c->cx->diag, run_started, c, &c->queue));
    job.timeout_s = c->timeout_s;
    *request = tcc_comm_queue_add(c->queue, &job);
    return TCC_OK;
}

tcc_status tcc_comm_wait(tcc_comm *c, int64_t request) {
    tcc_diag *d = &c->cx->diag;
    tcc_diag_begin(d);
    if (request >= 0 && request < c->made) return TCC_OK;
    if (!c->queue || request < 0 || request >= tcc_comm_queue_added(c->queue))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "no collective was started as request %lld", (long long)request);
    const double start = tcc_clock_seconds();
    const tcc_status status = tcc_comm_queue_wait(c->queue, request);
    c->waited_s += tcc_clock_seconds() - start;
    return status == TCC_OK ? TCC_OK : tcc_error(d, status, TCC_NOWHERE, "%s", c->why ? c->why : "out of memory");
}

/* -- Work -- */

/* By the thread of the work. */
static tcc_status beat(void *comm) {
    tcc_comm *c = comm;
    bool waits;
    c->diag = &c->own;
    tcc_diag_begin(c->diag);
    return end(c, WORK, tell_call(c, &(comm_call){.number = c->calls, .kind = WORK}, &waits));
}

tcc_status tcc_comm_begin_work(tcc_comm *c) {
    const double seconds = c->timeout_s / BEATS_IN_TIME;
    tcc_diag_begin(&c->cx->diag);
    if (c->work || c->failed || tcc_comm_size(c) == 1) return TCC_OK;
    if (!c->transport->any_thread)
        return tcc_error(&c->cx->diag, TCC_EUNSUPPORTED, TCC_NOWHERE, "MPI allows no thread to tell of work");
    tcc_comm_queue_drain(c->queue);
    c->limit_s = c->timeout_s;
    return tcc_comm_work_begin(&c->cx->diag, seconds < BEAT_SECONDS ? seconds : BEAT_SECONDS, beat, c, &c->work);
}

bool tcc_comm_tells_of_work(const tcc_comm *c) { return c->transport->any_thread; }

#define REDUCTION(k) .call = {.kind = k, .reduction = reduction, .type = type, .count = count}

tcc_status tcc_comm_all_reduce(tcc_comm *c, tcc_comm_op reduction, tcc_dtype type, void *data, int64_t count) {
    return call(c, (comm_job){REDUCTION(ALL_REDUCE), .to = data});
}

tcc_status tcc_comm_start_all_reduce(tcc_comm *c, tcc_comm_op reduction, tcc_dtype type, void *data, int64_t count,
                                     int64_t *request) {
    return start(c, (comm_job){REDUCTION(ALL_REDUCE), .to = data}, request);
}

tcc_status tcc_comm_reduce_scatter(tcc_comm *c, tcc_comm_op reduction, tcc_dtype type, const void *from, void *to,
                                   int64_t count) {
    return call(c, (comm_job){REDUCTION(REDUCE_SCATTER), from, to, 0});
}

tcc_status tcc_comm_start_reduce_scatter(tcc_comm *c, tcc_comm_op reduction, tcc_dtype type, const void *from, void *to,
                                         int64_t count, int64_t *request) {
    return start(c, (comm_job){REDUCTION(REDUCE_SCATTER), from, to, 0}, request);
}

tcc_status tcc_comm_all_gather(tcc_comm *c, const void *from, void *to, int64_t size_bytes) {
    return call(c, (comm_job){{.kind = ALL_GATHER, .count = size_bytes}, from, to, 0});
}

tcc_status tcc_comm_start_all_gather(tcc_comm *c, const void *from, void *to, int64_t size_bytes, int64_t *request) {
    return start(c, (comm_job){{.kind = ALL_GATHER, .count = size_bytes}, from, to, 0}, request);
}

tcc_status tcc_comm_broadcast(tcc_comm *c, int root, void *data, int64_t size_bytes) {
    return call(c, (comm_job){.call = {.kind = BROADCAST, .count = size_bytes, .root = root}, .to = data});
}

tcc_status tcc_comm_barrier(tcc_comm *c) { return call(c, (comm_job){.call = {.kind = BARRIER}}); }
