/* SPDX-License-Identifier: MIT
 * The executing machine: launches, blocks, warps and their registers, and access to memory with its checks. */
#ifndef PTXSIM_MACHINE_H
#define PTXSIM_MACHINE_H

#include "memory.h"
#include "ptx.h"
#include "ptxsim.h"

enum { LANES = 32, MAX_WARPS = 32, MAX_BARRIERS = 16, STACK_DEPTH = 256, ROW_BYTES = 128 };

/* Generic addresses: device memory and pinned host memory stand for themselves, the rest has windows. */
#define SHARED_WINDOW UINT64_C(0x100000000000)
#define LOCAL_WINDOW UINT64_C(0x110000000000)
#define PARAM_WINDOW UINT64_C(0x120000000000)
#define WINDOW_BYTES UINT64_C(0x10000000000)

/* One register of all lanes. 64-bit members span two rows. */
typedef union sim_reg {
    uint32_t u32[LANES];
    int32_t s32[LANES];
    float f32[LANES];
    uint64_t u64[LANES];
    int64_t s64[LANES];
    double f64[LANES];
} sim_reg;

typedef struct sim_launch sim_launch;
typedef struct sim_block sim_block;

typedef struct sim_entry {
    uint32_t pc, reconverge, mask, frame;
} sim_entry;

typedef struct sim_frame {
    const sim_func *func;
    uint8_t *rows;
    uint32_t *init; /* lanes whose value is defined, a row */
    uint64_t local_base;
    const struct sim_call *call;
    uint32_t call_mask;
} sim_frame;

/* A cp.async under way: bytes arrive when a wait says so. */
typedef struct sim_copy {
    uint64_t global, shared;
    uint32_t bytes, zeros, lane, group;
    const sim_inst *inst;
} sim_copy;

typedef enum sim_warp_state { WARP_READY, WARP_WAITING, WARP_DONE } sim_warp_state;

struct sim_warp {
    uint8_t *rows; /* of the current frame */
    uint32_t *init;
    sim_block *block;
    sim_launch *launch;
    struct sim_worker *worker;
    uint32_t index, initial, live;
    sim_warp_state state;
    int barrier;
    const sim_inst *at;
    uint32_t depth;
    sim_entry stack[STACK_DEPTH];
    uint32_t n_frames;
    sim_frame frames[24];
    uint32_t
        clock[MAX_WARPS]; /* what this warp knows of the others' progress; its own entry counts its synchronizations */
    sim_copy *copies;
    int n_copies, cap_copies;
    uint32_t group;
};

typedef struct sim_barrier {
    uint32_t arrived_threads, expected, arrived_warps, clock[MAX_WARPS];
} sim_barrier;

/* Who touched a word of shared memory last. */
typedef struct sim_shared_word {
    uint64_t writer, reader;
} sim_shared_word;

struct sim_block {
    sim_launch *launch;
    uint32_t ctaid[3];
    uint64_t linear;
    uint8_t *shared, *shared_init;
    sim_shared_word *shared_words;
    uint32_t shared_bytes;
    uint8_t *local, *local_init;
    uint64_t local_stride; /* bytes a thread */
    int n_warps;
    sim_warp *warps;
    sim_barrier barriers[MAX_BARRIERS];
    bool released, acquired_any;
    bool fenced;
};

/* One host thread that runs blocks. */
typedef struct sim_worker {
    sim_launch *launch;
    sim_block block;
    sim_warp *warps;
    uint8_t *rows;
    uint32_t *init;
    sim_alloc **cache; /* last allocation an access hit, one an access of the kernel */
    ptxsim_stats stats;
    uint64_t budget;
    uint32_t before; /* an operation that is known to come before this one */
} sim_worker;

struct sim_launch {
    sim_func *func;
    uint32_t grid[3], block[3], threads;
    uint64_t blocks, next_block;
    uint32_t dynamic_shared, shared_total;
    uint64_t dynamic_offset;
    const uint8_t *params;
    uint32_t op; /* number of the operation, for races */
    int status;  /* CUresult; the first fault wins */
    bool parallel;
    uint8_t *acquired, *released; /* a flag a block: has passed through a fence and an atomic */
    ptxsim_stats stats;
};

/* Runs the launch to its end; returns its status (a CUresult). Statistics are added to the kernel's. */
int sim_run_launch(sim_launch *l);
void sim_run_block(sim_worker *w, uint64_t block);
void sim_complete_copies(sim_warp *w, uint32_t oldest_kept);

static inline sim_reg *row(const sim_warp *w, int index) { return (sim_reg *)(w->rows + (size_t)index * ROW_BYTES); }
static inline uint32_t predicate(const sim_warp *w, int index) { return row(w, index)->u32[0]; }

/* A fault of the kernel: reports once a launch, with place and thread. `lane` -1: the warp as a whole. */
enum {
    CHECK_UNINIT = 1,
    CHECK_ALIGN = 2,
    CHECK_RACE = 4,
    CHECK_BARRIER = 8,
    CHECK_LEAK = 16,
    CHECK_STREAM = 32,
    CHECK_WARN = 64
};
void sim_fault(sim_warp *w, const sim_inst *i, int lane, int status, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The same for what real hardware would let pass; false when it is only a warning. */
bool sim_soft_fault(sim_warp *w, const sim_inst *i, int lane, int check, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void sim_thread_of(const sim_warp *w, int lane, uint32_t tid[3]);

/* Memory, one lane at a time: `bytes` at a generic or space address, after all checks; NULL after reporting. STRONG is
 * a store that is volatile or ordered: for races it counts as an atomic. */
typedef enum sim_access { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC, ACCESS_STRONG } sim_access;
uint8_t *sim_touch(sim_warp *w, const sim_inst *i, int lane, sim_space space, uint64_t address, uint32_t bytes,
                   sim_access access);

void sim_count_shared(sim_warp *w, const uint64_t *address, uint32_t mask, uint32_t bytes);

/* Instruction families: the functions that decode picks from. */
sim_exec sim_exec_load, sim_exec_store, sim_exec_atomic, sim_exec_cp_async, sim_exec_cp_commit, sim_exec_cp_wait,
    sim_exec_fence;
sim_exec sim_exec_clock, sim_exec_shfl, sim_exec_vote, sim_exec_match, sim_exec_redux, sim_exec_warp_sync,
    sim_exec_activemask, sim_exec_ldmatrix, sim_exec_mma;

#endif
