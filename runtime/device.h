/* SPDX-License-Identifier: MIT
 * A device: memory, and programs made ready to run on it. One table of functions a kind; the executor speaks to nothing
 * else. */
#ifndef TCC_RUNTIME_DEVICE_H
#define TCC_RUNTIME_DEVICE_H

#include "codegen/calls.h"
#include "codegen/program.h"
#include "ir/support/hardware.h"
#include "ir/support/context.h"

typedef struct tcc_device tcc_device;
typedef struct tcc_commands tcc_commands; /* a program made ready: code loaded, steps resolved to calls */

/* When a step ran, in nanoseconds since the run began. */
typedef struct tcc_step_time {
    int64_t begin_ns, end_ns;
} tcc_step_time;

/* What a device can do at best. */
typedef struct tcc_roofline {
    double flop_per_s, bytes_per_s; /* f32 multiply-adds counted as two; memory beyond the caches */
} tcc_roofline;

enum {
    TCC_FETCH_BYTES = 64,     /* of one result at most */
    TCC_FETCHES = 64,         /* results that are kept */
    TCC_FEED_ALIGNMENT = 256, /* bytes; of each part of a feed */
    TCC_FEEDS = 4             /* that may be on their way at once */
};

/* Part of what a run is fed with, in host memory. */
typedef struct tcc_feed {
    const void *from;
    int64_t size_bytes;
} tcc_feed;
/* What a part takes of the memory that it is fed to. */
static inline int64_t tcc_feed_room(int64_t size_bytes) {
    return (size_bytes + TCC_FEED_ALIGNMENT - 1) / TCC_FEED_ALIGNMENT * TCC_FEED_ALIGNMENT;
}

/* Whether a program's steps are captured once, as a graph of the device's, and then replayed by one call a run. */
typedef enum tcc_replay_mode {
    TCC_REPLAY_NEVER,
    TCC_REPLAY_IF_FASTER, /* where that measures no slower than launches, for the steps that can be captured */
    TCC_REPLAY_REQUIRED   /* all steps; else a run is an error */
} tcc_replay_mode;

typedef enum tcc_replay_stage {
    TCC_REPLAY_WAITING,  /* the first run is made by launches, as it may load code */
    TCC_REPLAY_MEASURED, /* captured; runs are now replays and now launches, and each is timed */
    TCC_REPLAY_USED,
    TCC_REPLAY_SLOWER, /* measured slower, so launches are kept */
    TCC_REPLAY_REFUSED /* nothing could be captured */
} tcc_replay_stage;

/* What became of it. */
typedef struct tcc_replay {
    tcc_replay_stage stage;
    int launches;                 /* of a run: kernels, library calls, copies */
    int captured, graphs;         /* launches that graphs hold, and how many graphs a run replays */
    int64_t replay_ns, launch_ns; /* a run's time, from its first call until the device is done; 0: not measured */
    char why[256];                /* what was not captured, or all, is not: a reason; "" */
} tcc_replay;

/* Where what a driver makes of a program's code is kept, and found by a later run. Called by several threads. */
typedef struct tcc_code_store {
    void *user;
    /* Machine code that `maker`, a device's processor and driver as text, made of `code`; freed with tcc__free. */
    bool (*find)(void *user, const char *maker, const char *code, void **machine, int64_t *size_bytes);
    /* Keeps it; it took `made_ns`. */
    void (*keep)(void *user, const char *maker, const char *code, const void *machine, int64_t size_bytes,
                 int64_t made_ns);
    void (*flush)(void *user); /* after a few were kept */
} tcc_code_store;

/* This rank's device among those of the other ranks; opaque, the device's. */
typedef struct tcc_device_ranks tcc_device_ranks;

