/* SPDX-License-Identifier: MIT
 * Communicators: ranks that train one model together, and the collectives between them.
 *
 * A collective is a call that all ranks of a communicator make, in the same order and with the same arguments but for
 * the data. It returns when this rank's part is done. Sums and the like are taken in the order of ranks, element by
 * element, so their bits are the same in every run and on every rank.
 *
 * Errors. Where ranks call different collectives, or with other sizes, each of them gets TCC_EINVAL. Where a rank is
 * gone, gives up (tcc_comm_abort) or does not answer within the time limit, all others get TCC_EIO. Both errors name
 * the collective and the rank, and nothing hangs. After such an error the communicator is of no more use: each
 * further call returns that error.
 *
 * Ranks on one machine read much data from each other's memory (process_vm_readv) where the system lets them, and send
 * it through sockets otherwise, which takes about twice as long. TCC_COMM_DIRECT=0 of the environment keeps this
 * process's memory from being asked for. MPI has ways of its own. */
#ifndef TRAINCC_COMM_H
#define TRAINCC_COMM_H

#include "traincc/api.h"
#include "traincc/context.h"
#include "traincc/dtype_enum.h"
#include "traincc/status.h"

#include <stdint.h>

TCC_API_BEGIN

typedef struct tcc_comm tcc_comm;

/* How elements are combined. A NaN wins in maxima and minima. */
typedef enum tcc_comm_op { TCC_COMM_SUM, TCC_COMM_MAX, TCC_COMM_MIN } tcc_comm_op;

enum { TCC_COMM_MOST_RANKS = 1024 };

/* Makes all ends of a communicator of `ranks` ranks on this machine: out[r] is that of rank r, whose calls use
 * contexts[r]. Each end goes to a thread of its own, or to a process of its own: after fork, a process keeps one end
 * and destroys the others, as only then the end of a process is seen. Errors: TCC_EINVAL, TCC_EIO (no more open files),
 * TCC_ENOMEM; they are kept by contexts[0], and no end is made. */
TCC_API tcc_status tcc_comm_create_local(tcc_context *const *contexts, int ranks, tcc_comm **out);
/* Makes the end of this process, one of ranks that are started apart, here or on several machines. `kind` "env": they
 * find each other by the environment, as torchrun sets it: RANK, WORLD_SIZE, and MASTER_ADDR (127.0.0.1) and
 * MASTER_PORT (29500), where rank 0 listens. They wait for each other at most TCC_COMM_TIMEOUT seconds (60) of the
 * environment, which is also the time limit of collectives then. Data goes over TCP, unencrypted: use networks that you
 * trust. `kind` "mpi": they are those of MPI_COMM_WORLD; see tcc_comm_from_mpi. MPI is initialized if it is not yet
 * (MPI_THREAD_SERIALIZED), and then finalized by tcc_comm_destroy. Which MPI: the one that this process has loaded,
 * else that of the variable TCC_MPI (openmpi, mpich), else that of the mpirun, mpiexec or srun that has started it.
 * `kind` "nccl": they are found as those of "env" where RANK is set, else as those of "mpi", and train on CUDA devices:
 * a model on another device is refused. What devices send each other goes by NCCL with either kind.
 * Errors: TCC_ENOTFOUND (RANK or WORLD_SIZE is not set; no MPI), TCC_EINVAL, TCC_EIO (a rank did not come), TCC_ENOMEM,
 * TCC_EUNSUPPORTED (there is no module for this MPI). */
TCC_API tcc_status tcc_comm_create(tcc_context *cx, const char *kind, tcc_comm **out);
/* Makes an end of each rank of an MPI communicator of this program, `mpi_comm` being the address of an MPI_Comm; all of
 * its ranks call it. The communicator is duplicated, so messages of ours and of the program do not meet. Data goes by
 * MPI's sends and receives, so by whatever network it has; sums are ours, in the order of ranks.
 *
 * The library has no MPI of its own: it opens a module, libtraincc_openmpi.so or libtraincc_mpich.so, whichever a build
 * finds Debian's packages for. The latter serves all libraries with MPICH's ABI. It takes the one whose symbols this
 * process has: a program with ompi_mpi_comm_world has Open MPI, another one with MPI_Init has MPICH.
 *
 * MPI must be initialized, with MPI_THREAD_MULTIPLE if tcc_comm_start_all_reduce and the like are to go on beside the
 * program: with less they return when the collective is done. With less than MPI_THREAD_SERIALIZED all calls must be
 * made by MPI's main thread. MPI's errors come back as TCC_EIO. A failed communicator cannot be freed in order, as the
 * others may never come: then MPI_Finalize may wait for ever, and the process should end with MPI_Abort, or exit.
 * Errors: as tcc_comm_create. */
