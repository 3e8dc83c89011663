/* SPDX-License-Identifier: MIT
 * Initial values, drawn on all CPUs while the model's first program is made: a large model's take about as long as
 * compiling it, and most passes leave all CPUs but one idle. Whoever draws claims a few parts at a time, so the thread
 * that comes to need the values works on what is left. */
#include "frontend/run/model.h"

#include "ir/support/fp_mode.h"
#include "ir/support/thread.h"
#include "runtime/cpus.h"
#include "runtime/memory_limits.h"

enum { CLAIM = 8 /* parts */ };

static void *draw(void *user) {
    tcc_filling *f = user;
    const tcc_fp_mode mode = tcc_fp_begin();
    for (;;) {
        const int64_t begin = atomic_fetch_add_explicit(&f->next, CLAIM, memory_order_relaxed);
        if (begin >= f->parts) break;
        tcc_store_initialize(f->store, begin, begin + CLAIM);
    }
    tcc_fp_end(mode);
    return NULL;
}

/* Reserves memory and starts threads, the caller's own not counted. One that cannot be started is done without. */
static tcc_status begin(tcc_model *m) {
    tcc_filling *f = &m->filling;
    tcc_cpus cpus;
    int threads;
    tcc_cpus_get(&cpus);
    TCC_TRY(tcc_cpus_threads(&m->cx->diag, &cpus, &threads));
    TCC_TRY(tcc_store_reserve(&m->shared->store, &m->cx->diag, &f->parts));
    f->store = &m->shared->store;
    atomic_store(&f->next, 0);
    for (f->n_threads = 0; f->n_threads < TCC_FILL_THREADS; f->n_threads++) {
        if (f->n_threads + 1 >= threads || (f->n_threads + 1) * CLAIM >= f->parts) break;
        if (tcc__thread_create(&f->threads[f->n_threads], draw, f)) break;
    }
    return TCC_OK;
}

void tcc__fill_stop(tcc_model *m) {
    tcc_filling *f = &m->filling;
    if (!f->store) return;
    atomic_store(&f->next, f->parts);
    while (f->n_threads) pthread_join(f->threads[--f->n_threads], NULL);
    f->store = NULL;
}

tcc_status tcc__fill_end(tcc_model *m) {
    if (!m->filling.store) TCC_TRY(begin(m));
    draw(&m->filling);
    tcc__fill_stop(m);
    tcc_store_filled(&m->shared->store);
    return TCC_OK;
}

tcc_status tcc__fill_begin(tcc_model *m) {
    enum { ROOM = 4 }; /* as much again is left for moments, values and gradients: an error of memory comes later */
    int64_t bytes = 0;
    for (int i = m->shared->store.filled; i < m->shared->store.entries.count; i++)
        bytes += tcc_type_bytes(&m->shared->store.entries.data[i].type);
    const int64_t left = tcc_memory_left("/proc", "/sys/fs/cgroup");
    if (m->options.compile_only || !bytes || (left && left / ROOM < bytes)) return TCC_OK;
    return begin(m);
}
