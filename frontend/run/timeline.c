/* SPDX-License-Identifier: MIT */
#include "frontend/run/timeline.h"

#include "ir/support/alloc.h"

#include <string.h>

static void clear(tcc_profile_run *r) {
    tcc__free(r->steps);
    tcc__free(r->threads);
    *r = (tcc_profile_run){0};
}

tcc_status tcc__timeline_add(tcc_timeline *t, tcc_diag *d, const tcc_profile_run *run, bool trains) {
    const tcc_step_profile *profile = tcc_exec_get_profile(run->exec);
    const int n = tcc_exec_get_program(run->exec)->n_steps;
    int n_threads;
    const tcc_step_time *threads = tcc_exec_get_threads(run->exec, &n_threads);
    if (t->trains && !trains) return TCC_OK;
    if (trains && !t->trains) tcc__timeline_free(t);
    t->trains = trains;
    tcc_profile_run *r = &t->runs[t->count % TCC_TIMELINE_RUNS];
    clear(r);
    tcc_step_time *steps = tcc__calloc((size_t)n + 1, sizeof *steps);
    tcc_step_time *kept = tcc__calloc((size_t)n * (size_t)n_threads + 1, sizeof *kept);
    if (!steps || !kept) {
        tcc__free(steps);
        tcc__free(kept);
        return tcc_enomem(d);
    }
    if (threads) memcpy(kept, threads, sizeof *kept * (size_t)n * (size_t)n_threads);
    for (int i = 0; i < n; i++) steps[i] = profile[i].last;
    *r = *run;
    r->steps = steps;
    r->threads = kept;
    r->n_threads = n_threads;
    t->count++;
    return TCC_OK;
}

void tcc__timeline_forget(tcc_timeline *t, const tcc_exec *exec) {
    for (int i = 0; i < TCC_TIMELINE_RUNS; i++)
        if (t->runs[i].exec == exec) clear(&t->runs[i]);
}

tcc_status tcc__timeline_write(const tcc_timeline *t, tcc_diag *d, const tcc_roofline *roofline, const char *path) {
    tcc_profile_run runs[TCC_TIMELINE_RUNS];
    int count = 0;
    for (int i = 0; i < TCC_TIMELINE_RUNS; i++) {
        const tcc_profile_run *r = &t->runs[(t->count + i) % TCC_TIMELINE_RUNS];
        if (r->exec) runs[count++] = *r;
    }
    return tcc_profile_write_trace(runs, count, d, roofline, path);
}

void tcc__timeline_free(tcc_timeline *t) {
    for (int i = 0; i < TCC_TIMELINE_RUNS; i++) clear(&t->runs[i]);
}
