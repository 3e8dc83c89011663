/* SPDX-License-Identifier: MIT
 * Runs a launch: blocks on host threads, their warps in lockstep or with independent threads. Faults of kernels. */
#include "sim.h"
#include "lanes.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* --- faults */

void sim_thread_of(const sim_warp *w, int lane, uint32_t tid[3]) {
    const uint32_t *b = w->launch->block;
    uint32_t t = w->index * LANES + (uint32_t)(lane < 0 ? 0 : lane);
    tid[0] = t % b[0], tid[1] = t / b[0] % b[1], tid[2] = t / b[0] / b[1];
}

static void describe(sim_warp *w, const sim_inst *i, int lane, const char *format, va_list args) {
    char message[512];
    uint32_t tid[3];
    vsnprintf(message, sizeof message, format, args);
    sim_thread_of(w, lane, tid);
    const uint32_t *c = w->block->ctaid;
    sim_report("%s\n    at line %u of %s, %s %u of block (%u,%u,%u), thread (%u,%u,%u)", message, i->line,
               w->launch->func->name, lane < 0 ? "warp" : "lane", lane < 0 ? w->index : (uint32_t)lane, c[0], c[1],
               c[2], tid[0], tid[1], tid[2]);
}

/* Whether this is the launch's first fault. */
static bool ends_launch(sim_launch *l, int status) {
    int none = 0;
    return __atomic_compare_exchange_n(&l->status, &none, status, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void sim_fault(sim_warp *w, const sim_inst *i, int lane, int status, const char *format, ...) {
    va_list args;
    if (!ends_launch(w->launch, status)) return;
    va_start(args, format);
    describe(w, i, lane, format, args);
    va_end(args);
}

bool sim_soft_fault(sim_warp *w, const sim_inst *i, int lane, int check, const char *format, ...) {
    va_list args;
    if (!sim_checks(check)) return false;
    bool warn = sim_checks(CHECK_WARN);
    if (!warn && !ends_launch(w->launch, SIM_LAUNCH_FAILED)) return true;
    va_start(args, format);
    describe(w, i, lane, format, args);
    va_end(args);
    return !warn;
}

/* --- what both ways to run warps do */

bool sim_guard(sim_warp *w, const sim_inst *i, uint32_t here, uint32_t *mask) {
    if (sim_checks(CHECK_UNINIT) && here & ~w->init[i->guard] &&
        sim_soft_fault(w, i, __builtin_ctz(here & ~w->init[i->guard]), CHECK_UNINIT,
                       "a predicate that was never written decides here"))
        return false;
    uint32_t p = predicate(w, i->guard);
    *mask = here & (i->guard_not ? ~p : p);
    return true;
}

void sim_finish_warp(sim_warp *w) {
    if (!w->launch->status) sim_complete_copies(w, FULL, (uint32_t)ALL_COPIES);
    w->n_copies = 0;
    w->state = WARP_DONE;
}

bool sim_spend(sim_worker *k, sim_warp *w, const sim_inst *i, uint64_t steps) {
    if (k->budget >= steps) {
        k->budget -= steps;
        return true;
    }
    sim_fault(w, i, -1, SIM_LAUNCH_TIMEOUT,
              "the launch does not end: more than %llu warp instructions on one host thread",
              (unsigned long long)sim_set.limit);
    return false;
}

/* --- blocks */

static void start_warp(sim_worker *k, int index) {
    sim_warp *w = &k->warps[index];
    const size_t rows = (size_t)k->launch->func->n_rows;
    uint32_t first = (uint32_t)index * LANES, rest = k->launch->threads - first;
    w->block = &k->block, w->launch = k->launch, w->worker = k, w->index = (uint32_t)index;
    w->initial = w->live = rest >= LANES ? FULL : (1u << rest) - 1;
    w->state = WARP_READY;
    w->n_copies = 0;
    memset(w->group, 0, sizeof w->group);
    memset(w->clock, 0, sizeof w->clock);
    w->clock[index] = 1;
    w->depth = 0, w->n_fragments = 0;
    sim_start_kernel_frame(w, k->rows + (size_t)index * rows * ROW_BYTES, k->init + (size_t)index * rows);
}

void sim_run_block(sim_worker *k, uint64_t linear) {
    sim_launch *l = k->launch;
    sim_block *b = &k->block;
    b->launch = l, b->linear = linear, b->warps = k->warps;
    b->ctaid[0] = (uint32_t)(linear % l->grid[0]), b->ctaid[1] = (uint32_t)(linear / l->grid[0] % l->grid[1]),
    b->ctaid[2] = (uint32_t)(linear / l->grid[0] / l->grid[1]);
    b->fenced = b->acquired_any = false;
    memset(b->barriers, 0, sizeof b->barriers);
    memset(b->shared_init, 0, b->shared_bytes);
    memset(b->shared, 0xcd, b->shared_bytes);
    memset(b->shared_words, 0, ((size_t)b->shared_bytes / 4 + 1) * sizeof *b->shared_words);
    if (b->local_stride) memset(b->local_init, 0, (size_t)b->n_warps * LANES * b->local_stride);
    for (int i = 0; i < b->n_warps; i++) start_warp(k, i);
    if (sim_set.independent) sim_run_independent(k);
    else sim_run_lockstep(k);
    for (int i = 0; i < b->n_warps; i++) sim_drop_frames(&k->warps[i]);
    k->stats.blocks++;
}

/* --- launches */

static uint8_t *new_rows(size_t bytes) { return aligned_alloc(ROW_BYTES, (bytes + ROW_BYTES) / ROW_BYTES * ROW_BYTES); }

static uint64_t local_need(const sim_func *f, int depth) {
    uint64_t most = 0;
    for (int k = 0; k < f->n_calls && depth < 20; k++) {
        uint64_t n = local_need(f->calls[k].func, depth + 1);
        if (n > most) most = n;
    }
    return (f->local_bytes + 15) / 16 * 16 + most;
}

static bool start_worker(sim_worker *k, sim_launch *l) {
    const sim_func *f = l->func;
    int warps = (int)((l->threads + LANES - 1) / LANES);
    memset(k, 0, sizeof *k);
    k->launch = l;
    k->budget = sim_set.limit;
    k->block.n_warps = warps;
    k->block.shared_bytes = l->shared_total;
    k->block.local_stride = local_need(f, 0);
    size_t locals = (size_t)warps * LANES * k->block.local_stride;
    k->warps = calloc((size_t)warps, sizeof *k->warps);
    k->rows = new_rows((size_t)warps * (size_t)f->n_rows * ROW_BYTES);
    k->init = calloc((size_t)warps * (size_t)f->n_rows + 1, sizeof *k->init);
    k->cache = calloc((size_t)f->n_memory + 1, sizeof *k->cache);
    k->block.shared = malloc(l->shared_total + 16), k->block.shared_init = malloc(l->shared_total + 16);
    k->block.shared_words = malloc((l->shared_total / 4 + 2) * sizeof(sim_shared_word));
    k->block.local = malloc(locals + 1), k->block.local_init = malloc(locals + 1);
    if (!k->rows) return false;
    memset(k->rows, 0, (size_t)warps * (size_t)f->n_rows * ROW_BYTES);
    return k->warps && k->init && k->cache && k->block.shared && k->block.shared_init && k->block.shared_words &&
           k->block.local && k->block.local_init;
}

static void stop_worker(sim_worker *k) {
    for (int i = 0; k->warps && i < k->block.n_warps; i++) free(k->warps[i].copies), free(k->warps[i].kernel.bits);
    free(k->warps), free(k->rows), free(k->init), free(k->cache), free(k->block.shared), free(k->block.shared_init),
        free(k->block.shared_words), free(k->block.local), free(k->block.local_init);
}

static void *work(void *argument) {
    sim_worker *k = argument;
    sim_launch *l = k->launch;
    while (!__atomic_load_n(&l->status, __ATOMIC_RELAXED)) {
        uint64_t block = __atomic_fetch_add(&l->next_block, 1, __ATOMIC_RELAXED);
        if (block >= l->blocks) break;
        sim_run_block(k, block);
    }
    return NULL;
}

int sim_run_launch(sim_launch *l) {
    enum { MOST = 64 };
    sim_worker workers[MOST];
    pthread_t threads[MOST];
    int n = sim_set.threads < MOST ? sim_set.threads : MOST, started = 0;
    if ((uint64_t)n > l->blocks) n = (int)l->blocks;
    if (l->blocks * l->threads < 2048) n = 1;
    l->parallel = n > 1;
    l->acquired = calloc(l->blocks, 1), l->released = calloc(l->blocks, 1);
    bool ok = l->acquired && l->released;
    for (int k = 0; k < n; k++) ok = start_worker(&workers[k], l) && ok;
    if (!ok) {
        l->status = SIM_OUT_OF_MEMORY; /* of the host */
    } else {
        for (int k = 1; k < n; k++)
            if (pthread_create(&threads[started], NULL, work, &workers[k]) == 0) started++;
        work(&workers[0]);
        for (int k = 0; k < started; k++) pthread_join(threads[k], NULL);
    }
    for (int k = 0; k < n; k++) {
        sim_stats_add(&l->stats, &workers[k].stats);
        stop_worker(&workers[k]);
    }
    free(l->acquired), free(l->released);
    l->acquired = l->released = NULL;
    l->stats.launches = 1;
    l->stats.registers = (uint64_t)l->func->registers, l->stats.local_bytes = local_need(l->func, 0),
    l->stats.shared_bytes = l->shared_total;
    ptxsim_stats *total = sim_stats_of(l->func->name);
    if (total) sim_stats_add(total, &l->stats);
    return l->status;
}
