/* SPDX-License-Identifier: MIT
 * A text as tokens, from memory: what kind text does once its files are read (fuzzed). */
#ifndef TCC_RUNTIME_DATA_TEXT_H
#define TCC_RUNTIME_DATA_TEXT_H

#include "runtime/data/data.h"

/* Tokens of up to two texts, one after the other, over the vocabulary of both: their distinct
 * characters, ascending. */
typedef struct tcc__text {
    uint32_t *vocabulary; /* code points or bytes, ascending */
    char (*labels)[5];    /* UTF-8 of each */
    int vocab_size;
    int width; /* bytes of a token in `tokens`: 1, 2 or 4 */
    void *tokens;
    int64_t length[2];
    bool bytes;
} tcc__text;

/* `paths` are for messages. On an error nothing is left to free. */
tcc_status tcc__text_parse(tcc_diag *d, const char *const paths[2], const tcc__bytes texts[2], bool bytes,
                           tcc__text *out);
void tcc__text_free(tcc__text *t);
int32_t tcc__text_token(const tcc__text *t, int64_t at);

#endif
