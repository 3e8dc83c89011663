/* SPDX-License-Identifier: MIT
 * A stand-in for cuBLASLt's matrix products: descriptors with their attributes, a heuristic, and the product itself, by
 * columns as the library counts. Whatever the reference of the library forbids, and whatever we never mean to use, is
 * an error. */
#include "cublasltsim.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0,
    NOT_INITIALIZED = 1,
    ALLOC_FAILED = 3,
    INVALID_VALUE = 7,
    ARCH_MISMATCH = 8,
    EXECUTION_FAILED = 13,
    INTERNAL_ERROR = 14,
    NOT_SUPPORTED = 15
};
enum {
    R_32F = 0,
    R_64F = 1,
    R_16F = 2,
    R_8U = 8,
    R_16BF = 14,
    COMPUTE_32F = 68,
    COMPUTE_64F = 70,
    COMPUTE_32F_FAST_TF32 = 77
};
enum {
    EPILOGUE_DEFAULT = 1,
    EPILOGUE_RELU = 2,
    EPILOGUE_BIAS = 4,
    EPILOGUE_GELU = 32,
    EPILOGUE_AUX = 128,
    EPILOGUE_DRELU = 136,
    EPILOGUE_DGELU = 192,
    EPILOGUE_BGRADA = 256,
    EPILOGUE_BGRADB = 512
};
enum { REDUCTION_COMPUTE_TYPE = 2, REDUCTION_MASK = 7 };
enum { WORKSPACE_ALIGNMENT = 256, AUX_ALIGNMENT = 16, AUX_MULTIPLE = 8, BITS_MULTIPLE = 128 /* elements */ };

/* --- what tests see --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cublasltsim_counts counts;
static char last_error[256];
static int inject_nth, inject_status;
static unsigned long long refuse_k;
static bool refuse_more;
static int different, different_type = -1;
static unsigned long long different_k;
enum { MOST_ANSWERS = 4 };
static int answers = MOST_ANSWERS, wrong_id = -1, failing_id = -1, gone_id = -1;

void cublasltsim_get_counts(cublasltsim_counts *out) { *out = counts; }
const char *cublasltsim_last_error(void) { return last_error; }
void cublasltsim_inject(int nth, int status) { inject_nth = nth, inject_status = status; }
void cublasltsim_refuse(unsigned long long most_k) { refuse_k = most_k; }
void cublasltsim_refuse_epilogues(int refuse) { refuse_more = refuse; }
void cublasltsim_offer(int n) { answers = n < MOST_ANSWERS ? n : MOST_ANSWERS; }
void cublasltsim_spoil(int computes_wrong, int fails, int gone) {
    wrong_id = computes_wrong, failing_id = fails, gone_id = gone;
}
void cublasltsim_differ(int how) { different = how; }
void cublasltsim_differ_where(int type, unsigned long long least_k) { different_type = type, different_k = least_k; }

void cublasltsim_restart(void) {
    counts = (cublasltsim_counts){0};
    *last_error = 0;
    inject_nth = inject_status = 0;
    refuse_k = 0;
    refuse_more = false;
    different = 0;
    different_type = -1, different_k = 0;
    answers = MOST_ANSWERS;
    wrong_id = failing_id = gone_id = -1;
}

static int __attribute__((format(printf, 1, 2))) wrong(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    counts.errors++;
    return INVALID_VALUE;
}

/* Counts a call; the status that it is to fail with. */
static int enter(void) {
    pthread_mutex_lock(&lock);
    counts.calls++;
    int status = inject_nth && --inject_nth == 0 ? inject_status : SUCCESS;
    pthread_mutex_unlock(&lock);
    return status;
}
#define ENTER()                      \
    do {                             \
        int status_ = enter();       \
        if (status_) return status_; \
    } while (0)

/* --- the driver --- */

typedef unsigned long long address;
static struct driver {
    int (*current)(void **), (*synchronize)(void *), (*range)(address *, size_t *, address),
        (*to_host)(void *, address, size_t, void *), (*to_device)(address, const void *, size_t, void *);
} cu;

static bool find(void *driver, const char *name, void *function) {
    void *at = driver ? dlsym(driver, name) : NULL;
    memcpy(function, &at, sizeof at);
    return at != NULL;
}

static bool open_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return find(driver, "cuCtxGetCurrent", &cu.current) && find(driver, "cuStreamSynchronize", &cu.synchronize) &&
           find(driver, "cuMemGetAddressRange_v2", &cu.range) && find(driver, "cuMemcpyDtoHAsync_v2", &cu.to_host) &&
           find(driver, "cuMemcpyHtoDAsync_v2", &cu.to_device);
}

