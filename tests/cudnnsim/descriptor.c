/* SPDX-License-Identifier: MIT
 * Descriptors with attributes, the handle, tensors, and what tests see. */
#include "sim.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* --- what tests see --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last_error[512], message[512];
static int inject_nth, inject_status;
cudnnsim_counts sim_counts;
unsigned sim_refused;
int sim_relu_of_nan, sim_running;
unsigned sim_relu_engines = ~0u;

EXPORT void cudnnsim_get_counts(cudnnsim_counts *out) { *out = sim_counts; }
EXPORT const char *cudnnsim_last_error(void) { return last_error; }
EXPORT void cudnnsim_inject(int nth, int status) { inject_nth = nth, inject_status = status; }
EXPORT void cudnnsim_refuse(unsigned engines) { sim_refused = engines; }
EXPORT void cudnnsim_relu(int of_nan) { sim_relu_of_nan = of_nan; }
EXPORT void cudnnsim_relu_of(unsigned engines) { sim_relu_engines = engines; }

EXPORT void cudnnsim_restart(void) {
    sim_counts = (cudnnsim_counts){0};
    *last_error = *message = 0;
    inject_nth = inject_status = 0;
    sim_refused = 0;
    sim_relu_of_nan = CUDNNSIM_NAN;
    sim_relu_engines = ~0u;
}

int sim_wrong(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    memcpy(message, last_error, sizeof message);
    sim_counts.errors++;
    return BAD_PARAM;
}

int sim_enter(void) {
    pthread_mutex_lock(&lock);
    sim_counts.calls++;
    int status = inject_nth && --inject_nth == 0 ? inject_status : SUCCESS;
    pthread_mutex_unlock(&lock);
    return status;
}

/* --- the handle --- */

enum { HANDLE_MARK = 0x444e4e48, DESCRIPTOR_MARK = 0x444e4e44 };

typedef struct handle {
    uint32_t mark;
    void *stream;
} handle;

bool sim_is_handle(const void *at) { return at && ((const handle *)at)->mark == HANDLE_MARK; }
void *sim_stream_of(const void *at) { return ((const handle *)at)->stream; }

EXPORT int cudnnCreate(void **out);
EXPORT int cudnnCreate(void **out) {
    ENTER();
    if (!sim_open_driver() || !sim_has_context()) return NOT_INITIALIZED;
    if (!out) return sim_wrong("nowhere to put a handle");
    handle *made = calloc(1, sizeof *made);
    if (!made) return HOST_ALLOCATION_FAILED;
    made->mark = HANDLE_MARK;
    *out = made;
    sim_counts.handles++;
    return SUCCESS;
}

EXPORT int cudnnDestroy(void *at);
EXPORT int cudnnDestroy(void *at) {
    if (!sim_is_handle(at) || !sim_has_context())
        return sim_wrong("destroying what is no handle, or without its context");
    ((handle *)at)->mark = 0;
    free(at);
    sim_counts.handles--;
    return SUCCESS;
}

EXPORT int cudnnSetStream(void *at, void *stream);
EXPORT int cudnnSetStream(void *at, void *stream) {
    ENTER();
    if (!sim_is_handle(at)) return sim_wrong("the stream of no handle");
    ((handle *)at)->stream = stream;
    return SUCCESS;
}

EXPORT size_t cudnnGetVersion(void);
EXPORT size_t cudnnGetVersion(void) {
    const char *text = getenv("CUDNNSIM_VERSION");
    return text ? (size_t)atol(text) : 91900;
}

EXPORT const char *cudnnGetErrorString(int status);
EXPORT const char *cudnnGetErrorString(int status) {
    switch (status) {
    case SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case INTERNAL_ERROR: return "CUDNN_STATUS_INTERNAL_ERROR";
    case HOST_ALLOCATION_FAILED: return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "unknown status";
    }
}

EXPORT void cudnnGetLastErrorString(char *out, size_t bytes);
EXPORT void cudnnGetLastErrorString(char *out, size_t bytes) {
    snprintf(out, bytes, "%s", message);
    *message = 0;
}

/* --- tensors --- */

