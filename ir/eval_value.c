/* SPDX-License-Identifier: MIT
 * Values of the interpreter, and strided copies of their elements. */
#include "ir/eval_rules.h"
#include "ir/support/alloc.h"

#include <string.h>

tcc_status tcc_value_create(const tcc_type *type, tcc_value *out, tcc_diag *diag) {
    _Static_assert(sizeof *out->f == sizeof *out->i, "both kinds of element have one size");
    void *elements = tcc__calloc((size_t)tcc_type_numel(type), sizeof *out->f);
    if (!elements) return tcc_enomem(diag);
    *out = (tcc_value){.type = *type};
    if (tcc_dtype_is_float(type->dtype)) out->f = elements;
    else out->i = elements;
    return TCC_OK;
}

void tcc_value_free(tcc_value *v) {
    tcc__free(v->f);
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

void tcc_value_load(tcc_value *v, const void *packed) {
    int64_t count = tcc_type_numel(&v->type);
    for (int64_t e = 0; e < count; e++) {
        switch (v->type.dtype) {
        case TCC_F64: v->f[e] = ((const double *)packed)[e]; break;
        case TCC_F32: v->f[e] = (double)((const float *)packed)[e]; break;
        case TCC_F16: v->f[e] = (double)tcc_f16_to_f32(((const uint16_t *)packed)[e]); break;
        case TCC_BF16: v->f[e] = (double)tcc_bf16_to_f32(((const uint16_t *)packed)[e]); break;
        case TCC_I64: v->i[e] = ((const int64_t *)packed)[e]; break;
        case TCC_I32: v->i[e] = ((const int32_t *)packed)[e]; break;
        default: v->i[e] = ((const uint8_t *)packed)[e]; break;
        }
    }
}

void tcc_value_store(const tcc_value *v, void *packed) {
    int64_t count = tcc_type_numel(&v->type);
    for (int64_t e = 0; e < count; e++) {
        switch (v->type.dtype) {
        case TCC_F64: ((double *)packed)[e] = v->f[e]; break;
        case TCC_F32: ((float *)packed)[e] = (float)v->f[e]; break;
        case TCC_F16: ((uint16_t *)packed)[e] = tcc_f32_to_f16((float)tcc_dtype_round(TCC_F16, v->f[e])); break;
        case TCC_BF16: ((uint16_t *)packed)[e] = tcc_f32_to_bf16((float)tcc_dtype_round(TCC_BF16, v->f[e])); break;
        case TCC_I64: ((int64_t *)packed)[e] = v->i[e]; break;
        case TCC_I32: ((int32_t *)packed)[e] = (int32_t)v->i[e]; break;
        default: ((uint8_t *)packed)[e] = (uint8_t)v->i[e]; break;
        }
    }
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
