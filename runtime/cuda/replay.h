/* SPDX-License-Identifier: MIT
 * The steps of a program as CUDA graphs. The compute stream is captured while the steps are put on it once, because the
 * calls of libraries are known to a stream alone; then a run replays them with one call a graph. What a call of a
 * library does that cannot be captured stays a launch between two graphs. */
#ifndef TCC_RUNTIME_CUDA_REPLAY_H
#define TCC_RUNTIME_CUDA_REPLAY_H

#include "runtime/cuda/context.h"

/* Steps that are run one behind the other, or captured as one graph, begin and end, entered: the compute stream waits
 * for all that was put on others. */
typedef void tcc_cuda_begin(void *user);
typedef tcc_status tcc_cuda_end(void *user, tcc_diag *d);
/* Puts step `step` on the compute stream, or on one that waits for it; entered. */
typedef tcc_status tcc_cuda_put(void *user, tcc_diag *d, int step);
/* How many launches that is. */
typedef int tcc_cuda_count(const void *user, int step);

typedef struct tcc_cuda_replay tcc_cuda_replay;

typedef struct tcc_cuda_steps {
    tcc_device_cuda *device;
    const tcc_program *program;
    tcc_cuda_begin *begin;
    tcc_cuda_put *put;
    tcc_cuda_end *end;
    tcc_cuda_count *count;
    void *user;
} tcc_cuda_steps;

tcc_status tcc__cuda_replay_create(tcc_diag *d, const tcc_cuda_steps *steps, tcc_cuda_replay **out);
/* Give back what the device has of it, entered; then what the host has. NULL is allowed. */
void tcc__cuda_replay_drop(tcc_cuda_replay *r);
void tcc__cuda_replay_destroy(tcc_cuda_replay *r);
/* Make a run, entered: a replay, or by launches. `meets`: other ranks make it, too, and all in the same way: so it is
 * not measured which is faster, but replayed where all could be captured. NULL: nobody else.
 * Errors: of the steps; TCC_EUNSUPPORTED where not all could be captured and the mode requires it. */
tcc_status tcc__cuda_replay_run(tcc_cuda_replay *r, tcc_diag *d, tcc_replay_mode mode, tcc_device_ranks *meets);
/* An address that steps use has changed: they are captured anew before the next run. */
void tcc__cuda_replay_outdate(tcc_cuda_replay *r);
void tcc__cuda_replay_get(const tcc_cuda_replay *r, tcc_replay *out);

#endif
