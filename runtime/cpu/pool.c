/* SPDX-License-Identifier: MIT
 * The thread pool.
 *
 * A job is published under a generation number: odd while its fields are being written, even once they are valid (a
 * sequence lock, so that a late thread never acts on half of a job). Each thread's slice has a ticket, (generation,
 * next piece) in one word, claimed by compare-and-swap; a ticket of an older generation stands for piece 0, so that
 * publishing a job touches no ticket. Invariants:
 *   - a job ends when all its items are done, so while a ticket of generation g is below its limit, job g is current;
 *   - hence a claim that succeeds with generation g is a claim of the current job, whose fields the claimer has read;
 *   - a thread that slept through a job finds its tickets used up and leaves; the caller never waits for a thread that
 * has claimed nothing. A child of fork(), which has no threads, still finishes every job by itself. */
#include "runtime/cpu/pool.h"
#include "ir/support/clock.h"
#include "ir/support/fp_mode.h"
#include "runtime/cpus.h"

#include "ir/support/alloc.h"
#include "ir/support/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LINE_BYTES = 64,
    PIECE_BITS = 16,      /* of a ticket; a slice of n items has at most log2(n) + 1 pieces */
    SPIN_IDLE_US = 50,    /* how long a thread stays awake between runs */
    SPIN_BUSY_US = 1000,  /* and within one, where serial steps come between parallel ones */
    SPIN_CALLER_US = 200, /* how long the caller watches for the others' last pieces before it sleeps */
    SPINS_PER_CLOCK = 64, /* pauses between two looks at the clock */
};

typedef struct worker {
    _Alignas(LINE_BYTES)
        atomic_uint_fast64_t ticket;        /* of this worker's slice: generation << PIECE_BITS | next piece */
    _Alignas(LINE_BYTES) atomic_int asleep; /* futex word */
    tcc_pool *pool;
    pthread_t thread;
    int index, cpu; /* cpu: -1 if not pinned */
    void *scratch;
} worker;

struct tcc_pool {
    /* The job. Fields are atomic because a late thread may read them while the next job is written. */
    _Alignas(LINE_BYTES) atomic_uint_fast64_t generation;
    _Atomic(tcc_pool_task) task;
    _Atomic(void *) user;
    atomic_int_fast64_t items, grain;
    atomic_int participants;
    atomic_int quit;
    atomic_int in_run; /* between lock and unlock */

    _Alignas(LINE_BYTES) atomic_int_fast64_t done; /* items finished */
    atomic_int done_events, caller_asleep;         /* futex word and its guard */

    _Alignas(LINE_BYTES) pthread_mutex_t mutex;
    tcc_fp_mode callers_mode; /* of whoever holds the lock */
    int threads, started;
    bool spin; /* threads have a CPU each */
    int64_t scratch_bytes;
    short worker_of_cpu[TCC_MAX_THREADS]; /* for the first CPUs: the worker pinned there, 0 if none */
    worker workers[];
};

