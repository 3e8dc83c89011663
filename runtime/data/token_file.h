/* SPDX-License-Identifier: MIT
 * A file of tokens: bare numbers, an array of NumPy (.npy), or a shard as llm.c writes them. */
#ifndef TCC_RUNTIME_DATA_TOKEN_FILE_H
#define TCC_RUNTIME_DATA_TOKEN_FILE_H

#include "ir/support/diag.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tcc__token_form {
    int64_t begins;  /* byte of the first token */
    int64_t tokens;  /* -1: as many as fit in the file */
    int token_bytes; /* 2, 4 or 8; 0: the file does not say */
    bool is_signed;
    const char *name; /* static */
} tcc__token_form;

/* By the file's first bytes, `count` of them of TCC__TOKEN_HEAD. Errors: EFORMAT: a header that is not understood, or
 * that of a file of another kind. */
enum { TCC__TOKEN_HEAD = 1024 };
tcc_status tcc__token_form_of(tcc_diag *d, const char *path, const uint8_t *head, int64_t count, tcc__token_form *out);

#endif
