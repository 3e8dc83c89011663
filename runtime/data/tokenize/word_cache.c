/* SPDX-License-Identifier: MIT
 * The tokens of words seen before: a table of fixed size, in which a word takes the slot of an earlier one. */
#include "ir/support/alloc.h"
#include "ir/support/hash.h"
#include "runtime/data/tokenize/tokenizer.h"

enum { SLOTS = 1 << 15, WORD_MAX = 30, TOKENS_MAX = 8 };

typedef struct entry { /* one line of a cache */
    uint8_t size, count;
    uint8_t word[WORD_MAX];
    int32_t tokens[TOKENS_MAX];
} entry;

struct tcc__word_cache {
    entry entries[SLOTS];
};

tcc__word_cache *tcc__word_cache_create(void) { return tcc__calloc(1, sizeof(tcc__word_cache)); }

const int32_t *tcc__word_cache_get(tcc__word_cache *cache, const uint8_t *word, size_t size, size_t *count,
                                   size_t *slot) {
    if (size > WORD_MAX) return NULL;
    *slot = tcc_hash_bytes(0, word, size) % SLOTS;
    const entry *e = &cache->entries[*slot];
    if (e->size != size || memcmp(e->word, word, size) != 0) return NULL;
    *count = e->count;
    return e->tokens;
}

void tcc__word_cache_put(tcc__word_cache *cache, size_t slot, const uint8_t *word, size_t size, const int32_t *tokens,
                         size_t count) {
    if (!size || size > WORD_MAX || count > TOKENS_MAX) return;
    entry *e = &cache->entries[slot];
    e->size = (uint8_t)size;
    e->count = (uint8_t)count;
    memcpy(e->word, word, size);
    memcpy(e->tokens, tokens, count * sizeof *tokens);
}
