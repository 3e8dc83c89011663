/* SPDX-License-Identifier: MIT
 * GPT-2's byte-level byte pair encoding. Files: vocab.json and merges.txt of the public model. A text is cut into words
 * by GPT-2's pattern. A word starts as its bytes; of the neighbours that the merges know, those of the lowest rank,
 * leftmost first, become one token, until none are left (Sennrich, Haddow, Birch 2016, "Neural machine translation of
 * rare words with subword units"). In the files bytes are written as printable characters. */
#include "ir/support/alloc.h"
#include "ir/support/hash.h"
#include "runtime/data/tokenize/gpt2_words.h"
#include "runtime/data/tokenize/tokenizer.h"
#include "runtime/files/utf8.h"

#include <string.h>

typedef struct merge {
    uint64_t pair; /* left and right token */
    int32_t rank;  /* -1: a free slot */
    int32_t token;
} merge;

/* A token of a word being merged; they are linked, by index, as their neighbours become part of them. */
typedef struct symbol {
    int32_t token; /* -1: became part of its left neighbour */
    int32_t before, after;
} symbol;

/* A possible merge. It is out of date if the tokens there are others by now. */
typedef struct candidate {
    int32_t rank, at, left, right, token;
} candidate;

typedef struct gpt2 {
    merge *merges; /* open addressing */
    uint32_t mask;
    int32_t of_byte[256];
    tcc__word_cache *cache;
    symbol *symbols; /* of the longest word so far */
    candidate *heap;
    size_t longest;
} gpt2;

/* ---- the files ---- */

/* The character that stands for a byte: itself where it is printable, else the next one from 256 on. */
static void character_table(uint32_t character[256]) {
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        character[b] = printable ? b : next++;
    }
}

enum { CHARACTERS = 256 + 68 };
typedef struct byte_table {
    int16_t byte[CHARACTERS]; /* by character; -1: none */
} byte_table;

static byte_table make_byte_table(void) {
    uint32_t character[256];
    byte_table table;
    character_table(character);
    memset(&table, 0xFF, sizeof table);
    for (int b = 0; b < 256; b++) table.byte[character[b]] = (int16_t)b;
    return table;
}

/* The bytes that a token of the file stands for, in place. A token with other characters is special and stays. */
static size_t to_bytes(const byte_table *table, char *text, size_t size) {
    size_t at = 0, length = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (at = length = 0; at < size;) {
            uint32_t code = 0;
            int step = tcc__utf8_decode((const uint8_t *)text + at, size - at, &code);
            if (!step || code >= CHARACTERS || table->byte[code] < 0) return size;
            at += (size_t)step;
            if (pass) text[length] = (char)table->byte[code];
            length++;
        }
    }
    return length;
}

static tcc_status add_token(tcc_diag *d, const char *path, const byte_table *table, const cJSON *item, tcc__vocab *v) {
    tcc_loc place = {path, 0};
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble >= TCC__VOCAB_MAX ||
        item->valuedouble != (double)item->valueint)
        return tcc_error(d, TCC_EFORMAT, place, "token \"%s\" has no number from 0 to %d", item->string,
                         TCC__VOCAB_MAX - 1);
    if (item->valueint < v->count && v->tokens[item->valueint].present)
        return tcc_error(d, TCC_EFORMAT, place, "token \"%s\" has number %d, as an earlier one has", item->string,
                         item->valueint);
    size_t length = to_bytes(table, item->string, strlen(item->string));
    return tcc__vocab_set(v, item->valueint, item->string, length) ? TCC_OK : tcc_enomem(d);
}

static tcc_status parse_vocab(tcc_diag *d, const char *path, const byte_table *table, const tcc__bytes *file,
                              tcc__vocab *v) {
    const char *end = NULL;
    tcc_loc place = {path, 0};
    cJSON *all = cJSON_ParseWithLengthOpts((const char *)file->data, file->size, &end, false);
    tcc_status status = TCC_OK;
    if (!all)
        status = tcc_error(d, TCC_EFORMAT, place, "malformed JSON at byte %zu",
                           end ? (size_t)(end - (const char *)file->data) : 0);
    else if (!cJSON_IsObject(all) || !all->child)
        status = tcc_error(d, TCC_EFORMAT, place, "is not an object of tokens with their numbers");
    for (const cJSON *item = all ? all->child : NULL; item && status == TCC_OK; item = item->next)
        status = add_token(d, path, table, item, v);
    cJSON_Delete(all);
    for (int32_t id = 0; id < v->count && status == TCC_OK; id++)
        if (!v->tokens[id].present) status = tcc_error(d, TCC_EFORMAT, place, "no token has number %d", id);
    return status;
}

