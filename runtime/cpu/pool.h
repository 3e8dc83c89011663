/* SPDX-License-Identifier: MIT
 * A thread pool for steps of microseconds: the caller works too, idle threads spin for a bounded time and then sleep.
 *
 * Work is a range of independent items. It is cut into one contiguous slice a thread, so that a thread meets the data
 * it touched in the step before; a slice is worked off in pieces that halve, and a thread that is done takes pieces
 * from the others. Which thread runs an item is therefore open, and nothing may depend on it. A thread that the system
 * keeps from running delays nobody: the others take its slice. */
#ifndef TCC_RUNTIME_CPU_POOL_H
#define TCC_RUNTIME_CPU_POOL_H

#include "ir/support/diag.h"

#include <stdint.h>

typedef struct tcc_pool tcc_pool;

/* Runs the items [begin, end) on thread `worker`: 0 is the caller of tcc_pool_run, the others 1 .. threads-1. Never two
 * tasks at a time on one worker. */
typedef void (*tcc_pool_task)(void *user, int worker, int64_t begin, int64_t end);

/* `threads` counts the caller; 0: as tcc_cpus_threads says. The threads are pinned to one CPU each unless there are
 * more threads than CPUs. Errors: TCC_EINVAL (TCC_NUM_THREADS malformed), TCC_ENOMEM, TCC_EDEVICE (a thread could not
 * start). */
tcc_status tcc_pool_create(tcc_diag *d, int threads, tcc_pool **out);
/* Waits for the threads to end; nobody may be using the pool. NULL is allowed. */
void tcc_pool_destroy(tcc_pool *pool);
int tcc_pool_threads(const tcc_pool *pool);

/* One user at a time: runs happen between lock and unlock, which several threads may call. Between them the threads
 * stay awake longer, because the next step usually follows at once, and the caller rounds as by default
 * (ir/support/fp_mode.h). */
void tcc_pool_lock(tcc_pool *pool);
void tcc_pool_unlock(tcc_pool *pool);

/* Run all items and return when they are done. No task gets fewer than `grain` items (at least 1) unless there are
 * fewer in all, and no more than items / grain threads take part. The pool must be locked by the caller. A task must
 * not call tcc_pool_run. */
void tcc_pool_run(tcc_pool *pool, tcc_pool_task task, void *user, int64_t items, int64_t grain);

/* Make each thread's scratch at least `thread_bytes` large. Locks the pool; contents are lost. Errors: TCC_ENOMEM. */
tcc_status tcc_pool_reserve(tcc_pool *pool, tcc_diag *d, int64_t thread_bytes);
/* The scratch of a worker, for its own tasks alone; 64-byte aligned; NULL if none was reserved. */
void *tcc_pool_scratch(const tcc_pool *pool, int worker);

#endif
