/* SPDX-License-Identifier: MIT
 * The stand-in's communicators and calls. What a call checks it checks at once; a launch is then work of the stand-in
 * driver's, attempted until all others have sent what it needs. */
#include "ncclsim.h"
#include "mail.h"

#include "ptxsim.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
enum { GROUP, BROADCAST, ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, KINDS };
static const char *const kinds[KINDS] = {"a group of ncclSend and ncclRecv", "ncclBroadcast", "ncclAllGather",
                                         "ncclAllReduce", "ncclReduceScatter"};
enum { MOST_RANKS = 64, POLLS = 2 /* of the state until a call is done */ };

typedef unsigned long long address;
typedef struct id {
    char folder[128];
} id;
typedef struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
} config;

/* What a rank says of a launch: equal on all ranks, but for the rank and a group's bytes. */
typedef struct head {
    int64_t kind, type, count, op, root, captured;
} head;

/* One message of a launch: to or from a peer. */
typedef struct part {
    address at;
    size_t bytes;
    int peer;
    bool sends, done;
} part;

typedef struct ncclComm comm;
typedef struct launch {
    comm *of;
    head says;
    address from, to;
    size_t from_bytes, to_bytes;
    int n_parts;
    part parts[2 * MOST_RANKS];
    ptxsim_range ranges[2 * MOST_RANKS];
    ptxsim_work work;
    bool sent;
    void *received[MOST_RANKS]; /* of a collective */
    struct launch *next;
} launch;

struct ncclComm {
    id id;
    int rank, ranks, device, polls;
    bool blocking, ready, ending;
    atomic_bool aborted;
    atomic_int error;
    atomic_int done;
    launch *launches;
    comm *next;
};

static struct {
    pthread_mutex_t lock;
    comm *comms; /* all that there were: work may still point to them */
    ncclsim_counts counts;
    char error[512];
    ncclsim_fault fault;
    int fault_rank, fault_after;
} sim = {.lock = PTHREAD_MUTEX_INITIALIZER, .fault_rank = -1};

int cuCtxGetDevice(int *device);
int cuStreamIsCapturing(void *stream, int *status);
int cuMemGetAddressRange_v2(address *base, size_t *size, address at);

static int __attribute__((format(printf, 2, 3))) wrong(int result, const char *format, ...) {
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&sim.lock);
    vsnprintf(sim.error, sizeof sim.error, format, args);
    sim.counts.errors++;
    pthread_mutex_unlock(&sim.lock);
    va_end(args);
    return result;
}

/* -- Numbers -- */

static size_t bytes_of(int type) {
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type >= 0 && type < (int)(sizeof bytes / sizeof *bytes) ? bytes[type] : 0;
}

static float widen(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return f;
}

