/* SPDX-License-Identifier: MIT
 * A transport over stream sockets, one to each other rank: between threads, processes and machines alike. The end of a
 * rank, by whatever cause, closes its sockets, so that the others see it at once.
 *
 * A frame is a header, with content where it is data or the reason why a rank gives up. Instead of much data goes the
 * place where it lies, if the other side may be able to read there (direct.h); it answers that it has, so that the data
 * may change, or that it could not, and then the data follows. */
#include "runtime/comm/transport.h"

#include "ir/support/alloc.h"
#include "ir/support/clock.h"
#include "runtime/comm/direct.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REASON_BYTES = 1024, MAGIC = 0x74636333, LEAST_DIRECT_BYTES = 1 << 17 };
typedef enum frame_kind { FRAME_DATA, FRAME_REASON, FRAME_PLACE, FRAME_WAS_READ, FRAME_IS_FAR } frame_kind;

typedef struct frame {
    uint32_t magic, kind;
    int64_t bytes; /* of the content; FRAME_PLACE: of what lies there */
    tcc_direct_place place;
} frame;

typedef struct peer {
    int socket;
    frame out, in;
    int64_t sent, received; /* of these frames, their headers included */
    bool has_data;          /* not yet sent, or told of */
    bool has_answer;        /* to a place, */
    frame_kind answer;      /* not yet sent */
    bool sends;             /* `out` is on its way */
    bool awaits_data, awaits_answer;
    bool is_far; /* cannot read this process's memory */
    char reason[REASON_BYTES + 1];
} peer;

typedef struct sockets {
    tcc_transport base;
    peer *peers;          /* by rank */
    struct pollfd *polls; /* by rank */
    char token[TCC_DIRECT_TOKEN_BYTES];
} sockets;

static sockets *sockets_of(tcc_transport *t) { return (sockets *)t; }

static tcc_status gone(tcc_diag *d, int rank) {
    return tcc_error(d, TCC_EIO, TCC_NOWHERE, "rank %d is gone: it ended, or the connection to it broke", rank);
}

static void begin(peer *p, const tcc_comm_part *part) {
    p->has_data = part->to_bytes > 0;
    p->awaits_data = part->from_bytes > 0;
}

static bool is_busy(const peer *p) {
    return p->sends || p->has_data || p->has_answer || p->awaits_data || p->awaits_answer;
}

/* Makes `out` the next frame, if there is one. */
static bool next_frame(const sockets *s, peer *p, const tcc_comm_part *part) {
    if (p->sends) return true;
    p->out = (frame){.magic = MAGIC};
    p->sent = 0;
    if (p->has_answer) {
        p->out.kind = p->answer;
        p->has_answer = false;
    } else if (p->has_data) {
        const bool tells = !p->is_far && part->to_bytes >= LEAST_DIRECT_BYTES;
        p->out.kind = tells ? FRAME_PLACE : FRAME_DATA;
        p->out.bytes = part->to_bytes;
        if (tells) p->out.place = tcc_direct_place_of(part->to, s->token);
        p->awaits_answer = tells;
        p->has_data = false;
    } else return false;
    return p->sends = true;
}

