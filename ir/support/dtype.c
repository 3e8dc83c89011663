/* SPDX-License-Identifier: MIT
 * Element types and tensor types. */
#include "dtype.h"
#include "narrow.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *text, *safetensors;
    int bytes, digits, exponent;
    tcc_dtype_kind kind;
} table[TCC_DTYPE_COUNT] = {
#define TCC_DTYPE(id, text, bytes, kind, st, digits, exponent) \
    [TCC_##id] = {text, st, bytes, digits, exponent, TCC_KIND_##kind},
#include "dtype.def"
#undef TCC_DTYPE
};

const char *tcc_dtype_text(tcc_dtype t) { return table[t].text; }
const char *tcc_dtype_safetensors(tcc_dtype t) { return table[t].safetensors; }
int tcc_dtype_bytes(tcc_dtype t) { return table[t].bytes; }
int tcc_dtype_digits(tcc_dtype t) { return table[t].digits; }
tcc_dtype_kind tcc_dtype_get_kind(tcc_dtype t) { return table[t].kind; }

static bool is_unsigned(tcc_dtype t) { return t == TCC_U8 || t == TCC_BOOL; }

bool tcc_dtype_holds(tcc_dtype to, tcc_dtype from) {
    const bool is_float = tcc_dtype_is_float(from);
    if (is_float && (!tcc_dtype_is_float(to) || table[to].exponent < table[from].exponent)) return false;
    return (is_unsigned(from) || !is_unsigned(to)) && table[to].digits >= table[from].digits;
}

bool tcc_dtype_parse(const char *text, size_t length, tcc_dtype *out) {
    for (int t = 0; t < TCC_DTYPE_COUNT; t++) {
        if (strlen(table[t].text) == length && !memcmp(table[t].text, text, length)) {
            *out = (tcc_dtype)t;
            return true;
        }
    }
    return false;
}

bool tcc_type_same_dims(const tcc_type *a, const tcc_type *b) {
    return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank);
}

bool tcc_type_equal(const tcc_type *a, const tcc_type *b) { return a->dtype == b->dtype && tcc_type_same_dims(a, b); }

int64_t tcc_type_bytes(const tcc_type *t) { return tcc_type_numel(t) * tcc_dtype_bytes(t->dtype); }

void tcc_type_print(tcc_strbuf *b, const tcc_type *t) {
    tcc_strbuf_add(b, tcc_dtype_text(t->dtype));
    tcc_strbuf_add(b, "[");
    for (int i = 0; i < t->rank; i++) tcc_strbuf_printf(b, i ? ",%lld" : "%lld", (long long)t->dims[i]);
    tcc_strbuf_add(b, "]");
}

const char *tcc_type_text(const tcc_type *t) {
    static _Thread_local char buffers[4][256];
    static _Thread_local unsigned next;
    char *text = buffers[next++ % 4];
    size_t used = (size_t)snprintf(text, 256, "%s[", tcc_dtype_text(t->dtype));
    for (int i = 0; i < t->rank; i++)
        used += (size_t)snprintf(text + used, 256 - used, i ? ",%lld" : "%lld", (long long)t->dims[i]);
    snprintf(text + used, 256 - used, "]");
    return text;
}

uint16_t tcc_f32_to_bf16(float x) { return tcc__narrow_bf16(x); }

float tcc_bf16_to_f32(uint16_t bits) { return tcc__float_of((uint32_t)bits << 16); }

uint16_t tcc_f32_to_f16(float x) { return tcc__narrow_f16(x); }

float tcc_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) return tcc__float_of(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    if (magnitude >= 0x0400u) return tcc__float_of(sign | ((magnitude << 13) + 0x38000000u));
    float x = (float)magnitude * 0x1p-24f;
    return tcc__float_of(sign | tcc__bits_of(x));
}

static double saturate(double x, double least, double most) {
    if (isnan(x)) return 0;
    x = trunc(x) + 0.0; /* no -0 */
    return x < least ? least : x > most ? most : x;
}

double tcc_dtype_round(tcc_dtype t, double x) {
    if (isnan(x) && tcc_dtype_is_float(t)) return (double)NAN;
    switch (t) {
    case TCC_F32: return (double)(float)x;
    case TCC_F16: return (double)tcc_f16_to_f32(tcc_f32_to_f16(tcc__to_odd_f32(x)));
    case TCC_BF16: return (double)tcc_bf16_to_f32(tcc_f32_to_bf16(tcc__to_odd_f32(x)));
    case TCC_I64: return saturate(x, (double)INT64_MIN, 0x1.fffffffffffffp+62); /* the largest double below 2^63 */
    case TCC_I32: return saturate(x, (double)INT32_MIN, (double)INT32_MAX);
    case TCC_U8: return saturate(x, 0, UINT8_MAX);
    case TCC_BOOL: return x != 0;
    default: return x;
    }
}