/* How devices of several ranks find each other, and how they see that one is gone. */
typedef struct tcc_meeting {
    void *user;
    int rank, ranks;
    double timeout_s; /* of waiting for the others */
    /* `size_bytes` bytes of the host at `mine` of each rank go to `all`, in the order of ranks. */
    tcc_status (*gather)(void *user, tcc_diag *d, const void *mine, void *all, int64_t size_bytes);
    /* Whether a rank has ended or given up, with words for it; returns at once. */
    bool (*is_gone)(void *user, char *words, size_t size);
} tcc_meeting;

/* What runs the collectives of a program: the calls ALL_REDUCE, REDUCE_SCATTER and ALL_GATHER of codegen/calls.h. A
 * device that shares the host's memory calls the functions, another one has `ranks`. */
typedef struct tcc_collectives {
    void *user;
    tcc_device_ranks *ranks; /* NULL: there are no others, and what they would send is what this rank has */
    /* Begins one, which goes on while the caller computes; its memory is left alone until `wait` has returned for
     * *request, or for a later one. Where `request` is NULL it returns when this rank's part is done. */
    tcc_status (*start)(void *user, tcc_diag *d, tcc_call call, const tcc_collective_params *params, const void *from,
                        void *to, int64_t *request);
    tcc_status (*wait)(void *user, tcc_diag *d, int64_t request);
} tcc_collectives;

