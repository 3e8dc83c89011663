/* SPDX-License-Identifier: MIT
 * The CUDA device: its table of functions, its life, and what it says about itself. */
#include "runtime/cuda/device.h"
#include "runtime/cuda/caller.h"
#include "runtime/cuda/commands.h"
#include "runtime/cuda/context.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/ranks.h"
#include "runtime/cuda/roofline.h"
#include "runtime/cuda/staging.h"

#include "ir/support/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_SM = 75 };

static tcc_device_cuda *cuda_of(tcc_device *device) { return (tcc_device_cuda *)device; }

/* --- memory --- */

static tcc_status cuda_alloc(tcc_device *device, tcc_diag *d, int64_t size_bytes, void **out) {
    tcc_device_cuda *cuda = cuda_of(device);
    tcc_cuda_address address = 0;
    *out = NULL;
    TCC_TRY(tcc__cuda_enter(cuda, d));
    tcc_status s = tcc__cuda_alloc(cuda, d, size_bytes, NULL, &address);
    tcc__cuda_leave(cuda);
    *out = (void *)(uintptr_t)address;
    return s;
}

static int64_t cuda_free_bytes(tcc_device *device) {
    tcc_device_cuda *cuda = cuda_of(device);
    tcc_diag d = {0};
    size_t free_bytes = 0, total = 0;
    if (tcc__cuda_enter(cuda, &d) == TCC_OK) {
        if (cuda->cu.memory_info(&free_bytes, &total)) free_bytes = 0;
        tcc__cuda_leave(cuda);
    }
    tcc_diag_clear(&d); /* a lost device is reported by what is done with it next */
    return (int64_t)free_bytes;
}

static void cuda_free(tcc_device *device, void *memory, int64_t size_bytes) {
    tcc_device_cuda *cuda = cuda_of(device);
    (void)size_bytes;
    if (!memory || !tcc__cuda_enter_to_free(cuda)) return;
    cuda->cu.free((tcc_cuda_address)(uintptr_t)memory);
    tcc__cuda_leave(cuda);
}

static tcc_status cuda_synchronize(tcc_device *device, tcc_diag *d) {
    tcc_device_cuda *cuda = cuda_of(device);
    TCC_TRY(tcc__cuda_enter(cuda, d));
    const tcc_status s = tcc__cuda_wait_stream(cuda, d, cuda->compute);
    tcc__cuda_leave(cuda);
    return s;
}

/* --- describing --- */

static void describe_device(const tcc_device_cuda *cuda, tcc_strbuf *out) {
    tcc_strbuf_printf(out, "cuda:%d: %s, %s, %d SMs, ", cuda->ordinal, cuda->name, cuda->arch,
                      cuda->base.hw.processors);
    tcc_strbuf_bytes(out, (double)cuda->memory_bytes);
    tcc_strbuf_printf(out, "; driver for CUDA %d.%d (%s)\n", cuda->cu.version / 1000, cuda->cu.version % 1000 / 10,
                      cuda->cu.file);
}

static void cuda_describe(const tcc_device *device, tcc_strbuf *out) {
    const tcc_device_cuda *cuda = (const tcc_device_cuda *)device;
    describe_device(cuda, out);
    tcc__cuda_libraries_describe(&cuda->cu, out);
}

/* --- life --- */

static void cuda_destroy(tcc_device *device) {
    tcc_device_cuda *cuda = cuda_of(device);
    tcc_cuda_stream streams[] = {cuda->to_device, cuda->compute, cuda->to_host};
    if (cuda->context && tcc__cuda_enter_to_free(cuda)) {
        for (int i = 0; i < 3; i++)
            if (streams[i]) cuda->cu.stream_synchronize(streams[i]); /* pinned memory must not go while it is copied */
        tcc__cuda_libraries_close(cuda);
        tcc__cuda_staging_destroy(cuda);
        if (cuda->order) cuda->cu.event_destroy(cuda->order);
        for (int i = 0; i < 3; i++)
            if (streams[i]) cuda->cu.stream_destroy(streams[i]);
        tcc__cuda_leave(cuda);
    }
    if (cuda->context) cuda->cu.context_release(cuda->device);
    if (cuda->has_lock) pthread_mutex_destroy(&cuda->lock);
    tcc__free(cuda);
}