static int finalize_tensor(descriptor *d) {
    int64_t n_dims, n_strides;
    const int64_t *dims = sim_get(d, 902, &n_dims), *strides = sim_get(d, 903, &n_strides);
    const int64_t alignment = sim_int64(d, 900), bytes = sim_bytes(sim_int(d, 901));
    if (!bytes) return sim_wrong("a tensor of data type %d", sim_int(d, 901));
    if (n_dims != n_strides)
        return sim_wrong("a tensor of %lld dimensions with %lld strides", (long long)n_dims, (long long)n_strides);
    if (alignment < 1 || (alignment & (alignment - 1)) || alignment % bytes)
        return sim_wrong("a tensor aligned to %lld bytes", (long long)alignment);
    if (sim_flag(d, 907) && sim_flag(d, 908)) return sim_wrong("a tensor that is virtual and by value");
    bool placed[MAX_DIMS] = {0};
    int64_t reach = 1; /* from smaller to larger strides, no element is another's */
    for (int64_t i = 0; i < n_dims; i++) {
        int next = -1;
        for (int k = 0; k < n_dims; k++)
            if (!placed[k] &&
                (next < 0 || strides[k] < strides[next] || (strides[k] == strides[next] && dims[k] < dims[next])))
                next = k;
        placed[next] = true;
        if (dims[next] < 1 || strides[next] < 1)
            return sim_wrong("a tensor's dimension %d of size %lld, stride %lld", next, (long long)dims[next],
                             (long long)strides[next]);
        if (dims[next] == 1) continue;
        if (strides[next] < reach)
            return sim_wrong("a tensor whose dimension %d of stride %lld overlaps others", next,
                             (long long)strides[next]);
        reach = strides[next] * dims[next];
    }
    return SUCCESS;
}

static const kind tensor_kind = {
    .type = TENSOR,
    .name = "tensor",
    .finalize = finalize_tensor,
    .rules = {ONE(900, INT64S), ONE(901, DATA_TYPE), SOME(902, INT64S, 3, MAX_DIMS), SOME(903, INT64S, 3, MAX_DIMS),
              ONE(906, INT64S), MAYBE(907, BOOLEAN), MAYBE(908, BOOLEAN)},
};

/* --- descriptors --- */

static const kind *const sim_kinds[] = {
    &tensor_kind,
    &sim_convolution,
    &sim_conv_forward,
    &sim_conv_filter,
    &sim_conv_data,
    &sim_pointwise,
    &sim_operation_pointwise,
    &sim_product,
    &sim_operation_product,
    &sim_reduction,
    &sim_operation_reduction,
    &sim_reshape,
    &sim_norm_forward,
    &sim_norm_backward,
    &sim_graph,
    &sim_heuristics,
    &sim_config,
    &sim_engine,
    &sim_plan,
    &sim_pack,
    &sim_knob,
};

static size_t element_bytes(int type) {
    switch (type) {
    case BOOLEAN: return sizeof(bool);
    case HANDLE:
    case INT64S:
    case VOID_PTR:
    case DESCRIPTOR: return 8;
    default: return 4;
    }
}

descriptor *sim_descriptor(void *at, int type) {
    descriptor *d = at;
    return d && d->mark == DESCRIPTOR_MARK && (type == ANY ? d->kind->evaluate != NULL : d->kind->type == type) ? d
                                                                                                                : NULL;
}

static descriptor *any_descriptor(void *at) { return at && ((descriptor *)at)->mark == DESCRIPTOR_MARK ? at : NULL; }

const void *sim_get(const descriptor *d, int name, int64_t *count) {
    for (int i = 0; i < d->n; i++)
        if (d->attributes[i].name == name) {
            if (count) *count = d->attributes[i].count;
            return d->attributes[i].data;
        }
    if (count) *count = 0;
    return NULL;
}

int64_t sim_int64(const descriptor *d, int name) { return *(const int64_t *)sim_get(d, name, NULL); }
int sim_int(const descriptor *d, int name) { return *(const int *)sim_get(d, name, NULL); }
float sim_float(const descriptor *d, int name) { return *(const float *)sim_get(d, name, NULL); }
bool sim_flag(const descriptor *d, int name) {
    const bool *at = sim_get(d, name, NULL);
    return at && *at;
}
descriptor *sim_reference(const descriptor *d, int name) {
    descriptor *const *at = sim_get(d, name, NULL);
    return at ? *at : NULL;
}

static const rule *rule_of(const kind *k, int name) {
    for (const rule *r = k->rules; r->most; r++)
        if (r->name == name) return r;
    return NULL;
}

