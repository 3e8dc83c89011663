/* SPDX-License-Identifier: MIT
 * Data kind text_classes: texts with a class each, as tokens in memory. */
#include "ir/support/alloc.h"
#include "runtime/data/describe.h"
#include "runtime/data/csv.h"
#include "runtime/data/records.h"
#include "runtime/data/tokenize/tokenizer.h"
#include "runtime/files/list.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NO_TOKEN = -1 }; /* what x holds behind a text */

typedef struct text_classes {
    tcc_tokenizer *tokenizer;
    int32_t first, last; /* the tokens [CLS] and [SEP] */
    int64_t limit;       /* the most tokens of a text */
    tcc__ids tokens;     /* of all texts, one after the other */
    tcc_vec(int64_t) ends;
    tcc_vec(int32_t) labels;
    int64_t count[2]; /* texts of path and of val_path */
    /* What the classes are called: */
    tcc__file_list folders;
    tcc__csv table; /* its labels, without cells */
} text_classes;

/* ---- texts ---- */

/* Append a text's tokens, cut, between the special ones. */
static tcc_status encode(tcc_diag *d, const text_classes *t, const tcc__passage *text, tcc__ids *out) {
    const size_t most = out->count + (size_t)t->limit - 1;
    if (!tcc__ids_add(out, &t->first, 1)) return tcc_enomem(d);
    TCC_TRY(tcc__tokenizer_encode(d, t->tokenizer, text, out));
    if (out->count > most) out->count = most;
    return tcc__ids_add(out, &t->last, 1) ? TCC_OK : tcc_enomem(d);
}

static tcc_status add_text(tcc_diag *d, text_classes *t, const tcc__passage *text, int line) {
    const size_t before = t->tokens.count;
    TCC_TRY(encode(d, t, text, &t->tokens));
    if (t->tokens.count == before + 2)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){text->path, line}, "the text is empty");
    return tcc_vec_push(&t->ends, (int64_t)t->tokens.count) ? TCC_OK : tcc_enomem(d);
}

static tcc_status open_tokenizer(tcc_diag *d, const tcc_data_options *options, const cJSON *learned, text_classes *t) {
    const tcc_tokenizer_options how = {.size = sizeof how, .kind = "wordpiece", .vocab = options->vocab};
    const cJSON *described = cJSON_GetObjectItemCaseSensitive(learned, "tokenizer");
    if (options->tokenizer && strcmp(options->tokenizer, "wordpiece"))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tokenizer '%s' of kind text_classes; there is wordpiece",
                         options->tokenizer);
    if (!options->vocab && !described)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "data of kind text_classes needs vocab, the file vocab.txt");
    t->limit = options->context;
    if (t->limit < 3)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "data of kind text_classes needs a context of at least 3 tokens, not %lld",
                         (long long)t->limit);
    TCC_TRY(described ? tcc__tokenizer_open_described(d, described, &t->tokenizer)
                      : tcc__tokenizer_open(d, &how, &t->tokenizer));
    t->first = (int32_t)tcc_tokenizer_find(t->tokenizer, "[CLS]");
    t->last = (int32_t)tcc_tokenizer_find(t->tokenizer, "[SEP]");
    if (t->first >= 0 && t->last >= 0) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){options->vocab, 0}, "has no line %s", t->first < 0 ? "[CLS]" : "[SEP]");
}

/* ---- folders of classes ---- */

static tcc_status add_files(tcc_diag *d, text_classes *t, const char *folder, int32_t label, int64_t *count) {
    tcc__file_list files = {0};
    const int64_t before = *count;
    tcc_status status = tcc__file_list_add(d, folder, &files);
    for (int i = 0; i < files.count && status == TCC_OK; i++) {
        const size_t length = strlen(files.data[i]);
        if (length < 4 || (strcmp(files.data[i] + length - 4, ".txt") && !strstr(files.data[i], ".txt.gz"))) continue;
        tcc__bytes file;
        status = tcc__file_load(d, files.data[i], &file);
        if (status != TCC_OK) break;
        tcc__passage text = {.text = file.data, .size = file.size, .path = files.data[i]};
        tcc__skip_mark(&text);
        status = tcc_vec_push(&t->labels, label) ? add_text(d, t, &text, 0) : tcc_enomem(d);
        ++*count;
        tcc__free(file.data);
    }
    tcc__file_list_free(&files);
    if (status == TCC_OK && *count == before)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){folder, 0}, "has no .txt file");
    return status;
}

