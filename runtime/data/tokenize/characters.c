/* SPDX-License-Identifier: MIT
 * Tokenizers whose tokens are characters or bytes. */
#include "runtime/data/tokenize/characters.h"
#include "ir/support/alloc.h"
#include "runtime/files/list.h"
#include "runtime/files/inflate.h"
#include "runtime/files/utf8.h"

#include <string.h>

/* ---- which characters there are ---- */

enum { PIECE_BYTES = 1 << 18, LONGEST = 4 };

static bool cover(tcc__characters *c, uint32_t code) {
    uint32_t count = c->count ? c->count : 256;
    while (count <= code) count *= 2;
    int32_t *larger = tcc__realloc(c->ids, count * sizeof *larger);
    if (!larger) return false;
    memset(larger + c->count, 0xFF, (count - c->count) * sizeof *larger);
    c->ids = larger;
    c->count = count;
    return true;
}

static bool add_character(tcc__characters *c, uint32_t code) {
    if (code >= c->count && !cover(c, code)) return false;
    c->ids[code] = 0;
    return true;
}

tcc_status tcc__characters_survey(tcc_diag *d, tcc__characters *c, const tcc__passage *from, bool last, size_t *used,
                                  int64_t *count) {
    size_t at = 0;
    while (at < from->size) {
        uint32_t code;
        int length = c->bytes ? (code = from->text[at], 1) : tcc__utf8_decode(from->text + at, from->size - at, &code);
        if (!length) {
            if (!last && from->size - at < LONGEST) break;
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){from->path, 0},
                             "byte %lld (0x%02x) is not UTF-8; option `bytes` reads any file",
                             (long long)(from->first + (int64_t)at), from->text[at]);
        }
        if (c->complete && (code >= c->count || c->ids[code] < 0))
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){from->path, 0},
                             "character '%.*s' (U+%04X) at byte %lld does not occur in the training text", length,
                             (const char *)from->text + at, code, (long long)(from->first + (int64_t)at));
        if (!add_character(c, code)) return tcc_enomem(d);
        ++*count;
        at += (size_t)length;
    }
    *used = at;
    return TCC_OK;
}

static tcc_status survey_file(tcc_diag *d, tcc__characters *c, const char *path) {
    tcc__inflate file;
    TCC_TRY(tcc__inflate_open(d, path, &file));
    uint8_t *text = tcc__malloc(PIECE_BYTES);
    tcc_status status = text ? TCC_OK : tcc_enomem(d);
    tcc__passage from = {.text = text, .path = path};
    int64_t count = 0;
    for (size_t got = 1, used; status == TCC_OK && got;) {
        size_t kept = from.size;
        status = tcc__inflate_read(d, &file, text + kept, PIECE_BYTES - kept, &got);
        from.size = kept + got;
        if (!from.first && !c->bytes) tcc__skip_mark(&from);
        if (status == TCC_OK) status = tcc__characters_survey(d, c, &from, !got, &used, &count);
        if (status != TCC_OK) break;
        from.size -= used;
        from.first += (int64_t)used;
        memmove(text, from.text + used, from.size);
        from.text = text;
    }
    tcc__inflate_close(&file);
    tcc__free(text);
    return status;
}

bool tcc__characters_number(tcc__characters *c, tcc__vocab *vocab) {
    int32_t next = 0;
    for (uint32_t code = 0; code < c->count; code++) {
        if (c->ids[code] < 0) continue;
        char text[5] = {(char)code};
        int length = c->bytes ? 1 : tcc__utf8_encode(code, text);
        if (!tcc__vocab_set(vocab, next, text, (size_t)length)) return false;
        c->ids[code] = next++;
    }
    return tcc__vocab_finish(vocab);
}

bool tcc__characters_describe(const tcc__characters *c, cJSON *to) {
    cJSON *list = cJSON_AddArrayToObject(to, "characters");
    bool ok = list != NULL;
    for (uint32_t code = 0; code < c->count && ok; code++) {
        cJSON *number = c->ids[code] < 0 ? NULL : cJSON_CreateNumber(code);
        ok = c->ids[code] < 0 || (number && cJSON_AddItemToArray(list, number));
    }
    return ok;
}