static bool has_context(void) {
    void *context = NULL;
    return cu.current && !cu.current(&context) && context;
}

/* --- objects --- */

enum { HANDLE = 0x4c540001, PRODUCT, LAYOUT, PREFERENCE };

typedef struct object {
    int kind;
    /* product */
    int32_t compute, transpose[2], bias_type;
    bool has_bias_type;
    uint32_t epilogue;
    address bias, aux;
    int64_t aux_ld, aux_stride;
    /* layout */
    int type;
    uint64_t rows, columns;
    int64_t ld, stride;
    int32_t batch;
    /* preference */
    uint64_t workspace;
    uint32_t alignment[4], reductions;
} object;

static int create(void **out, object o) {
    ENTER();
    if (!out) return wrong("nowhere to put a descriptor");
    object *made = malloc(sizeof *made);
    if (!made) return ALLOC_FAILED;
    *made = o;
    *out = made;
    *(o.kind == HANDLE ? &counts.handles : &counts.descriptors) += 1;
    return SUCCESS;
}

static int destroy(void *at, int kind) {
    object *o = at;
    if (!o || o->kind != kind) return wrong("destroying what is no such object");
    o->kind = 0;
    free(o);
    *(kind == HANDLE ? &counts.handles : &counts.descriptors) -= 1;
    return SUCCESS;
}

static object *object_of(void *at, int kind) { return at && ((object *)at)->kind == kind ? at : NULL; }

static int set(void *to, const void *value, size_t bytes, size_t wanted, int attribute) {
    if (!value || bytes != wanted) return wrong("attribute %d has %zu bytes instead of %zu", attribute, bytes, wanted);
    memcpy(to, value, bytes);
    return SUCCESS;
}

/* --- the library's names --- */

int cublasLtCreate(void **handle);
int cublasLtCreate(void **handle) {
    if (!open_driver() || !has_context()) {
        ENTER();
        return NOT_INITIALIZED;
    }
    return create(handle, (object){.kind = HANDLE});
}

int cublasLtDestroy(void *handle);
int cublasLtDestroy(void *handle) {
    return has_context() ? destroy(handle, HANDLE) : wrong("a handle is destroyed without its context");
}

size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) {
    const char *text = getenv("CUBLASLTSIM_VERSION");
    return text ? (size_t)atol(text) : 120900;
}

const char *cublasLtGetStatusName(int status);
const char *cublasLtGetStatusName(int status) {
    switch (status) {
    case SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "unknown status";
    }
}

static bool is_type(int type) { return type == R_32F || type == R_64F || type == R_16F || type == R_16BF; }
static uint64_t bytes_of(int type) { return type == R_64F ? 8 : type == R_32F ? 4 : type == R_8U ? 1 : 2; }

int cublasLtMatmulDescCreate(void **out, int compute, int scale);
int cublasLtMatmulDescCreate(void **out, int compute, int scale) {
    const bool narrow = (compute == COMPUTE_32F || compute == COMPUTE_32F_FAST_TF32) && scale == R_32F;
    if (!narrow && !(compute == COMPUTE_64F && scale == R_64F))
        return wrong("compute type %d, scale type %d", compute, scale);
    return create(out, (object){.kind = PRODUCT, .compute = compute, .epilogue = EPILOGUE_DEFAULT});
}
int cublasLtMatmulDescDestroy(void *desc);
int cublasLtMatmulDescDestroy(void *desc) { return destroy(desc, PRODUCT); }

int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes);
int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes) {
    object *o = object_of(desc, PRODUCT);
    if (!o) return wrong("an attribute of what is no product");
    ENTER();
    switch (attribute) {
    case 3: return set(&o->transpose[0], value, bytes, 4, attribute);
    case 4: return set(&o->transpose[1], value, bytes, 4, attribute);
    case 7: return set(&o->epilogue, value, bytes, 4, attribute);
    case 8: return set(&o->bias, value, bytes, 8, attribute);
    case 11: return set(&o->aux, value, bytes, 8, attribute);
    case 12: return set(&o->aux_ld, value, bytes, 8, attribute);
    case 13: return set(&o->aux_stride, value, bytes, 8, attribute);
    case 26: o->has_bias_type = true; return set(&o->bias_type, value, bytes, 4, attribute);
    default: return wrong("attribute %d of a product", attribute);
    }
}

