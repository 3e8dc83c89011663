/* SPDX-License-Identifier: MIT
 * BERT's word pieces, uncased. File: vocab.txt of the public model. A text is cleaned of control characters, Chinese
 * characters become words of their own, letters lose their accents and their case. Words are what lies between spaces
 * and punctuation, and each punctuation character. A word becomes the longest token that it begins with, then the
 * longest "##" token that the rest begins with, and so on; [UNK] if that fails (Wu et al. 2016, "Google's neural
 * machine translation system", section 4.1).
 *
 * Nothing of that looks past a space. So a text goes by the chunks between its spaces, and chunks that were seen before
 * are not looked at again. */
#include "ir/support/alloc.h"
#include "runtime/data/tokenize/tokenizer.h"
#include "runtime/data/tokenize/unicode.h"
#include "runtime/files/utf8.h"

#include <string.h>

enum { LONGEST_WORD = 100 }; /* characters; longer ones are [UNK] */

typedef struct wordpiece {
    int32_t unknown;
    tcc__word_cache *cache;
    uint32_t *codes; /* of a chunk, cleaned */
    size_t capacity;
} wordpiece;

/* ---- the file ---- */

static tcc_status parse_vocab(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__vocab *v) {
    const char *at = (const char *)file->data, *end = at + file->size;
    for (int32_t id = 0; at < end; id++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        size_t size = (size_t)(stop - at);
        if (size && at[size - 1] == '\r') size--;
        if (tcc__utf8_check((const uint8_t *)at, size) < size)
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, id + 1}, "the token is not UTF-8");
        if (id >= TCC__VOCAB_MAX)
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, id + 1}, "more than %d tokens", TCC__VOCAB_MAX);
        if (!tcc__vocab_set(v, id, at, size)) return tcc_enomem(d);
        at = stop + 1;
    }
    return tcc__vocab_finish(v) ? TCC_OK : tcc_enomem(d);
}

static tcc_status open_wordpiece(tcc_diag *d, const tcc_tokenizer_options *o, tcc_tokenizer *t) {
    wordpiece *w = t->own = tcc__calloc(1, sizeof *w);
    if (!w) return tcc_enomem(d);
    w->cache = tcc__word_cache_create();
    if (!w->cache) return tcc_enomem(d);
    tcc__bytes file;
    TCC_TRY(tcc__tokenizer_load(d, t, TCC__FILE_VOCAB, o->vocab, &file));
    tcc_status status = parse_vocab(d, o->vocab, &file, &t->vocab);
    tcc__free(file.data);
    TCC_TRY(status);
    w->unknown = tcc__vocab_find(&t->vocab, "", "[UNK]", 5);
    if (w->unknown >= 0) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){o->vocab, 0}, "has no line [UNK], the token for unknown words");
}

static void close_wordpiece(tcc_tokenizer *t) {
    wordpiece *w = t->own;
    tcc__free(w->cache);
    tcc__free(w->codes);
    tcc__free(w);
}

/* ---- cleaning ---- */

static bool is_chinese(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

/* The characters of `code` once cleaned and decomposed; returns their number. */
static size_t clean(uint32_t code, uint32_t out[TCC__DECOMPOSED_MAX + 2]) {
    if (code < 0x80) {
        out[0] = code;
        return code >= ' ' && code != 0x7F;
    }
    tcc__char_class of = tcc__char_class_of(code);
    if (of == TCC__CHAR_CONTROL || code == 0x85 || code == 0xFFFD) return 0;
    if (of == TCC__CHAR_SPACE) code = ' ';
    size_t count = 0;
    if (is_chinese(code)) out[count++] = ' ';
    count += (size_t)tcc__char_decompose(code, out + count);
    if (is_chinese(code)) out[count++] = ' ';
    return count;
}

/* Marks that follow one another stand in the order of their combining classes. */
static void order_marks(uint32_t *codes, size_t count) {
    for (size_t i = 1; i < count; i++) {
        int class = codes[i] < 0x300 ? 0 : tcc__char_combining_class(codes[i]);
        if (!class) continue;
        uint32_t moved = codes[i];
        size_t at = i;
        for (; at > 0 && tcc__char_combining_class(codes[at - 1]) > class; at--) codes[at] = codes[at - 1];
        codes[at] = moved;
    }
}

/* The cleaned characters of a chunk in w->codes; false when memory is short. */
static bool clean_chunk(wordpiece *w, const uint8_t *chunk, size_t size, size_t *count) {
    *count = 0;
    for (size_t at = 0; at < size;) {
        if (w->capacity - *count < TCC__DECOMPOSED_MAX + 2) {
            size_t capacity = 2 * w->capacity + 4 * (TCC__DECOMPOSED_MAX + 2);
            uint32_t *larger = tcc__realloc(w->codes, capacity * sizeof *larger);
            if (!larger) return false;
            w->codes = larger;
            w->capacity = capacity;
        }
        uint32_t code = 0;
        at += (size_t)tcc__utf8_decode(chunk + at, size - at, &code);
        *count += clean(code, w->codes + *count);
    }
    order_marks(w->codes, *count);
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        uint32_t code = w->codes[i];
        if (code >= 0x80 && tcc__char_class_of(code) == TCC__CHAR_MARK) continue;
        w->codes[kept++] = tcc__char_lower(code);
    }
    *count = kept;
    return true;
}

