/* SPDX-License-Identifier: MIT
 * Data kind text: characters of a text file. */
#include "runtime/data/text.h"
#include "ir/support/alloc.h"
#include "runtime/data/windows.h"
#include "runtime/files/utf8.h"

#include <string.h>

/* ---- tokens of a text in memory ---- */

/* Walks a text character by character. */
typedef struct walker {
    const uint8_t *at, *end;
    bool bytes;
} walker;

/* A byte order mark is not part of the text. */
static walker walk(const tcc__bytes *text, bool bytes) {
    const uint8_t *data = text->data ? text->data : (const uint8_t *)""; /* an empty file has none */
    walker w = {data, data + text->size, bytes};
    if (!bytes && text->size >= 3 && !memcmp(text->data, "\xEF\xBB\xBF", 3)) w.at += 3;
    return w;
}

/* The next character; 0 at the end, -1 if it is not UTF-8, else its length. */
static int next(walker *w, uint32_t *code) {
    if (w->at == w->end) return 0;
    int length = 1;
    if (w->bytes) *code = *w->at;
    else length = tcc__utf8_decode(w->at, (size_t)(w->end - w->at), code);
    if (length == 0) return -1;
    w->at += length;
    return length;
}

/* By code point: whether it occurs, later one more than its token; 0: it does not. As long as the
 * text needs. */
typedef struct code_table {
    uint32_t *entries;
    uint32_t count;
} code_table;

static bool cover(code_table *table, uint32_t code) {
    uint32_t count = table->count ? table->count : 256;
    while (count <= code) count *= 2;
    uint32_t *larger = tcc__realloc(table->entries, count * sizeof *larger);
    if (!larger) return false;
    memset(larger + table->count, 0, (count - table->count) * sizeof *larger);
    *table = (code_table){larger, count};
    return true;
}

/* Mark the characters that occur and count all. */
static tcc_status survey(tcc_diag *d, const char *path, const tcc__bytes *text, bool bytes, code_table *table,
                         int64_t *count) {
    walker w = walk(text, bytes);
    uint32_t code;
    int length;
    while ((length = next(&w, &code)) > 0) {
        if (code >= table->count && !cover(table, code)) return tcc_enomem(d);
        table->entries[code] = 1;
        ++*count;
    }
    if (length == 0) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                     "byte %zu (0x%02x) is not UTF-8; option `bytes` reads any file", (size_t)(w.at - text->data),
                     *w.at);
}

static tcc_status build_vocabulary(tcc_diag *d, code_table *table, tcc__text *t) {
    for (uint32_t code = 0; code < table->count; code++)
        if (table->entries[code]) table->entries[code] = (uint32_t)++t->vocab_size;
    t->vocabulary = tcc__malloc((size_t)t->vocab_size * sizeof *t->vocabulary);
    t->labels = tcc__malloc((size_t)t->vocab_size * sizeof *t->labels);
    if (!t->vocabulary || !t->labels) return tcc_enomem(d);
    for (uint32_t code = 0; code < table->count; code++) {
        if (!table->entries[code]) continue;
        uint32_t token = table->entries[code] - 1;
        t->vocabulary[token] = code;
        if (t->bytes) memcpy(t->labels[token], (char[5]){(char)code}, 5);
        else tcc__utf8_encode(code, t->labels[token]);
    }
    return TCC_OK;
}

static void store(const tcc__bytes *text, const code_table *table, tcc__text *t, int64_t at) {
    walker w = walk(text, t->bytes);
    uint32_t code;
    for (; next(&w, &code) > 0; at++) {
        uint32_t token = table->entries[code] - 1;
        if (t->width == 1) ((uint8_t *)t->tokens)[at] = (uint8_t)token;
        else if (t->width == 2) ((uint16_t *)t->tokens)[at] = (uint16_t)token;
        else ((uint32_t *)t->tokens)[at] = token;
    }
}

static tcc_status tokenize(tcc_diag *d, const char *const paths[2], const tcc__bytes texts[2], tcc__text *t,
                           code_table *table) {
    for (int i = 0; i < 2; i++) TCC_TRY(survey(d, paths[i], &texts[i], t->bytes, table, &t->length[i]));
    TCC_TRY(build_vocabulary(d, table, t));
    t->width = t->vocab_size <= 256 ? 1 : t->vocab_size <= 65536 ? 2 : 4;
    t->tokens = tcc__malloc((size_t)(t->length[0] + t->length[1]) * (size_t)t->width);
    if (!t->tokens) return tcc_enomem(d);
    store(&texts[0], table, t, 0);
    store(&texts[1], table, t, t->length[0]);
    return TCC_OK;
}

