/* SPDX-License-Identifier: MIT
 * A CUDA device. All work goes through one stream in order; batches come in beside it on a second and results of any
 * size leave on a third. Nothing on the way of a step waits for the device: the host is a few steps ahead at most, as
 * many as there are staging slots.
 *
 * An error of a kernel shows in a later call. TCC_LAUNCH_BLOCKING=1 waits after each step of a program instead, and
 * names the one that failed, its user's lines and a file with its PTX. After such an error the device is of no more use
 * to this process: every call says so with the first error's words, and what was taken is still given back. */
#ifndef TCC_RUNTIME_CUDA_DEVICE_H
#define TCC_RUNTIME_CUDA_DEVICE_H

#include "runtime/cuda/driver.h"
#include "runtime/device.h"

#include <pthread.h>

enum { TCC_CUDA_STAGING_SLOTS = 4 };

/* Pinned memory for what is fed to one run, and room on the device for the large part of it, so that it is copied while
 * earlier runs go on. It is free again when its run is done. */
typedef struct tcc_cuda_staging {
    unsigned char *host;
    tcc_cuda_address device;
    int64_t capacity, used;
    tcc_cuda_event copied, done;
    bool pending; /* `done` was recorded and not yet waited for */
} tcc_cuda_staging;

struct tcc_cublaslt;  /* cublaslt.c */
struct tcc_cudnn;     /* cudnn.h */
struct tcc_cuda_call; /* library.c */

typedef struct tcc_device_cuda {
    tcc_device base;
    tcc_cuda_driver cu;
    int ordinal;
    tcc_cuda_ordinal device;
    tcc_cuda_context context; /* the primary one, shared with all others of this process; NULL: not retained */
    char name[128], arch[16]; /* "sm_90"; the rest is in base.hw */
    int64_t memory_bytes;
    bool blocking; /* TCC_LAUNCH_BLOCKING */
    pthread_mutex_t lock;
    bool has_lock;
    tcc_cuda_stream compute, to_device, to_host;
    tcc_cuda_event order; /* of what `to_host` waits for */
    tcc_cuda_staging staging[TCC_CUDA_STAGING_SLOTS];
    int slot;
    unsigned char *fetched; /* pinned, TCC_FETCHES results */
    tcc_cuda_event fetch_done[TCC_FETCHES];
    int64_t n_fetched;
    struct tcc_cublaslt *cublaslt; /* NULL: not wanted yet */
    struct tcc_cudnn *cudnn;       /* likewise */
    struct tcc_cuda_call *calls;   /* of libraries, that were made for programs so far */
    char lost[256];                /* the first error after which nothing works; "": none */
} tcc_device_cuda;

/* `ordinal`: as the driver counts, or -1 for the first device that is usable: sm_75 or newer and not closed to compute.
 * Takes the primary context. Errors: TCC_EUNSUPPORTED (no driver, no such device, too old; says what to do),
 * TCC_EDEVICE, TCC_ENOMEM. */
tcc_status tcc_device_cuda_create(tcc_context *cx, int ordinal, tcc_device **out);
/* The device's architecture, "sm_90", borrowed, and as a number. */
const char *tcc_device_cuda_arch(const tcc_device *device);
int tcc_device_cuda_sm(const tcc_device *device);
/* A line for each device that the driver shows, and why it is of no use where it is not; how many are `usable`. Errors:
 * TCC_EUNSUPPORTED (no driver, no device), TCC_EDEVICE, TCC_ENOMEM. */
tcc_status tcc_device_cuda_list(tcc_context *cx, int *usable, tcc_strbuf *text);
/* Which device create would take, without taking it: its number, and what it says of itself is added to `description`.
 * Errors as create's. */
tcc_status tcc_device_cuda_probe(tcc_context *cx, int ordinal, int *found, int *sm, tcc_strbuf *description);

/* Make the device's context the calling thread's, alone with the device; leave gives both back. Fails with what lost
 * the device. */
tcc_status tcc__cuda_enter(tcc_device_cuda *cuda, tcc_diag *d);
/* Enter also on a lost device, where what a process holds is given back all the same; the driver answers with the old
 * error. false: not even that is possible, as the driver has ended. */
bool tcc__cuda_enter_to_free(tcc_device_cuda *cuda);
void tcc__cuda_leave(tcc_device_cuda *cuda);
/* Report a call's failure, and remember it if it is for good. */
tcc_status tcc__cuda_failed(tcc_device_cuda *cuda, tcc_diag *d, tcc_cuda_result result, const char *call);
#define TCC_CUDA_TRY(cuda, d, field, ...)                                                     \
    do {                                                                                      \
        tcc_cuda_result result_ = (cuda)->cu.field(__VA_ARGS__);                              \
        if (result_) return tcc__cuda_failed((cuda), (d), result_, tcc__cuda_symbol_##field); \
    } while (0)
#define X(field, symbol, parameters) static const char tcc__cuda_symbol_##field[] __attribute__((unused)) = symbol;
TCC_CUDA_CALLS(X)
#undef X

/* Memory on the device, or pinned on the host; entered. `purpose`: what an error says it is for; NULL: the caller says
 * it. */
tcc_status tcc__cuda_alloc(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, const char *purpose,
                           tcc_cuda_address *out);
tcc_status tcc__cuda_host_alloc(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, void **out);

/* In staging.c: the ways in and out. */
tcc_status tcc__cuda_feed(tcc_device *device, tcc_diag *d, void *to, const void *from_host, int64_t size_bytes);
tcc_status tcc__cuda_fetch(tcc_device *device, tcc_diag *d, const void *from, int64_t size_bytes, int64_t *ticket);
tcc_status tcc__cuda_collect(tcc_device *device, tcc_diag *d, int64_t ticket, void *to_host, int64_t size_bytes);
tcc_status tcc__cuda_upload(tcc_device *device, tcc_diag *d, void *to, const void *from_host, int64_t size_bytes);
tcc_status tcc__cuda_download(tcc_device *device, tcc_diag *d, void *to_host, const void *from, int64_t size_bytes);
/* Have room for `size_bytes` in every slot; entered. */
tcc_status tcc__cuda_staging_reserve(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes);
/* A run was enqueued: its slot is in use until then; entered. */
tcc_status tcc__cuda_staging_turn(tcc_device_cuda *cuda, tcc_diag *d);
tcc_status tcc__cuda_staging_create(tcc_device_cuda *cuda, tcc_diag *d);
void tcc__cuda_staging_destroy(tcc_device_cuda *cuda);

/* In commands.c: the program-running part of the device's table. */
tcc_status tcc__commands_cuda_prepare(tcc_device *device, tcc_context *cx, const tcc_program *program,
                                      tcc_commands **out);
void tcc__commands_cuda_release(tcc_commands *commands);
void tcc__commands_cuda_place(tcc_commands *commands, tcc_space space, int binding, void *base);
tcc_status tcc__commands_cuda_run(tcc_commands *commands, tcc_diag *d, tcc_step_time *times);
/* In roofline.c. */
tcc_status tcc__device_cuda_measure(tcc_device *device, tcc_diag *d, tcc_roofline *out);

#endif
