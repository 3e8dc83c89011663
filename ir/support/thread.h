/* SPDX-License-Identifier: MIT
 * Threads of the library. */
#ifndef TCC_IR_SUPPORT_THREAD_H
#define TCC_IR_SUPPORT_THREAD_H

#include <pthread.h>

/* As pthread_create, with all signals blocked in the new thread: signals belong to the program's own threads. An errno,
 * or 0. */
int tcc__thread_create(pthread_t *thread, void *(*run)(void *user), void *user);

#endif
