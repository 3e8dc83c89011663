/* SPDX-License-Identifier: MIT
 * A vocabulary: tokens by number and numbers by token. */
#ifndef TCC_RUNTIME_DATA_TOKENIZE_VOCAB_H
#define TCC_RUNTIME_DATA_TOKENIZE_VOCAB_H

#include "ir/support/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TCC__VOCAB_MAX = 1 << 24 };

typedef struct tcc__vocab_token {
    size_t start; /* in `text` */
    int32_t length;
    bool present;
} tcc__vocab_token;

typedef struct tcc__vocab {
    tcc_strbuf text;
    tcc__vocab_token *tokens; /* by id */
    int32_t count, capacity;
    int32_t longest; /* bytes */
    int32_t *slots;  /* open addressing, ids; -1: free */
    uint32_t mask;
} tcc__vocab;

/* Token `id` has these bytes; ids may come in any order. False when memory is short. */
bool tcc__vocab_set(tcc__vocab *v, int32_t id, const char *text, size_t length);
/* All tokens are there: make them findable. Of equal tokens the last is found. False when memory is short. */
bool tcc__vocab_finish(tcc__vocab *v);
/* The id of the token that begins with `prefix`, which may be "", and goes on with `text`; -1: none. */
int32_t tcc__vocab_find(const tcc__vocab *v, const char *prefix, const void *text, size_t length);
const char *tcc__vocab_text(const tcc__vocab *v, int32_t id, size_t *length);
void tcc__vocab_free(tcc__vocab *v);

#endif
