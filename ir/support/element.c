/* SPDX-License-Identifier: MIT
 * Elements in packed memory. */
#include "element.h"
#include "narrow.h"

#include <string.h>

static const void *element_at(tcc_dtype t, const void *packed, int64_t index) {
    return (const char *)packed + index * tcc_dtype_bytes(t);
}

int64_t tcc_element_get_int(tcc_dtype t, const void *packed, int64_t index) {
    const void *from = element_at(t, packed, index);
    int64_t i64;
    int32_t i32;
    switch (t) {
    case TCC_I64: memcpy(&i64, from, sizeof i64); return i64;
    case TCC_I32: memcpy(&i32, from, sizeof i32); return i32;
    default: return *(const uint8_t *)from;
    }
}

void tcc_element_set_int(tcc_dtype t, void *packed, int64_t index, int64_t x) {
    switch (t) {
    case TCC_I64: ((int64_t *)packed)[index] = x; break;
    case TCC_I32: ((int32_t *)packed)[index] = (int32_t)x; break;
    case TCC_BOOL: ((uint8_t *)packed)[index] = x != 0; break;
    default: ((uint8_t *)packed)[index] = (uint8_t)x; break;
    }
}

double tcc_element_get(tcc_dtype t, const void *packed, int64_t index) {
    const void *from = element_at(t, packed, index);
    double f64;
    float f32;
    uint16_t bits;
    switch (t) {
    case TCC_F64: memcpy(&f64, from, sizeof f64); return f64;
    case TCC_F32: memcpy(&f32, from, sizeof f32); return (double)f32;
    case TCC_F16: memcpy(&bits, from, sizeof bits); return (double)tcc_f16_to_f32(bits);
    case TCC_BF16: memcpy(&bits, from, sizeof bits); return (double)tcc_bf16_to_f32(bits);
    default: return (double)tcc_element_get_int(t, packed, index);
    }
}

void tcc_element_set(tcc_dtype t, void *packed, int64_t index, double x) {
    switch (t) {
    case TCC_F64: ((double *)packed)[index] = x; break;
    case TCC_F32: ((float *)packed)[index] = (float)x; break;
    case TCC_F16: ((uint16_t *)packed)[index] = tcc_f32_to_f16((float)tcc_dtype_round(TCC_F16, x)); break;
    case TCC_BF16: ((uint16_t *)packed)[index] = tcc_f32_to_bf16((float)tcc_dtype_round(TCC_BF16, x)); break;
    default: tcc_element_set_int(t, packed, index, (int64_t)tcc_dtype_round(t, x)); break;
    }
}

/* Initial values, and copies of all weights: what is cast by the hundred million. A loop for each pair of types. */
#define CAST(name, to_ctype, from_ctype, converted)                           \
    static void name(void *to, const void *from, int64_t count) {             \
        for (int64_t i = 0; i < count; i++) {                                 \
            from_ctype x;                                                     \
            memcpy(&x, (const char *)from + i * (int64_t)sizeof x, sizeof x); \
            ((to_ctype *)to)[i] = converted;                                  \
        }                                                                     \
    }
CAST(f64_to_f32, float, double, (float)x)
CAST(f64_to_f16, uint16_t, double, tcc__narrow_f16(tcc__to_odd_f32(x)))
CAST(f64_to_bf16, uint16_t, double, tcc__narrow_bf16(tcc__to_odd_f32(x)))
CAST(f32_to_f16, uint16_t, float, tcc__narrow_f16(x))
CAST(f32_to_bf16, uint16_t, float, tcc__narrow_bf16(x))

/* What --verify reads of a step. */
CAST(f32_to_f64, double, float, (double)x)
CAST(bf16_to_f64, double, uint16_t, (double)tcc__float_of((uint32_t)x << 16))

static bool widen(tcc_dtype to_type, void *to, tcc_dtype from_type, const void *from, int64_t count) {
    if (to_type != TCC_F64 || (from_type != TCC_F32 && from_type != TCC_BF16)) return false;
    (from_type == TCC_F32 ? f32_to_f64 : bf16_to_f64)(to, from, count);
    return true;
}

static bool narrow(tcc_dtype to_type, void *to, tcc_dtype from_type, const void *from, int64_t count) {
    const bool from_f64 = from_type == TCC_F64;
    if (!from_f64 && from_type != TCC_F32) return false;
    if (to_type == TCC_F32 && from_f64) f64_to_f32(to, from, count);
    else if (to_type == TCC_F16) (from_f64 ? f64_to_f16 : f32_to_f16)(to, from, count);
    else if (to_type == TCC_BF16) (from_f64 ? f64_to_bf16 : f32_to_bf16)(to, from, count);
    else return false;
    return true;
}

void tcc_elements_cast(tcc_dtype to_type, void *to, tcc_dtype from_type, const void *from, int64_t count) {
    const bool exact = !tcc_dtype_is_float(to_type) && !tcc_dtype_is_float(from_type);
    if (to_type == from_type) {
        memcpy(to, from, (size_t)(count * tcc_dtype_bytes(to_type)));
    } else if (!narrow(to_type, to, from_type, from, count) && !widen(to_type, to, from_type, from, count)) {
        for (int64_t i = 0; i < count; i++)
            if (exact) tcc_element_set_int(to_type, to, i, tcc_element_get_int(from_type, from, i));
            else tcc_element_set(to_type, to, i, tcc_element_get(from_type, from, i));
    }
}
