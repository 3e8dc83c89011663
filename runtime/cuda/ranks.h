/* SPDX-License-Identifier: MIT
 * A CUDA device among those of other ranks: NCCL's communicator, a stream for what it does, and waiting with a limit.
 * Where a rank is gone, NCCL's kernels wait for it for ever; so whoever waits for a device of several ranks looks at
 * the clock, at NCCL and at the other ranks, and has NCCL give up. */
#ifndef TCC_RUNTIME_CUDA_RANKS_H
#define TCC_RUNTIME_CUDA_RANKS_H

#include "runtime/cuda/context.h"
#include "runtime/cuda/nccl.h"

/* Graphs that may hold captured calls of NCCL. A communicator that ends waits for them without limit, even to abort it
 * (commDestroySync in init.cc of NCCL 2.28). */
typedef struct tcc_ranks_graphs tcc_ranks_graphs;
struct tcc_ranks_graphs {
    tcc_ranks_graphs *next; /* of `of` */
    tcc_device_ranks *of;   /* NULL: of none */
    void (*drop)(void *user);
    void *user;
};
/* Of which ranks they are from now on; entered. Not twice at once. */
void tcc__cuda_ranks_add_graphs(tcc_device_ranks *r, tcc_ranks_graphs *graphs);
/* They are of none; entered. */
void tcc__cuda_ranks_remove_graphs(tcc_ranks_graphs *graphs);

struct tcc_device_ranks {
    tcc_device_ranks *next;   /* of the device's */
    tcc_ranks_graphs *graphs; /* borrowed */
    tcc_device_cuda *cuda;
    tcc_meeting with;
    tcc_nccl nccl;
    tcc_nccl_comm comm; /* NULL: it is not there yet, or was given up */
    tcc_cuda_stream stream;
    int32_t *progress; /* pinned: the step of the collective that runs, or ran last, plus 1; the device writes it */
    const tcc_program *program; /* of that step; NULL: none ran yet */
    bool parts;                 /* it leaves the others */
    char failed[512];           /* why there is no more communicator; "": there is */
};

/* device_ops.join and leave. */
tcc_status tcc__cuda_join(tcc_device *device, tcc_diag *d, const tcc_meeting *with, tcc_device_ranks **out);
void tcc__cuda_leave_ranks(tcc_device_ranks *r, bool orderly);

/* TCC_EIO where this rank has given up before. */
tcc_status tcc__cuda_ranks_check(const tcc_device_ranks *r, tcc_diag *d);
/* TCC_OK, or what a call of NCCL gave, once the communicator has done what it can do by itself. Entered. */
tcc_status tcc__cuda_ranks_settle(tcc_device_ranks *r, tcc_diag *d, tcc_nccl_result result, const char *call);
#define TCC_NCCL_TRY(r, d, field, ...) \
    TCC_TRY(tcc__cuda_ranks_settle((r), (d), (r)->nccl.field(__VA_ARGS__), tcc__nccl_symbol_##field))

/* cuStreamSynchronize and cuEventSynchronize, within the time limit of the device's ranks if it has some. Entered.
 * Errors: TCC_EDEVICE; TCC_EIO: a rank is gone or too late. */
tcc_status tcc__cuda_wait_stream(tcc_device_cuda *cuda, tcc_diag *d, tcc_cuda_stream stream);
tcc_status tcc__cuda_wait_event(tcc_device_cuda *cuda, tcc_diag *d, tcc_cuda_event event);

#endif