static uint16_t narrow(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)(f != f ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void add(void *sum, const void *x, int type, size_t i) {
    switch (type) {
    case 0:
    case 1: ((uint8_t *)sum)[i] = (uint8_t)(((uint8_t *)sum)[i] + ((const uint8_t *)x)[i]); break;
    case 2:
    case 3: ((uint32_t *)sum)[i] += ((const uint32_t *)x)[i]; break;
    case 4:
    case 5: ((uint64_t *)sum)[i] += ((const uint64_t *)x)[i]; break;
    case 6: ((_Float16 *)sum)[i] += ((const _Float16 *)x)[i]; break;
    case 7: ((float *)sum)[i] += ((const float *)x)[i]; break;
    case 8: ((double *)sum)[i] += ((const double *)x)[i]; break;
    default: ((uint16_t *)sum)[i] = narrow(widen(((uint16_t *)sum)[i]) + widen(((const uint16_t *)x)[i])); break;
    }
}

/* -- A launch, on the device -- */

static void name_of(char name[MAIL_NAME], const launch *l, int from, int to) {
    snprintf(name, MAIL_NAME, "%d-%d-%d", (int)l->of->done, from, to);
}

static bool has_fault(const launch *l, ncclsim_fault fault) {
    return sim.fault_rank == l->of->rank && sim.fault == fault && sim.fault_after == 0;
}

static bool send_all(launch *l) {
    char name[MAIL_NAME];
    head says = l->says;
    if (has_fault(l, NCCLSIM_STALLS)) return false;
    const int more = has_fault(l, NCCLSIM_COUNTS);
    says.count += more;
    if (sim.fault_rank == l->of->rank) sim.fault_after--;
    bool ok = true;
    if (l->says.kind != GROUP) {
        name_of(name, l, l->of->rank, MOST_RANKS);
        ok = mail_send(l->of->id.folder, name, &says, sizeof says, ptxsim_bytes(l->from, l->from_bytes), l->from_bytes);
    }
    for (int i = 0; i < l->n_parts; i++) {
        const part *p = &l->parts[i];
        if (!p->sends) continue;
        says.count = (int64_t)p->bytes + more;
        name_of(name, l, l->of->rank, p->peer);
        ok &= mail_send(l->of->id.folder, name, &says, sizeof says, ptxsim_bytes(p->at, p->bytes), p->bytes);
    }
    if (!ok) l->of->error = SYSTEM_ERROR;
    return ok;
}

static void differ(launch *l, int rank, const head *other) {
    const head *mine = &l->says;
    wrong(0,
          "rank %d: launch %d: rank %d calls %s of %lld (type %lld, op %lld, root %lld%s), this one %s of %lld (%lld, "
          "%lld, %lld%s)",
          l->of->rank, (int)l->of->done, rank, other->kind >= 0 && other->kind < KINDS ? kinds[other->kind] : "?",
          (long long)other->count, (long long)other->type, (long long)other->op, (long long)other->root,
          other->captured ? ", captured" : "", kinds[mine->kind], (long long)mine->count, (long long)mine->type,
          (long long)mine->op, (long long)mine->root, mine->captured ? ", captured" : "");
    l->of->error = INVALID_USAGE;
}

/* The message of a rank, behind its head; NULL: it is not there, or another one than is awaited. */
static void *receive(launch *l, int from, int to, int64_t count) {
    char name[MAIL_NAME];
    size_t bytes;
    name_of(name, l, from, to);
    char *message = mail_receive(l->of->id.folder, name, &bytes);
    if (!message) { /* what came instead? */
        name_of(name, l, from, to == MOST_RANKS ? l->of->rank : MOST_RANKS);
        message = mail_receive(l->of->id.folder, name, &bytes);
        if (message) differ(l, from, (const head *)message);
        free(message);
        return NULL;
    }
    head mine = l->says;
    mine.count = count;
    if (memcmp(message, &mine, sizeof mine) != 0) {
        differ(l, from, (const head *)message);
        free(message);
        return NULL;
    }
    return message;
}

static bool receive_parts(launch *l) {
    bool all = true;
    for (int i = 0; i < l->n_parts && !l->of->error; i++) {
        part *p = &l->parts[i];
        if (p->sends || p->done) continue;
        char *message = receive(l, p->peer, l->of->rank, (int64_t)p->bytes);
        p->done = message != NULL;
        all &= p->done;
        if (message) memcpy(ptxsim_bytes(p->at, p->bytes), message + sizeof(head), p->bytes);
        free(message);
    }
    return all && !l->of->error;
}

/* Sums are taken from the last rank to the first, which is not the order in which a program would have them. */
static void finish_collective(launch *l) {
    char *to = ptxsim_bytes(l->to, l->to_bytes);
    const int ranks = l->of->ranks, type = (int)l->says.type;
    const size_t count = (size_t)l->says.count, bytes = count * bytes_of(type);
    const size_t skip = l->says.kind == REDUCE_SCATTER ? (size_t)l->of->rank * bytes : 0;
    if (l->says.kind == BROADCAST) memcpy(to, (char *)l->received[l->says.root] + sizeof(head), bytes);
    for (int r = 0; r < ranks && l->says.kind == ALL_GATHER; r++)
        memcpy(to + (size_t)r * bytes, (char *)l->received[r] + sizeof(head), bytes);
    if (l->says.kind < ALL_REDUCE) return;
    memcpy(to, (char *)l->received[ranks - 1] + sizeof(head) + skip, bytes);
    for (int r = ranks - 2; r >= 0; r--)
        for (size_t i = 0; i < count; i++) add(to, (char *)l->received[r] + sizeof(head) + skip, type, i);
    sim.counts.fast++;
}

static bool receive_collective(launch *l) {
    bool all = true;
    for (int r = 0; r < l->of->ranks && !l->of->error; r++) {
        if (!l->received[r]) l->received[r] = receive(l, r, MOST_RANKS, l->says.count);
        all &= l->received[r] != NULL;
    }
    return all && !l->of->error;
}

static void forget(launch *l) {
    for (int r = 0; r < MOST_RANKS; r++) free(l->received[r]), l->received[r] = NULL;
    for (int i = 0; i < l->n_parts; i++) l->parts[i].done = false;
    l->sent = false;
}

/* Who has done a launch knows that those who sent to it have done the one before. */
static void remove_old(const launch *l) {
    char name[MAIL_NAME];
    for (int to = 0; to <= MOST_RANKS; to++) {
        snprintf(name, sizeof name, "%d-%d-%d", (int)l->of->done - 2, l->of->rank, to);
        if (to < l->of->ranks || to == MOST_RANKS) mail_remove(l->of->id.folder, name);
    }
}

static int attempt(void *user) {
    launch *l = user;
    comm *c = l->of;
    if (c->aborted) return forget(l), 1;
    if (c->error) return 0;
    if (!l->sent && !(l->sent = send_all(l))) return 0;
    const bool done = l->says.kind == GROUP ? receive_parts(l) : receive_collective(l);
    if (!done) return 0;
    if (l->says.kind != GROUP) finish_collective(l);
    remove_old(l);
    forget(l);
    sim.counts.runs++;
    c->done++;
    return 1;
}

/* -- Groups -- */

static _Thread_local struct {
    int depth;
    launch *open;
} group;

static int check_comm(comm *c) {
    int device = -1;
    pthread_mutex_lock(&sim.lock);
    comm *known = sim.comms;
    while (known && known != c) known = known->next;
    pthread_mutex_unlock(&sim.lock);
    if (!known || c->aborted) return wrong(INVALID_ARGUMENT, "no communicator, or one that was given up");
    if (!c->ready) return wrong(INVALID_USAGE, "a call before the communicator was there");
    if (c->polls) return wrong(INVALID_USAGE, "a call before the one before it was done");
    if (cuCtxGetDevice(&device) || device != c->device)
        return wrong(INVALID_USAGE, "a call on device %d of a communicator of device %d", device, c->device);
    return SUCCESS;
}

static int check_memory(address at, size_t bytes) {
    address base;
    size_t size;
    if (!bytes) return SUCCESS;
    if (cuMemGetAddressRange_v2(&base, &size, at) || at + bytes > base + size)
        return wrong(INVALID_ARGUMENT, "%llx is no memory of %zu bytes", at, bytes);
    return SUCCESS;
}

static launch *new_launch(comm *c, void *stream, int kind, int type, size_t count) {
    launch *l = calloc(1, sizeof *l);
    int captured = 0;
    if (!l) return NULL;
    l->of = c;
    cuStreamIsCapturing(stream, &captured);
    l->says = (head){.kind = kind, .type = type, .count = (int64_t)count, .captured = captured == 1};
    l->work = (ptxsim_work){.name = kind == GROUP ? "an exchange" : "a collective", .attempt = attempt, .user = l};
    l->work.ranges = l->ranges;
    pthread_mutex_lock(&sim.lock);
    l->next = c->launches, c->launches = l;
    sim.counts.launches++;
    sim.counts.captured += captured == 1;
    pthread_mutex_unlock(&sim.lock);
    return l;
}

static void add_range(launch *l, address at, size_t bytes, bool write) {
    if (bytes) l->ranges[l->work.n_ranges++] = (ptxsim_range){at, bytes, write};
}

static int put(launch *l, void *stream) {
    comm *c = l->of;
    if (ptxsim_enqueue(stream, &l->work)) return wrong(CUDA_ERROR, "no such stream");
    if (c->blocking) return SUCCESS;
    c->polls = POLLS;
    return IN_PROGRESS;
}

static _Thread_local void *group_stream;

EXPORT int ncclGroupStart(void) {
    group.depth++;
    return SUCCESS;
}

EXPORT int ncclGroupEnd(void) {
    launch *l = group.open;
    if (!group.depth) return wrong(INVALID_USAGE, "ncclGroupEnd without a beginning");
    if (--group.depth || !l) return SUCCESS;
    group.open = NULL;
    return put(l, group_stream);
}

static int add_part(address at, size_t count, int type, int peer, comm *c, void *stream, bool sends) {
    const int checked = check_comm(c);
    const size_t bytes = count * bytes_of(type);
    if (checked) return checked;
    if (!bytes) return wrong(INVALID_ARGUMENT, "%zu elements of type %d", count, type);
    if (peer < 0 || peer >= c->ranks) return wrong(INVALID_ARGUMENT, "no rank %d of %d", peer, c->ranks);
    if (check_memory(at, bytes)) return INVALID_ARGUMENT;
    if (!group.depth) return wrong(INVALID_USAGE, "ncclSend or ncclRecv by itself waits for ever in an exchange");
    if (!group.open) group.open = new_launch(c, group_stream = stream, GROUP, type, 0);
    launch *l = group.open;
    if (!l || l->of != c || stream != group_stream || l->n_parts == 2 * MOST_RANKS)
        return wrong(INVALID_USAGE, "a group of several communicators or streams");
    l->parts[l->n_parts++] = (part){.at = at, .bytes = bytes, .peer = peer, .sends = sends};
    add_range(l, at, bytes, !sends);
    return SUCCESS;
}

EXPORT int ncclSend(address from, size_t count, int type, int peer, comm *c, void *stream) {
    return add_part(from, count, type, peer, c, stream, true);
}
EXPORT int ncclRecv(address to, size_t count, int type, int peer, comm *c, void *stream) {
    return add_part(to, count, type, peer, c, stream, false);
}

/* -- Collectives -- */

static int collective(int kind, address from, address to, size_t count, int type, int op, int root, comm *c,
                      void *stream) {
    const int checked = check_comm(c);
    const size_t bytes = count * bytes_of(type);
    if (checked) return checked;
    if (!bytes) return wrong(INVALID_ARGUMENT, "%s: %zu elements of type %d", kinds[kind], count, type);
    if (group.depth) return wrong(INVALID_USAGE, "%s in a group: the stand-in knows none", kinds[kind]);
    if (op) return wrong(INVALID_ARGUMENT, "%s: the stand-in knows sums alone", kinds[kind]);
    const size_t all = bytes * (size_t)c->ranks, from_bytes = kind == REDUCE_SCATTER ? all : bytes,
                 to_bytes = kind == ALL_GATHER ? all : bytes;
    if (check_memory(from, from_bytes) || check_memory(to, to_bytes)) return INVALID_ARGUMENT;
    const address in_place = kind == ALL_GATHER       ? to + (size_t)c->rank * bytes
                             : kind == REDUCE_SCATTER ? to - (size_t)c->rank * bytes
                                                      : to;
    if (from != in_place && from < to + to_bytes && to < from + from_bytes)
        return wrong(INVALID_ARGUMENT, "%s: memory overlaps otherwise than in place", kinds[kind]);
    launch *l = new_launch(c, stream, kind, type, count);
    if (!l) return SYSTEM_ERROR;
    l->says.op = op, l->says.root = root;
    l->from = from, l->to = to, l->from_bytes = from_bytes, l->to_bytes = to_bytes;
    add_range(l, from, from_bytes, false);
    add_range(l, to, to_bytes, true);
    return put(l, stream);
}

EXPORT int ncclBroadcast(address from, address to, size_t count, int type, int root, comm *c, void *stream) {
    if (c && (root < 0 || root >= c->ranks)) return wrong(INVALID_ARGUMENT, "ncclBroadcast: no rank %d", root);
    return collective(BROADCAST, from, to, count, type, 0, root, c, stream);
}
EXPORT int ncclAllGather(address from, address to, size_t count, int type, comm *c, void *stream) {
    return collective(ALL_GATHER, from, to, count, type, 0, 0, c, stream);
}
EXPORT int ncclAllReduce(address from, address to, size_t count, int type, int op, comm *c, void *stream) {
    return collective(ALL_REDUCE, from, to, count, type, op, 0, c, stream);
}
EXPORT int ncclReduceScatter(address from, address to, size_t count, int type, int op, comm *c, void *stream) {
    return collective(REDUCE_SCATTER, from, to, count, type, op, 0, c, stream);
}

/* -- Communicators -- */

static void say(const comm *c, const char *what) {
    char name[MAIL_NAME];
    snprintf(name, sizeof name, "%s-%d", what, c->rank);
    mail_send(c->id.folder, name, &c->ranks, sizeof c->ranks, NULL, 0);
}

/* Whether all ranks have said it; *error: one of them counts other ranks. */
static bool have_said(comm *c, const char *what) {
    char name[MAIL_NAME];
    size_t bytes;
    for (int r = 0; r < c->ranks; r++) {
        snprintf(name, sizeof name, "%s-%d", what, r);
        int *ranks = mail_receive(c->id.folder, name, &bytes);
        if (!ranks) return false;
        if (*ranks != c->ranks) c->error = INVALID_USAGE;
        free(ranks);
    }
    return true;
}

EXPORT int ncclGetVersion(int *version) {
    const char *text = getenv("NCCLSIM_VERSION");
    *version = text ? atoi(text) : 22809;
    return SUCCESS;
}

EXPORT const char *ncclGetErrorString(int result) {
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or network error",
                                        "in progress"};
    return result >= 0 && result <= IN_PROGRESS ? texts[result] : "unknown result code";
}

