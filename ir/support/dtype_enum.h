/* SPDX-License-Identifier: MIT
 * The element types' enum alone, for public headers; everything else about them is in dtype.h. */
#ifndef TCC_SUPPORT_DTYPE_ENUM_H
#define TCC_SUPPORT_DTYPE_ENUM_H

typedef enum tcc_dtype {
#define TCC_DTYPE(id, text, bytes, kind, st, digits, exponent) TCC_##id,
#include "dtype.def"
#undef TCC_DTYPE
    TCC_DTYPE_COUNT
} tcc_dtype;

enum { TCC_MAX_RANK = 8 };

#endif