static int32_t find_folder(const text_classes *t, const char *name) {
    for (int i = 0; i < t->folders.count; i++)
        if (!strcmp(t->folders.data[i], name)) return i;
    return -1;
}

static tcc_status add_classes(tcc_diag *d, text_classes *t, const char *path, const tcc__file_list *names,
                              int64_t *count) {
    for (int i = 0; i < names->count; i++) {
        const int32_t label = find_folder(t, names->data[i]);
        if (!strcmp(names->data[i], "unsup")) continue;
        if (label < 0)
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "class %s is not among those of the training texts",
                             names->data[i]);
        char *folder = tcc__path_join(path, names->data[i]);
        tcc_status status = folder ? add_files(d, t, folder, label, count) : tcc_enomem(d);
        tcc__free(folder);
        TCC_TRY(status);
    }
    return TCC_OK;
}

static void leave_out(tcc__file_list *names, const char *name) {
    for (int i = 0; i < names->count; i++) {
        if (strcmp(names->data[i], name)) continue;
        tcc__free(names->data[i]);
        memmove(names->data + i, names->data + i + 1, (size_t)(--names->count - i) * sizeof *names->data);
        return;
    }
}

static tcc_status open_folders(tcc_diag *d, const tcc_data_options *options, text_classes *t) {
    if (!t->folders.count) TCC_TRY(tcc__folder_names(d, options->path, true, &t->folders));
    leave_out(&t->folders, "unsup");
    if (t->folders.count < 2)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){options->path, 0},
                         "has %d folders; texts lie in a folder for each class, of which there are at least 2",
                         t->folders.count);
    if (options->path) TCC_TRY(add_classes(d, t, options->path, &t->folders, &t->count[0]));
    if (!options->val_path) return TCC_OK;
    tcc__file_list names = {0};
    tcc_status status = tcc__folder_names(d, options->val_path, true, &names);
    if (status == TCC_OK) status = add_classes(d, t, options->val_path, &names, &t->count[1]);
    tcc__file_list_free(&names);
    TCC_TRY(status);
    if (t->count[1]) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){options->val_path, 0}, "has no folder of texts");
}

/* ---- files of rows ---- */

typedef struct columns {
    int count, label, text;
    bool header, by_name;
} columns;

#define LINE_ERROR(r, ...) tcc_error((r)->diag, TCC_EFORMAT, (tcc_loc){(r)->path, (r)->line}, __VA_ARGS__)

/* The column of this name or number; -1: there is none. */
static int find_column(const tcc__records *r, const char *given, int otherwise, tcc_csv_header header, bool *by_name) {
    if (!given) return otherwise;
    for (int i = 0; i < r->cells.count && header != TCC_CSV_HEADER_NO; i++)
        if (!strcmp(tcc__records_cell(r, i), given)) return *by_name = true, i;
    char *end;
    const long index = strtol(given, &end, 10);
    return *given && !*end && index >= 0 && index < r->cells.count ? (int)index : -1;
}

/* From a file's first line. */
static tcc_status find_columns(const tcc__records *r, const tcc_data_options *options, columns *c) {
    bool by_name = false;
    const int count = r->cells.count, label = find_column(r, options->csv_label, 0, options->csv_header, &by_name),
              text = find_column(r, options->csv_text, count - 1, options->csv_header, &by_name);
    if (label < 0 || text < 0)
        return LINE_ERROR(r, "there is no column '%s'; the first line has %d columns",
                          label < 0 ? options->csv_label : options->csv_text, count);
    if (label == text)
        return LINE_ERROR(r, "column %d of %d cannot be both the label and the text; is the separator right?", label,
                          count);
    *c = (columns){.count = count, .label = label, .text = text, .by_name = by_name};
    return TCC_OK;
}

