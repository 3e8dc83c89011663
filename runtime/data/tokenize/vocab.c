/* SPDX-License-Identifier: MIT
 * Vocabularies. */
#include "runtime/data/tokenize/vocab.h"
#include "ir/support/alloc.h"
#include "ir/support/hash.h"

#include <string.h>

bool tcc__vocab_set(tcc__vocab *v, int32_t id, const char *text, size_t length) {
    if (id >= v->capacity) {
        int32_t capacity = v->capacity ? v->capacity : 1024;
        while (capacity <= id) capacity *= 2;
        tcc__vocab_token *larger = tcc__realloc(v->tokens, (size_t)capacity * sizeof *larger);
        if (!larger) return false;
        memset(larger + v->capacity, 0, (size_t)(capacity - v->capacity) * sizeof *larger);
        v->tokens = larger;
        v->capacity = capacity;
    }
    v->tokens[id] = (tcc__vocab_token){v->text.length, (int32_t)length, true};
    tcc_strbuf_addn(&v->text, text, length);
    if (id >= v->count) v->count = id + 1;
    if ((int32_t)length > v->longest) v->longest = (int32_t)length;
    return !v->text.failed;
}

/* Of a prefix and what follows it, each hashed by itself: so a text is found behind "##" without being copied there. */
static uint32_t slot_of(const tcc__vocab *v, size_t prefix, const void *text, size_t length) {
    return (uint32_t)tcc_hash_bytes(prefix, text, length) & v->mask;
}

static size_t prefix_of(const char *text, size_t length) { return length > 2 && !memcmp(text, "##", 2) ? 2 : 0; }

bool tcc__vocab_finish(tcc__vocab *v) {
    uint32_t size = 1024;
    while (size < 2 * (uint32_t)v->count) size *= 2;
    v->slots = tcc__malloc(size * sizeof *v->slots);
    if (!v->slots) return false;
    v->mask = size - 1;
    memset(v->slots, 0xFF, size * sizeof *v->slots);
    for (int32_t id = 0; id < v->count; id++) {
        if (!v->tokens[id].present) continue;
        size_t length;
        const char *text = tcc__vocab_text(v, id, &length);
        size_t prefix = prefix_of(text, length);
        uint32_t slot = slot_of(v, prefix, text + prefix, length - prefix);
        for (; v->slots[slot] >= 0; slot = (slot + 1) & v->mask) {
            size_t other;
            const char *there = tcc__vocab_text(v, v->slots[slot], &other);
            if (other == length && !memcmp(there, text, length)) break;
        }
        v->slots[slot] = id;
    }
    return true;
}

int32_t tcc__vocab_find(const tcc__vocab *v, const char *prefix, const void *text, size_t length) {
    size_t before = strlen(prefix);
    if (!before) { /* the bytes may begin with "##" themselves */
        before = prefix_of(text, length);
        prefix = text;
        text = (const char *)text + before;
        length -= before;
    }
    uint32_t slot = slot_of(v, before, text, length);
    for (; v->slots[slot] >= 0; slot = (slot + 1) & v->mask) {
        size_t all;
        const char *token = tcc__vocab_text(v, v->slots[slot], &all);
        if (all == before + length && !memcmp(token, prefix, before) && !memcmp(token + before, text, length))
            return v->slots[slot];
    }
    return -1;
}

const char *tcc__vocab_text(const tcc__vocab *v, int32_t id, size_t *length) {
    *length = (size_t)v->tokens[id].length;
    return v->text.text + v->tokens[id].start;
}

void tcc__vocab_free(tcc__vocab *v) {
    tcc_strbuf_free(&v->text);
    tcc__free(v->tokens);
    tcc__free(v->slots);
    *v = (tcc__vocab){0};
}
