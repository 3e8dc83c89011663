/* SPDX-License-Identifier: MIT
 * Texts, each once, numbered as they come. */
#ifndef TCC_RUNTIME_DATA_WORDS_H
#define TCC_RUNTIME_DATA_WORDS_H

#include "ir/support/strbuf.h"
#include "ir/support/vec.h"

#include <stdint.h>

typedef struct tcc__words {
    tcc_strbuf texts;
    tcc_vec(size_t) offsets; /* of each word in texts */
    int32_t *slots;          /* by hash: a word's number + 1; 0: free */
    int n_slots;
} tcc__words;

/* The word's number; -1: it is not there. */
int32_t tcc__words_find(const tcc__words *words, const char *text);
/* The same, of a word that is added where it is not there; -1: memory is short. */
int32_t tcc__words_add(tcc__words *words, const char *text);
const char *tcc__words_text(const tcc__words *words, int32_t number);
void tcc__words_free(tcc__words *words);

#endif