static tcc_status add_row(const tcc__records *r, const columns *c, bool trained, text_classes *t) {
    if (r->cells.count != c->count)
        return LINE_ERROR(r, "the line has %d cells, but the first has %d", r->cells.count, c->count);
    int32_t label;
    const char *name = tcc__records_cell(r, c->label), *text = tcc__records_cell(r, c->text);
    if (!*name) return LINE_ERROR(r, "the label, in column %d, is missing", c->label);
    TCC_TRY(tcc__csv_add_label(r->diag, &t->table, name, r->line, trained, &label));
    if (!tcc_vec_push(&t->labels, label)) return tcc_enomem(r->diag);
    const tcc__passage passage = {.text = (const uint8_t *)text, .size = strlen(text), .path = r->path};
    return add_text(r->diag, t, &passage, r->line);
}

/* Whether another line has the first one's label. */
static tcc_status label_recurs(tcc_diag *d, const char *path, const tcc__bytes *file, char separator, int column,
                               bool *recurs) {
    tcc__records r;
    char *label = NULL;
    bool more = true;
    tcc_status status = tcc__records_begin(d, path, file, separator, separator == '\t', &r);
    for (*recurs = false; status == TCC_OK && more && !*recurs;) {
        status = tcc__records_next(&r, &more);
        if (status != TCC_OK || !more || r.blank || column >= r.cells.count) continue;
        if (label) *recurs = !strcmp(label, tcc__records_cell(&r, column));
        else if (!(label = tcc__strdup(tcc__records_cell(&r, column)))) status = tcc_enomem(d);
    }
    tcc__free(label);
    tcc__records_free(&r);
    return status;
}

/* By the first line of the training file, which `r` has read. */
static tcc_status find_header(const tcc__records *r, const tcc__bytes *file, const tcc_data_options *options,
                              const columns *c, bool *header) {
    *header = options->csv_header == TCC_CSV_HEADER_YES || c->by_name;
    if (*header || options->csv_header == TCC_CSV_HEADER_NO) return TCC_OK;
    bool recurs;
    TCC_TRY(label_recurs(r->diag, r->path, file, r->separator, c->label, &recurs));
    *header = !recurs;
    return TCC_OK;
}

static tcc_status add_rows(tcc__records *r, const tcc__bytes *file, const tcc_data_options *options, int index,
                           columns *c, text_classes *t) {
    bool more, first = true;
    for (;;) {
        TCC_TRY(tcc__records_next(r, &more));
        if (!more) break;
        if (r->blank) continue;
        if (first) {
            const columns before = *c;
            first = false;
            TCC_TRY(find_columns(r, options, c));
            if (before.count && c->count != before.count)
                return LINE_ERROR(r, "has %d columns, but the training file has %d", c->count, before.count);
            if (before.count) c->header = before.header;
            else TCC_TRY(find_header(r, file, options, c, &c->header));
            if (c->header) continue;
        }
        TCC_TRY(add_row(r, c, !index, t));
        t->count[index]++;
    }
    if (t->count[index]) return TCC_OK;
    return tcc_error(r->diag, TCC_EFORMAT, (tcc_loc){r->path, 0}, "has no rows of data");
}

static bool is_tab_separated(const char *path) {
    const size_t length = strlen(path), zipped = length > 3 && !strcmp(path + length - 3, ".gz") ? 3 : 0;
    return length >= 4 + zipped && !memcmp(path + length - zipped - 4, ".tsv", 4);
}