EXPORT const char *ncclGetLastError(comm *c) {
    static _Thread_local char error[sizeof sim.error]; /* another rank's thread may err meanwhile */
    (void)c;
    pthread_mutex_lock(&sim.lock);
    memcpy(error, sim.error, sizeof error);
    pthread_mutex_unlock(&sim.lock);
    return error;
}

EXPORT int ncclGetUniqueId(id *out) {
    memset(out, 0, sizeof *out);
    return mail_open(out->folder, sizeof out->folder) ? SUCCESS : SYSTEM_ERROR;
}

EXPORT int ncclCommInitRankConfig(comm **out, int ranks, id given, int rank, config *with) {
    int device;
    *out = NULL;
    if (with->magic != 0xcafebeef || with->version < 21400 || with->size < sizeof *with)
        return wrong(INVALID_ARGUMENT, "a configuration that was not initialized");
    if (ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks)
        return wrong(INVALID_ARGUMENT, "rank %d of %d", rank, ranks);
    if (cuCtxGetDevice(&device)) return wrong(CUDA_ERROR, "no context is the thread's");
    comm *c = calloc(1, sizeof *c);
    if (!c) return SYSTEM_ERROR;
    c->id = given;
    c->rank = rank, c->ranks = ranks, c->device = device, c->blocking = with->blocking != 0;
    pthread_mutex_lock(&sim.lock);
    c->next = sim.comms, sim.comms = c;
    sim.counts.comms++;
    pthread_mutex_unlock(&sim.lock);
    say(c, "here");
    *out = c;
    return c->blocking ? wrong(INVALID_USAGE, "the stand-in wants non-blocking communicators") : IN_PROGRESS;
}