int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t ld);
int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    if (!is_type(type) || !rows || !columns || ld < (int64_t)rows)
        return wrong("a layout of type %d, %llu x %llu, leading dimension %lld", type, (unsigned long long)rows,
                     (unsigned long long)columns, (long long)ld);
    return create(out, (object){.kind = LAYOUT, .type = type, .rows = rows, .columns = columns, .ld = ld, .batch = 1});
}
int cublasLtMatrixLayoutDestroy(void *layout);
int cublasLtMatrixLayoutDestroy(void *layout) { return destroy(layout, LAYOUT); }

int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes);
int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes) {
    object *o = object_of(layout, LAYOUT);
    if (!o) return wrong("an attribute of what is no layout");
    ENTER();
    if (attribute == 5) return set(&o->batch, value, bytes, 4, attribute);
    if (attribute == 6) return set(&o->stride, value, bytes, 8, attribute);
    return wrong("attribute %d of a layout", attribute);
}

int cublasLtMatmulPreferenceCreate(void **out);
int cublasLtMatmulPreferenceCreate(void **out) {
    return create(out, (object){.kind = PREFERENCE, .alignment = {256, 256, 256, 256}, .reductions = REDUCTION_MASK});
}
int cublasLtMatmulPreferenceDestroy(void *preference);
int cublasLtMatmulPreferenceDestroy(void *preference) { return destroy(preference, PREFERENCE); }

int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes);
int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes) {
    object *o = object_of(preference, PREFERENCE);
    if (!o) return wrong("an attribute of what is no preference");
    ENTER();
    if (attribute == 1) return set(&o->workspace, value, bytes, 8, attribute);
    if (attribute == 3) return set(&o->reductions, value, bytes, 4, attribute);
    if (attribute >= 5 && attribute <= 8) return set(&o->alignment[attribute - 5], value, bytes, 4, attribute);
    return wrong("attribute %d of a preference", attribute);
}

/* --- the product --- */

static bool uses_bias(uint32_t epilogue) { return epilogue & (EPILOGUE_BIAS | EPILOGUE_BGRADA | EPILOGUE_BGRADB); }

typedef struct problem {
    uint64_t m, n, k; /* of the result by columns */
    const object *desc, *a, *b, *c, *d;
} problem;

/* What the reference says of each epilogue. */
static int check_epilogue(const problem *p) {
    static const uint32_t known[] = {EPILOGUE_DEFAULT,
                                     EPILOGUE_RELU,
                                     EPILOGUE_BIAS,
                                     EPILOGUE_RELU | EPILOGUE_BIAS,
                                     EPILOGUE_GELU,
                                     EPILOGUE_GELU | EPILOGUE_BIAS,
                                     EPILOGUE_GELU | EPILOGUE_AUX,
                                     EPILOGUE_GELU | EPILOGUE_AUX | EPILOGUE_BIAS,
                                     EPILOGUE_DGELU,
                                     EPILOGUE_DRELU,
                                     EPILOGUE_BGRADA,
                                     EPILOGUE_BGRADB};
    const object *o = p->desc;
    const uint32_t e = o->epilogue;
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) found |= e == known[i];
    if (!found) return wrong("epilogue %u", e);
    if (uses_bias(e)) {
        if (!o->bias) return wrong("a bias that is nowhere");
        if (o->has_bias_type && o->bias_type != p->d->type) return wrong("a bias of type %d", o->bias_type);
        if (e >= EPILOGUE_BGRADA && p->d->batch > 1) return wrong("sums of an operand for %d matrices", p->d->batch);
    }
    if (!(e & EPILOGUE_AUX)) return SUCCESS;
    const int64_t multiple = e == EPILOGUE_DRELU ? BITS_MULTIPLE : AUX_MULTIPLE;
    if (!o->aux || o->aux % AUX_ALIGNMENT) return wrong("an auxiliary matrix at %llx", o->aux);
    if (o->aux_ld < (int64_t)p->m || o->aux_ld % multiple)
        return wrong("an auxiliary matrix of leading dimension %lld", (long long)o->aux_ld);
    if (p->d->batch > 1 &&
        (o->aux_stride % multiple || o->aux_stride < (int64_t)(p->n - 1) * o->aux_ld + (int64_t)p->m))
        return wrong("auxiliary matrices %lld elements apart", (long long)o->aux_stride);
    return SUCCESS;
}

