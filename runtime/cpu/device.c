/* SPDX-License-Identifier: MIT
 * The CPU device: memory and the parts' lifetimes. */
#include "runtime/cpu/device.h"

#include "ir/support/alloc.h"
#include "ir/support/cpu.h"
#include "runtime/memory_limits.h"
#include "runtime/wanted.h"

#include <string.h>

enum { ALIGNMENT = 64 };

static tcc_device_cpu *cpu_of(tcc_device *device) { return (tcc_device_cpu *)device; }

static void cpu_destroy(tcc_device *device) {
    tcc_device_cpu *cpu = cpu_of(device);
    tcc_pool_destroy(cpu->pool);
    tcc__free(cpu);
}

static size_t rounded(int64_t size_bytes) { return ((size_t)size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static tcc_status cpu_alloc(tcc_device *device, tcc_diag *d, int64_t size_bytes, void **out) {
    (void)device;
    *out = size_bytes >= 0 ? tcc__zeroed(rounded(size_bytes)) : NULL;
    if (!*out)
        return tcc_error(d, TCC_ENOMEM, TCC_NOWHERE, "out of memory: %lld bytes of device memory",
                         (long long)size_bytes);
    return TCC_OK;
}

static void cpu_free(tcc_device *device, void *memory, int64_t size_bytes) {
    (void)device;
    tcc__zeroed_free(memory, rounded(size_bytes));
}

static int64_t cpu_free_bytes(tcc_device *device) {
    (void)device;
    return tcc_memory_left("/proc", "/sys/fs/cgroup");
}

static tcc_status cpu_copy(tcc_device *device, tcc_diag *d, void *to, const void *from, int64_t size_bytes) {
    (void)device;
    (void)d;
    if (size_bytes > 0) memcpy(to, from, (size_t)size_bytes);
    return TCC_OK;
}

static tcc_status cpu_feed(tcc_device *device, tcc_diag *d, void *to, const tcc_feed *parts, int n_parts) {
    (void)device;
    (void)d;
    char *at = to;
    for (int i = 0; i < n_parts; i++) {
        memcpy(at, parts[i].from, (size_t)parts[i].size_bytes);
        at += tcc_feed_room(parts[i].size_bytes);
    }
    return TCC_OK;
}

static tcc_status cpu_fetch(tcc_device *device, tcc_diag *d, const void *from, int64_t size_bytes, int64_t *ticket) {
    tcc_device_cpu *cpu = cpu_of(device);
    if (size_bytes < 0 || size_bytes > TCC_FETCH_BYTES)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "a fetch of %lld bytes: at most %d", (long long)size_bytes,
                         TCC_FETCH_BYTES);
    tcc_pool_lock(cpu->pool);
    *ticket = cpu->n_fetched++;
    memcpy(cpu->fetched[*ticket % TCC_FETCHES], from, (size_t)size_bytes);
    tcc_pool_unlock(cpu->pool);
    return TCC_OK;
}

static tcc_status cpu_collect(tcc_device *device, tcc_diag *d, int64_t ticket, void *to, int64_t size_bytes) {
    tcc_device_cpu *cpu = cpu_of(device);
    tcc_pool_lock(cpu->pool);
    tcc_status s = tcc_device_check_fetch(d, cpu->n_fetched, ticket, size_bytes);
    if (s == TCC_OK) memcpy(to, cpu->fetched[ticket % TCC_FETCHES], (size_t)size_bytes);
    tcc_pool_unlock(cpu->pool);
    return s;
}

static tcc_status cpu_synchronize(tcc_device *device, tcc_diag *d) {
    (void)device; /* runs return when they are done */
    (void)d;
    return TCC_OK;
}

static void cpu_describe(const tcc_device *device, tcc_strbuf *out) {
    const tcc_device_cpu *cpu = (const tcc_device_cpu *)device;
    int threads = tcc_pool_threads(cpu->pool);
    const char *level = tcc_cpu_level(), *wanted = NULL;
    tcc_strbuf_printf(out, "cpu: %d thread%s", threads, threads == 1 ? "" : "s");
    if (level) tcc_strbuf_printf(out, ", %s", level);
    if (level && tcc_cpu_has("avx512bf16")) tcc_strbuf_add(out, " with avx512bf16");
    if (level && tcc_cpu_has("amx-bf16")) tcc_strbuf_add(out, " and amx-bf16");
    if (tcc_cpu_wanted(NULL, &wanted) == TCC_OK && wanted) tcc_strbuf_add(out, " (TCC_CPU)");
    tcc_strbuf_add(out, "\n");
}

static int cpu_threads(const tcc_device *device) { return tcc_pool_threads(((const tcc_device_cpu *)device)->pool); }

/* No library beats our kernels here within the rules of a step (ARCHITECTURE.md), so none is opened. */
static bool cpu_takes_call(tcc_device *device, tcc_context *cx, const char *name, int64_t *params) {
    (void)device, (void)cx, (void)name, (void)params;
    return false;
}

static const tcc_device_ops cpu_ops = {
    .kind = "cpu",
    .target = TCC_TARGET_HOST,
    .shares_host = true,
    .destroy = cpu_destroy,
    .alloc = cpu_alloc,
    .free_bytes = cpu_free_bytes,
    .free = cpu_free,
    .upload = cpu_copy,
    .download = cpu_copy,
    .feed = cpu_feed,
    .fetch = cpu_fetch,
    .collect = cpu_collect,
    .prepare = tcc__commands_cpu_prepare,
    .release = tcc__commands_cpu_release,
    .place = tcc__commands_cpu_place,
    .set_collectives = tcc__commands_cpu_set_collectives,
    .run = tcc__commands_cpu_run,
    .threads = cpu_threads,
    .synchronize = cpu_synchronize,
    .takes_call = cpu_takes_call,
    .measure = tcc__device_cpu_measure,
    .describe = cpu_describe,
};

tcc_status tcc_device_cpu_create(tcc_context *cx, int threads, tcc_device **out) {
    *out = NULL;
    tcc_device_cpu *cpu = tcc__calloc(1, sizeof *cpu);
    if (!cpu) return tcc_enomem(&cx->diag);
    cpu->base.ops = &cpu_ops;
    const char *level;
    tcc_status s = tcc_pool_create(&cx->diag, threads, &cpu->pool);
    if (s == TCC_OK) s = tcc_cpu_wanted(&cx->diag, &level);
    if (s == TCC_OK) s = tcc_libraries_check_wanted(&cx->diag); /* a wrong name is told on any device */
    if (s == TCC_OK) *out = &cpu->base;
    else cpu_destroy(&cpu->base);
    return s;
}
