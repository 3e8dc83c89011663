/* SPDX-License-Identifier: MIT
 * What the stand-in libcuda.so.1 exports beside the driver's own names: counted statistics, injected faults, reports.
 * Look the functions up with dlsym(), so that a test also loads on a machine whose libcuda.so.1 is the real one.
 *
 * Environment, read by cuInit:
 *   PTXSIM_LOG       where reports go: "stderr" (the default), "none", or a file that is appended to
 *   PTXSIM_CHECKS    checks to leave out, as in "-race,-uninit", of uninit, align, race, barrier, stream (order between
 *                    streams) and leak; "warn" logs what real hardware would not notice (races, uninitialized reads,
 *                    barrier divergence) without failing the launch
 *   PTXSIM_THREADS   threads that blocks run on (default: the processors online)
 *   PTXSIM_SM        compute capability, 90 by default: limits and figures are those of a device of it (profiles.c).
 *                    Others for PTXSIM_SM_COUNT and PTXSIM_SHARED_KIB of a block, PTXSIM_MEMORY_MIB (4096)
 *   PTXSIM_DEVICES   number of devices, 1; 0 shows what a machine without a GPU does
 *   PTXSIM_DRIVER    the driver's version, 12080 by default
 *   PTXSIM_LIMIT     warp instructions of one launch before it counts as hanging (default 2^36)
 *   PTXSIM_SCHEDULE  "lockstep" (the default): lanes that a branch has split join where their paths do; or
 *                    "independent:SEED": they join only in .sync instructions, and all threads run in an order drawn
 *                    from the seed
 *   PTXSIM_MMA       "exact" (the default): sums of mma.sync are rounded once; or "truncate": they are cut off as
 *                    tensor cores of this compute capability do
 *   PTXSIM_GRAPH_US  microseconds that each launch of a graph takes longer, 0 by default
 *   PTXSIM_FAULT     faults as of ptxsim_inject(): "alloc:3,launch:2,module:1,lost:5,host:1" */
#ifndef PTXSIM_H
#define PTXSIM_H

#include <stdint.h>

enum { PTXSIM_WIDTHS = 5 }; /* 1, 2, 4, 8 and 16 bytes a lane */

/* Sums over the launches of one kernel. Bytes are of lanes that were active. */
typedef struct ptxsim_stats {
    uint64_t launches, blocks;
    uint64_t warp_instructions, lane_instructions;
    uint64_t global_read_bytes, global_write_bytes;               /* each access counts */
    uint64_t global_read_unique_bytes, global_write_unique_bytes; /* a byte counts once a launch */
    uint64_t global_sectors, global_write_sectors; /* 32-byte sectors that the accesses of warps touched, and of those
                                                      the ones that were written */
    uint64_t global_loads[PTXSIM_WIDTHS], global_stores[PTXSIM_WIDTHS]; /* lane accesses by width */
    uint64_t local_read_bytes, local_write_bytes;
    uint64_t shared_read_bytes, shared_write_bytes;
    uint64_t shared_accesses, shared_conflicts; /* wavefronts of warp accesses, and those beyond the fewest possible */
    uint64_t barriers;                          /* of warps */
    uint64_t matrix_instructions;
    uint64_t integer_atomics,
        float_atomics; /* of lanes; float ones have no fixed order, so their sums are not reproducible */
    uint64_t registers, local_bytes,
        shared_bytes; /* of the last launch: estimated registers a thread, local memory, shared in all */
} ptxsim_stats;

/* The statistics of the kernels named `kernel` in any module; NULL: of all. Pending work is not waited for. 0 when
 * there was a launch. */
int ptxsim_get_stats(const char *kernel, ptxsim_stats *stats);
void ptxsim_reset_stats(void);

typedef enum ptxsim_fault {
    PTXSIM_FAULT_ALLOC,  /* device allocation: CUDA_ERROR_OUT_OF_MEMORY */
    PTXSIM_FAULT_HOST,   /* pinned host allocation: CUDA_ERROR_OUT_OF_MEMORY */
    PTXSIM_FAULT_MODULE, /* module load: CUDA_ERROR_OUT_OF_MEMORY */
    PTXSIM_FAULT_LAUNCH, /* cuLaunchKernel or cuGraphLaunch: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES */
    PTXSIM_FAULT_LOST,   /* while a launch executes: the device is lost, CUDA_ERROR_DEVICE_UNAVAILABLE ever after */
    PTXSIM_FAULT_CALL,   /* any call that does not only give something back: CUDA_ERROR_UNKNOWN */
    PTXSIM_FAULT_GRAPH,  /* cuGraphInstantiate: CUDA_ERROR_OUT_OF_MEMORY */
    PTXSIM_FAULT_SPOIL,  /* work that is captured: the capture is invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED */
    PTXSIM_FAULT_GONE,   /* work that is captured: the device is lost, as by PTXSIM_FAULT_LOST */
    PTXSIM_FAULT_KINDS
} ptxsim_fault;

/* The nth such call from now on fails, 1 being the next; 0: none. */
void ptxsim_inject(ptxsim_fault fault, int nth);
/* What PTXSIM_FAULT_LOST is from now on, instead of CUDA_ERROR_DEVICE_UNAVAILABLE: another CUresult that ends all. */
void ptxsim_lose_by(int result);

/* What cuFuncGetAttribute says of a function's local memory is so many bytes more, from the nth time on that it is
 * asked, 1 being the next; 0: never. */
void ptxsim_spill(int nth, int bytes);

/* Calls of the driver so far by the name of the entry, as "cuGraphLaunch"; NULL: of all. Copies count as "copy", and
 * sets as "set". */
uint64_t ptxsim_get_calls(const char *name);
/* Bytes of all copies that were asked for so far. */
uint64_t ptxsim_get_copied(void);

/* Work of a library that may have to wait for others, as for other ranks. Once all that it comes after is done, it is
 * attempted until it is done, too. It must not call the driver. */
typedef struct ptxsim_range {
    uint64_t address, bytes; /* of device memory */
    int write;
} ptxsim_range;
typedef struct ptxsim_work {
    const char *name;           /* "a collective" */
    int (*attempt)(void *user); /* 1: done; 0: not yet; -1: it failed, as a kernel does */
    void *user;
    const ptxsim_range *ranges; /* that it reads and writes, checked as those of copies are */
    int n_ranges;
} ptxsim_work;
/* Puts it on the stream, or into the graph that is captured. `work` is borrowed as long as it may run. A CUresult. */
int ptxsim_enqueue(void *stream, const ptxsim_work *work);
/* How many graphs and instances of graphs hold it: those that were not destroyed, and those that were while they ran,
 * which hold it for good (seen with driver 580). */
int ptxsim_graphs_with(const ptxsim_work *work);
/* For an attempt: where the bytes of device memory are on the host; NULL: they are no such memory. */
void *ptxsim_bytes(uint64_t address, uint64_t bytes);

/* What is alive: device and pinned allocations, modules, links of the compiler, streams, events, graphs and their
 * instances. */
typedef struct ptxsim_live {
    int device_allocations, host_allocations, modules, links, streams, events, graphs, graph_execs, contexts;
    uint64_t device_bytes, peak_device_bytes;
} ptxsim_live;
void ptxsim_get_live(ptxsim_live *live);

/* Reports so far, and the text of the last one ("" when there was none), valid until the next. */
int ptxsim_report_count(void);
const char *ptxsim_last_report(void);

/* Back to the state before cuInit, with the environment read again by the next cuInit: everything alive is dropped. */
void ptxsim_restart(void);

#endif