static int read_problem(problem *p, void *handle, void *desc, void *a, void *b, void *c, void *d) {
    *p = (problem){.desc = object_of(desc, PRODUCT),
                   .a = object_of(a, LAYOUT),
                   .b = object_of(b, LAYOUT),
                   .c = object_of(c, LAYOUT),
                   .d = object_of(d, LAYOUT)};
    if (!object_of(handle, HANDLE)) return NOT_INITIALIZED;
    if (!p->desc || !p->a || !p->b || !p->c || !p->d) return wrong("a product without its descriptors");
    const int32_t *t = p->desc->transpose;
    if (t[0] < 0 || t[0] > 1 || t[1] < 0 || t[1] > 1) return wrong("transposes %d, %d", t[0], t[1]);
    p->m = t[0] ? p->a->columns : p->a->rows;
    p->k = t[0] ? p->a->rows : p->a->columns;
    p->n = t[1] ? p->b->rows : p->b->columns;
    if ((t[1] ? p->b->columns : p->b->rows) != p->k)
        return wrong("sums of %llu and %llu terms", (unsigned long long)p->k,
                     (unsigned long long)(t[1] ? p->b->columns : p->b->rows));
    if (p->d->rows != p->m || p->d->columns != p->n || p->c->rows != p->m || p->c->columns != p->n)
        return wrong("a result of another size");
    if (p->c->type != p->d->type || p->c->ld != p->d->ld || p->c->stride != p->d->stride)
        return wrong("C and D differ");
    if (p->a->batch != p->b->batch || p->a->batch != p->d->batch || p->c->batch != p->d->batch || p->a->batch < 1)
        return wrong("batches differ");
    if (p->d->batch > 1 && p->d->stride < p->d->ld * (int64_t)(p->n - 1) + (int64_t)p->m &&
        (int64_t)p->d->stride * p->d->batch > p->d->ld)
        return wrong("the matrices of the result overlap");
    if (p->a->type != p->b->type || (p->d->type != p->a->type && (p->d->type != R_32F || p->a->type == R_64F)))
        return wrong("types %d, %d, %d", p->a->type, p->b->type, p->d->type);
    if ((p->desc->compute == COMPUTE_64F) != (p->a->type == R_64F))
        return wrong("type %d by compute type %d", p->a->type, p->desc->compute);
    if (p->desc->compute == COMPUTE_32F_FAST_TF32 && p->a->type != R_32F) return wrong("tf32 of another type than f32");
    return check_epilogue(p);
}

/* Its configuration is packed in `config`: the id, and what it is by each attribute. One that AlgoInit made knows
 * nothing of a product: `m` is 0. */
typedef struct algorithm {
    uint64_t config, m, n, k, alignment, workspace, transposes, epilogue;
} algorithm;

enum { MARK = 0xa1, CONFIG_ATTRIBUTES = 9 };

/* Bits of `config` behind the mark that an attribute has; its bytes for those who ask. */
static const struct {
    int shift, bits;
    size_t bytes;
} config_fields[CONFIG_ATTRIBUTES] = {{8, 8, 4},  {16, 8, 4}, {24, 6, 4}, {30, 3, 4}, {33, 4, 4},
                                      {37, 4, 4}, {41, 7, 4}, {48, 8, 2}, {56, 8, 2}};
enum { ID, TILE, PARTS, REDUCTION, SWIZZLE, OPTION, STAGES, INNER, CLUSTER };

static uint64_t config_get(uint64_t config, int attribute) {
    return config >> config_fields[attribute].shift & ((1u << config_fields[attribute].bits) - 1);
}

static uint64_t config_with(uint64_t config, int attribute, uint64_t value) {
    const uint64_t mask = ((uint64_t)1 << config_fields[attribute].bits) - 1;
    return (config & ~(mask << config_fields[attribute].shift)) | (value & mask) << config_fields[attribute].shift;
}

/* The heuristic's answers, the likeliest first. */
static uint64_t offer(int rank) {
    static const uint8_t values[MOST_ANSWERS][CONFIG_ATTRIBUTES] = {
        {[ID] = 0, [TILE] = 15, [PARTS] = 1},
        {[ID] = 21, [TILE] = 20, [PARTS] = 1, [STAGES] = 8},
        {[ID] = 21, [TILE] = 18, [PARTS] = 4, [REDUCTION] = REDUCTION_COMPUTE_TYPE, [STAGES] = 12, [SWIZZLE] = 1},
        {[ID] = 66, [TILE] = 20, [PARTS] = 1, [STAGES] = 8, [INNER] = 2, [CLUSTER] = 3, [OPTION] = 1}};
    uint64_t config = MARK;
    for (int i = 0; i < CONFIG_ATTRIBUTES; i++) config = config_with(config, i, values[rank][i]);
    return config;
}

static size_t workspace_of(uint64_t config, uint64_t k) {
    return k >= CUBLASLTSIM_WORKSPACE_K || config_get(config, PARTS) > 1 ? CUBLASLTSIM_WORKSPACE : 0;
}