EXPORT int ncclCommGetAsyncError(comm *c, int *result) {
    *result = c->error;
    if (*result) return SUCCESS;
    if (!c->ready && !(c->ready = have_said(c, "here"))) *result = IN_PROGRESS;
    if (c->ending && !have_said(c, "bye")) *result = IN_PROGRESS;
    if (c->polls && --c->polls) *result = IN_PROGRESS;
    if (c->error) *result = c->error;
    return SUCCESS;
}

/* The library waits for graphs that have captured its work; here no longer than some seconds. */
static void wait_for_graphs(const comm *c, const char *call, double seconds) {
    int graphs = 0;
    for (int ms = 0; ms == 0 || (graphs && ms < 1000 * seconds); ms++) {
        if (ms) usleep(1000);
        graphs = 0;
        for (const launch *l = c->launches; l; l = l->next)
            if (l->says.captured) graphs += ptxsim_graphs_with(&l->work);
    }
    if (graphs) wrong(INVALID_USAGE, "%s waits for ever for %d captured calls whose graphs are alive", call, graphs);
}

EXPORT int ncclCommFinalize(comm *c) {
    const int checked = check_comm(c);
    if (checked) return checked;
    wait_for_graphs(c, "ncclCommFinalize", 0);
    c->ending = true;
    say(c, "bye");
    return IN_PROGRESS;
}

