/* SPDX-License-Identifier: MIT
 * How GPT-2 cuts a text into words. */
#ifndef TCC_RUNTIME_DATA_TOKENIZE_GPT2_WORDS_H
#define TCC_RUNTIME_DATA_TOKENIZE_GPT2_WORDS_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the first word of a text, which is UTF-8 and not empty. */
size_t tcc__gpt2_word(const uint8_t *text, size_t size);

#endif
