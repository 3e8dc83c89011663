/* SPDX-License-Identifier: MIT
 * Values of the interpreter, and strided copies of their elements. */
#include "ir/eval_rules.h"
#include "ir/noise_loops.h"
#include "ir/support/alloc.h"
#include "ir/support/element.h"

#include <pthread.h>
#include <string.h>

/* -- Memory that is kept -- */

enum { MOST_KEPT = 64, LEAST_BYTES = 64 << 10 };
static const size_t most_kept_bytes = (size_t)512 << 20;

static struct {
    pthread_mutex_t lock;
    int users, count;
    size_t bytes;
    struct {
        void *memory;
        size_t bytes;
    } blocks[MOST_KEPT];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void free_kept(void) {
    for (int i = 0; i < kept.count; i++) tcc__free(kept.blocks[i].memory);
    kept.count = 0, kept.bytes = 0;
}

void tcc_values_keep_begin(void) {
    pthread_mutex_lock(&kept.lock);
    kept.users++;
    pthread_mutex_unlock(&kept.lock);
}

void tcc_values_keep_end(void) {
    pthread_mutex_lock(&kept.lock);
    if (--kept.users == 0) free_kept();
    pthread_mutex_unlock(&kept.lock);
}

/* The block of this size that was freed last; NULL: there is none. */
static void *take_kept(size_t bytes) {
    void *memory = NULL;
    if (bytes < LEAST_BYTES) return NULL;
    pthread_mutex_lock(&kept.lock);
    for (int i = kept.count - 1; i >= 0 && !memory; i--) {
        if (kept.blocks[i].bytes != bytes) continue;
        memory = kept.blocks[i].memory;
        kept.bytes -= bytes;
        for (kept.count--; i < kept.count; i++) kept.blocks[i] = kept.blocks[i + 1];
    }
    pthread_mutex_unlock(&kept.lock);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

/* The oldest ones make room. */
static void keep(void *memory, size_t bytes) {
    void *freed[MOST_KEPT + 1];
    int n_freed = 0, from = 0;
    if (bytes < LEAST_BYTES || bytes > most_kept_bytes) {
        tcc__free(memory);
        return;
    }
    pthread_mutex_lock(&kept.lock);
    if (!kept.users) freed[n_freed++] = memory;
    else {
        for (; kept.count - from == MOST_KEPT || kept.bytes + bytes > most_kept_bytes; from++) {
            freed[n_freed++] = kept.blocks[from].memory;
            kept.bytes -= kept.blocks[from].bytes;
        }
        kept.count -= from;
        for (int i = 0; i < kept.count && from; i++) kept.blocks[i] = kept.blocks[i + from];
        kept.blocks[kept.count].memory = memory;
        kept.blocks[kept.count++].bytes = bytes;
        kept.bytes += bytes;
    }
    pthread_mutex_unlock(&kept.lock);
    for (int i = 0; i < n_freed; i++) tcc__free(freed[i]);
}

/* -- Values -- */

static size_t bytes_of(const tcc_type *type) { return (size_t)tcc_type_numel(type) * sizeof(double); }

tcc_status tcc_value_create(const tcc_type *type, tcc_value *out, tcc_diag *diag) {
    _Static_assert(sizeof *out->f == sizeof *out->i, "both kinds of element have one size");
    void *elements = take_kept(bytes_of(type));
    if (!elements) elements = tcc__calloc((size_t)tcc_type_numel(type), sizeof *out->f);
    if (!elements) return tcc_enomem(diag);
    *out = (tcc_value){.type = *type};
    if (tcc_dtype_is_float(type->dtype)) out->f = elements;
    else out->i = elements;
    return TCC_OK;
}

void tcc_value_free(tcc_value *v) {
    if (v->f) keep(v->f, bytes_of(&v->type));
    *v = (tcc_value){0};
}

int64_t tcc__wrap(tcc_dtype dtype, int64_t v) {
    switch (dtype) {
    case TCC_I32: return (int32_t)v;
    case TCC_U8: return (uint8_t)v;
    case TCC_BOOL: return v != 0;
    default: return v;
    }
}

void tcc__value_load_at(tcc_value *v, int64_t to, const void *packed, int64_t from, int64_t count) {
    const tcc_dtype dtype = v->type.dtype;
    const void *elements = (const char *)packed + from * tcc_dtype_bytes(dtype);
    if (tcc_dtype_is_float(dtype)) tcc_elements_cast(TCC_F64, v->f + to, dtype, elements, count);
    else tcc_elements_cast(TCC_I64, v->i + to, dtype, elements, count);
}

void tcc_value_load(tcc_value *v, const void *packed) { tcc__value_load_at(v, 0, packed, 0, tcc_type_numel(&v->type)); }

bool tcc_value_round(tcc_value *v) {
    return tcc__value_is_float(v) && tcc__noise_loops_best()->round_all(v->type.dtype, v->f, tcc_type_numel(&v->type));
}

void tcc__strides(const tcc_type *type, int64_t *strides) {
    int64_t stride = 1;
    for (int i = type->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= type->dims[i];
    }
}

void tcc__copy_strided(int rank, const int64_t *dims, void *dst, const int64_t *dst_strides, const void *src,
                       const int64_t *src_strides) {
    enum { BYTES = sizeof(double) };
    if (rank == 0) {
        memcpy(dst, src, BYTES);
        return;
    }
    char *to = dst;
    const char *from = src;
    ptrdiff_t to_step = (ptrdiff_t)dst_strides[0] * BYTES, from_step = (ptrdiff_t)src_strides[0] * BYTES;
    if (rank == 1) {
        for (int64_t i = 0; i < dims[0]; i++) memcpy(to + i * to_step, from + i * from_step, BYTES);
        return;
    }
    for (int64_t i = 0; i < dims[0]; i++)
        tcc__copy_strided(rank - 1, dims + 1, to + i * to_step, dst_strides + 1, from + i * from_step, src_strides + 1);
}