static void end(comm *c, bool aborts) {
    pthread_mutex_lock(&sim.lock);
    sim.counts.comms--;
    sim.counts.aborted += aborts;
    pthread_mutex_unlock(&sim.lock);
    c->aborted = true;
}

/* What was sent stays until the last rank leaves: one that is behind must find what it waits for, or what is wrong. */
static int leave(comm *c) {
    say(c, "end");
    if (have_said(c, "end")) mail_close(c->id.folder);
    return SUCCESS;
}

EXPORT int ncclCommDestroy(comm *c) {
    if (!c->ending) return wrong(INVALID_USAGE, "a communicator is destroyed that was not finalized");
    end(c, false);
    return leave(c);
}

EXPORT int ncclCommAbort(comm *c) {
    end(c, true);
    wait_for_graphs(c, "ncclCommAbort", 3);
    return leave(c);
}

/* -- For tests -- */

EXPORT void ncclsim_get_counts(ncclsim_counts *counts) {
    pthread_mutex_lock(&sim.lock);
    *counts = sim.counts;
    pthread_mutex_unlock(&sim.lock);
}

EXPORT const char *ncclsim_last_error(void) { return sim.error; }

EXPORT void ncclsim_inject(ncclsim_fault fault, int rank, int nth) {
    sim.fault = fault, sim.fault_rank = rank, sim.fault_after = nth;
}

EXPORT void ncclsim_restart(void) {
    pthread_mutex_lock(&sim.lock);
    while (sim.comms) {
        comm *c = sim.comms;
        sim.comms = c->next;
        while (c->launches) {
            launch *l = c->launches;
            c->launches = l->next;
            for (int r = 0; r < MOST_RANKS; r++) free(l->received[r]);
            free(l);
        }
        free(c);
    }
    memset(&sim.counts, 0, sizeof sim.counts);
    sim.error[0] = 0;
    sim.fault_rank = -1;
    pthread_mutex_unlock(&sim.lock);
}
