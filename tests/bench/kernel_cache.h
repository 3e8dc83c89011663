/* SPDX-License-Identifier: MIT
 * Kernels that all programs of a campaign, or of a test, share. A test needs no call: a cache is made when the first
 * kernel is compiled. */
#ifndef TCC_TESTS_BENCH_KERNEL_CACHE_H
#define TCC_TESTS_BENCH_KERNEL_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* Once, before the first fork. False: there is no such memory. */
bool kernel_cache_create(size_t bytes);
/* Whether all kernels of a program are compiled, for who looks at its modules. */
extern bool kernel_cache_off;
/* Of all workers. */
void kernel_cache_count(long *hits, long *misses);

#endif
