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

/* The registers of one call of a function: of all lanes of the warp that are in it. */
typedef struct sim_frame {
    const sim_func *func;
    uint8_t *rows;
    uint32_t *init; /* lanes whose value is defined, a row */
    uint32_t *bits; /* a lane of a row: which bits of a value are defined that is not so as a whole; NULL: none are */
    uint64_t local_base;
    const struct sim_call *call; /* NULL: the kernel itself */
    struct sim_frame *caller, *next;
    uint32_t lanes, return_pc; /* lanes: those that have entered and not left */
    int depth;
} sim_frame;

/* A path of a warp that runs in lockstep: where it is and where it joins the path below it. */
typedef struct sim_entry {
    uint32_t pc, reconverge, mask;
    sim_frame *frame;
} sim_entry;

/* Threads of a warp that are at the same place where threads run independently: they go on together. */
typedef enum sim_fragment_state { FRAGMENT_READY, FRAGMENT_MEETS, FRAGMENT_AT_BARRIER } sim_fragment_state;
typedef struct sim_fragment {
    uint32_t pc, mask;
    sim_frame *frame;
    sim_fragment_state state;
    uint32_t members; /* MEETS: whom the instruction at pc waits for, before those that have exited are taken out */
} sim_fragment;

/* A cp.async under way: bytes arrive when a wait says so. */
typedef struct sim_copy {
    uint64_t global, shared;
    uint32_t bytes, zeros, lane, group; /* group: how many the lane had committed before */
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
    sim_frame kernel, *frame, *frames; /* frame: whose rows are above; frames: all but the kernel's */
    uint32_t depth;
    sim_entry stack[STACK_DEPTH]; /* in lockstep */
    int n_fragments, splits;
    sim_fragment fragments[LANES]; /* independent; splits: how often some may still be parted for no reason */
    uint32_t
        clock[MAX_WARPS]; /* what this warp knows of the others' progress; its own entry counts its synchronizations */
    sim_copy *copies;
    int n_copies, cap_copies;
    uint32_t group[LANES]; /* of asynchronous copies that each lane has committed */
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
    uint32_t before[2]; /* operations known to come before this one */
    uint64_t random;    /* state of the generator that orders threads which run independently */
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

/* Completes the asynchronous copies of these lanes but for the last `pending` groups that each has committed; of all
 * lanes without a limit at the end of a warp. */
void sim_complete_copies(sim_warp *w, uint32_t lanes, uint32_t pending);
enum { ALL_COPIES = -1 };

/* --- frames (frame.c) */
void sim_start_kernel_frame(sim_warp *w, uint8_t *rows, uint32_t *init);
/* Makes the frame the one whose registers `row` gives. */
static inline void sim_use_frame(sim_warp *w, sim_frame *f) { w->frame = f, w->rows = f->rows, w->init = f->init; }
/* The frame of a call by `mask`, with its parameters, in use; NULL after a fault. */
sim_frame *sim_enter_frame(sim_warp *w, const sim_inst *i, uint32_t mask);
/* Takes results back to the caller of these lanes, whose frame is then in use. */
void sim_leave_frame(sim_warp *w, sim_frame *f, uint32_t mask);
void sim_drop_frames(sim_warp *w);

/* --- barriers of a block (barrier.c): lanes arrive for their warp, `lane` has the operands. Whether the warp waits or
 * has failed; who is let go becomes ready. */
bool sim_arrive(sim_warp *w, const sim_inst *i, uint32_t mask, int lane);

/* --- the two ways to run the warps of a block to its end, or until the launch fails */
void sim_run_lockstep(sim_worker *k);    /* lockstep.c */
void sim_run_independent(sim_worker *k); /* independent.c */

/* Starts a warp's instruction: the lanes whose guard lets them do it; false when the guard was never written. */
bool sim_guard(sim_warp *w, const sim_inst *i, uint32_t here, uint32_t *mask);
void sim_finish_warp(sim_warp *w);
bool sim_spend(sim_worker *k, sim_warp *w, const sim_inst *i, uint64_t steps); /* false: the launch hangs */

static inline sim_reg *row(const sim_warp *w, int index) { return (sim_reg *)(w->rows + (size_t)index * ROW_BYTES); }
/* The results of these lanes are undefined, but for what a move leaves of its source (exec_int.c). */
void sim_undefine(sim_warp *w, const sim_inst *i, uint32_t lanes);
/* What generic code knows of results: a lane's is defined where all its sources are. */
static inline void sim_propagate(sim_warp *w, const sim_inst *i, uint32_t mask) {
    uint32_t known = mask;
    for (int k = 0; k < i->n_in; k++) known &= w->init[i->in[k]];
    for (int k = 0; k < i->n_out; k++) w->init[i->out[k]] = (w->init[i->out[k]] & ~mask) | known;
    if (known != mask && w->frame->bits) sim_undefine(w, i, mask & ~known);
}
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
    sim_exec_activemask, sim_exec_ldmatrix, sim_exec_mma, sim_exec_wmma, sim_exec_wmma_load, sim_exec_wmma_store,
    sim_exec_carry;

#endif
