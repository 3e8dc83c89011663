/* SPDX-License-Identifier: MIT
 * Tokenizers: the table of kinds, and what all have in common. */
#include "runtime/data/tokenize/tokenizer.h"
#include "ir/support/alloc.h"
#include "runtime/files/utf8.h"

#include <string.h>

static const tcc__tokenizer_kind *const kinds[] = {&tcc__characters_tokenizer, &tcc__bytes_tokenizer,
                                                   &tcc__gpt2_tokenizer, &tcc__wordpiece_tokenizer};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds, LONGEST_TEXT = 1 << 30 };

const char *tcc_tokenizer_kinds(void) { return "characters, bytes, gpt2, wordpiece"; }

/* ---- life ---- */

tcc_status tcc_tokenizer_open(tcc_context *cx, const tcc_tokenizer_options *options, tcc_tokenizer **out) {
    tcc_diag_begin(&cx->diag);
    return tcc__tokenizer_open(&cx->diag, options, out);
}

static tcc_status open_kind(tcc_diag *d, const tcc_tokenizer_options *o, const cJSON *described, const char *name,
                            tcc_tokenizer *t) {
    for (int i = 0; i < KIND_COUNT && name; i++)
        if (!strcmp(kinds[i]->name, name)) t->kind = kinds[i];
    if (!t->kind)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tokenizer '%s' is unknown; there are %s", name ? name : "",
                         tcc_tokenizer_kinds());
    t->described = described;
    const tcc_status status = t->kind->open(d, o, t);
    t->described = NULL;
    return status;
}

static tcc_status open_as(tcc_diag *d, const tcc_tokenizer_options *o, const cJSON *described, const char *name,
                          tcc_tokenizer **out) {
    tcc_tokenizer *t = tcc__calloc(1, sizeof *t);
    *out = NULL;
    if (!t) return tcc_enomem(d);
    const tcc_status status = open_kind(d, o, described, name, t);
    if (status == TCC_OK) *out = t;
    else tcc_tokenizer_close(t);
    return status;
}

tcc_status tcc__tokenizer_open_described(tcc_diag *d, const cJSON *described, tcc_tokenizer **out) {
    const tcc_tokenizer_options none = {.size = sizeof none};
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(described, "kind"));
    *out = NULL;
    if (!kind) return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "the description of a tokenizer is no JSON with its kind");
    return open_as(d, &none, described, kind, out);
}

tcc_status tcc__tokenizer_open(tcc_diag *d, const tcc_tokenizer_options *options, tcc_tokenizer **out) {
    *out = NULL;
    if (options->size != sizeof *options)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tcc_tokenizer_options.size is %zu, should be %zu", options->size,
                         sizeof *options);
    if (!options->described) return open_as(d, options, NULL, options->kind, out);
    cJSON *described = cJSON_Parse(options->described);
    const tcc_status status = tcc__tokenizer_open_described(d, described, out);
    cJSON_Delete(described);
    return status;
}

void tcc_tokenizer_close(tcc_tokenizer *t) {
    if (!t) return;
    if (t->own && t->kind->close) t->kind->close(t);
    for (int i = 0; i < TCC__TOKENIZER_FILES; i++) tcc__free(t->files[i]);
    tcc__vocab_free(&t->vocab);
    tcc__free(t->ids.data);
    tcc__free(t);
}

/* ---- descriptions ---- */

cJSON *tcc__tokenizer_describe(const tcc_tokenizer *t) {
    cJSON *all = cJSON_CreateObject();
    bool ok = all && cJSON_AddStringToObject(all, "kind", t->kind->name);
    for (int i = 0; i < TCC__TOKENIZER_FILES && ok; i++)
        ok = !t->files[i] || cJSON_AddStringToObject(all, tcc__tokenizer_file_names[i], t->files[i]);
    if (ok && (!t->kind->describe || t->kind->describe(t, all))) return all;
    cJSON_Delete(all);
    return NULL;
}

