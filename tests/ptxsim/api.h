/* SPDX-License-Identifier: MIT
 * The driver's objects and its one state.
 *
 * Time. Calls that are asynchronous on a real device only queue work here; it executes when something waits for it, and
 * then only as much as that wait covers. So a missing synchronization shows. Each stream has a slot in clocks:
 * clock[slot] is the position in that stream up to which something is known to be done. Work B comes after work A of
 * slot s when B's clock[s] reaches A's position. */
#ifndef PTXSIM_API_H
#define PTXSIM_API_H

#include "cuda_api.h"
#include "sim.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 64 };
typedef uint64_t sim_clock[SLOTS];

struct CUctx_st {
    int device, references;
    bool alive, primary;
    unsigned flags;
    CUstream null_stream;
    CUcontext next;
};
struct CUmod_st {
    sim_module *module;
    CUcontext context;
    bool alive;
    sim_alloc *memory;
    CUmodule next;
};

typedef enum work_kind {
    WORK_LAUNCH,
    WORK_COPY,
    WORK_SET,
    WORK_HOST,
    WORK_FREE,
    WORK_RECORD,
    WORK_GRAPH,
    WORK_EMPTY,
    WORK_ATTEMPT
} work_kind;

/* What is to be done: an entry of a stream or a node of a graph. */
typedef struct sim_work {
    work_kind kind;
    sim_func *func; /* LAUNCH */
    uint32_t grid[3], block[3], shared;
    uint8_t *params;          /* owned */
    uint64_t to, from, bytes; /* COPY: device or host addresses; SET: bytes of the range; FREE */
    uint8_t *staged;          /* COPY: the source as it was when the call was made; owned */
    uint32_t value, width;    /* SET */
    void (*function)(void *); /* HOST */
    void *user;
    CUevent event;               /* RECORD */
    struct CUgraphExec_st *exec; /* GRAPH: nodes before `at` are done of launch `launch`, 0: none was begun */
    int at;
    uint32_t launch;
    const ptxsim_work *attempt; /* ATTEMPT */
} sim_work;

typedef struct dependency {
    CUstream stream;
    uint64_t position;
} dependency;

typedef struct sim_op {
    sim_work work;
    uint64_t position;
    dependency *deps;
    int n_deps;
    sim_clock clock;
    struct sim_op *next;
} sim_op;

typedef struct capture {
    CUgraph graph;
    CUstream origin;
    int mode;
    pthread_t thread; /* that began it */
    bool invalid;
    int references;
} capture;

struct CUstream_st {
    bool alive, blocking, null;
    unsigned flags;
    int priority, slot;
    CUcontext context;
    uint64_t enqueued, done;
    sim_op *head, *tail;
    sim_clock clock;
    capture *capture;
    int *last; /* nodes of the graph that the next captured work comes after */
    int n_last;
    CUstream next;
};

struct CUevent_st {
    bool alive, recorded, timing;
    CUstream stream;
    uint64_t position;
    sim_clock clock;
    double time_ms;   /* when it was reached */
    capture *capture; /* recorded while capturing: stands for these nodes */
    int *nodes, n_nodes;
    CUevent next;
};

struct CUgraphNode_st {
    CUgraph graph;
    int index;
    sim_work work;
    int *deps;
    int n_deps;
};

struct CUgraph_st {
    bool alive;
    CUgraphNode *nodes;
    int n_nodes, cap_nodes;
    CUgraph next;
};

/* A copy of the nodes. `ancestors`: a bit a node for each node; NULL when they form one chain. */
struct CUgraphExec_st {
    bool alive, ran_on; /* ran_on: it ran when it was destroyed */
    sim_work *works;
    CUgraphNode *origins;
    int n;
    uint64_t *ancestors;
    size_t words;
    CUgraphExec next;
};

