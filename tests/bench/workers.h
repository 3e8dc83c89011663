/* SPDX-License-Identifier: MIT
 * Campaigns: what is done for each seed of a range, by several processes. Children of theirs do it, so a seed that
 * crashes or hangs is told and counted, and the next one begins. */
#ifndef TCC_TESTS_BENCH_WORKERS_H
#define TCC_TESTS_BENCH_WORKERS_H

#include <stddef.h>
#include <stdint.h>

typedef struct workers {
    int count, seconds; /* seconds of processor time: the most for one seed */
    uint64_t first, seeds;
    void (*one)(void *tally, uint64_t seed);
    size_t tally_bytes;
} workers;

/* Of a command line, FIRST_SEED COUNT [WHAT], and of CAMPAIGN_WORKERS: its count and seeds. From now on this process
 * compiles what it checks, on one thread, and its memory is poisoned. *what: "" where there is none. */
workers workers_of_command(int argc, char **argv, const char **what);

/* Returns the workers' tallies, one behind another, each of which began as zeros, and never freed. The workers share
 * their kernels, in up to `cache_bytes` (kernel_cache.h). *crashed: how many seeds did or hung. Ends the process where
 * there is no memory. */
void *workers_run(const workers *w, size_t cache_bytes, long *crashed);
double workers_now_seconds(void);

#endif
