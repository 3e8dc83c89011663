/* SPDX-License-Identifier: MIT
 * What tokenizers ask of a code point. */
#ifndef TCC_RUNTIME_DATA_TOKENIZE_UNICODE_H
#define TCC_RUNTIME_DATA_TOKENIZE_UNICODE_H

#include <stdint.h>

typedef enum tcc__char_class {
    TCC__CHAR_OTHER, /* symbols, marks, and what has no other class here */
    TCC__CHAR_LETTER,
    TCC__CHAR_NUMBER,
    TCC__CHAR_SPACE, /* White_Space */
    TCC__CHAR_PUNCTUATION,
    TCC__CHAR_MARK,    /* a mark without width, such as an accent */
    TCC__CHAR_CONTROL, /* control, format, private use; not White_Space */
} tcc__char_class;

tcc__char_class tcc__char_class_of(uint32_t code);
/* Lower case of a letter, where that is one character. */
uint32_t tcc__char_lower(uint32_t code);
/* The canonical decomposition; returns its length. */
enum { TCC__DECOMPOSED_MAX = 8 };
int tcc__char_decompose(uint32_t code, uint32_t out[TCC__DECOMPOSED_MAX]);
/* Marks with different ones above 0 are ordered by them; 0: no such mark. */
int tcc__char_combining_class(uint32_t code);

#endif