static algorithm algorithm_of(const problem *p, uint64_t config, uint64_t alignment, uint64_t workspace) {
    return (algorithm){config,
                       p->m,
                       p->n,
                       p->k,
                       alignment,
                       workspace,
                       (uint64_t)(p->desc->transpose[0] | p->desc->transpose[1] << 1),
                       p->desc->epilogue};
}

typedef struct heuristic_result {
    algorithm algo;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} heuristic_result;

/* Tiles of an H100 at once. */
static float waves_of(const problem *p, uint64_t config) {
    enum { EDGE = 128, PROCESSORS = 132 };
    const uint64_t parts = config_get(config, PARTS);
    return (float)(((p->m + EDGE - 1) / EDGE) * ((p->n + EDGE - 1) / EDGE) * (uint64_t)p->d->batch *
                   (parts > 1 ? parts : 1)) /
           PROCESSORS;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
                                   int asked, heuristic_result *results, int *found);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
                                   int asked, heuristic_result *results, int *found) {
    ENTER();
    problem p;
    int status = read_problem(&p, handle, desc, a, b, c, d);
    const object *o = object_of(preference, PREFERENCE);
    if (status) return status;
    if (!o || asked < 1 || !results || !found) return wrong("a heuristic without its arguments");
    *found = 0;
    if (refuse_k && p.k > refuse_k) return NOT_SUPPORTED;
    uint64_t alignment = 256;
    for (int i = 0; i < 4; i++) {
        if (!o->alignment[i] || (o->alignment[i] & (o->alignment[i] - 1)))
            return wrong("an alignment of %u", o->alignment[i]);
        if (o->alignment[i] < alignment) alignment = o->alignment[i];
    }
    if (o->reductions & ~(uint32_t)REDUCTION_MASK) return wrong("reductions %u", o->reductions);
    if (bytes_of(p.d->type) == 2 && (o->reductions & ~(uint32_t)REDUCTION_COMPUTE_TYPE))
        return wrong("parts of a sum may be added in 16 bits (reductions %u)", o->reductions);
    if (uses_bias(p.desc->epilogue) && p.desc->bias % alignment)
        return wrong("a bias that is aligned worse than the matrices");
    if ((p.desc->epilogue & EPILOGUE_AUX) && p.desc->aux % alignment)
        return wrong("an auxiliary matrix that is aligned worse than the others");
    if ((p.desc->epilogue & (EPILOGUE_AUX | EPILOGUE_BGRADA | EPILOGUE_BGRADB)) && refuse_more) return NOT_SUPPORTED;
    for (int rank = 0; rank < answers && *found < asked; rank++) {
        const uint64_t config = offer(rank);
        size_t workspace = workspace_of(config, p.k);
        if (gone_id == (int)config_get(config, ID)) continue;
        if (workspace > o->workspace && config_get(config, PARTS) > 1) continue;
        if (workspace > o->workspace) workspace = 0;
        results[(*found)++] = (heuristic_result){.algo = algorithm_of(&p, config, alignment, workspace),
                                                 .workspace = workspace,
                                                 .waves = waves_of(&p, config)};
    }
    return SUCCESS;
}

/* --- algorithms by themselves --- */

int cublasLtMatmulAlgoInit(void *handle, int compute, int scale, int a, int b, int c, int d, int id, algorithm *out);
int cublasLtMatmulAlgoInit(void *handle, int compute, int scale, int a, int b, int c, int d, int id, algorithm *out) {
    ENTER();
    bool known = false;
    if (!object_of(handle, HANDLE)) return NOT_INITIALIZED;
    if (!out || !is_type(a) || a != b || c != d || (compute == COMPUTE_64F) != (scale == R_64F))
        return wrong("an algorithm of compute type %d and types %d, %d, %d, %d", compute, a, b, c, d);
    for (int rank = 0; rank < MOST_ANSWERS; rank++) known |= id == (int)config_get(offer(rank), ID);
    if (!known || id == gone_id) return NOT_SUPPORTED;
    *out = (algorithm){.config = config_with(config_with(MARK, ID, (uint64_t)id), PARTS, 1)};
    return SUCCESS;
}

static bool is_algorithm(const algorithm *a) { return a && (a->config & 0xff) == MARK; }

int cublasLtMatmulAlgoConfigGetAttribute(const algorithm *a, int attribute, void *value, size_t bytes, size_t *written);
int cublasLtMatmulAlgoConfigGetAttribute(const algorithm *a, int attribute, void *value, size_t bytes,
                                         size_t *written) {
    ENTER();
    if (!is_algorithm(a) || attribute < 0 || attribute >= CONFIG_ATTRIBUTES || !value ||
        bytes != config_fields[attribute].bytes)
        return wrong("attribute %d of an algorithm, %zu bytes", attribute, bytes);
    const uint32_t wide = (uint32_t)config_get(a->config, attribute);
    memcpy(value, &wide, bytes); /* of a little-endian machine */
    if (written) *written = bytes;
    return SUCCESS;
}

