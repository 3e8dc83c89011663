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

/* Returns the workers' tallies, one behind another, each of which began as zeros; NULL: there is no memory. *crashed:
 * how many seeds did or hung. They are never freed. */
void *workers_run(const workers *w, long *crashed);
double workers_now_seconds(void);

#endif
