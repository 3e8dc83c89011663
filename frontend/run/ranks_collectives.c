/* SPDX-License-Identifier: MIT
 * What runs the collectives of programs: the model's communicator, the devices of its ranks, or nobody. */
#include "frontend/run/model.h"

#include "ir/support/reduction.h"
#include "runtime/comm/comm.h"

_Static_assert((int)TCC_REDUCTION_SUM == (int)TCC_COMM_SUM && (int)TCC_REDUCTION_MAX == (int)TCC_COMM_MAX &&
                   (int)TCC_REDUCTION_MIN == (int)TCC_COMM_MIN,
               "reductions of programs and of communicators are the same");

static tcc_status all_reduce(tcc_comm *comm, const tcc_collective_params *p, const void *from, void *to,
                             int64_t *request) {
    const tcc_dtype type = (tcc_dtype)p->type;
    const int64_t bytes = p->count * tcc_dtype_bytes(type);
    if (from != to) memcpy(to, from, (size_t)bytes);
    if (p->reduction == TCC_REDUCTION_FIRST) return tcc_comm_broadcast(comm, 0, to, bytes);
    const tcc_comm_op how = (tcc_comm_op)p->reduction;
    return request ? tcc_comm_start_all_reduce(comm, how, type, to, p->count, request)
                   : tcc_comm_all_reduce(comm, how, type, to, p->count);
}

enum { DONE = -1 }; /* a request that nobody has to wait for */

/* Errors are kept by the communicator's context, which is the model's. */
static tcc_status start_collective(void *user, tcc_diag *d, tcc_call call, const tcc_collective_params *p,
                                   const void *from, void *to, int64_t *request) {
    tcc_comm *comm = user;
    const tcc_comm_op how = (tcc_comm_op)p->reduction;
    const tcc_dtype type = (tcc_dtype)p->type;
    const int64_t bytes = p->count * tcc_dtype_bytes(type);
    if (request) *request = DONE;
    if (p->ranks != tcc_comm_size(comm))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "the program was made for %lld ranks, and here are %d",
                         (long long)p->ranks, tcc_comm_size(comm));
    if (call == TCC_CALL_ALL_REDUCE) return all_reduce(comm, p, from, to, request);
    if (call == TCC_CALL_ALL_GATHER)
        return request ? tcc_comm_start_all_gather(comm, from, to, bytes, request)
                       : tcc_comm_all_gather(comm, from, to, bytes);
    return request ? tcc_comm_start_reduce_scatter(comm, how, type, from, to, p->count, request)
                   : tcc_comm_reduce_scatter(comm, how, type, from, to, p->count);
}

static tcc_status wait_for_collective(void *user, tcc_diag *d, int64_t request) {
    (void)d;
    return request == DONE ? TCC_OK : tcc_comm_wait(user, request);
}

/* The time of others is not measured: what this rank would receive is what it has. */
static tcc_status start_alone(void *user, tcc_diag *d, tcc_call call, const tcc_collective_params *p, const void *from,
                              void *to, int64_t *request) {
    (void)user, (void)d;
    const int64_t bytes = p->count * tcc_dtype_bytes((tcc_dtype)p->type);
    if (request) *request = DONE;
    for (int64_t r = 0; r < (call == TCC_CALL_ALL_GATHER ? p->ranks : 1); r++)
        memmove((char *)to + r * bytes, from, (size_t)bytes);
    return TCC_OK;
}

static tcc_status wait_alone(void *user, tcc_diag *d, int64_t request) {
    (void)user, (void)d, (void)request;
    return TCC_OK;
}

void tcc__ranks_connect_alone(tcc_exec *exec) {
    static const tcc_collectives alone = {.start = start_alone, .wait = wait_alone};
    tcc_exec_set_collectives(exec, &alone);
}

void tcc__ranks_connect(tcc_model *m, tcc_exec *exec) {
    m->collectives.user = m->options.comm;
    m->collectives.start = start_collective;
    m->collectives.wait = wait_for_collective;
    tcc_exec_set_collectives(exec, &m->collectives);
}

/* -- Devices with memory of their own -- */

static tcc_status gather(void *user, tcc_diag *d, const void *mine, void *all, int64_t size_bytes) {
    (void)d; /* the communicator's, too */
    return tcc_comm_all_gather(user, mine, all, size_bytes);
}

static bool is_gone(void *user, char *words, size_t size) { return tcc_comm_is_gone(user, words, size); }

tcc_status tcc__ranks_join(tcc_model *m) {
    tcc_comm *comm = m->options.comm;
    if (!m->device || !m->device->ops->join || m->collectives.ranks || m->options.compile_only) return TCC_OK;
    const tcc_meeting with = {.user = comm,
                              .rank = tcc_comm_rank(comm),
                              .ranks = tcc_comm_size(comm),
                              .timeout_s = tcc_comm_get_timeout(comm),
                              .gather = gather,
                              .is_gone = is_gone};
    return m->device->ops->join(m->device, &m->cx->diag, &with, &m->collectives.ranks);
}

void tcc__ranks_leave(tcc_model *m) {
    if (m->collectives.ranks) m->device->ops->leave(m->collectives.ranks, !tcc_comm_has_failed(m->options.comm));
    m->collectives.ranks = NULL;
}
