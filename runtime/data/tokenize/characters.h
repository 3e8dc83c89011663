/* SPDX-License-Identifier: MIT
 * The vocabulary of a text's characters, or bytes: those that occur, ascending. */
#ifndef TCC_RUNTIME_DATA_TOKENIZE_CHARACTERS_H
#define TCC_RUNTIME_DATA_TOKENIZE_CHARACTERS_H

#include "runtime/data/tokenize/tokenizer.h"

typedef struct tcc__characters {
    int32_t *ids; /* by code point: the token; below 0: none. As long as the texts need */
    uint32_t count;
    bool bytes;    /* a character is a byte */
    bool complete; /* a character that is not among them is an error */
} tcc__characters;

/* Note the characters that occur, and add their number to *count. Where the passage is not the `last` one, the first
 * bytes of a character may end it: *used are those in front. */
tcc_status tcc__characters_survey(tcc_diag *d, tcc__characters *c, const tcc__passage *from, bool last, size_t *used,
                                  int64_t *count);
/* The code points, or bytes, as a list of JSON "characters", and from there; then there are no others. The first is
 * false when memory is short. Errors: EFORMAT, ENOMEM. */
bool tcc__characters_describe(const tcc__characters *c, cJSON *to);
tcc_status tcc__characters_take(tcc_diag *d, const cJSON *from, tcc__characters *c);
/* All texts are surveyed: number the characters. False when memory is short. */
bool tcc__characters_number(tcc__characters *c, tcc__vocab *vocab);

#endif
