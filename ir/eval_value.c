/* SPDX-License-Identifier: MIT
 * Values of the interpreter, and strided copies of their elements. */
#include "ir/eval_rules.h"
#include "ir/noise_loops.h"
#include "ir/support/alloc.h"
#include "ir/support/element.h"

#include <string.h>

static size_t bytes_of(const tcc_type *type) { return (size_t)tcc_type_numel(type) * sizeof(double); }

tcc_status tcc_value_create_in(tcc_value_pool *pool, const tcc_type *type, tcc_value *out, tcc_diag *diag) {
    _Static_assert(sizeof *out->f == sizeof *out->i, "both kinds of element have one size");
    void *elements = tcc_value_pool_take(pool, bytes_of(type), true);
    if (!elements) return tcc_enomem(diag);
    *out = (tcc_value){.type = *type, .pool = pool};
    if (tcc_dtype_is_float(type->dtype)) out->f = elements;
    else out->i = elements;
    return TCC_OK;
}

tcc_status tcc_value_create(const tcc_type *type, tcc_value *out, tcc_diag *diag) {
    return tcc_value_create_in(NULL, type, out, diag);
}

void tcc_value_free(tcc_value *v) {
    if (v->f) tcc_value_pool_give(v->pool, v->f, bytes_of(&v->type));
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
