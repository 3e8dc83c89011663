/* SPDX-License-Identifier: MIT
 * A queue of collectives and its thread. It yields to threads that compute: those have the CPU while there is work for
 * them, and wait for it, asleep, when they need what it brings. */
#include "runtime/comm/queue.h"

#include "ir/support/alloc.h"
#include "ir/support/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST_JOBS = 256, NICE = 5 };

struct tcc_comm_queue {
    tcc_status (*run)(void *user, const tcc_comm_job *job);
    void *user;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    tcc_comm_job jobs[MOST_JOBS]; /* job i at i % MOST_JOBS */
    int64_t added, done;
    int64_t failed; /* the first that did; INT64_MAX: none, */
    tcc_status status;
    bool ends;
};

static void *work(void *user) {
    tcc_comm_queue *q = user;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    pthread_mutex_lock(&q->mutex);
    while (!q->ends || q->done < q->added) {
        if (q->done == q->added) {
            pthread_cond_wait(&q->changed, &q->mutex);
            continue;
        }
        const tcc_comm_job job = q->jobs[q->done % MOST_JOBS];
        pthread_mutex_unlock(&q->mutex);
        const tcc_status status = q->run(q->user, &job);
        pthread_mutex_lock(&q->mutex);
        if (status != TCC_OK && q->failed == INT64_MAX) q->failed = q->done, q->status = status;
        q->done++;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->mutex);
    return NULL;
}

tcc_status tcc_comm_queue_create(tcc_diag *d, tcc_status (*run)(void *user, const tcc_comm_job *job), void *user,
                                 tcc_comm_queue **out) {
    tcc_comm_queue *q = tcc__calloc(1, sizeof *q);
    if (!q) return tcc_enomem(d);
    q->run = run;
    q->user = user;
    q->failed = INT64_MAX;
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->changed, NULL);
    const int error = tcc__thread_create(&q->thread, work, q);
    if (error) {
        tcc__free(q);
        return tcc_error(d, TCC_EIO, TCC_NOWHERE, "cannot start a thread for collectives: %s", strerror(error));
    }
    *out = q;
    return TCC_OK;
}

void tcc_comm_queue_destroy(tcc_comm_queue *q) {
    if (!q) return;
    pthread_mutex_lock(&q->mutex);
    q->ends = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->mutex);
    pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->mutex);
    tcc__free(q);
}

int64_t tcc_comm_queue_add(tcc_comm_queue *q, const tcc_comm_job *job) {
    pthread_mutex_lock(&q->mutex);
    while (q->added - q->done == MOST_JOBS) pthread_cond_wait(&q->changed, &q->mutex);
    const int64_t number = q->added++;
    q->jobs[number % MOST_JOBS] = *job;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->mutex);
    return number;
}

int64_t tcc_comm_queue_added(tcc_comm_queue *q) {
    pthread_mutex_lock(&q->mutex);
    const int64_t added = q->added;
    pthread_mutex_unlock(&q->mutex);
    return added;
}

tcc_status tcc_comm_queue_wait(tcc_comm_queue *q, int64_t number) {
    pthread_mutex_lock(&q->mutex);
    while (q->done <= number) pthread_cond_wait(&q->changed, &q->mutex);
    const tcc_status status = q->failed <= number ? q->status : TCC_OK;
    pthread_mutex_unlock(&q->mutex);
    return status;
}

void tcc_comm_queue_drain(tcc_comm_queue *q) {
    if (!q) return;
    pthread_mutex_lock(&q->mutex);
    while (q->done < q->added) pthread_cond_wait(&q->changed, &q->mutex);
    pthread_mutex_unlock(&q->mutex);
}