tcc_status tcc_tokenizer_describe(tcc_context *cx, const tcc_tokenizer *t, char **text) {
    tcc_diag_begin(&cx->diag);
    cJSON *all = tcc__tokenizer_describe(t);
    char *printed = all ? cJSON_PrintUnformatted(all) : NULL;
    *text = printed ? tcc__strdup(printed) : NULL;
    cJSON_free(printed);
    cJSON_Delete(all);
    return *text ? TCC_OK : tcc_enomem(&cx->diag);
}

/* ---- the vocabulary ---- */

int64_t tcc_tokenizer_vocab_size(const tcc_tokenizer *t) { return t->vocab.count; }

const char *tcc_tokenizer_token(const tcc_tokenizer *t, int64_t id, size_t *length) {
    *length = 0;
    return id < 0 || id >= t->vocab.count ? NULL : tcc__vocab_text(&t->vocab, (int32_t)id, length);
}

int64_t tcc_tokenizer_find(const tcc_tokenizer *t, const char *token) {
    return tcc__vocab_find(&t->vocab, "", token, strlen(token));
}

/* ---- text to tokens ---- */

tcc_status tcc__tokenizer_encode(tcc_diag *d, tcc_tokenizer *t, const tcc__passage *from, tcc__ids *out) {
    size_t good = t->kind->any_bytes ? from->size : tcc__utf8_check(from->text, from->size);
    if (good < from->size)
        return tcc_error(d, from->path ? TCC_EFORMAT : TCC_EINVAL, (tcc_loc){from->path, 0},
                         "the text is not UTF-8 at byte %lld (0x%02x)", (long long)(from->first + (int64_t)good),
                         from->text[good]);
    return t->kind->encode(d, t, from, out);
}

tcc_status tcc__tokenizer_encode_to(tcc_diag *d, tcc_tokenizer *t, const char *text, size_t length, int32_t *tokens,
                                    int64_t capacity, int64_t *count) {
    *count = 0;
    if (length > LONGEST_TEXT)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "a text of %zu bytes is too long to be encoded at once", length);
    t->ids.count = 0;
    tcc__passage from = {.text = (const uint8_t *)text, .size = length};
    TCC_TRY(tcc__tokenizer_encode(d, t, &from, &t->ids));
    *count = (int64_t)t->ids.count;
    if (capacity > *count) capacity = *count;
    if (capacity > 0) memcpy(tokens, t->ids.data, (size_t)capacity * sizeof *tokens);
    return TCC_OK;
}

tcc_status tcc_tokenizer_encode(tcc_context *cx, tcc_tokenizer *t, const char *text, size_t length, int32_t *tokens,
                                int64_t capacity, int64_t *count) {
    tcc_diag_begin(&cx->diag);
    return tcc__tokenizer_encode_to(&cx->diag, t, text, length, tokens, capacity, count);
}

/* ---- tokens to text ---- */

tcc_status tcc__tokenizer_decode(tcc_diag *d, const tcc_tokenizer *t, const int32_t *tokens, int64_t count,
                                 tcc_strbuf *out) {
    for (int64_t i = 0; i < count; i++) {
        size_t size;
        const char *token = tcc_tokenizer_token(t, tokens[i], &size);
        if (!token)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "token %d at %lld is not below the vocabulary's %d", tokens[i],
                             (long long)i, t->vocab.count);
        bool glued = t->kind->words && size > 2 && !memcmp(token, "##", 2);
        if (t->kind->words && i && !glued) tcc_strbuf_add(out, " ");
        tcc_strbuf_addn(out, token + (glued && i ? 2 : 0), size - (glued && i ? 2 : 0));
    }
    return TCC_OK;
}

tcc_status tcc_tokenizer_decode(tcc_context *cx, const tcc_tokenizer *t, const int32_t *tokens, int64_t count,
                                char **text, size_t *length) {
    tcc_diag_begin(&cx->diag);
    tcc_strbuf b = {0};
    *text = NULL;
    const tcc_status status = tcc__tokenizer_decode(&cx->diag, t, tokens, count, &b);
    *length = b.length;
    if (status == TCC_OK) *text = tcc_strbuf_take(&b);
    else tcc_strbuf_free(&b);
    return status != TCC_OK ? status : *text ? TCC_OK : tcc_enomem(&cx->diag);
}