static tcc_status open_files(tcc_diag *d, const tcc_data_options *options, text_classes *t) {
    const char *const paths[2] = {options->path, options->val_path};
    columns c = {0};
    char separator = options->csv_separator;
    for (int i = 0; i < 2; i++) {
        if (!paths[i]) continue;
        if (!separator) separator = is_tab_separated(paths[i]) ? '\t' : ',';
        tcc__bytes file;
        tcc__records r;
        TCC_TRY(tcc__file_load(d, paths[i], &file));
        tcc_status status = tcc__records_begin(d, paths[i], &file, separator, separator == '\t', &r);
        if (status == TCC_OK) status = add_rows(&r, &file, options, i, &c, t);
        tcc__records_free(&r);
        tcc__free(file.data);
        TCC_TRY(status);
        t->table.rows[i] = t->count[i];
    }
    TCC_TRY(tcc__csv_number_classes(d, paths[paths[1] != NULL], &t->table));
    for (int i = 0; i < t->labels.count; i++) t->labels.data[i] = t->table.labels.data[t->labels.data[i]].id;
    if (t->table.classes.count < 2)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){paths[!paths[0]], 0}, "all labels are '%.64s'; there are at least 2",
                         t->table.texts.text + t->table.classes.data[0]);
    return TCC_OK;
}

/* ---- lines without a class ---- */

static tcc_status add_lines(tcc_diag *d, text_classes *t, const char *path, const tcc__bytes *file) {
    const uint8_t *at = file->data, *end = at + file->size;
    tcc__passage text = {.text = at, .size = file->size, .path = path};
    tcc__skip_mark(&text);
    for (at = text.text; at < end;) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        text = (tcc__passage){.text = at, .size = (size_t)(stop - at), .path = path, .first = at - file->data};
        if (text.size && stop[-1] == '\r') text.size--;
        TCC_TRY(encode(d, t, &text, &t->tokens));
        if (!tcc_vec_push(&t->ends, (int64_t)t->tokens.count) || !tcc_vec_push(&t->labels, -1)) return tcc_enomem(d);
        t->count[1]++;
        at = stop + 1;
    }
    if (!t->count[1]) return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "has no lines");
    return TCC_OK;
}

static tcc_status open_lines(tcc_diag *d, const char *path, text_classes *t) {
    tcc__bytes file;
    TCC_TRY(tcc__file_load(d, path, &file));
    const tcc_status status = add_lines(d, t, path, &file);
    tcc__free(file.data);
    return status;
}

/* ---- the reader ---- */

static bool learn_tokenizer(const tcc_dataset *data, cJSON *to) {
    return tcc__learn_tokenizer(to, ((const text_classes *)data->own)->tokenizer);
}

static tcc_status open_text_classes(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    text_classes *t = data->own = tcc__calloc(1, sizeof *t);
    struct stat info;
    if (!t) return tcc_enomem(d);
    TCC_TRY(open_tokenizer(d, options, data->learned, t));
    const char *path = options->path ? options->path : options->val_path;
    const bool folder = path && !stat(path, &info) && S_ISDIR(info.st_mode);
    if (folder && (options->csv_header || options->csv_separator || options->csv_label || options->csv_text))
        return tcc_error(d, TCC_EINVAL, (tcc_loc){path, 0},
                         "is a folder; csv_header, csv_separator, csv_label and csv_text go with a file of rows");
    if (data->learned) TCC_TRY(tcc__learned_classes(d, data->learned, &t->folders));
    if (!folder) TCC_TRY(tcc__csv_set_classes(d, &t->folders, &t->table));
    TCC_TRY(options->unlabelled ? open_lines(d, options->val_path, t)
            : folder            ? open_folders(d, options, t)
                                : open_files(d, options, t));
    if (options->val_path) {
        for (int split = 0; split < TCC_SPLIT_COUNT; split++) data->info.samples[split] = t->count[split];
    } else if (options->path) {
        TCC_TRY(tcc__hold_out(d, options->path, data, t->count[0], options->val_split));
    }
    data->info.classes = folder ? t->folders.count : t->table.classes.count;
    data->info.vocab_size = tcc_tokenizer_vocab_size(t->tokenizer);
    data->info.x.dtype = data->info.y.dtype = TCC_I32;
    data->info.x.rank = 1;
    data->info.x.dims[0] = t->limit;
    return TCC_OK;
}

/* Which text a sample is. */
static int64_t text_of(const tcc_dataset *data, tcc_split split, int64_t number) {
    const text_classes *t = data->own;
    return data->held_out_of || split == TCC_SPLIT_TRAIN ? number : t->count[0] + number;
}

