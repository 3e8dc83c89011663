/* SPDX-License-Identifier: MIT
 * What kinds of tokenizers share. */
#include "ir/support/alloc.h"
#include "runtime/data/tokenize/tokenizer.h"
#include "runtime/data/tokenize/unicode.h"
#include "runtime/files/utf8.h"

#include <string.h>

bool tcc__ids_reserve(tcc__ids *ids, size_t more) {
    if (ids->capacity - ids->count >= more) return true;
    size_t capacity = 2 * ids->capacity + more;
    int32_t *larger = tcc__realloc(ids->data, capacity * sizeof *larger);
    if (!larger) return false;
    ids->data = larger;
    ids->capacity = capacity;
    return true;
}

bool tcc__ids_add(tcc__ids *ids, const int32_t *more, size_t count) {
    if (!tcc__ids_reserve(ids, count)) return false;
    memcpy(ids->data + ids->count, more, count * sizeof *more);
    ids->count += count;
    return true;
}

const char *const tcc__tokenizer_file_names[TCC__TOKENIZER_FILES] = {"vocab", "merges"};

tcc_status tcc__tokenizer_load(tcc_diag *d, tcc_tokenizer *t, tcc__tokenizer_file which, const char *path,
                               tcc__bytes *out) {
    const char *text =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(t->described, tcc__tokenizer_file_names[which]));
    *out = (tcc__bytes){0};
    if (t->described && !text)
        return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "the description of tokenizer %s has no text '%s'", t->kind->name,
                         tcc__tokenizer_file_names[which]);
    if (!t->described && !path)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tokenizer %s needs %s", t->kind->name, t->kind->needs[which]);
    if (text) *out = (tcc__bytes){(uint8_t *)tcc__strdup(text), strlen(text)};
    else TCC_TRY(tcc__file_load(d, path, out));
    t->files[which] = out->data ? tcc__malloc(out->size + 1) : NULL;
    const uint8_t *nul = out->size && out->data ? memchr(out->data, 0, out->size) : NULL;
    if (t->files[which] && !nul) {
        memcpy(t->files[which], out->data, out->size);
        t->files[which][out->size] = '\0';
        return TCC_OK;
    }
    const long long at = nul ? (long long)(nul - out->data) : 0;
    tcc__free(out->data);
    *out = (tcc__bytes){0};
    return nul ? tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "byte %lld is NUL", at) : tcc_enomem(d);
}

void tcc__skip_mark(tcc__passage *from) {
    if (from->size < 3 || memcmp(from->text, "\xEF\xBB\xBF", 3) != 0) return;
    from->text += 3;
    from->size -= 3;
    from->first += 3;
}

/* The class of the character that ends at `end`. */
static tcc__char_class class_before(const uint8_t *text, size_t end) {
    size_t start = end - 1;
    while (start > 0 && end - start < 4 && (text[start] & 0xC0) == 0x80) start--;
    uint32_t code = 0;
    return tcc__utf8_decode(text + start, end - start, &code) ? tcc__char_class_of(code) : TCC__CHAR_OTHER;
}

size_t tcc__cut_at_space(const uint8_t *text, size_t size) {
    for (size_t at = size; at-- > 1;)
        if ((text[at] == ' ' || text[at] == '\n') && class_before(text, at) != TCC__CHAR_SPACE) return at;
    return 0;
}