static const tcc_device_ops cuda_ops = {
    .kind = "cuda",
    .target = TCC_TARGET_CUDA,
    .destroy = cuda_destroy,
    .alloc = cuda_alloc,
    .free_bytes = cuda_free_bytes,
    .free = cuda_free,
    .upload = tcc__cuda_upload,
    .download = tcc__cuda_download,
    .feed = tcc__cuda_feed,
    .pin = tcc__cuda_pin,
    .fetch = tcc__cuda_fetch,
    .collect = tcc__cuda_collect,
    .check_memory = tcc__cuda_check_memory,
    .follow = tcc__cuda_follow,
    .lead = tcc__cuda_lead,
    .copy = tcc__cuda_copy,
    .prepare = tcc__commands_cuda_prepare,
    .release = tcc__commands_cuda_release,
    .place = tcc__commands_cuda_place,
    .set_collectives = tcc__commands_cuda_set_collectives,
    .join = tcc__cuda_join,
    .leave = tcc__cuda_leave_ranks,
    .run = tcc__commands_cuda_run,
    .set_replay = tcc__commands_cuda_set_replay,
    .get_replay = tcc__commands_cuda_get_replay,
    .local_bytes = tcc__commands_cuda_local_bytes,
    .synchronize = cuda_synchronize,
    .takes_call = tcc__cuda_takes_call,
    .measure = tcc__device_cuda_measure,
    .describe = cuda_describe,
};

/* What codegen is told about the device. Figures that an old driver does not know stay 0. */
static tcc_status read_figures(tcc_device_cuda *cuda, tcc_diag *d, tcc_hardware *hw) {
    enum { WARP = 32, DOUBLE_RATE = 2 /* memory moves a word at both edges of its clock */ };
    int shared = 0, shared_optin = 0, shared_all = 0, reserved = 0, cache = 0, khz = 0, memory_khz = 0, bits = 0;
    const struct {
        int attribute, *value;
    } asked[] = {
        {TCC_CUDA_THREADS_PER_BLOCK, &hw->threads_per_block},
        {TCC_CUDA_THREADS_PER_SM, &hw->threads_per_processor},
        {TCC_CUDA_BLOCKS_PER_SM, &hw->blocks_per_processor},
        {TCC_CUDA_REGISTERS_PER_SM, &hw->registers_per_processor},
        {TCC_CUDA_SHARED_BYTES, &shared},
        {TCC_CUDA_SHARED_OPTIN_BYTES, &shared_optin},
        {TCC_CUDA_SHARED_BYTES_PER_SM, &shared_all},
        {TCC_CUDA_SHARED_RESERVED_BYTES, &reserved},
        {TCC_CUDA_CACHE_BYTES, &cache},
        {TCC_CUDA_CLOCK_KHZ, &khz},
        {TCC_CUDA_MEMORY_CLOCK_KHZ, &memory_khz},
        {TCC_CUDA_MEMORY_BUS_BITS, &bits},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        tcc_cuda_result r = cuda->cu.device_attribute(asked[i].value, asked[i].attribute, cuda->device);
        if (r == TCC_CUDA_INVALID_VALUE) *asked[i].value = 0;
        else if (r) return tcc__cuda_failed(cuda, d, r, tcc__cuda_symbol_device_attribute);
    }
    hw->warps_per_processor = hw->threads_per_processor / WARP;
    hw->shared_bytes = shared, hw->shared_optin_bytes = shared_optin;
    hw->shared_bytes_per_processor = shared_all, hw->shared_reserved_bytes = reserved;
    hw->cache_bytes = cache;
    hw->clock_hz = khz * 1e3;
    hw->bytes_per_s = DOUBLE_RATE * 1e3 * memory_khz * (bits / 8.0);
    return TCC_OK;
}