static merge *merge_slot(const gpt2 *g, uint64_t pair) {
    uint32_t slot = (uint32_t)tcc_hash_mix(pair) & g->mask;
    while (g->merges[slot].rank >= 0 && g->merges[slot].pair != pair) slot = (slot + 1) & g->mask;
    return &g->merges[slot];
}

static uint64_t pair_of(int32_t left, int32_t right) { return (uint64_t)left << 32 | (uint32_t)right; }

/* The line's two tokens, in place: what they are and what they make. */
static tcc_status add_merge(tcc_diag *d, tcc_loc place, const byte_table *table, char *line, size_t size, int32_t rank,
                            gpt2 *g, const tcc__vocab *v) {
    char *space = memchr(line, ' ', size);
    if (!space || space == line || space + 1 == line + size ||
        memchr(space + 1, ' ', size - (size_t)(space + 1 - line)))
        return tcc_error(d, TCC_EFORMAT, place, "'%.*s' is not two tokens with a space between them", (int)size, line);
    size_t left = to_bytes(table, line, (size_t)(space - line));
    size_t right = to_bytes(table, space + 1, size - (size_t)(space + 1 - line));
    int32_t a = tcc__vocab_find(v, "", line, left), b = tcc__vocab_find(v, "", space + 1, right);
    memmove(line + left, space + 1, right);
    int32_t both = tcc__vocab_find(v, "", line, left + right);
    if (a < 0 || b < 0 || both < 0)
        return tcc_error(d, TCC_EFORMAT, place, "the %s is not in the vocabulary",
                         a < 0   ? "left token"
                         : b < 0 ? "right token"
                                 : "token that both make");
    merge *m = merge_slot(g, pair_of(a, b));
    if (m->rank >= 0) return tcc_error(d, TCC_EFORMAT, place, "the same pair is merge %d already", m->rank + 1);
    *m = (merge){pair_of(a, b), rank, both};
    return TCC_OK;
}

static tcc_status parse_merges(tcc_diag *d, const char *path, const byte_table *table, tcc__bytes *file, gpt2 *g,
                               const tcc__vocab *v) {
    char *text = (char *)file->data, *end = text + file->size;
    uint32_t lines = 0;
    for (const char *c = text; c < end; c++) lines += *c == '\n';
    uint32_t slots = 64;
    while (slots < 2 * (lines + 1)) slots *= 2;
    g->merges = tcc__malloc(slots * sizeof *g->merges);
    if (!g->merges) return tcc_enomem(d);
    memset(g->merges, 0xFF, slots * sizeof *g->merges);
    g->mask = slots - 1;
    int32_t rank = 0;
    for (int line = 1; text < end; line++) {
        char *stop = memchr(text, '\n', (size_t)(end - text));
        if (!stop) stop = end;
        size_t size = (size_t)(stop - text);
        if (size && text[size - 1] == '\r') size--;
        if (size && !(line == 1 && size > 8 && !memcmp(text, "#version", 8)))
            TCC_TRY(add_merge(d, (tcc_loc){path, line}, table, text, size, rank++, g, v));
        text = stop + 1;
    }
    return TCC_OK;
}

static tcc_status read_files(tcc_diag *d, const tcc_tokenizer_options *o, gpt2 *g, tcc_tokenizer *t) {
    tcc__vocab *v = &t->vocab;
    const byte_table table = make_byte_table();
    tcc__bytes file;
    TCC_TRY(tcc__tokenizer_load(d, t, TCC__FILE_VOCAB, o->vocab, &file));
    tcc_status status = parse_vocab(d, o->vocab, &table, &file, v);
    tcc__free(file.data);
    TCC_TRY(status);
    if (!tcc__vocab_finish(v)) return tcc_enomem(d);
    for (int b = 0; b < 256; b++) {
        g->of_byte[b] = tcc__vocab_find(v, "", (char[]){(char)b}, 1);
        if (g->of_byte[b] < 0)
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){o->vocab, 0}, "has no token for byte 0x%02x", b);
    }
    TCC_TRY(tcc__tokenizer_load(d, t, TCC__FILE_MERGES, o->merges, &file));
    status = parse_merges(d, o->merges, &table, &file, g, v);
    tcc__free(file.data);
    return status;
}

