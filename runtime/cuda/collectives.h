/* SPDX-License-Identifier: MIT
 * The collectives of a program on a CUDA device. They are put on a stream of their own, which takes up what the steps
 * before have done, and the steps that touch their memory wait for them: all by events, so that one capture of the
 * compute stream has both streams.
 *
 * Sums and the like are taken in the order of ranks: each rank gets all ranks' values of its part and combines them,
 * and then all get all parts; of what is small, each gets all and combines it by itself. The parts that ranks send lie
 * in memory of the program's beside its arena, as it may be in use while any other step runs. */
#ifndef TCC_RUNTIME_CUDA_COLLECTIVES_H
#define TCC_RUNTIME_CUDA_COLLECTIVES_H

#include "codegen/calls.h"
#include "runtime/cuda/context.h"

typedef struct tcc_cuda_collectives tcc_cuda_collectives;

/* Bytes that a rank has for what others send it, in a collective, and in a program, whose collectives share them; 0
 * where it is no CUDA device's. */
int64_t tcc__cuda_received_bytes(tcc_call call, const tcc_collective_params *params);
int64_t tcc__cuda_program_receives(const tcc_program *p);

/* *out is NULL where the program has none. Entered. Errors: TCC_ENOMEM, TCC_EDEVICE, TCC_EFORMAT (buffers smaller than
 * the params say). */
tcc_status tcc__cuda_collectives_create(tcc_device_cuda *cuda, tcc_diag *d, const tcc_program *p,
                                        tcc_cuda_collectives **out);
/* Give back what the device has of it, entered; then what the host has. NULL is allowed. */
void tcc__cuda_collectives_drop(tcc_cuda_collectives *c);
void tcc__cuda_collectives_destroy(tcc_cuda_collectives *c);
/* What runs them; NULL: nothing does. Borrowed. */
void tcc__cuda_collectives_set(tcc_cuda_collectives *c, const tcc_collectives *by);
/* The ranks that must run the program alike; NULL: there are no others. */
tcc_device_ranks *tcc__cuda_collectives_ranks(const tcc_cuda_collectives *c);

/* Nothing was started yet, in a run or in a part of it that is captured by itself. Entered, as all below. */
void tcc__cuda_collectives_begin(tcc_cuda_collectives *c);
/* Before step `step` is put on the compute stream: it waits for collectives whose memory the step touches. */
tcc_status tcc__cuda_collectives_wait(tcc_cuda_collectives *c, tcc_diag *d, int step);
/* Puts the collective that is step `step` on the stream of collectives. */
tcc_status tcc__cuda_collectives_start(tcc_cuda_collectives *c, tcc_diag *d, int step, tcc_cuda_address from,
                                       tcc_cuda_address to);
/* The compute stream waits for all that were started. */
tcc_status tcc__cuda_collectives_join(tcc_cuda_collectives *c, tcc_diag *d);

#endif
