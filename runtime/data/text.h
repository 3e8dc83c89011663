/* SPDX-License-Identifier: MIT
 * A text of up to two files as tokens, one file after the other, over the vocabulary of both: their distinct
 * characters, ascending. The files are read once to find these; tokens are then read from the files as they are asked
 * for, so memory does not grow with a text, but by the marks that tell where its characters are (fuzzed). */
#ifndef TCC_RUNTIME_DATA_TEXT_H
#define TCC_RUNTIME_DATA_TEXT_H

#include "ir/support/vec.h"
#include "runtime/data/data.h"
#include "runtime/data/tokenize/characters.h"

/* Where a stretch of a text begins. */
typedef struct tcc__text_mark {
    int64_t byte, character;
} tcc__text_mark;

typedef struct tcc__text_source {
    const char *path;      /* for messages; borrowed */
    int fd;                /* of a file to read from; -1: */
    const uint8_t *memory; /* all of the text; borrowed, or `own` */
    uint8_t *own;          /* an inflated file; NULL: none */
    int64_t size_bytes, characters;
    int64_t first; /* byte: a byte order mark is not part of the text */
    tcc_vec(tcc__text_mark) marks;
} tcc__text_source;

typedef struct tcc__text {
    tcc__characters characters;
    tcc__vocab vocab;
    char (*labels)[5]; /* UTF-8 of each token */
    tcc__text_source sources[2];
} tcc__text;

/* The sources are filled in, but for what is found by reading: the rest. On an error the caller frees. */
tcc_status tcc__text_survey(tcc_diag *d, tcc__text *t);
/* `count` tokens from character `at` of source `which` on. Several threads may call it at once. */
tcc_status tcc__text_read(tcc_diag *d, const tcc__text *t, int which, int64_t at, int64_t count, int32_t *out);
void tcc__text_free(tcc__text *t);

#endif
