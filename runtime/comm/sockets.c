/* SPDX-License-Identifier: MIT
 * A transport over stream sockets, one to each other rank: between threads, processes and machines alike. The end of a
 * rank, by whatever cause, closes its sockets, so that the others see it at once.
 *
 * A frame is a header and its content: data, or the reason why a rank gives up. */
#include "runtime/comm/transport.h"

#include "ir/support/alloc.h"
#include "ir/support/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REASON_BYTES = 1024, MAGIC = 0x74636331 };
typedef enum frame_kind { FRAME_DATA, FRAME_REASON } frame_kind;

typedef struct frame {
    uint32_t magic, kind;
    int64_t bytes;
} frame;

typedef struct peer {
    int socket;
    frame out, in;
    int64_t sent, received; /* of the frame, its header included */
    bool sends, receives;   /* something is left to do */
    char reason[REASON_BYTES + 1];
} peer;

typedef struct sockets {
    tcc_transport base;
    peer *peers;          /* by rank */
    struct pollfd *polls; /* by rank */
} sockets;

static sockets *sockets_of(tcc_transport *t) { return (sockets *)t; }

static tcc_status gone(tcc_diag *d, int rank) {
    return tcc_error(d, TCC_EIO, TCC_NOWHERE, "rank %d is gone: it ended, or the connection to it broke", rank);
}

static void begin(peer *p, const tcc_comm_part *part) {
    p->out = (frame){MAGIC, FRAME_DATA, part->to_bytes};
    p->sent = p->received = 0;
    p->sends = part->to_bytes > 0;
    p->receives = part->from_bytes > 0;
}

/* A connection that takes no more may still have a reason to read. */
static void send_some(peer *p, const tcc_comm_part *part) {
    const int64_t head = (int64_t)sizeof(frame), all = head + part->to_bytes;
    while (p->sends) {
        struct iovec iov[2] = {{(char *)&p->out + p->sent, (size_t)(p->sent < head ? head - p->sent : 0)}};
        const int64_t at = p->sent < head ? 0 : p->sent - head;
        iov[1] = (struct iovec){(char *)part->to + at, (size_t)(part->to_bytes - at)};
        const struct msghdr message = {.msg_iov = p->sent < head ? iov : iov + 1, .msg_iovlen = p->sent < head ? 2 : 1};
        const ssize_t n = sendmsg(p->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n < 0) {
            p->sends = false;
            p->receives = true;
            return;
        }
        p->sent += n;
        if (p->sent == all) p->sends = false;
    }
}