static int64_t length_text_classes(const tcc_dataset *data, tcc_split split, int64_t number) {
    const text_classes *t = data->own;
    const int64_t text = text_of(data, split, number);
    return t->ends.data[text] - (text ? t->ends.data[text - 1] : 0);
}

static tcc_status read_text_classes(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    (void)d;
    const text_classes *t = data->own;
    const int64_t text = text_of(data, sample->split, sample->number), end = t->ends.data[text],
                  length = length_text_classes(data, sample->split, sample->number);
    int32_t *tokens = x;
    memcpy(tokens, t->tokens.data + end - length, (size_t)length * sizeof *tokens);
    for (int64_t i = length; i < sample->length; i++) tokens[i] = NO_TOKEN;
    *(int32_t *)y = t->labels.data[text];
    return TCC_OK;
}

static uint64_t hash_text_classes(const tcc_dataset *data, tcc_split split, int64_t number, bool rough) {
    const text_classes *t = data->own;
    const int64_t end = t->ends.data[text_of(data, split, number)], length = length_text_classes(data, split, number);
    return tcc__sample_hash(t->tokens.data + end - length, (size_t)length * sizeof *t->tokens.data, rough);
}

static void close_text_classes(tcc_dataset *data) {
    text_classes *t = data->own;
    tcc_tokenizer_close(t->tokenizer);
    tcc__free(t->tokens.data);
    tcc_vec_free(&t->ends);
    tcc_vec_free(&t->labels);
    tcc__file_list_free(&t->folders);
    tcc__csv_free(&t->table);
    tcc__free(t);
}

static const char *label_text_classes(const tcc_dataset *data, int64_t id, size_t *length) {
    const text_classes *t = data->own;
    const char *text = t->folders.count ? t->folders.data[id] : t->table.texts.text + t->table.classes.data[id];
    *length = strlen(text);
    return text;
}

static tcc_status encode_text_classes(tcc_diag *d, const tcc_dataset *data, const char *text, size_t length,
                                      int32_t *tokens, int64_t capacity, int64_t *count) {
    const tcc__passage from = {.text = (const uint8_t *)text, .size = length};
    tcc__ids ids = {0};
    tcc_status status = encode(d, data->own, &from, &ids);
    if (status == TCC_OK) {
        *count = (int64_t)ids.count;
        if (capacity > *count) capacity = *count;
        if (capacity > 0) memcpy(tokens, ids.data, (size_t)capacity * sizeof *tokens);
    }
    tcc__free(ids.data);
    return status;
}

static int32_t class_of_text(const tcc_dataset *data, tcc_split split, int64_t number) {
    return ((const text_classes *)data->own)->labels.data[text_of(data, split, number)];
}

static bool describe_text_classes(const tcc_dataset *data, tcc_strbuf *out) {
    const text_classes *t = data->own;
    int64_t least = t->limit, most = 0, sum = 0, cut = 0;
    const int count = t->ends.count;
    for (int i = 0; i < count; i++) {
        const int64_t length = t->ends.data[i] - (i ? t->ends.data[i - 1] : 0);
        least = length < least ? length : least;
        most = length > most ? length : most;
        sum += length;
        cut += length == t->limit;
    }
    if (count)
        tcc_strbuf_printf(out, "texts: %lld to %lld tokens, %.1f on average; %lld reach the limit of %lld\n",
                          (long long)least, (long long)most, (double)sum / count, (long long)cut, (long long)t->limit);
    return true;
}

const tcc__reader tcc__text_classes_reader = {
    .kind = "text_classes",
    .open = open_text_classes,
    .read = read_text_classes,
    .close = close_text_classes,
    .hash = hash_text_classes,
    .length = length_text_classes,
    .label = label_text_classes,
    .names_classes = true,
    .class_of = class_of_text,
    .counts = true,
    .describe = describe_text_classes,
    .learn = learn_tokenizer,
    .encode = encode_text_classes,
};
