/* SPDX-License-Identifier: MIT
 * How much more memory this process may have: what the system can hand out, and the limits that somebody set. */
#ifndef TCC_RUNTIME_MEMORY_LIMITS_H
#define TCC_RUNTIME_MEMORY_LIMITS_H

#include <stdint.h>

/* Bytes: the least of what the system has without swapping (MemAvailable), what the process's control groups have left
 * (memory.max, memory.limit_in_bytes; pages that only cache files count as free), and what RLIMIT_AS and RLIMIT_DATA
 * leave. 0: unknown. `proc` is "/proc", `mount` "/sys/fs/cgroup". */
int64_t tcc_memory_left(const char *proc, const char *mount);

#endif
