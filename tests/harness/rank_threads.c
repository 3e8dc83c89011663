// SPDX-License-Identifier: MIT
#include "harness/rank_threads.h"

#include "harness/patience.h"

#include <pthread.h>

enum { MOST_RANKS = 8 };

typedef struct thread {
    pthread_t id;
    rank_body *body;
    void *user;
    int rank;
    tcc_context *cx;
    tcc_comm *comm;
} thread;

static void *run(void *user) {
    thread *t = user;
    t->body(t->user, t->rank, t->cx, t->comm);
    tcc_comm_destroy(t->comm); /* others may wait for this one */
    return NULL;
}

static bool make(int count, tcc_context **contexts, tcc_comm **comms) {
    for (int r = 0; r < count; r++)
        if (tcc_context_create(&contexts[r]) != TCC_OK) return false;
    return count == 1 || tcc_comm_create_local(contexts, count, comms) == TCC_OK;
}

bool run_rank_threads(int count, rank_body *body, void *user) {
    tcc_context *contexts[MOST_RANKS] = {NULL};
    tcc_comm *comms[MOST_RANKS] = {NULL};
    thread threads[MOST_RANKS];
    int started = 0;
    const bool made = count >= 1 && count <= MOST_RANKS && make(count, contexts, comms);
    for (bool starts = made; starts && started < count; started += starts) {
        thread *t = &threads[started];
        *t = (thread){0, body, user, started, contexts[started], comms[started]};
        if (t->comm) tcc_comm_set_timeout(t->comm, test_seconds(60));
        starts = !pthread_create(&t->id, NULL, run, t);
    }
    for (int r = started; r < MOST_RANKS; r++) tcc_comm_destroy(comms[r]);
    for (int r = 0; r < started; r++) pthread_join(threads[r].id, NULL);
    for (int r = 0; r < MOST_RANKS; r++) tcc_context_destroy(contexts[r]);
    return made && started == count;
}