typedef struct tcc_device_ops {
    const char *kind; /* "cpu", "cuda" */
    tcc_target target;
    bool shares_host; /* host memory is device memory: it may be bound as it is, and needs no copies */
    void (*destroy)(tcc_device *device);
    /* Memory of the device, aligned to 64 bytes at least; contents undefined. */
    tcc_status (*alloc)(tcc_device *device, tcc_diag *d, int64_t size_bytes, void **out);
    int64_t (*free_bytes)(tcc_device *device); /* that alloc could give now, about; 0: unknown */
    void (*free)(tcc_device *device, void *memory, int64_t size_bytes); /* as it was allocated; NULL is allowed */
    /* Copies between the host and the device, after all earlier runs; they return when done. */
    tcc_status (*upload)(tcc_device *device, tcc_diag *d, void *to, const void *from_host, int64_t size_bytes);
    tcc_status (*download)(tcc_device *device, tcc_diag *d, void *to_host, const void *from, int64_t size_bytes);
    /* Asynchronous copies. `feed` takes its own copy of the host's memory before it returns, and gives it to
     * the runs that follow, not to those before: part after part from `to` on, each in its tcc_feed_room. `fetch`
     * copies what the earlier runs leave, TCC_FETCH_BYTES at most, to memory of the device's own; `collect` waits for
     * that copy and hands it out, as often as asked, until TCC_FETCHES later ones have been made. Errors of runs before
     * may come out here. What lies in pinned memory a feed need not copy first: then it stays as it is until TCC_FEEDS
     * more have been made, or the device was synchronized. A feed of no parts counts as one. */
    tcc_status (*feed)(tcc_device *device, tcc_diag *d, void *to, const tcc_feed *parts, int n_parts);
    /* Pin memory of the host's, which stays there until the device is destroyed; NULL: feeds take no copy in any case.
     */
    tcc_status (*pin)(tcc_device *device, tcc_diag *d, void *memory, int64_t size_bytes);
    tcc_status (*fetch)(tcc_device *device, tcc_diag *d, const void *from, int64_t size_bytes, int64_t *ticket);
    tcc_status (*collect)(tcc_device *device, tcc_diag *d, int64_t ticket, void *to_host, int64_t size_bytes);
    /* Arrays of a caller who computes on the same device. NULL: a device without memory of its own. Nothing here waits.
     * `check_memory`: TCC_EINVAL, with `what` and `name` in the words, where `memory` is none of the device's that a
     * program may be bound to, or where `stream` is none that the next two take. `follow`: runs and copies from now on
     * come after what `stream` was given so far. `lead`: what it is given from now on comes after them. `copy`: within
     * the device, after earlier runs and before later ones. */
    tcc_status (*check_memory)(tcc_device *device, tcc_diag *d, const char *what, const char *name, const void *memory,
                               void *stream);
    tcc_status (*follow)(tcc_device *device, tcc_diag *d, void *stream);
    tcc_status (*lead)(tcc_device *device, tcc_diag *d, void *stream);
    tcc_status (*copy)(tcc_device *device, tcc_diag *d, void *to, const void *from, int64_t size_bytes);
    /* Load a checked program's code and resolve its steps. `program` must outlive the commands. `store` is for a driver
     * that compiles what it loads; NULL: there is none. */
    tcc_status (*prepare)(tcc_device *device, tcc_context *cx, const tcc_program *program, const tcc_code_store *store,
                          tcc_commands **out);
    void (*release)(tcc_commands *commands);
    /* Say where a space begins, or a binding; the commands keep it until it is said again. */
    void (*place)(tcc_commands *commands, tcc_space space, int binding, void *base);
    /* What runs the program's collectives; NULL: nothing does, and none can be run. Borrowed. The op itself is NULL
     * where a device has no collectives, and makes no program ready that has some. */
    void (*set_collectives)(tcc_commands *commands, const tcc_collectives *collectives);
    /* Meet the devices of the other ranks, which do the same; before programs with collectives run. Then leave them:
     * once all ranks have done what was started, if that is `orderly`. NULL: this device has no use for it. Errors of
     * join: TCC_EUNSUPPORTED (no library for it), TCC_EINVAL (the ranks' libraries differ), TCC_EIO (another rank is
     * gone or too late), TCC_EDEVICE, TCC_ENOMEM. */
    tcc_status (*join)(tcc_device *device, tcc_diag *d, const tcc_meeting *with, tcc_device_ranks **out);
    void (*leave)(tcc_device_ranks *ranks, bool orderly);
    /* Run all steps; everything must be placed. It may return before they are done, and their errors come out of a
     * later call; with `times` (NULL, or one entry a step to fill) it waits. Behind those stand `threads` entries a
     * step: when each thread worked on it, from its first item to its last; 0 and 0 where it had none. */
    tcc_status (*run)(tcc_commands *commands, tcc_diag *d, tcc_step_time *times);
    /* The threads of the host that run a step's items; NULL: none. */
    int (*threads)(const tcc_device *device);
    /* How later runs are made; NULL: this device has no graphs. Runs with `times` are always launches. */
    void (*set_replay)(tcc_commands *commands, tcc_replay_mode mode);
    void (*get_replay)(const tcc_commands *commands, tcc_replay *out);
    /* The most memory that a thread of one of the kernels has for itself, where registers spill: bytes. NULL: nobody
     * knows. */
    int64_t (*local_bytes)(const tcc_commands *commands);
    tcc_status (*synchronize)(tcc_device *device, tcc_diag *d);
    /* Whether a program's step may call the library entry of that name with these params. The call is made ready and
     * given up again, so a library that is missing or refuses shows here; the log (topic `library`) has the reason.
     * What the params ask for and the call has no use for, such as room to work in, is lowered. */
    bool (*takes_call)(tcc_device *device, tcc_context *cx, const char *name, int64_t *params);
    /* Measure the device; takes some tenths of a second and, for that time, some hundred megabytes. */
    tcc_status (*measure)(tcc_device *device, tcc_diag *d, tcc_roofline *out);
    /* One line or more for a person: what it is, which libraries were found and where, what is lost without the others.
     */
    void (*describe)(const tcc_device *device, tcc_strbuf *out);
} tcc_device_ops;

struct tcc_device {
    const tcc_device_ops *ops;
    tcc_hardware hw; /* as the device says of itself; 0 where it does not */
};

void tcc_device_destroy(tcc_device *device); /* after all that was made from it; NULL is allowed */
/* For devices: TCC_ENOTFOUND unless a fetch of that size and ticket is kept when `made` were made. */
tcc_status tcc_device_check_fetch(tcc_diag *d, int64_t made, int64_t ticket, int64_t size_bytes);

#endif