static void cpu_pause(void) {
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static void futex_wait(atomic_int *word, int value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futex_wake(atomic_int *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

static int64_t now_us(void) { return tcc_clock_ns() / 1000; }

/* Worker v's slice of the items. */
static void slice(int64_t items, int participants, int v, int64_t *begin, int64_t *count) {
    int64_t each = items / participants, extra = items % participants;
    *begin = each * v + (v < extra ? v : extra);
    *count = each + (v < extra);
}

/* Pieces of a slice: piece k leaves half of what was left before it, the last takes the rest; none is below the grain.
 */
static int piece_count(int64_t count, int64_t grain) {
    int k = 0;
    while (count >> (k + 1) >= grain) k++;
    return k + 1;
}

static bool claim(worker *owner, uint64_t generation, int limit, int *piece) {
    uint_fast64_t seen = atomic_load_explicit(&owner->ticket, memory_order_acquire);
    for (;;) {
        uint64_t of = seen >> PIECE_BITS;
        if (of > generation) return false; /* this job is long over */
        uint64_t next = of == generation ? seen & ((1 << PIECE_BITS) - 1) : 0;
        if (next >= (uint64_t)limit) return false;
        uint_fast64_t wanted = generation << PIECE_BITS | (next + 1);
        if (atomic_compare_exchange_weak_explicit(&owner->ticket, &seen, wanted, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *piece = (int)next;
            return true;
        }
    }
}

/* Work on the job of this generation until nothing is left to claim. */
static void participate(tcc_pool *pool, int w, uint64_t generation) {
    tcc_pool_task task = atomic_load_explicit(&pool->task, memory_order_acquire);
    void *user = atomic_load_explicit(&pool->user, memory_order_acquire);
    int64_t items = atomic_load_explicit(&pool->items, memory_order_acquire);
    int64_t grain = atomic_load_explicit(&pool->grain, memory_order_acquire);
    int participants = atomic_load_explicit(&pool->participants, memory_order_acquire);
    if (atomic_load_explicit(&pool->generation, memory_order_relaxed) != generation) return;
    if (w >= participants) return;

    int64_t mine = 0;
    for (int i = 0, v = w; i < participants; i++, v = v + 1 == participants ? 0 : v + 1) {
        int64_t begin, count;
        slice(items, participants, v, &begin, &count);
        int limit = piece_count(count, grain), piece;
        while (claim(&pool->workers[v], generation, limit, &piece)) {
            int64_t from = count - (count >> piece), to = piece + 1 == limit ? count : count - (count >> (piece + 1));
            task(user, w, begin + from, begin + to);
            mine += to - from;
        }
    }
    if (mine && atomic_fetch_add(&pool->done, mine) + mine == items) {
        atomic_fetch_add(&pool->done_events, 1);
        if (atomic_load(&pool->caller_asleep)) futex_wake(&pool->done_events);
    }
}

/* Wait for a generation other than `seen` that is not being written; sleep after a while. */
static uint64_t wait_for_job(tcc_pool *pool, worker *self, uint64_t seen) {
    int64_t idle_since = 0;
    for (unsigned spins = 1;; spins++) {
        uint64_t g = atomic_load_explicit(&pool->generation, memory_order_acquire);
        if (g != seen && !(g & 1)) return g;
        if (pool->spin) {
            cpu_pause();
            if (spins % SPINS_PER_CLOCK) continue;
            int64_t now = now_us();
            if (!idle_since) idle_since = now;
            int limit = atomic_load_explicit(&pool->in_run, memory_order_relaxed) ? SPIN_BUSY_US : SPIN_IDLE_US;
            if (now - idle_since < limit) continue;
        }
        atomic_store(&self->asleep, 1);
        g = atomic_load(&pool->generation);
        if (g == seen || g & 1) futex_wait(&self->asleep, 1);
        atomic_store(&self->asleep, 0);
        idle_since = 0;
    }
}

static void *worker_main(void *arg) {
    worker *self = arg;
    tcc_pool *pool = self->pool;
    char name[16];
    snprintf(name, sizeof name, "tcc-%d", self->index);
    pthread_setname_np(pthread_self(), name);
    tcc_fp_begin();       /* a thread begins with the mode of the one that made it */
    if (self->cpu >= 0) { /* advice: where it is refused, the thread runs unpinned */
        unsigned long mask[8192 / 8 / sizeof(unsigned long)] = {0};
        CPU_SET_S((size_t)self->cpu, sizeof mask, (cpu_set_t *)mask);
        pthread_setaffinity_np(pthread_self(), sizeof mask, (cpu_set_t *)mask);
    }
    uint64_t seen = 0;
    for (;;) {
        seen = wait_for_job(pool, self, seen);
        if (atomic_load(&pool->quit)) return NULL;
        participate(pool, self->index, seen);
    }
}

static void publish(tcc_pool *pool, tcc_pool_task task, void *user, int64_t items, int64_t grain, int participants) {
    uint64_t g = atomic_load_explicit(&pool->generation, memory_order_relaxed);
    atomic_store_explicit(&pool->generation, g + 1, memory_order_relaxed);
    atomic_store_explicit(&pool->task, task, memory_order_release);
    atomic_store_explicit(&pool->user, user, memory_order_release);
    atomic_store_explicit(&pool->items, items, memory_order_release);
    atomic_store_explicit(&pool->grain, grain, memory_order_release);
    atomic_store_explicit(&pool->participants, participants, memory_order_release);
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_store(&pool->generation, g + 2);
    for (int w = 1; w < participants; w++)
        if (atomic_load(&pool->workers[w].asleep) && atomic_exchange(&pool->workers[w].asleep, 0))
            futex_wake(&pool->workers[w].asleep);
}

void tcc_pool_run(tcc_pool *pool, tcc_pool_task task, void *user, int64_t items, int64_t grain) {
    if (items <= 0) return;
    if (grain < 1) grain = 1;
    int participants = items / grain < pool->threads ? (int)(items / grain) : pool->threads;
    if (participants <= 1) {
        task(user, 0, 0, items);
        return;
    }
    publish(pool, task, user, items, grain, participants);
    participate(pool, 0, atomic_load_explicit(&pool->generation, memory_order_relaxed));

    int64_t since = 0;
    for (unsigned spins = 1; atomic_load_explicit(&pool->done, memory_order_acquire) != items; spins++) {
        if (pool->spin) {
            cpu_pause();
            if (spins % SPINS_PER_CLOCK) continue;
            int64_t now = now_us();
            if (!since) since = now;
            if (now - since < SPIN_CALLER_US) continue;
        }
        atomic_store(&pool->caller_asleep, 1);
        int events = atomic_load(&pool->done_events);
        if (atomic_load(&pool->done) != items) futex_wait(&pool->done_events, events);
        atomic_store(&pool->caller_asleep, 0);
    }
}

/* The caller shares no CPU with a pinned thread while another is free: move it to the CPU left for worker 0, then give
 * it back its own mask, which leaves it there. */
static void move_caller(tcc_pool *pool) {
    int cpu = sched_getcpu(), home = pool->workers[0].cpu;
    if (home < 0 || cpu < 0 || cpu >= TCC_MAX_THREADS || !pool->worker_of_cpu[cpu]) return;
    unsigned long mask[8192 / 8 / sizeof(unsigned long)] = {0}, one[8192 / 8 / sizeof(unsigned long)] = {0};
    if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask)) return;
    if (!CPU_ISSET_S((size_t)home, sizeof mask, (cpu_set_t *)mask)) return;
    CPU_SET_S((size_t)home, sizeof one, (cpu_set_t *)one);
    if (!sched_setaffinity(0, sizeof one, (cpu_set_t *)one)) sched_setaffinity(0, sizeof mask, (cpu_set_t *)mask);
}

void tcc_pool_lock(tcc_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->callers_mode = tcc_fp_begin();
    atomic_store_explicit(&pool->in_run, 1, memory_order_relaxed);
    if (pool->threads > 1) move_caller(pool);
}

void tcc_pool_unlock(tcc_pool *pool) {
    atomic_store_explicit(&pool->in_run, 0, memory_order_relaxed);
    tcc_fp_end(pool->callers_mode);
    pthread_mutex_unlock(&pool->mutex);
}

static tcc_status grow(tcc_diag *d, void **scratch, int64_t size_bytes) {
    void *larger = tcc__aligned(LINE_BYTES, (size_t)size_bytes);
    if (!larger)
        return tcc_error(d, TCC_ENOMEM, TCC_NOWHERE, "out of memory: %lld bytes of scratch", (long long)size_bytes);
    tcc__free(*scratch);
    *scratch = larger;
    return TCC_OK;
}

tcc_status tcc_pool_reserve(tcc_pool *pool, tcc_diag *d, int64_t thread_bytes) {
    tcc_status s = TCC_OK;
    pthread_mutex_lock(&pool->mutex);
    if (thread_bytes > pool->scratch_bytes) {
        for (int w = 0; w < pool->threads && s == TCC_OK; w++) s = grow(d, &pool->workers[w].scratch, thread_bytes);
        if (s == TCC_OK) pool->scratch_bytes = thread_bytes;
    }
    pthread_mutex_unlock(&pool->mutex);
    return s;
}

void *tcc_pool_scratch(const tcc_pool *pool, int worker) { return pool->workers[worker].scratch; }
int tcc_pool_threads(const tcc_pool *pool) { return pool->threads; }

static tcc_status start(tcc_pool *pool, tcc_diag *d, worker *w) {
    const int error = tcc__thread_create(&w->thread, worker_main, w);
    if (error)
        return tcc_error(d, TCC_EDEVICE, TCC_NOWHERE, "cannot start thread %d of %d: %s (fewer: TCC_NUM_THREADS=%d)",
                         w->index + 1, pool->threads, strerror(error), w->index);
    pool->started++;
    return TCC_OK;
}

tcc_status tcc_pool_create(tcc_diag *d, int threads, tcc_pool **out) {
    *out = NULL;
    tcc_cpus cpus;
    tcc_cpus_get(&cpus);
    if (threads <= 0) TCC_TRY(tcc_cpus_threads(d, &cpus, &threads));
    if (threads > TCC_MAX_THREADS) threads = TCC_MAX_THREADS;

    size_t size = sizeof(tcc_pool) + (size_t)threads * sizeof(worker);
    tcc_pool *pool = tcc__aligned(LINE_BYTES, size);
    if (!pool) return tcc_enomem(d);
    memset(pool, 0, size);
    pthread_mutex_init(&pool->mutex, NULL);
    pool->threads = threads;
    pool->spin = threads <= cpus.count;
    pool->started = 1;
    for (int w = 0; w < threads; w++) {
        int cpu = pool->spin ? cpus.list[w] : -1;
        pool->workers[w].pool = pool;
        pool->workers[w].index = w;
        pool->workers[w].cpu = cpu;
        if (cpu >= 0 && cpu < TCC_MAX_THREADS) pool->worker_of_cpu[cpu] = (short)w;
    }
    for (int w = 1; w < threads; w++) {
        tcc_status s = start(pool, d, &pool->workers[w]);
        if (s != TCC_OK) {
            tcc_pool_destroy(pool);
            return s;
        }
    }
    *out = pool;
    return TCC_OK;
}

void tcc_pool_destroy(tcc_pool *pool) {
    if (!pool) return;
    atomic_store(&pool->quit, 1);
    publish(pool, NULL, NULL, 0, 1, pool->started);
    for (int w = 1; w < pool->started; w++) pthread_join(pool->workers[w].thread, NULL);
    for (int w = 0; w < pool->threads; w++) tcc__free(pool->workers[w].scratch);
    pthread_mutex_destroy(&pool->mutex);
    tcc__free(pool);
}
