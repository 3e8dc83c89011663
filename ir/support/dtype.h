/* SPDX-License-Identifier: MIT
 * Element types and tensor types (element type and static shape). */
#ifndef TCC_SUPPORT_DTYPE_H
#define TCC_SUPPORT_DTYPE_H

#include "dtype_enum.h"
#include "strbuf.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tcc_dtype_kind { TCC_KIND_FLOAT, TCC_KIND_INT, TCC_KIND_BOOL } tcc_dtype_kind;

/* A dense row-major tensor type. Rank 0 is a scalar; a dimension may be 0 only in no op we have, so dims are >= 1. */
typedef struct tcc_type {
    tcc_dtype dtype;
    int rank;
    int64_t dims[TCC_MAX_RANK]; /* entries past rank are 0 */
} tcc_type;

const char *tcc_dtype_text(tcc_dtype t);        /* "f32" */
const char *tcc_dtype_safetensors(tcc_dtype t); /* "F32" */
int tcc_dtype_bytes(tcc_dtype t);
tcc_dtype_kind tcc_dtype_get_kind(tcc_dtype t);
static inline bool tcc_dtype_is_float(tcc_dtype t) { return tcc_dtype_get_kind(t) == TCC_KIND_FLOAT; }
/* f16 or bf16: computed with as f32, and rounded to its type. */
static inline bool tcc_dtype_is_narrow(tcc_dtype t) { return tcc_dtype_is_float(t) && tcc_dtype_bytes(t) < 4; }
int tcc_dtype_digits(tcc_dtype t);                                     /* significant bits: 24 of f32 */
bool tcc_dtype_holds(tcc_dtype to, tcc_dtype from);                    /* every value of `from` is one of `to` */
bool tcc_dtype_parse(const char *text, size_t length, tcc_dtype *out); /* "f32" */

bool tcc_type_same_dims(const tcc_type *a, const tcc_type *b);
bool tcc_type_equal(const tcc_type *a, const tcc_type *b);
static inline int64_t tcc_type_numel(const tcc_type *t) { /* 1 for a scalar */
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dims[i];
    return n;
}
int64_t tcc_type_bytes(const tcc_type *t);
void tcc_type_print(tcc_strbuf *b, const tcc_type *t); /* "f32[12,64]"; scalar "f32[]" */
/* The printed form in one of a few rotating thread-local buffers, for messages. */
const char *tcc_type_text(const tcc_type *t);

/* The value of element type `t` that is nearest to x: floats round to nearest even, integers truncate toward zero and
 * saturate (NaN gives 0), bool is x != 0. Every NaN becomes the same one. What constants and casts mean. */
double tcc_dtype_round(tcc_dtype t, double x);

/* IEEE conversions, round to nearest even; used by the interpreter, the runtime and the readers. */
uint16_t tcc_f32_to_f16(float x);
float tcc_f16_to_f32(uint16_t bits);
uint16_t tcc_f32_to_bf16(float x);
float tcc_bf16_to_f32(uint16_t bits);

#endif
