/* SPDX-License-Identifier: MIT
 * Who is connected, how long they have owed us something, and the bytes of their requests. */
#include "serve.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum {
    MOST_BYTES = 256 << 20,   /* of all requests together */
    SECONDS_OF_A_REQUEST = 30 /* from a connection or the last reply to the end of a request */
};

typedef struct client {
    int fd;
    int64_t since; /* it owes us a request, or its taking of a reply, in seconds; 0: we owe it a reply */
    struct client *next;
} client;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static client *clients;  /* all of them */
static size_t all_bytes; /* of the bodies that are here */
static int requests;     /* whose replies are not yet sent */

/* ---- who is connected ---- */

static int64_t now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1;
}

void clients_meet(void *unused, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode what) {
    (void)unused;
    pthread_mutex_lock(&mutex);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        client *new = malloc(sizeof *new);
        if (new) {
            *new = (client){MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd, now_seconds(),
                            clients};
            clients = new;
        }
        *context = new;
    } else {
        client **at = &clients;
        while (*at && *at != *context) at = &(*at)->next;
        client *gone = *at;
        if (gone) *at = gone->next;
        free(gone);
    }
    pthread_mutex_unlock(&mutex);
}

void clients_owe(struct MHD_Connection *c, bool owes) {
    client *of = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    pthread_mutex_lock(&mutex);
    if (of) of->since = owes ? now_seconds() : 0;
    pthread_mutex_unlock(&mutex);
}

void clients_cut_slow(void) {
    const int64_t now = now_seconds();
    pthread_mutex_lock(&mutex);
    for (const client *c = clients; c; c = c->next)
        if (c->since && now - c->since > SECONDS_OF_A_REQUEST) shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_unlock(&mutex);
}

/* ---- what they take ---- */

bool clients_take_room(size_t bytes) {
    pthread_mutex_lock(&mutex);
    const bool fits = all_bytes + bytes <= MOST_BYTES;
    if (fits) all_bytes += bytes;
    pthread_mutex_unlock(&mutex);
    return fits;
}

void clients_give_room(size_t bytes) {
    pthread_mutex_lock(&mutex);
    all_bytes -= bytes;
    pthread_mutex_unlock(&mutex);
}

void clients_count(int more) {
    pthread_mutex_lock(&mutex);
    requests += more;
    if (!requests) pthread_cond_signal(&idle);
    pthread_mutex_unlock(&mutex);
}

void clients_wait(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += SECONDS_OF_SILENCE;
    pthread_mutex_lock(&mutex);
    for (int late = 0; requests && !late;) late = pthread_cond_timedwait(&idle, &mutex, &end);
    pthread_mutex_unlock(&mutex);
}
