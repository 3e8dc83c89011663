/* SPDX-License-Identifier: MIT
 * Reports on a profiled executable: a table for people, a trace for chrome://tracing and Perfetto. */
#ifndef TCC_RUNTIME_PROFILE_H
#define TCC_RUNTIME_PROFILE_H

#include "runtime/exec.h"

/* A table with one line a step, the most expensive first, and a line of totals: minimal time and its share of the run,
 * arithmetic, how often an element of a value is evaluated (1: nothing is computed again), compulsory traffic, rates,
 * and the share of what the device can do (`roofline`; NULL: no such column): the time that the step would take if
 * arithmetic and traffic ran at full speed side by side, over the time it took. Traffic that stays in a cache can
 * exceed 100 %. Before a run with profiling on, the steps stand in their order and times are 0. Errors: TCC_ENOMEM. */
tcc_status tcc_profile_print(const tcc_exec *exec, tcc_diag *d, const tcc_roofline *roofline, tcc_strbuf *out);

/* A run that was profiled. Times are of ir/support/clock.h, those of steps from when the device was fed on. */
typedef struct tcc_profile_run {
    const tcc_exec *exec;
    int64_t step;                     /* of the training, that it was for */
    int64_t begin_ns, fed_ns, end_ns; /* on the host: it began to copy the batch, was done with that, and had waited */
    tcc_step_time *steps;             /* by step of the program; not owned */
    tcc_step_time *threads;           /* as tcc_exec_get_threads has them; NULL: none; not owned */
    int n_threads;
} tcc_profile_run;

/* Write runs as trace events (JSON, times in microseconds since the first of them): a lane each for the host, copies
 * and computing, and for each thread of the host that computes. "otherData" has what the device can do, if `roofline`
 * is not NULL. Errors: TCC_EINVAL (no run), TCC_EIO, TCC_ENOMEM. */
tcc_status tcc_profile_write_trace(const tcc_profile_run *runs, int count, tcc_diag *d, const tcc_roofline *roofline,
                                   const char *path);

#endif
