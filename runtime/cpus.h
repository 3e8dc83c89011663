/* SPDX-License-Identifier: MIT
 * Which CPUs this process may run on, and how many threads to use: affinity mask, cgroup quota, TCC_NUM_THREADS. */
#ifndef TCC_RUNTIME_CPUS_H
#define TCC_RUNTIME_CPUS_H

#include "ir/support/diag.h"

#include <stdbool.h>

enum { TCC_MAX_THREADS = 1024 };

typedef struct tcc_cpus {
    int count;                   /* CPUs in the affinity mask, at least 1, at most TCC_MAX_THREADS */
    short list[TCC_MAX_THREADS]; /* their numbers, ascending */
} tcc_cpus;

/* The CPUs of the calling thread's affinity mask. Cannot fail: one unknown CPU (-1) where the system does not say. */
void tcc_cpus_get(tcc_cpus *out);

/* CPUs' worth of time that the process's cgroups grant, rounded up; 0: unlimited or unknown. `proc_file` is the
 * process's table of groups ("/proc/self/cgroup"), `mount` where their files lie ("/sys/fs/cgroup"). Versions 1 and 2,
 * and all parent groups. */
int tcc_cpus_quota(const char *proc_file, const char *mount);

/* The number of threads to use: TCC_NUM_THREADS, else the CPUs of the affinity mask within the cgroup's quota.
 * Errors: TCC_EINVAL for a malformed TCC_NUM_THREADS. */
tcc_status tcc_cpus_threads(tcc_diag *d, const tcc_cpus *cpus, int *threads);

#endif