int cublasLtMatmulAlgoConfigSetAttribute(algorithm *a, int attribute, const void *value, size_t bytes);
int cublasLtMatmulAlgoConfigSetAttribute(algorithm *a, int attribute, const void *value, size_t bytes) {
    ENTER();
    uint32_t wide = 0;
    if (!is_algorithm(a) || attribute <= ID || attribute >= CONFIG_ATTRIBUTES || !value ||
        bytes != config_fields[attribute].bytes)
        return wrong("attribute %d of an algorithm is set by %zu bytes", attribute, bytes);
    memcpy(&wide, value, bytes);
    if (wide >> config_fields[attribute].bits) return NOT_SUPPORTED;
    a->config = config_with(a->config, attribute, wide);
    return SUCCESS;
}

int cublasLtMatmulAlgoCheck(void *handle, void *desc, void *a, void *b, void *c, void *d, const algorithm *algo,
                            heuristic_result *result);
int cublasLtMatmulAlgoCheck(void *handle, void *desc, void *a, void *b, void *c, void *d, const algorithm *algo,
                            heuristic_result *result) {
    ENTER();
    problem p;
    bool offered = false;
    int status = read_problem(&p, handle, desc, a, b, c, d);
    if (status) return status;
    if (!is_algorithm(algo) || !result) return wrong("checking what is no algorithm");
    for (int rank = 0; rank < answers; rank++) offered |= algo->config == offer(rank);
    if (!offered || gone_id == (int)config_get(algo->config, ID)) return NOT_SUPPORTED;
    *result = (heuristic_result){
        .algo = *algo, .workspace = workspace_of(algo->config, p.k), .waves = waves_of(&p, algo->config)};
    return SUCCESS;
}

static double element(const void *at, int type, int64_t i) {
    uint16_t bits;
    float f;
    if (type == R_64F) return ((const double *)at)[i];
    if (type == R_32F) return (double)((const float *)at)[i];
    if (type == R_16F) return (double)((const _Float16 *)at)[i];
    memcpy(&bits, (const uint16_t *)at + i, sizeof bits);
    uint32_t wide = (uint32_t)bits << 16;
    memcpy(&f, &wide, sizeof f);
    return (double)f;
}