tcc_status tcc__characters_take(tcc_diag *d, const cJSON *from, tcc__characters *c) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(from, "characters"), *code;
    if (!cJSON_IsArray(list))
        return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE,
                         "what was learned from the training data has no list "
                         "'characters'");
    cJSON_ArrayForEach(code, list) {
        const double value = cJSON_IsNumber(code) ? code->valuedouble : -1;
        if (!(value >= 0 && value <= (c->bytes ? 0xFF : 0x10FFFF) && value == (double)(uint32_t)value))
            return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "what was learned from the training data has character %g",
                             value);
        if (!add_character(c, (uint32_t)value)) return tcc_enomem(d);
    }
    c->complete = true;
    return TCC_OK;
}

/* ---- the tokenizer ---- */

/* A file, or all files of a folder. */
static tcc_status survey_all(tcc_diag *d, tcc__characters *c, const char *path) {
    tcc__file_list files = {0};
    tcc_status status = tcc__file_list_add(d, path, &files);
    for (int i = 0; i < files.count && status == TCC_OK; i++) status = survey_file(d, c, files.data[i]);
    tcc__file_list_free(&files);
    return status;
}

static tcc_status open_characters(tcc_diag *d, const tcc_tokenizer_options *o, tcc_tokenizer *t) {
    tcc__characters *c = t->own = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(d);
    if (t->described) {
        TCC_TRY(tcc__characters_take(d, t->described, c));
        return tcc__characters_number(c, &t->vocab) ? TCC_OK : tcc_enomem(d);
    }
    if (!o->vocab && o->n_texts < 1)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "tokenizer characters needs a file that has all characters, as its vocabulary");
    if (o->vocab) TCC_TRY(survey_file(d, c, o->vocab));
    for (int i = 0; i < o->n_texts && !o->vocab; i++) TCC_TRY(survey_all(d, c, o->texts[i]));
    return tcc__characters_number(c, &t->vocab) ? TCC_OK : tcc_enomem(d);
}

static tcc_status open_bytes(tcc_diag *d, const tcc_tokenizer_options *o, tcc_tokenizer *t) {
    if (o->vocab || o->merges || o->n_texts)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tokenizer bytes has no vocabulary file");
    for (int byte = 0; byte < 256; byte++)
        if (!tcc__vocab_set(&t->vocab, byte, (char[]){(char)byte}, 1)) return tcc_enomem(d);
    return tcc__vocab_finish(&t->vocab) ? TCC_OK : tcc_enomem(d);
}

static tcc_status encode_characters(tcc_diag *d, tcc_tokenizer *t, const tcc__passage *from, tcc__ids *out) {
    const tcc__characters *c = t->own;
    if (!tcc__ids_reserve(out, from->size)) return tcc_enomem(d);
    for (size_t at = 0; at < from->size;) {
        uint32_t code = 0;
        int length = tcc__utf8_decode(from->text + at, from->size - at, &code);
        if (code >= c->count || c->ids[code] < 0)
            return tcc_error(d, from->path ? TCC_EFORMAT : TCC_EINVAL, (tcc_loc){from->path, 0},
                             "character '%.*s' (U+%04X) at byte %lld is not in the vocabulary", length,
                             (const char *)from->text + at, code, (long long)(from->first + (int64_t)at));
        out->data[out->count++] = c->ids[code];
        at += (size_t)length;
    }
    return TCC_OK;
}

static tcc_status encode_bytes(tcc_diag *d, tcc_tokenizer *t, const tcc__passage *from, tcc__ids *out) {
    (void)t;
    if (!tcc__ids_reserve(out, from->size)) return tcc_enomem(d);
    for (size_t i = 0; i < from->size; i++) out->data[out->count++] = from->text[i];
    return TCC_OK;
}

static size_t cut_at_character(const uint8_t *text, size_t size) {
    size_t end = size; /* the last character may be cut off: leave it */
    while (end > 0 && size - end < LONGEST - 1 && (text[end - 1] & 0xC0) == 0x80) end--;
    return end ? end - 1 : 0;
}

static size_t cut_anywhere(const uint8_t *text, size_t size) {
    (void)text;
    return size;
}

static bool describe_characters(const tcc_tokenizer *t, cJSON *to) { return tcc__characters_describe(t->own, to); }

static void close_characters(tcc_tokenizer *t) {
    tcc__characters *c = t->own;
    tcc__free(c->ids);
    tcc__free(c);
}

const tcc__tokenizer_kind tcc__characters_tokenizer = {
    .name = "characters",
    .open = open_characters,
    .encode = encode_characters,
    .cut = cut_at_character,
    .describe = describe_characters,
    .close = close_characters,
};

const tcc__tokenizer_kind tcc__bytes_tokenizer = {
    .name = "bytes",
    .any_bytes = true,
    .open = open_bytes,
    .encode = encode_bytes,
    .cut = cut_anywhere,
};
