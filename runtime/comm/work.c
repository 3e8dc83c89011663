/* SPDX-License-Identifier: MIT
 * The thread of a rank that is at work. It sleeps between its beats, and is woken when the work is done. */
#include "runtime/comm/work.h"

#include "ir/support/alloc.h"
#include "ir/support/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

struct tcc_comm_work {
    tcc_status (*beat)(void *user);
    void *user;
    double seconds;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ends;
};

static struct timespec after(double seconds) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double ns = (double)t.tv_nsec + 1e9 * seconds;
    t.tv_sec += (time_t)(ns / 1e9);
    t.tv_nsec = (long)(ns - 1e9 * (double)(time_t)(ns / 1e9));
    return t;
}

/* False: the work is done. */
static bool sleep_between(tcc_comm_work *w) {
    const struct timespec until = after(w->seconds);
    int status = 0;
    pthread_mutex_lock(&w->mutex);
    while (!w->ends && !status) status = pthread_cond_timedwait(&w->changed, &w->mutex, &until);
    const bool goes_on = !w->ends;
    pthread_mutex_unlock(&w->mutex);
    return goes_on;
}

static void *live(void *user) {
    tcc_comm_work *w = user;
    while (sleep_between(w))
        if (w->beat(w->user) != TCC_OK) break;
    return NULL;
}

tcc_status tcc_comm_work_begin(tcc_diag *d, double seconds, tcc_status (*beat)(void *user), void *user,
                               tcc_comm_work **out) {
    pthread_condattr_t monotonic;
    tcc_comm_work *w = tcc__calloc(1, sizeof *w);
    if (!w) return tcc_enomem(d);
    w->beat = beat;
    w->user = user;
    w->seconds = seconds;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const int error = tcc__thread_create(&w->thread, live, w);
    if (error) {
        tcc__free(w);
        return tcc_error(d, TCC_EIO, TCC_NOWHERE, "cannot start a thread for signs of life: %s", strerror(error));
    }
    *out = w;
    return TCC_OK;
}

void tcc_comm_work_end(tcc_comm_work *w) {
    if (!w) return;
    pthread_mutex_lock(&w->mutex);
    w->ends = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    tcc__free(w);
}
