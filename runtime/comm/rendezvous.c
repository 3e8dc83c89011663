/* SPDX-License-Identifier: MIT
 * Ranks that were started apart, here or on other machines, find each other over TCP, by the variables of the
 * environment that torchrun sets. Rank 0 listens where all know it. Each other rank listens somewhere and tells rank 0
 * where; when all have come, rank 0 tells everybody where the others are, and each connects to the ranks below it. */
#include "runtime/comm/comm.h"

#include "ir/support/alloc.h"
#include "ir/support/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAGIC = 0x74636332, HELLO_SECONDS = 5, RETRY_US = 20000, DEFAULT_PORT = 29500 };

/* How a connection begins: who calls, and where that rank listens. */
typedef struct hello {
    uint32_t magic;
    int32_t rank, size;
    uint16_t port; /* as in an address */
} hello;

/* Where a rank listens. */
typedef struct place {
    struct sockaddr_storage address;
    socklen_t length;
} place;

typedef struct meeting {
    tcc_diag *d;
    const char *host, *port;
    int rank, size;
    double timeout_s;
    int64_t end_ns;
    int listener;  /* -1: none */
    int *sockets;  /* by rank; -1: not connected */
    place *places; /* by rank; of 0 nobody asks */
} meeting;

/* -- What the environment says -- */

static tcc_status read_number(tcc_diag *d, const char *name, int64_t least, int64_t most, int64_t *out) {
    const char *text = getenv(name);
    char *end = NULL;
    if (!text || !*text)
        return tcc_error(d, TCC_ENOTFOUND, TCC_NOWHERE,
                         "the environment has no %s: ranks find each other by RANK, WORLD_SIZE, MASTER_ADDR and "
                         "MASTER_PORT, as torchrun sets them",
                         name);
    *out = strtoll(text, &end, 10);
    if (!*end && *out >= least && *out <= most) return TCC_OK;
    return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%s is \"%s\", not a number from %lld to %lld", name, text,
                     (long long)least, (long long)most);
}

tcc_status tcc_comm_timeout_of_environment(tcc_diag *d, double *seconds) {
    int64_t n = 60;
    if (getenv("TCC_COMM_TIMEOUT")) TCC_TRY(read_number(d, "TCC_COMM_TIMEOUT", 1, 1000000, &n));
    *seconds = (double)n;
    return TCC_OK;
}

static tcc_status read_environment(meeting *m) {
    int64_t size, rank, port = DEFAULT_PORT;
    TCC_TRY(read_number(m->d, "WORLD_SIZE", 1, TCC_COMM_MOST_RANKS, &size));
    TCC_TRY(read_number(m->d, "RANK", 0, size - 1, &rank));
    TCC_TRY(tcc_comm_timeout_of_environment(m->d, &m->timeout_s));
    if (getenv("MASTER_PORT")) TCC_TRY(read_number(m->d, "MASTER_PORT", 1, UINT16_MAX, &port));
    const char *host = getenv("MASTER_ADDR"), *name = getenv("MASTER_PORT");
    m->host = host && *host ? host : "127.0.0.1";
    m->port = name ? name : "29500";
    m->rank = (int)rank;
    m->size = (int)size;
    m->end_ns = tcc_clock_ns() + (int64_t)(1e9 * m->timeout_s);
    return TCC_OK;
}

/* -- Sockets -- */

static tcc_status failed(const meeting *m, const char *what) {
    return tcc_error(m->d, TCC_EIO, TCC_NOWHERE, "rank %d of %d, %s:%s: %s: %s", m->rank, m->size, m->host, m->port,
                     what, strerror(errno));
}

static bool is_late(const meeting *m) { return tcc_clock_ns() >= m->end_ns; }

/* Waits until it can be read; false: not in time. */
static bool wait_to_read(const meeting *m, int socket, int64_t end_ns) {
    const int64_t until = end_ns < m->end_ns ? end_ns : m->end_ns;
    for (;;) {
        struct pollfd p = {.fd = socket, .events = POLLIN};
        const int64_t left_ms = (until - tcc_clock_ns() + 999999) / 1000000;
        if (left_ms <= 0) return false;
        const int n = poll(&p, 1, left_ms < 1000 ? (int)left_ms : 1000);
        if (n > 0) return true;
    }
}

