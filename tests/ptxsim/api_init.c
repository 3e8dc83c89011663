/* SPDX-License-Identifier: MIT
 * Initialization, devices, contexts, errors, lookup of entry points, and what is left at exit. */
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

sim_state sim = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local struct {
    CUcontext at[16];
    int n;
} current;

/* Calls by the name of their entry; those without one of their own count for the function that they share. */
static struct {
    const char *name;
    uint64_t count;
} calls[256];

static void count_call(const char *name) {
    size_t k = 0;
    while (k + 1 < sizeof calls / sizeof *calls && calls[k].name && strcmp(calls[k].name, name)) k++;
    calls[k].name = name, calls[k].count++;
}

EXPORT uint64_t ptxsim_get_calls(const char *name) {
    uint64_t sum = 0;
    pthread_mutex_lock(&sim.lock);
    for (size_t k = 0; k < sizeof calls / sizeof *calls && calls[k].name; k++)
        if (!name || !strcmp(calls[k].name, name)) sum += calls[k].count;
    pthread_mutex_unlock(&sim.lock);
    return sum;
}

CUresult api_enter_as(const char *name, bool needs_context) {
    pthread_mutex_lock(&sim.lock);
    count_call(name);
    if (!sim.initialized) return CUDA_ERROR_NOT_INITIALIZED;
    if (needs_context) {
        CUcontext c = api_context();
        if (!c) return CUDA_ERROR_INVALID_CONTEXT;
        if (!c->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (sim.sticky) return sim.sticky;
    }
    return CUDA_SUCCESS;
}

CUresult api_leave(CUresult r) {
    pthread_mutex_unlock(&sim.lock);
    return r;
}

CUcontext api_context(void) { return current.n ? current.at[current.n - 1] : NULL; }

bool api_fault(ptxsim_fault f) { return sim.faults[f] > 0 && --sim.faults[f] == 0; }

static void read_faults(void) {
    static const char *const names[PTXSIM_FAULT_KINDS] = {"alloc", "host",  "module", "launch", "lost",
                                                          "call",  "graph", "spoil",  "gone"};
    const char *s = getenv("PTXSIM_FAULT");
    while (s && *s) {
        for (int k = 0; k < PTXSIM_FAULT_KINDS; k++) {
            size_t n = strlen(names[k]);
            if (strncmp(s, names[k], n) == 0 && s[n] == ':') sim.faults[k] = atoi(s + n + 1);
        }
        s = strchr(s, ',');
        if (s) s++;
    }
}

EXPORT void ptxsim_inject(ptxsim_fault fault, int nth) {
    pthread_mutex_lock(&sim.lock);
    if (fault < PTXSIM_FAULT_KINDS) sim.faults[fault] = nth;
    pthread_mutex_unlock(&sim.lock);
}

EXPORT void ptxsim_lose_by(int result) {
    pthread_mutex_lock(&sim.lock);
    sim.lost_by = (CUresult)result;
    pthread_mutex_unlock(&sim.lock);
}

EXPORT void ptxsim_spill(int nth, int bytes) {
    pthread_mutex_lock(&sim.lock);
    sim.spill_from = nth, sim.spill_bytes = bytes;
    pthread_mutex_unlock(&sim.lock);
}

CUresult cuInit(unsigned int flags) {
    pthread_mutex_lock(&sim.lock);
    if (flags) return api_leave(CUDA_ERROR_INVALID_VALUE);
    if (sim.initialized) return api_leave(CUDA_SUCCESS);
    sim_read_settings();
    if (sim_set.devices == 0) return api_leave(CUDA_ERROR_NO_DEVICE);
    if (!sim_memory_open(sim_set.memory_bytes)) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    read_faults();
    sim.initialized = true;
    return api_leave(CUDA_SUCCESS);
}

CUresult cuDriverGetVersion(int *version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    if (!sim.initialized) sim_read_settings();
    *version = sim_set.driver;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
    switch (error) {
#define X(n, value, text) \
    case value: *name = "CUDA_" #n; return CUDA_SUCCESS;
        PTXSIM_ERRORS(X)
#undef X
    default: *name = NULL; return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuGetErrorString(CUresult error, const char **out) {
    switch (error) {
#define X(n, value, text) \
    case value: *out = text; return CUDA_SUCCESS;
        PTXSIM_ERRORS(X)
#undef X
    default: *out = NULL; return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    static const char *const suffixes[] = {"_v2", "", "WithFlags"};
    Dl_info info;
    (void)version, (void)flags;
    if (!symbol || !function) return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    if (status) *status = 1;
    void *self = dladdr((void *)(uintptr_t)cuInit, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (strcmp(symbol, "cuGraphInstantiate") == 0) symbol = "cuGraphInstantiateWithFlags";
    for (int k = 0; self && !*function && k < 2; k++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", symbol, suffixes[k]);
        *function = dlsym(self, name);
    }
    if (self) dlclose(self);
    if (status) *status = *function ? 0 : 1;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* --- devices */

static CUresult check_device(CUdevice d) {
    return d >= 0 && d < sim_set.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count) {
    ENTER(false);
    *count = sim_set.devices;
    return api_leave(CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    ENTER(false);
    *device = ordinal;
    return api_leave(check_device(ordinal));
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    ENTER(false);
    if (name && size > 0) snprintf(name, (size_t)size, "PTX simulator sm_%d", sim_set.sm);
    return api_leave(check_device(device));
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    ENTER(false);
    *bytes = sim_memory_total();
    return api_leave(check_device(device));
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    ENTER(false);
    if (check_device(device)) return api_leave(CUDA_ERROR_INVALID_DEVICE);
    const sim_profile *p = sim_set.profile;
    int reserved_kib = p->shared_kib - p->block_shared_kib, v;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: v = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: v = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: v = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: v = 2147483647; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: v = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: v = 49152; break;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: v = 65536; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: v = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: v = 2147483647; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: v = 65536; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: v = p->mhz * 1000; break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: v = 512; break;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: v = 1; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: v = sim_set.sm_count; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: v = device + 1; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: v = p->memory_mhz * 1000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: v = p->memory_bits; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: v = p->l2_mib << 20; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: v = p->warps * 32; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: v = 3; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: v = sim_set.sm / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: v = sim_set.sm % 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        v = (sim_set.shared_kib + reserved_kib) * 1024;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: v = sim_set.shared_kib * 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: v = p->blocks; break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: v = reserved_kib * 1024; break;
    default: v = 0; break; /* features that this device lacks */
    }
    *value = v;
    return api_leave(attribute > 0 && attribute < 256 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* --- contexts */

static CUcontext context_of(CUdevice device, bool primary) {
    for (CUcontext c = sim.contexts; c; c = c->next)
        if (c->alive && c->primary == primary && c->device == device) return c;
    return NULL;
}

static CUcontext new_context(CUdevice device, bool primary, unsigned flags) {
    CUcontext c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->device = device, c->primary = primary, c->alive = true, c->flags = flags;
    c->next = sim.contexts, sim.contexts = c;
    c->null_stream = stream_create(c, 0, 0, true);
    return c;
}

/* What the context owns goes with it, and so does a sticky error. */
static void end_context(CUcontext c) {
    stream_complete_of(c);
    for (CUmodule m = sim.modules; m; m = m->next)
        if (m->alive && m->context == c) sim_module_free(m->module), m->module = NULL, m->alive = false;
    for (CUstream s = sim.streams; s; s = s->next)
        if (s->context == c) s->alive = false;
    c->alive = false;
    sim.sticky = CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    ENTER(false);
    if (check_device(device)) return api_leave(CUDA_ERROR_INVALID_DEVICE);
    CUcontext c = context_of(device, true);
    if (!c) c = new_context(device, true, 0);
    if (!c) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    c->references++;
    *context = c;
    return api_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    ENTER_TO_RELEASE(false);
    CUcontext c = context_of(device, true);
    if (!c) return api_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--c->references == 0) end_context(c);
    return api_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    ENTER(false);
    CUcontext c = context_of(device, true);
    if (c) end_context(c);
    return api_leave(check_device(device));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
    ENTER(false);
    CUcontext c = context_of(device, true);
    if (flags) *flags = c ? c->flags : 0;
    if (active) *active = c != NULL;
    return api_leave(check_device(device));
}

static CUresult push(CUcontext c) {
    if (current.n == 16) return CUDA_ERROR_INVALID_VALUE;
    current.at[current.n++] = c;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
    ENTER(false);
    if (check_device(device)) return api_leave(CUDA_ERROR_INVALID_DEVICE);
    *context = new_context(device, false, flags);
    return api_leave(*context ? push(*context) : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    ENTER_TO_RELEASE(false);
    if (!context || !context->alive || context->primary) return api_leave(CUDA_ERROR_INVALID_CONTEXT);
    end_context(context);
    if (api_context() == context) current.n--;
    return api_leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context) {
    ENTER(false);
    if (context && !context->alive) return api_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    if (current.n) current.n--;
    return api_leave(context ? push(context) : CUDA_SUCCESS);
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    ENTER(false);
    *context = api_context();
    return api_leave(CUDA_SUCCESS);
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    ENTER(false);
    return api_leave(context && context->alive ? push(context) : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    ENTER_TO_RELEASE(false);
    if (!current.n) return api_leave(CUDA_ERROR_INVALID_CONTEXT);
    current.n--;
    if (context) *context = current.at[current.n];
    return api_leave(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *device) {
    ENTER(true);
    *device = api_context()->device;
    return api_leave(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void) {
    ENTER(true);
    CUresult r = stream_forbid_capture();
    if (!r) stream_complete_all();
    return api_leave(r ? r : sim.sticky);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    ENTER(true);
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return api_leave(CUDA_SUCCESS);
}

/* --- what is alive */

static void add_bytes(const sim_alloc *a, void *user) {
    if (!a->hidden && !a->host) *(uint64_t *)user += a->size;
}

static void count_live(ptxsim_live *live) {
    memset(live, 0, sizeof *live);
    live->device_allocations = sim_memory_count(false), live->host_allocations = sim_memory_count(true);
    sim_memory_each(add_bytes, &live->device_bytes);
    live->peak_device_bytes = sim_memory_peak();
    for (CUmodule m = sim.modules; m; m = m->next) live->modules += m->alive;
    live->links = sim.links;
    for (CUstream s = sim.streams; s; s = s->next) live->streams += s->alive && !s->null;
    for (CUevent e = sim.events; e; e = e->next) live->events += e->alive;
    for (CUgraph g = sim.graphs; g; g = g->next) live->graphs += g->alive;
    for (CUgraphExec g = sim.execs; g; g = g->next) live->graph_execs += g->alive;
    for (CUcontext c = sim.contexts; c; c = c->next) live->contexts += c->alive;
}

EXPORT void ptxsim_get_live(ptxsim_live *live) {
    pthread_mutex_lock(&sim.lock);
    count_live(live);
    pthread_mutex_unlock(&sim.lock);
}

static void report_leak(const sim_alloc *a, void *user) {
    int *n = user;
    if (!a->hidden && (*n)++ < 20)
        sim_report("leak: %s allocation #%d of %llu bytes", a->host ? "pinned host" : "device", a->id,
                   (unsigned long long)a->size);
}

#define DROP(list, next_of, clear)     \
    while (list) {                     \
        __typeof__(list) gone_ = list; \
        list = gone_->next_of;         \
        clear;                         \
        free(gone_);                   \
    }

static void drop_ops(CUstream s) {
    while (s->head) {
        sim_op *op = s->head;
        s->head = op->next;
        work_clear(&op->work);
        free(op->deps), free(op);
    }
    free(s->last);
    if (s->capture) capture_release(s->capture);
}

static void drop_event(CUevent e) {
    free(e->nodes);
    if (e->capture) capture_release(e->capture);
}

static void drop_graph(CUgraph g) {
    for (int k = 0; k < g->n_nodes; k++) work_clear(&g->nodes[k]->work), free(g->nodes[k]->deps), free(g->nodes[k]);
    free(g->nodes);
}

static void drop_exec(CUgraphExec e) {
    for (int k = 0; k < e->n; k++) work_clear(&e->works[k]);
    free(e->works), free(e->origins), free(e->ancestors);
}

static void drop_all(void) {
    DROP(sim.streams, next, drop_ops(gone_))
    DROP(sim.events, next, drop_event(gone_))
    DROP(sim.graphs, next, drop_graph(gone_))
    DROP(sim.execs, next, drop_exec(gone_))
    DROP(sim.modules, next, sim_module_free(gone_->module))
    DROP(sim.contexts, next, (void)0)
    sim_memory_close();
    orders_reset();
    stats_reset();
    memset(&sim.host, 0, sizeof sim.host);
    memset(sim.faults, 0, sizeof sim.faults);
    sim.initialized = false, sim.sticky = sim.lost_by = CUDA_SUCCESS, sim.captures = sim.links = 0;
    sim.spill_from = sim.spill_bytes = 0;
}

EXPORT void ptxsim_restart(void) {
    pthread_mutex_lock(&sim.lock);
    drop_all();
    current.n = 0;
    pthread_mutex_unlock(&sim.lock);
}

__attribute__((destructor)) static void at_exit(void) {
    if (!sim.initialized) return;
    ptxsim_live live;
    int n = 0;
    count_live(&live);
    if (sim_checks(CHECK_LEAK)) {
        sim_memory_each(report_leak, &n);
        if (live.modules + live.links + live.streams + live.events + live.graphs + live.graph_execs)
            sim_report(
                "leak: %d modules, %d links, %d streams, %d events, %d graphs, %d graph instances are alive at exit",
                live.modules, live.links, live.streams, live.events, live.graphs, live.graph_execs);
    }
    drop_all();
}