tcc_status tcc__text_parse(tcc_diag *d, const char *const paths[2], const tcc__bytes texts[2], bool bytes,
                           tcc__text *out) {
    *out = (tcc__text){.bytes = bytes};
    code_table table = {0};
    tcc_status status = tokenize(d, paths, texts, out, &table);
    tcc__free(table.entries);
    if (status != TCC_OK) tcc__text_free(out);
    return status;
}

void tcc__text_free(tcc__text *t) {
    tcc__free(t->vocabulary);
    tcc__free(t->labels);
    tcc__free(t->tokens);
    *t = (tcc__text){0};
}

int32_t tcc__text_token(const tcc__text *t, int64_t at) {
    switch (t->width) {
    case 1: return ((const uint8_t *)t->tokens)[at];
    case 2: return ((const uint16_t *)t->tokens)[at];
    default: return (int32_t)((const uint32_t *)t->tokens)[at];
    }
}

/* ---- the reader ---- */

static tcc_status open_text(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    tcc__text *t = data->own = tcc__calloc(1, sizeof *t);
    if (!t) return tcc_enomem(d);
    const char *const paths[2] = {options->path, options->val_path};
    tcc__bytes texts[2] = {{0}};
    tcc_status status = tcc__file_load(d, paths[0], &texts[0]);
    if (status == TCC_OK && paths[1]) status = tcc__file_load(d, paths[1], &texts[1]);
    if (status == TCC_OK) status = tcc__text_parse(d, paths, texts, options->bytes, t);
    for (int i = 0; i < 2; i++) tcc__free(texts[i].data);
    TCC_TRY(status);
    if (!paths[1]) {
        t->length[1] = tcc__val_count(t->length[0], options->val_split);
        t->length[0] -= t->length[1];
    }
    return tcc__windows_init(d, options, data, t->length, t->vocab_size);
}

static tcc_status read_text(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    (void)d;
    const tcc__text *t = data->own;
    int64_t start = tcc__window_start(data, sample) + (sample->split == TCC_SPLIT_VALIDATION ? t->length[0] : 0);
    int64_t context = data->info.x.dims[0];
    int32_t *inputs = x, *targets = y;
    for (int64_t i = 0; i < context; i++) {
        inputs[i] = tcc__text_token(t, start + i);
        targets[i] = tcc__text_token(t, start + i + 1);
    }
    return TCC_OK;
}

static void close_text(tcc_dataset *data) {
    tcc__text_free(data->own);
    tcc__free(data->own);
}

static const char *label_text(const tcc_dataset *data, int64_t id, size_t *length) {
    const tcc__text *t = data->own;
    *length = t->labels[id][0] ? strlen(t->labels[id]) : 1;
    return t->labels[id];
}

static int find(const tcc__text *t, uint32_t code) {
    int low = 0, high = t->vocab_size;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (t->vocabulary[middle] == code) return middle;
        if (t->vocabulary[middle] > code) high = middle;
        else low = middle + 1;
    }
    return -1;
}

static tcc_status encode_text(tcc_diag *d, const tcc_dataset *data, const char *text, size_t length, int32_t *tokens,
                              int64_t capacity, int64_t *count) {
    const tcc__text *t = data->own;
    walker w = {(const uint8_t *)text, (const uint8_t *)text + length, t->bytes};
    uint32_t code;
    int step;
    while ((step = next(&w, &code)) > 0) {
        int id = find(t, code);
        if (id < 0)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                             "character '%.*s' (U+%04X) at byte %zu does not occur in the data", step,
                             (const char *)w.at - step, code, (size_t)((const char *)w.at - step - text));
        if (*count < capacity) tokens[*count] = id;
        ++*count;
    }
    if (step == 0) return TCC_OK;
    return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "the text is not UTF-8 at byte %zu",
                     (size_t)((const char *)w.at - text));
}

const tcc__reader tcc__text_reader = {
    .kind = "text",
    .windows = true,
    .open = open_text,
    .read = read_text,
    .close = close_text,
    .label = label_text,
    .encode = encode_text,
};
