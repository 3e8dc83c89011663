/* SPDX-License-Identifier: MIT
 * Inside of tokenizers: what a kind provides. A new kind is a row in the table of tokenizer.c and these functions. */
#ifndef TCC_RUNTIME_DATA_TOKENIZE_TOKENIZER_H
#define TCC_RUNTIME_DATA_TOKENIZE_TOKENIZER_H

#include "ir/support/context.h"
#include "runtime/data/tokenize/vocab.h"
#include "runtime/files/file.h"
#include "traincc/tokenizer.h"

#include <cjson/cJSON.h>

/* Tokens as they are found. */
typedef struct tcc__ids {
    int32_t *data;
    size_t count, capacity;
} tcc__ids;

/* Room for `more` further ones; false when memory is short. */
bool tcc__ids_reserve(tcc__ids *ids, size_t more);
bool tcc__ids_add(tcc__ids *ids, const int32_t *more, size_t count);

/* A text, and where it is from, for messages. */
typedef struct tcc__passage {
    const uint8_t *text; /* UTF-8, but for kind bytes */
    size_t size;
    const char *path; /* NULL: none */
    int64_t first;    /* its first byte's position there */
} tcc__passage;

/* A file's first passage: leave a byte order mark out. */
void tcc__skip_mark(tcc__passage *from);

/* What a kind reads, by its name in a description. */
typedef enum tcc__tokenizer_file { TCC__FILE_VOCAB, TCC__FILE_MERGES, TCC__TOKENIZER_FILES } tcc__tokenizer_file;
extern const char *const tcc__tokenizer_file_names[TCC__TOKENIZER_FILES];

typedef struct tcc__tokenizer_kind {
    const char *name;
    bool any_bytes;                          /* texts need not be UTF-8 */
    bool words;                              /* decoded with spaces between tokens, except before "##" */
    const char *needs[TCC__TOKENIZER_FILES]; /* its files, in words */
    /* Open the files and make t->vocab, finished. */
    tcc_status (*open)(tcc_diag *d, const tcc_tokenizer_options *options, tcc_tokenizer *t);
    /* Append the tokens of a text that is UTF-8. */
    tcc_status (*encode)(tcc_diag *d, tcc_tokenizer *t, const tcc__passage *from, tcc__ids *out);
    /* The length of the longest part of a text with the same tokens whatever follows; 0: none is known. */
    size_t (*cut)(const uint8_t *text, size_t size);
    /* Add what a description has beside the files; false when memory is short. NULL: nothing. */
    bool (*describe)(const tcc_tokenizer *t, cJSON *to);
    void (*close)(tcc_tokenizer *t); /* NULL: nothing to do */
} tcc__tokenizer_kind;

struct tcc_tokenizer {
    const tcc__tokenizer_kind *kind;
    tcc__vocab vocab;
    tcc__ids ids;                      /* of the text being encoded */
    void *own;                         /* the kind's */
    char *files[TCC__TOKENIZER_FILES]; /* their texts, for a description; NULL: the kind does not read them */
    const cJSON *described;            /* while it is opened: what it is opened from; NULL: files */
};

extern const tcc__tokenizer_kind tcc__characters_tokenizer, tcc__bytes_tokenizer, tcc__gpt2_tokenizer,
    tcc__wordpiece_tokenizer;

/* tcc_tokenizer_open without a context. */
tcc_status tcc__tokenizer_open(tcc_diag *d, const tcc_tokenizer_options *options, tcc_tokenizer **out);
/* The same from a description, and one, which the caller deletes; NULL when memory is short. */
tcc_status tcc__tokenizer_open_described(tcc_diag *d, const cJSON *described, tcc_tokenizer **out);
cJSON *tcc__tokenizer_describe(const tcc_tokenizer *t);
/* What `path` holds, or a description in its place; to be freed. Keeps it for a description, so it has no NUL. */
tcc_status tcc__tokenizer_load(tcc_diag *d, tcc_tokenizer *t, tcc__tokenizer_file which, const char *path,
                               tcc__bytes *out);
/* Check a text and append its tokens. */
tcc_status tcc__tokenizer_encode(tcc_diag *d, tcc_tokenizer *t, const tcc__passage *from, tcc__ids *out);
/* tcc_tokenizer_encode and tcc_tokenizer_decode without a context; the second appends. */
tcc_status tcc__tokenizer_encode_to(tcc_diag *d, tcc_tokenizer *t, const char *text, size_t length, int32_t *tokens,
                                    int64_t capacity, int64_t *count);
tcc_status tcc__tokenizer_decode(tcc_diag *d, const tcc_tokenizer *t, const int32_t *tokens, int64_t count,
                                 tcc_strbuf *out);
/* `cut` of kinds whose tokens do not depend on what lies behind a space, unless that is a space too. */
size_t tcc__cut_at_space(const uint8_t *text, size_t size);

/* The tokens of words seen before. A word takes the slot of an earlier one. */
typedef struct tcc__word_cache tcc__word_cache;
tcc__word_cache *tcc__word_cache_create(void); /* NULL when memory is short; freed with tcc__free */
/* The tokens of a word, *count of them; NULL: not there. *slot is for tcc__word_cache_put. */
const int32_t *tcc__word_cache_get(tcc__word_cache *cache, const uint8_t *word, size_t size, size_t *count,
                                   size_t *slot);
void tcc__word_cache_put(tcc__word_cache *cache, size_t slot, const uint8_t *word, size_t size, const int32_t *tokens,
                         size_t count);

#endif