TCC_API tcc_status tcc_comm_from_mpi(tcc_context *cx, const void *mpi_comm, tcc_comm **out);
/* The same for a communicator of Fortran: an INTEGER, or MPI_VAL of mpi_f08's TYPE(MPI_Comm). */
TCC_API tcc_status tcc_comm_from_mpi_fortran(tcc_context *cx, int mpi_comm, tcc_comm **out);
/* Makes rank 0 of `ranks` ranks of which the others are not there, to see what training on them would take: a model
 * with options.compile_only and this communicator is compiled for one of them, and tcc_model_report(model, "ranks")
 * predicts its step. `network` is what is between them: "local", "nvlink", "ib", "ethernet", or
 * "LATENCY,BANDWIDTH", the latency of a message in microseconds and the GB/s that a rank sends while it receives as
 * many. Errors: TCC_EINVAL (no such network, which says those that there are), TCC_ENOMEM. */
TCC_API tcc_status tcc_comm_create_planned(tcc_context *cx, int ranks, const char *network, tcc_comm **out);
/* Frees this end; the other ranks see that it is gone when they wait for it. Over MPI it waits for the others to do the
 * same, but not longer than the time limit. NULL is allowed. */
TCC_API void tcc_comm_destroy(tcc_comm *c);

TCC_API int tcc_comm_rank(const tcc_comm *c); /* of this end, from 0 */
TCC_API int tcc_comm_size(const tcc_comm *c); /* ranks */
/* The longest that a collective waits for another rank, in seconds; 60 in the beginning. */
TCC_API void tcc_comm_set_timeout(tcc_comm *c, double seconds);

/* Seconds that this rank's calls have taken so far: they wait for other ranks, and move data. What was started counts
 * in tcc_comm_wait. */
TCC_API double tcc_comm_waited(const tcc_comm *c);

/* `count` elements at `data` become, on all ranks, the reduction of those of all ranks. */
TCC_API tcc_status tcc_comm_all_reduce(tcc_comm *c, tcc_comm_op reduction, tcc_dtype type, void *data, int64_t count);
/* `from` has `count` elements for each rank; the reduction of those for this rank goes to `to`. No overlap. */
TCC_API tcc_status tcc_comm_reduce_scatter(tcc_comm *c, tcc_comm_op reduction, tcc_dtype type, const void *from,
                                           void *to, int64_t count);
/* `size_bytes` bytes at `from` of each rank go to `to` of all ranks, in the order of ranks. No overlap. */
TCC_API tcc_status tcc_comm_all_gather(tcc_comm *c, const void *from, void *to, int64_t size_bytes);
/* `size_bytes` bytes at `data` become those of rank `root`. */
TCC_API tcc_status tcc_comm_broadcast(tcc_comm *c, int root, void *data, int64_t size_bytes);
/* The same, made by a thread while the caller goes on: it yields to threads that compute. Collectives that were started
 * are made one after the other, in the order of the calls; any other collective waits for them. The data must be left
 * alone until tcc_comm_wait(c, *request) has returned, which gives the error of that collective or of one before it.
 * The time limit counts from when a collective begins. Errors at once: TCC_ENOMEM, TCC_EIO (no thread), and where MPI
 * allows no thread, those of the collective. */
TCC_API tcc_status tcc_comm_start_all_reduce(tcc_comm *c, tcc_comm_op reduction, tcc_dtype type, void *data,
                                             int64_t count, int64_t *request);
TCC_API tcc_status tcc_comm_start_reduce_scatter(tcc_comm *c, tcc_comm_op reduction, tcc_dtype type, const void *from,
                                                 void *to, int64_t count, int64_t *request);
TCC_API tcc_status tcc_comm_start_all_gather(tcc_comm *c, const void *from, void *to, int64_t size_bytes,
                                             int64_t *request);
/* Returns when the collective of this request, and all that were started before it, are done. Errors: theirs;
 * TCC_EINVAL: nothing was started as this. */
TCC_API tcc_status tcc_comm_wait(tcc_comm *c, int64_t request);
/* Returns when all ranks have called it. */
TCC_API tcc_status tcc_comm_barrier(tcc_comm *c);
/* This rank goes to work by itself, as long as it takes: it loads, compiles, evaluates or saves. Whoever waits for it
 * in a collective goes on waiting while a thread tells that it lives; that it died or was stopped is seen within the
 * time limit. Its next collective ends the work. Errors: TCC_ENOMEM, TCC_EIO (no thread), TCC_EUNSUPPORTED: MPI
 * allows no thread, so give the others a longer time limit. */
TCC_API tcc_status tcc_comm_begin_work(tcc_comm *c);
/* This rank gives up, once what it has started is done: the others get an error with this text from the collective that
 * they are in, or the next. */
TCC_API void tcc_comm_abort(tcc_comm *c, const char *why);

TCC_API_END
#endif
