/* SPDX-License-Identifier: MIT */
#include "ir/support/thread.h"

#include <signal.h>

/* A thread inherits its creator's mask, so none of its instructions runs with another. */
int tcc__thread_create(pthread_t *thread, void *(*run)(void *user), void *user) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, run, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
