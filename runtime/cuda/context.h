/* SPDX-License-Identifier: MIT
 * What the parts of a CUDA device share: its state, and the ways into its context and memory. Private to this room. */
#ifndef TCC_RUNTIME_CUDA_CONTEXT_H
#define TCC_RUNTIME_CUDA_CONTEXT_H

#include "runtime/cuda/driver.h"
#include "ir/support/vec.h"
#include "runtime/device.h"

#include <pthread.h>

enum { TCC_CUDA_STAGING_SLOTS = TCC_FEEDS };

/* Pinned memory for one feed, and as much on the device, where a large one is copied to while earlier runs go on. From
 * there it is copied to its place between two runs; then the slot is free again. */
typedef struct tcc_cuda_staging {
    unsigned char *host;
    tcc_cuda_address device;
    int64_t capacity;
    tcc_cuda_event copied, done;
    bool pending; /* `done` was recorded and not yet waited for */
} tcc_cuda_staging;

/* Memory of the host's that was pinned for feeds. */
typedef struct tcc_cuda_pin {
    void *memory;
    int64_t size_bytes;
} tcc_cuda_pin;

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
    tcc_vec(tcc_cuda_pin) pins;
    unsigned char *fetched; /* pinned, TCC_FETCHES results */
    tcc_cuda_event fetch_done[TCC_FETCHES];
    int64_t n_fetched;
    struct tcc_cublaslt *cublaslt; /* NULL: not wanted yet */
    struct tcc_cudnn *cudnn;       /* likewise */
    struct tcc_cuda_call *calls;   /* of libraries, that were made for programs so far */
    tcc_device_ranks *ranks;       /* that it has joined; NULL: it is alone */
    char lost[256];                /* the first error after which nothing works; "": none */
} tcc_device_cuda;

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
TCC_CUDA_GRAPH_CALLS(X)
#undef X

/* Memory on the device, or pinned on the host; entered. `purpose`: what an error says it is for; NULL: the caller says
 * it. */
tcc_status tcc__cuda_alloc(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, const char *purpose,
                           tcc_cuda_address *out);
tcc_status tcc__cuda_host_alloc(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes, void **out);
/* Pins memory that is there. */
tcc_status tcc__cuda_host_register(tcc_device_cuda *cuda, tcc_diag *d, void *memory, int64_t size_bytes);

#endif