static tcc_status read_properties(tcc_device_cuda *cuda, tcc_diag *d, int ordinal) {
    int major, minor;
    size_t total;
    tcc_hardware hw = {0};
    cuda->ordinal = ordinal;
    TCC_CUDA_TRY(cuda, d, device_get, &cuda->device, ordinal);
    TCC_CUDA_TRY(cuda, d, device_name, cuda->name, sizeof cuda->name, cuda->device);
    TCC_CUDA_TRY(cuda, d, device_attribute, &major, TCC_CUDA_CAPABILITY_MAJOR, cuda->device);
    TCC_CUDA_TRY(cuda, d, device_attribute, &minor, TCC_CUDA_CAPABILITY_MINOR, cuda->device);
    TCC_CUDA_TRY(cuda, d, device_attribute, &hw.processors, TCC_CUDA_SM_COUNT, cuda->device);
    TCC_CUDA_TRY(cuda, d, device_memory, &total, cuda->device);
    cuda->memory_bytes = (int64_t)total;
    hw.sm = 10 * major + minor;
    snprintf(cuda->arch, sizeof cuda->arch, "sm_%d", hw.sm);
    TCC_TRY(read_figures(cuda, d, &hw));
    cuda->base.hw = hw;
    return TCC_OK;
}

static tcc_status check_usable(tcc_device_cuda *cuda, tcc_diag *d) {
    int mode;
    TCC_CUDA_TRY(cuda, d, device_attribute, &mode, TCC_CUDA_COMPUTE_MODE, cuda->device);
    if (mode == TCC_CUDA_COMPUTE_MODE_PROHIBITED)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE,
                         "cuda:%d (%s) is closed to compute: nvidia-smi -c 0 opens it", cuda->ordinal, cuda->name);
    if (cuda->base.hw.sm >= OLDEST_SM) return TCC_OK;
    return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "cuda:%d (%s) is %s: sm_%d or newer is needed (Turing, 2018)",
                     cuda->ordinal, cuda->name, cuda->arch, OLDEST_SM);
}

static tcc_status make_streams(tcc_device_cuda *cuda, tcc_diag *d) {
    tcc_cuda_stream *streams[] = {&cuda->compute, &cuda->to_device, &cuda->to_host};
    for (int i = 0; i < 3; i++) TCC_CUDA_TRY(cuda, d, stream_create, streams[i], TCC_CUDA_STREAM_NON_BLOCKING);
    TCC_CUDA_TRY(cuda, d, event_create, &cuda->order, TCC_CUDA_EVENT_NO_TIMING);
    return tcc__cuda_staging_create(cuda, d);
}

static tcc_status take_context(tcc_device_cuda *cuda, tcc_diag *d) {
    TCC_CUDA_TRY(cuda, d, context_retain, &cuda->context, cuda->device);
    TCC_TRY(tcc__cuda_enter(cuda, d));
    tcc_status s = make_streams(cuda, d);
    tcc__cuda_leave(cuda);
    return s;
}

static tcc_status count_devices(tcc_device_cuda *cuda, tcc_diag *d, int *count) {
    TCC_CUDA_TRY(cuda, d, device_count, count);
    return *count
               ? TCC_OK
               : tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "no CUDA device: the driver %s shows none", cuda->cu.file);
}

/* The first usable device, or the one that was asked for. */
static tcc_status choose(tcc_device_cuda *cuda, tcc_diag *d, int ordinal) {
    int count = 0;
    TCC_TRY(count_devices(cuda, d, &count));
    if (ordinal >= count)
        return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE,
                         "no device cuda:%d: the driver shows %d, counted from 0 (CUDA_VISIBLE_DEVICES "
                         "chooses among them)",
                         ordinal, count);
    if (ordinal >= 0) {
        TCC_TRY(read_properties(cuda, d, ordinal));
        return check_usable(cuda, d);
    }
    tcc_status s = TCC_EUNSUPPORTED;
    for (int i = 0; i < count && s != TCC_OK; i++) {
        tcc_diag *why = i + 1 == count ? d : NULL; /* where none is usable, the last one says why */
        *cuda->lost = 0;                           /* as the one before may be */
        s = read_properties(cuda, why, i);
        if (s == TCC_OK) s = check_usable(cuda, why);
    }
    return s;
}