/* A connection that takes no more may still have a reason to read. */
static void send_some(const sockets *s, peer *p, const tcc_comm_part *part) {
    while (next_frame(s, p, part)) {
        const int64_t head = (int64_t)sizeof(frame), content = p->out.kind == FRAME_DATA ? p->out.bytes : 0;
        struct iovec iov[2] = {{(char *)&p->out + p->sent, (size_t)(p->sent < head ? head - p->sent : 0)}};
        const int64_t at = p->sent < head ? 0 : p->sent - head;
        iov[1] = (struct iovec){content ? (char *)part->to + at : NULL, (size_t)(content - at)};
        const struct msghdr message = {.msg_iov = p->sent < head ? iov : iov + 1, .msg_iovlen = p->sent < head ? 2 : 1};
        const ssize_t n = sendmsg(p->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n < 0) {
            p->sends = p->has_data = p->has_answer = false;
            p->awaits_data = true;
            return;
        }
        p->sent += n;
        if (p->sent == head + content) p->sends = false;
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

/* The content of a frame whose header is there. */
static tcc_status receive_content(peer *p, int rank, const tcc_comm_part *part, tcc_diag *d) {
    const int64_t head = (int64_t)sizeof(frame);
    const bool known = p->in.magic == MAGIC, has_data = p->in.kind == FRAME_DATA || p->in.kind == FRAME_PLACE,
               answers = p->in.kind == FRAME_WAS_READ || p->in.kind == FRAME_IS_FAR;
    if (known && p->in.kind == FRAME_REASON && p->in.bytes >= 0 && p->in.bytes <= REASON_BYTES) {
        if (!receive_to(p, rank, p->reason, head, p->in.bytes, d)) return d->status;
        p->reason[p->in.bytes] = 0;
        return tcc_error(d, TCC_EIO, TCC_NOWHERE, "rank %d gave up: %s", rank, p->reason);
    }
    if (!known || !(has_data ? p->awaits_data && p->in.bytes == part->from_bytes : answers && p->awaits_answer))
        return tcc_error(d, TCC_EIO, TCC_NOWHERE,
                         "rank %d sent something else than was awaited: is it another version?", rank);
    if (p->in.kind == FRAME_DATA) {
        if (!receive_to(p, rank, part->from, head, part->from_bytes, d)) return d->status;
        p->awaits_data = false;
    } else if (p->in.kind == FRAME_PLACE) {
        const bool was_read = tcc_direct_read(&p->in.place, part->from, part->from_bytes);
        p->answer = was_read ? FRAME_WAS_READ : FRAME_IS_FAR;
        p->has_answer = true;
        p->awaits_data = !was_read;
    } else {
        p->is_far = p->has_data = p->in.kind == FRAME_IS_FAR;
        p->awaits_answer = false;
    }
    p->received = 0;
    return TCC_OK;
}

static tcc_status receive_some(peer *p, int rank, const tcc_comm_part *part, tcc_diag *d) {
    while (p->awaits_data || p->awaits_answer) {
        if (!receive_to(p, rank, &p->in, 0, (int64_t)sizeof(frame), d)) return d->status;
        TCC_TRY(receive_content(p, rank, part, d));
        if (p->received) break;
    }
    return TCC_OK;
}

static tcc_status too_late(const sockets *s, tcc_diag *d, double timeout_s) {
    int first = 0;
    while (!is_busy(&s->peers[first])) first++;
    tcc_error(d, TCC_EIO, TCC_NOWHERE, "rank %d did not answer within %g s", first, timeout_s);
    for (int r = first + 1; r < s->base.size; r++)
        if (is_busy(&s->peers[r])) tcc_note(d, TCC_NOWHERE, "nor did rank %d", r);
    return TCC_EIO;
}

/* Waits until something can be moved; *left: ranks that are not done. */
static tcc_status wait_for_any(sockets *s, tcc_diag *d, int64_t end_ns, double timeout_s, int *left) {
    *left = 0;
    for (int r = 0; r < s->base.size; r++) {
        const peer *p = &s->peers[r];
        const bool waits = is_busy(p), sends = p->sends || p->has_data || p->has_answer;
        s->polls[r] = (struct pollfd){
            .fd = waits ? p->socket : -1,
            .events = (short)((sends ? POLLOUT : 0) | (p->awaits_data || p->awaits_answer ? POLLIN : 0))};
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
            if (!s->polls[r].revents) continue;
            send_some(s, p, &parts[r]);
            TCC_TRY(receive_some(p, r, &parts[r], d));
            send_some(s, p, &parts[r]); /* the answer */
        }
    } while (left);
    return TCC_OK;
}

/* A frame that is half sent cannot be followed by another one: there the connection ends. */
static void abort_all(tcc_transport *t, const char *why) {
    sockets *s = sockets_of(t);
    const size_t length = strnlen(why, REASON_BYTES);
    char text[sizeof(frame) + REASON_BYTES];
    const frame head = {.magic = MAGIC, .kind = FRAME_REASON, .bytes = (int64_t)length};
    memcpy(text, &head, sizeof head);
    memcpy(text + sizeof head, why, length);
    for (int r = 0; r < t->size; r++) {
        const peer *p = &s->peers[r];
        if (r == t->rank) continue;
        if (!p->sends || !p->sent) (void)!send(p->socket, text, sizeof head + length, MSG_DONTWAIT | MSG_NOSIGNAL);
        shutdown(p->socket, SHUT_WR);
    }
}

/* Looks at what has come without taking it: another thread may be in an exchange. */
static int find_gone(tcc_transport *t, char *words, size_t size) {
    struct {
        frame head;
        char text[REASON_BYTES];
    } first;
    const sockets *s = sockets_of(t);
    for (int r = 0; r < t->size; r++) {
        struct pollfd p = {.fd = s->peers[r].socket, .events = POLLRDHUP};
        if (r == t->rank || poll(&p, 1, 0) <= 0 || !p.revents) continue;
        const ssize_t n = recv(p.fd, &first, sizeof first, MSG_PEEK | MSG_DONTWAIT);
        const bool reason = n >= (ssize_t)sizeof first.head && first.head.magic == MAGIC &&
                            first.head.kind == FRAME_REASON && n >= (ssize_t)sizeof first.head + first.head.bytes;
        snprintf(words, size, "%.*s", reason ? (int)first.head.bytes : 0, first.text);
        return r;
    }
    return -1;
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

static const tcc_transport_ops ops = {
    .exchange = exchange, .abort = abort_all, .find_gone = find_gone, .destroy = destroy};

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
    const bool direct = tcc_direct_begin(s->token);
    for (int r = 0; r < size; r++) s->peers[r] = (peer){.socket = connected[r], .is_far = !direct};
    *out = &s->base;
    return TCC_OK;
}