static void put(void *at, int type, int64_t i, double value) {
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (type == R_64F) ((double *)at)[i] = value;
    else if (type == R_32F) ((float *)at)[i] = f;
    else if (type == R_16F) ((_Float16 *)at)[i] = (_Float16)f;
    else ((uint16_t *)at)[i] = (uint16_t)(f != f ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The number of elements from the first to the last of all matrices. */
static uint64_t span_of(const object *l) {
    return (uint64_t)l->stride * (uint64_t)(l->batch - 1) + (uint64_t)l->ld * (l->columns - 1) + l->rows;
}

/* The elements of the matrices, and not what lies between them: to the device, or from there. */
static int copy(const object *l, address at, char *memory, bool to_device, void *stream) {
    const bool dense = l->ld == (int64_t)l->rows && (l->batch == 1 || l->stride == (int64_t)(l->rows * l->columns));
    const uint64_t pieces = dense ? 1 : l->columns, bytes = bytes_of(l->type),
                   size = l->rows * bytes * (dense ? l->columns * (uint64_t)l->batch : 1);
    for (int batch = 0; batch < (dense ? 1 : l->batch); batch++)
        for (uint64_t i = 0; i < pieces; i++) {
            uint64_t offset = ((uint64_t)l->stride * (uint64_t)batch + (uint64_t)l->ld * i) * bytes;
            if (to_device ? cu.to_device(at + offset, memory + offset, size, stream)
                          : cu.to_host(memory + offset, at + offset, size, stream))
                return EXECUTION_FAILED;
        }
    return cu.synchronize(stream) ? EXECUTION_FAILED : SUCCESS;
}

/* Room on the host for the elements from the first to the last of all matrices; `filled`: with what they are. */
static int fetch(const object *l, address at, uint64_t alignment, const char *what, void *stream, bool filled,
                 void **out) {
    address begin;
    size_t length, size = (size_t)span_of(l) * bytes_of(l->type);
    *out = NULL;
    if (at % alignment || !at)
        return wrong("%s lies at %llx, not at a multiple of %llu", what, at, (unsigned long long)alignment);
    if (cu.range(&begin, &length, at) || at + size > begin + length)
        return wrong("%s is no memory of %zu bytes", what, size);
    *out = malloc(size);
    if (!*out) return ALLOC_FAILED;
    return filled ? copy(l, at, *out, false, stream) : SUCCESS;
}

static double gelu(double x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
static double gelu_slope(double x) {
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

/* What of the library's memory a product works on; on the host. */
typedef struct memory {
    void *a, *b, *c, *d, *bias, *aux; /* c: NULL if nothing is added */
} memory;

/* The element of D at (i, j) of a matrix, given the sum of products. */
static double finish(const problem *p, const memory *m, int64_t batch, int64_t i, int64_t j, double sum) {
    const uint32_t e = p->desc->epilogue;
    const int64_t at_aux = batch * p->desc->aux_stride + j * p->desc->aux_ld + i;
    const bool there = p->k >= different_k && (different_type < 0 || different_type == p->d->type);
    const int how = there ? different : 0;
    if (e & EPILOGUE_BIAS) sum += element(m->bias, p->d->type, i);
    if (e == EPILOGUE_DGELU) return sum * gelu_slope(element(m->aux, p->d->type, at_aux));
    if (e == EPILOGUE_DRELU) {
        const int bit = ((const uint8_t *)m->aux)[at_aux / 8] >> (how == 2 ? 7 - at_aux % 8 : at_aux % 8) & 1;
        return bit ? sum : how == 3 ? 0 * sum : 0;
    }
    if (e & EPILOGUE_AUX) put(m->aux, p->d->type, at_aux, sum);
    if (e & EPILOGUE_GELU) return gelu(sum);
    if ((e & EPILOGUE_RELU) && how == 1 && sum != sum) return 0;
    return (e & EPILOGUE_RELU) && sum < 0 ? 0 : sum;
}

/* B of a batch, a row for each k; and the sums of its columns, where they are asked for. */
static void read_b(const problem *p, const memory *m, int64_t batch, double *b) {
    const int64_t column = p->desc->transpose[1] ? 1 : p->b->ld, row = p->desc->transpose[1] ? p->b->ld : 1;
    const int64_t n = (int64_t)p->n, depth = (int64_t)p->k;
    for (int64_t k = 0; k < depth; k++)
        for (int64_t j = 0; j < n; j++)
            b[k * n + j] = element(m->b, p->b->type, batch * p->b->stride + j * column + k * row);
    for (int64_t j = 0; j < n && p->desc->epilogue == EPILOGUE_BGRADB; j++) {
        double total = 0;
        for (int64_t k = 0; k < depth; k++) total += b[k * n + j];
        put(m->bias, p->d->type, j, total);
    }
}

/* `by`: 1, or what a wrong algorithm multiplies its sums by. The sums of a row of D are taken side by side, each of
 * them in the order of k. */
static void multiply(const problem *p, const memory *m, double by) {
    const int64_t a_row = p->desc->transpose[0] ? p->a->ld : 1, a_k = p->desc->transpose[0] ? 1 : p->a->ld;
    const int64_t n = (int64_t)p->n, depth = (int64_t)p->k;
    double *b = malloc(sizeof *b * p->n * p->k), *sums = malloc(sizeof *sums * p->n);
    for (int64_t batch = 0; b && sums && batch < p->d->batch; batch++) {
        read_b(p, m, batch, b);
        for (int64_t i = 0; i < (int64_t)p->m; i++) {
            const int64_t at = batch * p->d->stride + i;
            double total = 0;
            for (int64_t j = 0; j < n; j++) sums[j] = m->c ? element(m->c, p->d->type, at + j * p->d->ld) : 0;
            for (int64_t k = 0; k < depth; k++) {
                const double x = element(m->a, p->a->type, batch * p->a->stride + i * a_row + k * a_k);
                total += x;
                for (int64_t j = 0; j < n; j++) sums[j] += x * b[k * n + j];
            }
            if (p->desc->epilogue == EPILOGUE_BGRADA) put(m->bias, p->d->type, i, total);
            for (int64_t j = 0; j < n; j++)
                put(m->d, p->d->type, at + j * p->d->ld, finish(p, m, batch, i, j, by * sums[j]));
        }
    }
    free(b);
    free(sums);
}

int cublasLtMatmul(void *handle, void *desc, const void *alpha, address a, void *a_layout, address b, void *b_layout,
                   const void *beta, address c, void *c_layout, address d, void *d_layout, const algorithm *algo,
                   address workspace, size_t workspace_bytes, void *stream);
int cublasLtMatmul(void *handle, void *desc, const void *alpha, address a, void *a_layout, address b, void *b_layout,
                   const void *beta, address c, void *c_layout, address d, void *d_layout, const algorithm *algo,
                   address workspace, size_t workspace_bytes, void *stream) {
    ENTER();
    problem p;
    int status = read_problem(&p, handle, desc, a_layout, b_layout, c_layout, d_layout);
    if (status) return status;
    if (!has_context()) return wrong("no context is current");
    if (!alpha || !beta) return wrong("a product without its factors");
    const int scale = p.desc->compute == COMPUTE_64F ? R_64F : R_32F;
    const double by = element(alpha, scale, 0), added = element(beta, scale, 0);
    const uint64_t span = span_of(p.d) * bytes_of(p.d->type);
    if (by != 1 || (added != 0 && added != 1)) return wrong("factors %g and %g", by, added);
    if (added == 0 && c != d) return wrong("C that is not read, elsewhere than D");
    if (added != 0 && (p.desc->epilogue & ~(uint32_t)(EPILOGUE_DEFAULT | EPILOGUE_RELU | EPILOGUE_BIAS)))
        return wrong("epilogue %u of a product that is added to", p.desc->epilogue);
    if (c != d && c < d + span && d < c + span) return wrong("C at %llx overlaps D at %llx", c, d);
    if (!is_algorithm(algo)) return wrong("an algorithm that the library did not give");
    algorithm expected = algorithm_of(&p, algo->config, algo->alignment, algo->workspace);
    if (algo->m && memcmp(&expected, algo, sizeof expected)) return wrong("the algorithm of another product");
    const int id = (int)config_get(algo->config, ID);
    const size_t takes = algo->m ? algo->workspace : workspace_of(algo->config, p.k);
    const uint64_t aligned = algo->m ? algo->alignment : bytes_of(p.a->type);
    if (id == failing_id) return EXECUTION_FAILED;
    if (takes > workspace_bytes || (takes && (!workspace || workspace % WORKSPACE_ALIGNMENT)))
        return wrong("a workspace of %zu bytes at %llx", workspace_bytes, workspace);
    address begin;
    size_t length;
    if (takes && (cu.range(&begin, &length, workspace) || workspace + workspace_bytes > begin + length))
        return wrong("a workspace that is no memory");
    const uint32_t e = p.desc->epilogue;
    const bool sums = e == EPILOGUE_BGRADA || e == EPILOGUE_BGRADB;
    const object bias = {.type = p.d->type, .rows = e == EPILOGUE_BGRADB ? p.n : p.m, .columns = 1, .batch = 1};
    const bool bits = e == EPILOGUE_DRELU, reads_aux = bits || e == EPILOGUE_DGELU;
    const int packed = bits ? 8 : 1;
    const object aux = {.type = bits ? R_8U : p.d->type,
                        .rows = (p.m + (uint64_t)packed - 1) / (uint64_t)packed,
                        .columns = p.n,
                        .ld = p.desc->aux_ld / packed,
                        .stride = p.desc->aux_stride / packed,
                        .batch = p.d->batch};
    memory m = {0};
    status = fetch(p.a, a, aligned, "A", stream, true, &m.a);
    if (!status) status = fetch(p.b, b, aligned, "B", stream, true, &m.b);
    if (!status && added != 0) status = fetch(p.c, c, aligned, "C", stream, true, &m.c);
    if (!status) status = fetch(p.d, d, aligned, "D", stream, false, &m.d);
    if (!status && uses_bias(e)) status = fetch(&bias, p.desc->bias, aligned, "the bias", stream, !sums, &m.bias);
    if (!status && (e & EPILOGUE_AUX))
        status = fetch(&aux, p.desc->aux, aligned, "the auxiliary matrix", stream, reads_aux, &m.aux);
    if (!status) multiply(&p, &m, id == wrong_id ? 1.5 : 1);
    if (!status) status = copy(p.d, d, m.d, true, stream);
    if (!status && sums) status = copy(&bias, p.desc->bias, m.bias, true, stream);
    if (!status && (e & EPILOGUE_AUX) && !reads_aux) status = copy(&aux, p.desc->aux, m.aux, true, stream);
    void *const all[] = {m.a, m.b, m.c, m.d, m.bias, m.aux};
    for (int i = 0; i < 6; i++) free(all[i]);
    for (int i = 0; i < 10; i++) counts.epilogues[i] += !status && e >> i & 1;
    counts.products += !status;
    counts.by_id[id & 127] += !status;
    counts.added += !status && added != 0;
    return status;
}