static tcc_status create(tcc_device_cuda *cuda, tcc_diag *d, int ordinal) {
    if (pthread_mutex_init(&cuda->lock, NULL)) return tcc_enomem(d);
    cuda->has_lock = true;
    const char *blocking = getenv("TCC_LAUNCH_BLOCKING");
    cuda->blocking = blocking && *blocking && strcmp(blocking, "0");
    TCC_TRY(tcc_cuda_driver_open(d, &cuda->cu));
    TCC_TRY(choose(cuda, d, ordinal));
    return take_context(cuda, d);
}

tcc_status tcc_device_cuda_create(tcc_context *cx, int ordinal, tcc_device **out) {
    *out = NULL;
    tcc_device_cuda *cuda = tcc__calloc(1, sizeof *cuda);
    if (!cuda) return tcc_enomem(&cx->diag);
    cuda->base.ops = &cuda_ops;
    tcc_status s = create(cuda, &cx->diag, ordinal);
    if (s == TCC_OK) *out = &cuda->base;
    else cuda_destroy(&cuda->base);
    return s;
}

/* A line about device `ordinal`, and one why it is of no use. */
static bool list_device(tcc_device_cuda *cuda, int ordinal, tcc_strbuf *text) {
    tcc_diag why = {0};
    tcc_status s = read_properties(cuda, &why, ordinal);
    if (s == TCC_OK) {
        describe_device(cuda, text);
        s = check_usable(cuda, &why);
    }
    if (s != TCC_OK) tcc_strbuf_printf(text, "not used: %s\n", tcc_diag_words(&why));
    tcc_diag_clear(&why);
    return s == TCC_OK;
}

tcc_status tcc_device_cuda_list(tcc_context *cx, int *usable, tcc_strbuf *text) {
    int count = 0;
    *usable = 0;
    tcc_device_cuda *cuda = tcc__calloc(1, sizeof *cuda);
    if (!cuda) return tcc_enomem(&cx->diag);
    tcc_status s = tcc_cuda_driver_open(&cx->diag, &cuda->cu);
    if (s == TCC_OK) s = count_devices(cuda, &cx->diag, &count);
    for (int i = 0; i < count; i++) *usable += list_device(cuda, i, text);
    cuda_destroy(&cuda->base);
    return s;
}

tcc_status tcc_device_cuda_count(tcc_context *cx, int *count) {
    *count = 0;
    tcc_device_cuda *cuda = tcc__calloc(1, sizeof *cuda);
    if (!cuda) return tcc_enomem(&cx->diag);
    tcc_status s = tcc_cuda_driver_open(&cx->diag, &cuda->cu);
    if (s == TCC_OK) s = count_devices(cuda, &cx->diag, count);
    cuda_destroy(&cuda->base);
    return s;
}

tcc_status tcc_device_cuda_probe(tcc_context *cx, int ordinal, int *found, int *sm, tcc_strbuf *description) {
    tcc_device_cuda *cuda = tcc__calloc(1, sizeof *cuda);
    if (!cuda) return tcc_enomem(&cx->diag);
    tcc_status s = tcc_cuda_driver_open(&cx->diag, &cuda->cu);
    if (s == TCC_OK) s = choose(cuda, &cx->diag, ordinal);
    if (s == TCC_OK) {
        *found = cuda->ordinal;
        *sm = cuda->base.hw.sm;
        describe_device(cuda, description);
    }
    cuda_destroy(&cuda->base);
    return s;
}