/* ---- words ---- */

static bool is_punctuation(uint32_t code) {
    if (code >= 0x80) return tcc__char_class_of(code) == TCC__CHAR_PUNCTUATION;
    return code > ' ' && code != 0x7F && !((code | 0x20) >= 'a' && (code | 0x20) <= 'z') &&
           !(code >= '0' && code <= '9');
}

/* The pieces of a word of `count` characters. */
static bool add_word(const wordpiece *w, const tcc__vocab *v, const uint32_t *codes, size_t count, tcc__ids *out) {
    char text[4 * LONGEST_WORD + 1];
    if (count > LONGEST_WORD) return tcc__ids_add(out, &w->unknown, 1);
    size_t size = 0, first = out->count;
    for (size_t i = 0; i < count; i++) size += (size_t)tcc__utf8_encode(codes[i], text + size);
    for (size_t start = 0, end; start < size; start = end) {
        int32_t found = -1;
        end = size - start > (size_t)v->longest ? start + (size_t)v->longest : size;
        for (; end > start && found < 0; end--) {
            if (end < size && ((uint8_t)text[end] & 0xC0) == 0x80) continue; /* within a character */
            found = tcc__vocab_find(v, start ? "##" : "", text + start, end - start);
            if (found >= 0) break;
        }
        if (found < 0) {
            out->count = first;
            return tcc__ids_add(out, &w->unknown, 1);
        }
        if (!tcc__ids_add(out, &found, 1)) return false;
    }
    return true;
}

static bool encode_chunk(wordpiece *w, const tcc__vocab *v, const uint8_t *chunk, size_t size, tcc__ids *out) {
    size_t count;
    if (!clean_chunk(w, chunk, size, &count)) return false;
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at; end < count && w->codes[end] != ' ' && !is_punctuation(w->codes[end]);) end++;
        if (end > at && !add_word(w, v, w->codes + at, end - at, out)) return false;
        if (end == count) break;
        if (w->codes[end] != ' ' && !add_word(w, v, w->codes + end, 1, out)) return false;
        end++;
    }
    return true;
}

static bool is_gap(uint8_t c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static tcc_status encode_wordpiece(tcc_diag *d, tcc_tokenizer *t, const tcc__passage *from, tcc__ids *out) {
    wordpiece *w = t->own;
    for (size_t at = 0, end; at < from->size; at = end) {
        end = at;
        if (is_gap(from->text[at])) {
            end++;
            continue;
        }
        while (end < from->size && !is_gap(from->text[end])) end++;
        size_t slot = 0, count, first = out->count;
        const uint8_t *chunk = from->text + at;
        const int32_t *known = tcc__word_cache_get(w->cache, chunk, end - at, &count, &slot);
        bool ok = known ? tcc__ids_add(out, known, count) : encode_chunk(w, &t->vocab, chunk, end - at, out);
        if (!ok) return tcc_enomem(d);
        if (!known) tcc__word_cache_put(w->cache, slot, chunk, end - at, out->data + first, out->count - first);
    }
    return TCC_OK;
}

const tcc__tokenizer_kind tcc__wordpiece_tokenizer = {
    .name = "wordpiece",
    .needs = {"vocab, the file vocab.txt"},
    .words = true,
    .open = open_wordpiece,
    .encode = encode_wordpiece,
    .cut = tcc__cut_at_space,
    .close = close_wordpiece,
};