typedef struct sim_state {
    pthread_mutex_t lock;
    bool initialized;
    CUresult sticky;
    CUcontext contexts;
    CUmodule modules;
    CUstream streams;
    CUevent events;
    CUgraph graphs;
    CUgraphExec execs;
    sim_clock host; /* what the host has waited for */
    int faults[PTXSIM_FAULT_KINDS];
    CUresult lost_by;            /* 0: CUDA_ERROR_DEVICE_UNAVAILABLE */
    int spill_from, spill_bytes; /* of ptxsim_spill; from 0: never */
    int captures;                /* under way */
    int module_ids;
    int links; /* of the linker, alive */
} sim_state;
extern sim_state sim;

/* Every entry begins with one of these: counts the call, takes the lock and returns from the caller when the call
 * cannot go on. */
CUresult api_enter_as(const char *name, bool needs_context);
#define api_enter(context) api_enter_as(__func__, context)
CUresult api_leave(CUresult r);
#define ENTER_TO_RELEASE(context) /* what gives something back: no fault is planted there */ \
    do {                                                                                     \
        CUresult entered_ = api_enter(context);                                              \
        if (entered_) return api_leave(entered_);                                            \
    } while (0)
#define ENTER(context)                                                          \
    do {                                                                        \
        ENTER_TO_RELEASE(context);                                              \
        if (api_fault(PTXSIM_FAULT_CALL)) return api_leave(CUDA_ERROR_UNKNOWN); \
    } while (0)
CUcontext api_context(void);
bool api_fault(ptxsim_fault f); /* whether this call is the one that is to fail */

CUstream stream_find(CUstream handle); /* NULL: no such stream */
CUresult stream_lose_device(void);     /* the result of all calls from now on */
CUstream stream_create(CUcontext context, unsigned flags, int priority, bool null);
/* Takes over what `work` owns, on failure too. `out`: the position it got. */
CUresult stream_enqueue(CUstream s, sim_work *work, const dependency *deps, int n_deps, const uint64_t *clock);
/* Executes what it can of the work up to there; false: some of it waits for others. */
bool stream_complete(CUstream s, uint64_t position);
/* Waits until it is done; meanwhile other threads may call the driver. */
void stream_wait_for(CUstream s, uint64_t position);
void stream_complete_of(const struct CUctx_st *c); /* all of its device */
void stream_complete_all(void);                    /* of this thread's device */
void stream_host_knows(CUstream s);
CUresult stream_forbid_capture(void); /* an unsafe call while a capture that this thread disturbs is under way */
bool stream_pending_read(uint64_t begin, uint64_t bytes);
bool stream_pending_graph(CUgraphExec exec);
void stream_poll(CUstream s); /* executes one entry */

CUresult graph_capture(CUstream s, sim_work *work);
void graph_join(CUstream s, const int *nodes, int n, capture *c);
bool graph_execute(sim_work *w, const uint64_t *clock, int slot, uint64_t position);
void capture_release(capture *c);

/* Where a call of the compiler says what is wrong. */
typedef struct jit_log {
    char *text;
    size_t size;
    void **used;
} jit_log;
jit_log jit_open_log(unsigned int count, int *options, void **values);
CUresult jit_compile(const char *text, jit_log *log, sim_module **out);
/* The PTX of an image: itself, or what its machine code was made of; NULL: machine code for something else. */
const char *jit_text_of(const void *image);

/* Executes one piece of work now; false: it has to wait for others. */
bool work_execute(sim_work *work, const uint64_t *clock, int slot, uint64_t position, CUgraphExec exec, int node);
void work_clear(sim_work *work);
bool work_copy(sim_work *to, const sim_work *from);
CUresult launch_work(CUfunction f, const unsigned grid[3], const unsigned block[3], unsigned shared, void **params,
                     void **extra, sim_work *work);
CUresult launch_blocks(const sim_func *f, int threads, size_t shared, int *blocks);
void orders_reset(void);
void stats_reset(void);
double now_ms(void);

#endif