static tcc_status open_gpt2(tcc_diag *d, const tcc_tokenizer_options *o, tcc_tokenizer *t) {
    gpt2 *g = t->own = tcc__calloc(1, sizeof *g);
    if (!g) return tcc_enomem(d);
    g->cache = tcc__word_cache_create();
    if (!g->cache) return tcc_enomem(d);
    return read_files(d, o, g, t);
}

/* ---- merging ---- */

static bool comes_first(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(candidate *heap, size_t *count, candidate c) {
    size_t at = (*count)++;
    for (; at && comes_first(&c, &heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = c;
}

static candidate pop(candidate *heap, size_t *count) {
    candidate first = heap[0], last = heap[--*count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < *count; at = child) {
        if (child + 1 < *count && comes_first(&heap[child + 1], &heap[child])) child++;
        if (!comes_first(&heap[child], &last)) break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}

static void consider(const gpt2 *g, int32_t at, size_t *count) {
    if (at < 0 || g->symbols[at].after < 0) return;
    int32_t left = g->symbols[at].token, right = g->symbols[g->symbols[at].after].token;
    const merge *m = merge_slot(g, pair_of(left, right));
    if (m->rank >= 0) push(g->heap, count, (candidate){m->rank, at, left, right, m->token});
}

static bool make_room(gpt2 *g, size_t size) {
    if (size <= g->longest) return true;
    size_t longest = 2 * size;
    symbol *symbols = tcc__realloc(g->symbols, longest * sizeof *symbols);
    if (symbols) g->symbols = symbols;
    candidate *heap = tcc__realloc(g->heap, 3 * longest * sizeof *heap); /* each merge adds two at most */
    if (heap) g->heap = heap;
    if (symbols && heap) g->longest = longest;
    return symbols && heap;
}

static bool encode_word(gpt2 *g, const uint8_t *word, size_t size, tcc__ids *out) {
    if (!make_room(g, size) || !tcc__ids_reserve(out, size)) return false;
    symbol *s = g->symbols;
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        s[i] = (symbol){g->of_byte[word[i]], (int32_t)i - 1, i + 1 < size ? (int32_t)i + 1 : -1};
    for (size_t i = 0; i + 1 < size; i++) consider(g, (int32_t)i, &count);
    while (count) {
        candidate c = pop(g->heap, &count);
        int32_t next = s[c.at].after;
        if (s[c.at].token != c.left || next < 0 || s[next].token != c.right) continue;
        s[c.at].token = c.token;
        s[c.at].after = s[next].after;
        s[next].token = -1;
        if (s[c.at].after >= 0) s[s[c.at].after].before = c.at;
        consider(g, s[c.at].before, &count);
        consider(g, c.at, &count);
    }
    for (int32_t i = 0; i >= 0; i = s[i].after) out->data[out->count++] = s[i].token;
    return true;
}

static tcc_status encode_gpt2(tcc_diag *d, tcc_tokenizer *t, const tcc__passage *from, tcc__ids *out) {
    gpt2 *g = t->own;
    for (size_t at = 0, size; at < from->size; at += size) {
        const uint8_t *word = from->text + at;
        size = tcc__gpt2_word(word, from->size - at);
        size_t slot = 0, count;
        const int32_t *known = tcc__word_cache_get(g->cache, word, size, &count, &slot);
        bool ok;
        if (known) {
            ok = tcc__ids_add(out, known, count);
        } else {
            size_t first = out->count;
            ok = encode_word(g, word, size, out);
            if (ok) tcc__word_cache_put(g->cache, slot, word, size, out->data + first, out->count - first);
        }
        if (!ok) return tcc_enomem(d);
    }
    return TCC_OK;
}

static void close_gpt2(tcc_tokenizer *t) {
    gpt2 *g = t->own;
    tcc__free(g->merges);
    tcc__free(g->cache);
    tcc__free(g->symbols);
    tcc__free(g->heap);
    tcc__free(g);
}

const tcc__tokenizer_kind tcc__gpt2_tokenizer = {
    .name = "gpt2",
    .needs = {"vocab, the file vocab.json", "merges, the file merges.txt"},
    .open = open_gpt2,
    .encode = encode_gpt2,
    .cut = tcc__cut_at_space,
    .close = close_gpt2,
};