/* Reads up to `bytes` bytes of the frame from `at` on; false: nothing more is there for now, or an error is. */
static bool receive_to(peer *p, int rank, void *to, int64_t at, int64_t bytes, tcc_diag *d) {
    while (p->received < at + bytes) {
        const int64_t done = p->received - at;
        const ssize_t n = recv(p->socket, (char *)to + done, (size_t)(bytes - done), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
        if (n <= 0) {
            gone(d, rank);
            return false;
        }
        p->received += n;
    }
    return true;
}

static tcc_status receive_some(peer *p, int rank, const tcc_comm_part *part, tcc_diag *d) {
    const int64_t head = (int64_t)sizeof(frame);
    if (!receive_to(p, rank, &p->in, 0, head, d)) return d->status;
    if (p->in.magic == MAGIC && p->in.kind == FRAME_REASON && p->in.bytes >= 0 && p->in.bytes <= REASON_BYTES) {
        if (!receive_to(p, rank, p->reason, head, p->in.bytes, d)) return d->status;
        p->reason[p->in.bytes] = 0;
        return tcc_error(d, TCC_EIO, TCC_NOWHERE, "rank %d gave up: %s", rank, p->reason);
    }
    if (p->in.magic != MAGIC || p->in.kind != FRAME_DATA || p->in.bytes != part->from_bytes)
        return tcc_error(d, TCC_EIO, TCC_NOWHERE,
                         "rank %d sent something else than was awaited: is it another version?", rank);
    if (!receive_to(p, rank, part->from, head, part->from_bytes, d)) return d->status;
    p->receives = false;
    return TCC_OK;
}

static tcc_status too_late(const sockets *s, tcc_diag *d, double timeout_s) {
    int first = 0;
    while (!s->peers[first].receives && !s->peers[first].sends) first++;
    tcc_error(d, TCC_EIO, TCC_NOWHERE, "rank %d did not answer within %g s", first, timeout_s);
    for (int r = first + 1; r < s->base.size; r++)
        if (s->peers[r].receives || s->peers[r].sends) tcc_note(d, TCC_NOWHERE, "nor did rank %d", r);
    return TCC_EIO;
}

/* Waits until something can be moved; *left: ranks that are not done. */
static tcc_status wait_for_any(sockets *s, tcc_diag *d, int64_t end_ns, double timeout_s, int *left) {
    *left = 0;
    for (int r = 0; r < s->base.size; r++) {
        const peer *p = &s->peers[r];
        const bool waits = p->sends || p->receives;
        s->polls[r] = (struct pollfd){.fd = waits ? p->socket : -1,
                                      .events = (short)((p->sends ? POLLOUT : 0) | (p->receives ? POLLIN : 0))};
        *left += waits;
    }
    if (!*left) return TCC_OK;
    const int64_t wait_ms = (end_ns - tcc_clock_ns() + 999999) / 1000000;
    if (wait_ms <= 0) return too_late(s, d, timeout_s);
    const int n = poll(s->polls, (nfds_t)s->base.size, wait_ms < INT32_MAX ? (int)wait_ms : INT32_MAX);
    if (n >= 0 || errno == EINTR) return TCC_OK;
    return tcc_error(d, TCC_EIO, TCC_NOWHERE, "poll: %s", strerror(errno));
}

static tcc_status exchange(tcc_transport *t, tcc_diag *d, const tcc_comm_part *parts, double timeout_s) {
    sockets *s = sockets_of(t);
    const int64_t end_ns = tcc_clock_ns() + (int64_t)(1e9 * timeout_s);
    int left = 0;
    for (int r = 0; r < t->size; r++)
        if (r != t->rank) begin(&s->peers[r], &parts[r]);
    do {
        TCC_TRY(wait_for_any(s, d, end_ns, timeout_s, &left));
        for (int r = 0; r < t->size; r++) {
            peer *p = &s->peers[r];
            if (p->sends && s->polls[r].revents) send_some(p, &parts[r]);
            if (p->receives && s->polls[r].revents) TCC_TRY(receive_some(p, r, &parts[r], d));
        }
    } while (left);
    return TCC_OK;
}

/* A frame that is half sent cannot be followed by another one: there the connection ends. */
static void abort_all(tcc_transport *t, const char *why) {
    sockets *s = sockets_of(t);
    const size_t length = strnlen(why, REASON_BYTES);
    char text[sizeof(frame) + REASON_BYTES];
    const frame head = {MAGIC, FRAME_REASON, (int64_t)length};
    memcpy(text, &head, sizeof head);
    memcpy(text + sizeof head, why, length);
    for (int r = 0; r < t->size; r++) {
        const peer *p = &s->peers[r];
        if (r == t->rank) continue;
        if (!p->sends || !p->sent) (void)!send(p->socket, text, sizeof head + length, MSG_DONTWAIT | MSG_NOSIGNAL);
        shutdown(p->socket, SHUT_WR);
    }
}

static void destroy(tcc_transport *t, double timeout_s) {
    (void)timeout_s;
    sockets *s = sockets_of(t);
    for (int r = 0; r < t->size; r++)
        if (s->peers[r].socket >= 0) close(s->peers[r].socket);
    tcc__free(s->peers);
    tcc__free(s->polls);
    tcc__free(s);
}

static const tcc_transport_ops ops = {.exchange = exchange, .abort = abort_all, .destroy = destroy};

tcc_status tcc_sockets_create(tcc_diag *d, int rank, int size, const int *connected, tcc_transport **out) {
    sockets *s = tcc__calloc(1, sizeof *s);
    if (s) {
        s->peers = tcc__calloc((size_t)size, sizeof *s->peers);
        s->polls = tcc__calloc((size_t)size, sizeof *s->polls);
    }
    if (!s || !s->peers || !s->polls) {
        if (s) tcc__free(s->peers), tcc__free(s->polls);
        tcc__free(s);
        return tcc_enomem(d);
    }
    s->base =
        (tcc_transport){.ops = &ops, .rank = rank, .size = size, .any_thread = true, .network = *tcc_network_local};
    for (int r = 0; r < size; r++) s->peers[r].socket = connected[r];
    *out = &s->base;
    return TCC_OK;
}