static bool send_all(int socket, const void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = send(socket, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static bool receive_all(const meeting *m, int socket, void *data, size_t bytes, int64_t end_ns) {
    for (size_t done = 0; done < bytes;) {
        if (!wait_to_read(m, socket, end_ns)) return false;
        const ssize_t n = recv(socket, (char *)data + done, bytes - done, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static void send_at_once(int socket) {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static uint16_t *port_of(struct sockaddr_storage *a) {
    return a->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)a)->sin6_port : &((struct sockaddr_in *)a)->sin_port;
}

/* Listens at an address; *port, as there, is what it came to be. */
static tcc_status listen_at(meeting *m, const struct sockaddr *address, socklen_t length, uint16_t *port) {
    const int on = 1;
    struct sockaddr_storage own = {0};
    socklen_t own_length = sizeof own;
    m->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (m->listener < 0) return failed(m, "cannot make a socket");
    setsockopt(m->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(m->listener, address, length) || listen(m->listener, TCC_COMM_MOST_RANKS) ||
        getsockname(m->listener, (struct sockaddr *)&own, &own_length))
        return failed(m, "cannot listen");
    *port = *port_of(&own);
    return TCC_OK;
}

/* Connects, again and again until somebody listens there. */
static tcc_status connect_to(const meeting *m, const struct sockaddr *address, socklen_t length, int rank, int *out) {
    for (;;) {
        *out = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (*out < 0) return failed(m, "cannot make a socket");
        if (!connect(*out, address, length)) break;
        const int why = errno;
        close(*out);
        *out = -1;
        errno = why;
        if (why != ECONNREFUSED && why != EINTR && why != ETIMEDOUT && why != EHOSTUNREACH && why != ENETUNREACH)
            return failed(m, "cannot connect");
        if (is_late(m))
            return tcc_error(m->d, TCC_EIO, TCC_NOWHERE,
                             "rank %d of %d: rank %d did not listen at %s:%s within %g s: %s", m->rank, m->size, rank,
                             m->host, m->port, m->timeout_s, strerror(why));
        usleep(RETRY_US);
    }
    send_at_once(*out);
    return TCC_OK;
}

/* The next rank that calls, from `least` on; whoever is none is hung up on. */
static tcc_status accept_rank(meeting *m, int least, hello *from) {
    for (;;) {
        int missing = least;
        while (missing < m->size && m->sockets[missing] >= 0) missing++;
        if (!wait_to_read(m, m->listener, m->end_ns))
            return tcc_error(m->d, TCC_EIO, TCC_NOWHERE, "rank %d of %d: rank %d did not come to %s:%s within %g s",
                             m->rank, m->size, missing, m->host, m->port, m->timeout_s);
        const int socket = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);
        if (socket < 0) continue;
        const bool is_rank = receive_all(m, socket, from, sizeof *from,
                                         tcc_clock_ns() + HELLO_SECONDS * INT64_C(1000000000)) &&
                             from->magic == MAGIC;
        if (is_rank &&
            (from->size != m->size || from->rank < least || from->rank >= m->size || m->sockets[from->rank] >= 0)) {
            close(socket);
            return tcc_error(m->d, TCC_EINVAL, TCC_NOWHERE,
                             "rank %d of %d: another process came as rank %d of %d: each of the ranks 0 to %d may come "
                             "once",
                             m->rank, m->size, from->rank, from->size, m->size - 1);
        }
        if (is_rank) {
            send_at_once(socket);
            m->sockets[from->rank] = socket;
            return TCC_OK;
        }
        close(socket);
    }
}

/* -- The meeting -- */

static tcc_status lead(meeting *m, const struct addrinfo *master) {
    struct sockaddr_storage any = {.ss_family = (sa_family_t)master->ai_family}, named;
    uint16_t port;
    memcpy(&named, master->ai_addr, master->ai_addrlen);
    *port_of(&any) = *port_of(&named); /* the name need not be an address of this machine's own */
    TCC_TRY(listen_at(m, (const struct sockaddr *)&any, master->ai_addrlen, &port));
    for (int i = 1; i < m->size; i++) {
        hello from;
        TCC_TRY(accept_rank(m, 1, &from));
        place *p = &m->places[from.rank];
        p->length = sizeof p->address;
        if (getpeername(m->sockets[from.rank], (struct sockaddr *)&p->address, &p->length))
            return failed(m, "cannot tell where a rank is");
        *port_of(&p->address) = from.port;
    }
    for (int r = 1; r < m->size; r++)
        if (!send_all(m->sockets[r], m->places, (size_t)m->size * sizeof *m->places))
            return tcc_error(m->d, TCC_EIO, TCC_NOWHERE, "rank 0 of %d: rank %d is gone", m->size, r);
    return TCC_OK;
}

static tcc_status join(meeting *m, const struct addrinfo *master) {
    struct sockaddr_storage any = {.ss_family = (sa_family_t)master->ai_family}; /* any address, any port */
    hello own = {MAGIC, m->rank, m->size, 0};
    TCC_TRY(listen_at(m, (const struct sockaddr *)&any, master->ai_addrlen, &own.port));
    TCC_TRY(connect_to(m, master->ai_addr, master->ai_addrlen, 0, &m->sockets[0]));
    if (!send_all(m->sockets[0], &own, sizeof own) ||
        !receive_all(m, m->sockets[0], m->places, (size_t)m->size * sizeof *m->places, m->end_ns))
        return tcc_error(m->d, TCC_EIO, TCC_NOWHERE,
                         "rank %d of %d: rank 0 at %s:%s has not said within %g s where the others are, or is gone",
                         m->rank, m->size, m->host, m->port, m->timeout_s);
    for (int r = 1; r < m->rank; r++) {
        const place *p = &m->places[r];
        TCC_TRY(connect_to(m, (const struct sockaddr *)&p->address, p->length, r, &m->sockets[r]));
        if (!send_all(m->sockets[r], &own, sizeof own))
            return tcc_error(m->d, TCC_EIO, TCC_NOWHERE, "rank %d of %d: rank %d is gone", m->rank, m->size, r);
    }
    for (int r = m->rank + 1; r < m->size; r++) {
        hello from;
        TCC_TRY(accept_rank(m, m->rank + 1, &from));
    }
    return TCC_OK;
}

static tcc_status meet(meeting *m) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *master = NULL;
    if (m->size == 1) return TCC_OK;
    const int error = getaddrinfo(m->host, m->port, &hints, &master);
    if (error)
        return tcc_error(m->d, TCC_EIO, TCC_NOWHERE, "MASTER_ADDR %s, MASTER_PORT %s: %s", m->host, m->port,
                         gai_strerror(error));
    const tcc_status status = m->rank ? join(m, master) : lead(m, master);
    freeaddrinfo(master);
    return status;
}

static tcc_status connect_all(tcc_context *cx, meeting *m, tcc_comm **out) {
    tcc_transport *t;
    m->sockets = tcc__malloc(sizeof *m->sockets * (size_t)m->size);
    m->places = tcc__calloc((size_t)m->size, sizeof *m->places);
    for (int r = 0; m->sockets && r < m->size; r++) m->sockets[r] = -1;
    if (!m->sockets || !m->places) return tcc_enomem(m->d);
    TCC_TRY(meet(m));
    static const char *const local_ranks[] = {"LOCAL_RANK", "SLURM_LOCALID", NULL};
    TCC_TRY(tcc_sockets_create(m->d, m->rank, m->size, m->sockets, &t));
    t->local_rank = tcc_comm_number_of_environment(local_ranks, m->rank);
    for (int r = 0; r < m->size; r++) m->sockets[r] = -1;
    const tcc_status status = tcc_comm_over(cx, t, out);
    if (status != TCC_OK) t->ops->destroy(t, 0);
    return status;
}

tcc_status tcc_comm_open_env(tcc_context *cx, tcc_comm **out) {
    meeting m = {.d = &cx->diag, .listener = -1};
    tcc_status status = read_environment(&m);
    if (status == TCC_OK) status = connect_all(cx, &m, out);
    if (m.listener >= 0) close(m.listener);
    for (int r = 0; m.sockets && r < m.size; r++)
        if (m.sockets[r] >= 0) close(m.sockets[r]);
    tcc__free(m.sockets);
    tcc__free(m.places);
    if (status == TCC_OK) tcc_comm_set_timeout(*out, m.timeout_s);
    return status;
}
