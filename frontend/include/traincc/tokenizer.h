/* SPDX-License-Identifier: MIT
 * Tokenizers: a text's tokens and back. GPT-2's and BERT's give exactly the tokens that their reference gives.
 *
 *     tcc_tokenizer_options from = {
 *         .size = sizeof from, .kind = "gpt2", .vocab = "vocab.json", .merges = "merges.txt"};
 *     tcc_tokenizer *t;
 *     if (tcc_tokenizer_open(cx, &from, &t)) ...;
 *     if (tcc_tokenizer_encode(cx, t, text, length, tokens, capacity, &count)) ...;
 */
#ifndef TRAINCC_TOKENIZER_H
#define TRAINCC_TOKENIZER_H

#include "traincc/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

TCC_API_BEGIN

/* Zero fields take the defaults given here.
 *
 *   kind          a token is                                     vocabulary
 *   "characters"  a code point                                   the distinct characters of `vocab`, or of `texts`,
 *                                                                ascending
 *   "bytes"       a byte; the text need not be UTF-8             0 to 255
 *   "gpt2"        GPT-2's byte-level byte pairs                  `vocab`: vocab.json, `merges`: merges.txt
 *   "wordpiece"   BERT's word pieces, lower case, no accents     `vocab`: vocab.txt, a token a line
 *
 * All text is plain text: the name of a special token in it is no special token. */
typedef struct tcc_tokenizer_options {
    size_t size; /* sizeof(tcc_tokenizer_options) */
    const char *kind;
    const char *vocab, *merges;
    const char *const *texts; /* characters without `vocab`: files, or folders, as in tcc_tokenize_options */
    int n_texts;
    const char *described; /* what tcc_tokenizer_describe gave, in the place of all files; or NULL */
} tcc_tokenizer_options;

typedef struct tcc_tokenizer tcc_tokenizer;

/* The caller closes the tokenizer. One thread at a time uses it. Errors: TCC_EINVAL (an option, in words),
 * TCC_ENOTFOUND and TCC_EIO (files), TCC_EFORMAT (the file, its line or byte, and what is wrong there), TCC_ENOMEM. */
TCC_API tcc_status tcc_tokenizer_open(tcc_context *cx, const tcc_tokenizer_options *options, tcc_tokenizer **out);
TCC_API void tcc_tokenizer_close(tcc_tokenizer *t); /* NULL is allowed */

/* The kinds that tcc_tokenizer_open knows: "characters, bytes, ...". Static. */
TCC_API const char *tcc_tokenizer_kinds(void);

TCC_API int64_t tcc_tokenizer_vocab_size(const tcc_tokenizer *t); /* ids are from 0 to below it */
/* The bytes of a token, "##ing" of a word piece; *length of them. NULL for ids out of range. Lives as long as t. */
TCC_API const char *tcc_tokenizer_token(const tcc_tokenizer *t, int64_t id, size_t *length);
/* All of the tokenizer, its vocabulary and its merges, as JSON, from which it can be opened again without its files
 * (tcc_tokenizer_options.described). To be freed with tcc_string_free. Errors: TCC_ENOMEM. */
TCC_API tcc_status tcc_tokenizer_describe(tcc_context *cx, const tcc_tokenizer *t, char **text);
/* tcc-train tokenize writes it to a file of this name behind that of the tokens, where data of kind tokens finds it. */
#define TCC_TOKENIZER_SUFFIX ".tokenizer.json"
/* The id of a token by its bytes, special ones included: "[CLS]", "<|endoftext|>". -1: there is none. */
TCC_API int64_t tcc_tokenizer_find(const tcc_tokenizer *t, const char *token);

/* The tokens of a text of at most 2^30 bytes: writes at most `capacity` of them, and the number of all to *count.
 * Errors: TCC_EINVAL (the byte that is not UTF-8, the character that the vocabulary lacks), TCC_ENOMEM. */
TCC_API tcc_status tcc_tokenizer_encode(tcc_context *cx, tcc_tokenizer *t, const char *text, size_t length,
                                        int32_t *tokens, int64_t capacity, int64_t *count);
/* The text of tokens, to be freed with tcc_string_free; NUL-terminated beyond its *length bytes. For word pieces: words
 * with single spaces between them. Bytes that are not UTF-8 stay as they are. Errors: TCC_EINVAL (a token out of
 * range), TCC_ENOMEM. */
TCC_API tcc_status tcc_tokenizer_decode(tcc_context *cx, const tcc_tokenizer *t, const int32_t *tokens, int64_t count,
                                        char **text, size_t *length);

/* ---- files ---- */

/* Zero fields take the defaults given here. */
typedef struct tcc_tokenize_options {
    size_t size; /* sizeof(tcc_tokenize_options) */
    /* Text files, which may be gzipped, one after the other. Of a folder all files in it and below it, in the order of
     * their names, without hidden ones. A byte order mark at a file's beginning is no part of its text, but for kind
     * bytes. */
    const char *const *inputs;
    int n_inputs;
    const char *output; /* is replaced as a whole, or left as it was */
    int token_bytes;    /* of a token in the output, little-endian: 2 or 4; default: 2 if all tokens fit */
    const char *end;    /* a token to write after each file, as "<|endoftext|>"; default: none */
    /* Called now and then with the bytes read, of how many, and the tokens found so far; false ends it all. */
    bool (*progress)(void *user, int64_t bytes, int64_t of_bytes, int64_t tokens);
    void *user;
} tcc_tokenize_options;

typedef struct tcc_tokenize_result {
    int64_t files, tokens;
    int64_t text_bytes;
    int token_bytes;
} tcc_tokenize_result;

/* Writes the tokens of files to one file, as data of kind tokens reads it. Reads and writes in pieces, so memory does
 * not grow with the files; only words of megabytes take more. Errors: those of encoding, with the file and its byte;
 * TCC_EINVAL (an option; a vocabulary too large for token_bytes), TCC_ENOTFOUND, TCC_EIO, TCC_EINTERRUPTED (by
 * `progress`). */
TCC_API tcc_status tcc_tokenize_files(tcc_context *cx, tcc_tokenizer *t, const tcc_tokenize_options *options,
                                      tcc_tokenize_result *result);

TCC_API_END
#endif
