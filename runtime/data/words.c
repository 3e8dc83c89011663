/* SPDX-License-Identifier: MIT
 * Texts, each once: a hash table of open addressing, at most half full. */
#include "runtime/data/words.h"
#include "ir/support/alloc.h"
#include "ir/support/hash.h"

#include <string.h>

enum { FIRST_SLOTS = 64 };

const char *tcc__words_text(const tcc__words *words, int32_t number) {
    return words->texts.text + words->offsets.data[number];
}

/* The slot that has the word, or the free one where it would be. */
static int slot_of(const tcc__words *words, const char *text) {
    const unsigned mask = (unsigned)words->n_slots - 1;
    unsigned at = (unsigned)tcc_hash_string(0, text) & mask;
    while (words->slots[at] && strcmp(tcc__words_text(words, words->slots[at] - 1), text)) at = (at + 1) & mask;
    return (int)at;
}

static bool grow(tcc__words *words) {
    if (2 * (words->offsets.count + 1) <= words->n_slots) return true;
    const int larger = words->n_slots ? 2 * words->n_slots : FIRST_SLOTS;
    int32_t *slots = tcc__calloc((size_t)larger, sizeof *slots);
    if (!slots) return false;
    tcc__free(words->slots);
    words->slots = slots;
    words->n_slots = larger;
    for (int32_t i = 0; i < words->offsets.count; i++) slots[slot_of(words, tcc__words_text(words, i))] = i + 1;
    return true;
}

int32_t tcc__words_find(const tcc__words *words, const char *text) {
    return words->n_slots ? words->slots[slot_of(words, text)] - 1 : -1;
}

int32_t tcc__words_add(tcc__words *words, const char *text) {
    if (!grow(words)) return -1;
    const int at = slot_of(words, text);
    if (words->slots[at]) return words->slots[at] - 1;
    const size_t offset = words->texts.length;
    tcc_strbuf_addn(&words->texts, text, strlen(text) + 1);
    if (words->texts.failed || !tcc_vec_push(&words->offsets, offset)) return -1;
    words->slots[at] = words->offsets.count;
    return words->slots[at] - 1;
}

void tcc__words_free(tcc__words *words) {
    tcc_strbuf_free(&words->texts);
    tcc_vec_free(&words->offsets);
    tcc__free(words->slots);
    *words = (tcc__words){0};
}