EXPORT int cudnnBackendCreateDescriptor(int type, void **out);
EXPORT int cudnnBackendCreateDescriptor(int type, void **out) {
    ENTER();
    const kind *k = NULL;
    for (size_t i = 0; i < sizeof sim_kinds / sizeof *sim_kinds; i++)
        if (sim_kinds[i]->type == type) k = sim_kinds[i];
    if (!k || !out) return sim_wrong("a descriptor of type %d, which this stand-in does not know", type);
    descriptor *made = calloc(1, sizeof *made);
    if (!made) return HOST_ALLOCATION_FAILED;
    made->mark = DESCRIPTOR_MARK;
    made->kind = k;
    made->engine = -1;
    *out = made;
    sim_counts.descriptors++;
    sim_counts.made++;
    return SUCCESS;
}

EXPORT int cudnnBackendDestroyDescriptor(void *at);
EXPORT int cudnnBackendDestroyDescriptor(void *at) {
    descriptor *d = any_descriptor(at);
    if (!d) return sim_wrong("destroying what is no descriptor");
    if (d->users) return sim_wrong("destroying a %s that others hold", d->kind->name);
    for (int i = 0; i < d->n; i++) {
        const rule *r = rule_of(d->kind, d->attributes[i].name);
        if (r->type == DESCRIPTOR)
            for (int64_t k = 0; k < d->attributes[i].count; k++) ((descriptor **)d->attributes[i].data)[k]->users--;
        free(d->attributes[i].data);
    }
    if (d->graph) d->graph->users--;
    d->mark = 0;
    free(d);
    sim_counts.descriptors--;
    return SUCCESS;
}

EXPORT int cudnnBackendSetAttribute(void *at, int name, int type, int64_t count, const void *elements);
EXPORT int cudnnBackendSetAttribute(void *at, int name, int type, int64_t count, const void *elements) {
    ENTER();
    descriptor *d = any_descriptor(at);
    if (!d) return sim_wrong("attribute %d of what is no descriptor", name);
    const rule *r = rule_of(d->kind, name);
    if (!r) return sim_wrong("attribute %d of a %s, which has none such", name, d->kind->name);
    if (d->final) return sim_wrong("attribute %d of a %s that is final", name, d->kind->name);
    if (type != r->type)
        return sim_wrong("attribute %d of a %s has type %d, not %d", name, d->kind->name, r->type, type);
    if (count < r->least || count > r->most || !elements)
        return sim_wrong("attribute %d of a %s with %lld elements", name, d->kind->name, (long long)count);
    if (sim_get(d, name, NULL)) return sim_wrong("attribute %d of a %s is set twice", name, d->kind->name);
    if (type == DESCRIPTOR)
        for (int64_t i = 0; i < count; i++) {
            descriptor *x = sim_descriptor(((void *const *)elements)[i], r->of);
            if (!x) return sim_wrong("attribute %d of a %s is no descriptor of type %d", name, d->kind->name, r->of);
            if (!x->final && x->engine < 0)
                return sim_wrong("a %s for attribute %d of a %s is not final", x->kind->name, name, d->kind->name);
        }
    if (type == HANDLE && !sim_is_handle(*(void *const *)elements))
        return sim_wrong("attribute %d of a %s is no handle", name, d->kind->name);
    void *copy = malloc(element_bytes(type) * (size_t)count);
    if (!copy) return HOST_ALLOCATION_FAILED;
    memcpy(copy, elements, element_bytes(type) * (size_t)count);
    for (int64_t i = 0; i < count && type == DESCRIPTOR; i++) ((descriptor **)copy)[i]->users++;
    d->attributes[d->n++] = (struct attribute){name, count, copy};
    return SUCCESS;
}

EXPORT int cudnnBackendFinalize(void *at);
EXPORT int cudnnBackendFinalize(void *at) {
    ENTER();
    descriptor *d = any_descriptor(at);
    if (!d || d->final) return sim_wrong("finalizing what is no descriptor, or final");
    for (const rule *r = d->kind->rules; r->most; r++)
        if (!r->optional && !sim_get(d, r->name, NULL))
            return sim_wrong("a %s without attribute %d", d->kind->name, r->name);
    if (!d->kind->finalize) return sim_wrong("a %s is not finalized by hand", d->kind->name);
    int status = d->kind->finalize(d);
    d->final = !status;
    return status;
}
