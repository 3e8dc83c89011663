/* SPDX-License-Identifier: MIT
 * Data sets: the table of readers. */
#include "runtime/data/data.h"
#include "ir/support/alloc.h"
#include "runtime/data/learned.h"
#include "runtime/files/utf8.h"

#include <limits.h>
#include <string.h>

/* The table of kinds: a new one is a row here. */
// clang-format off
#define KINDS(KIND, SEPARATOR) \
    KIND(text) SEPARATOR KIND(tokens) SEPARATOR KIND(idx) SEPARATOR KIND(cifar) SEPARATOR KIND(csv) SEPARATOR \
    KIND(images) SEPARATOR KIND(segmentation) SEPARATOR KIND(text_classes)
// clang-format on
#define READER(kind) &tcc__##kind##_reader
#define NAME(kind) #kind
#define COMMA ,
static const tcc__reader *const readers[] = {KINDS(READER, COMMA)};
static const char kinds[] = KINDS(NAME, ", ");
enum { READER_COUNT = sizeof readers / sizeof *readers };

const char *tcc_dataset_kinds(void) { return kinds; }

/* ---- opening ---- */

static const tcc__reader *reader_of(const char *kind) {
    for (int i = 0; i < READER_COUNT; i++)
        if (!strcmp(readers[i]->kind, kind)) return readers[i];
    return NULL;
}

static bool is_any(const double *list, int count) {
    for (int i = 0; i < count; i++)
        if (list[i] != 0) return true; /* NaN too */
    return false;
}

/* Whether `kind` is one of a list as "text, tokens". */
static bool is_among(const char *kind, const char *list) {
    const size_t length = strlen(kind);
    for (const char *at = list; (at = strstr(at, kind)); at += length)
        if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ',')) return true;
    return false;
}

#define WINDOW_KINDS "text, tokens, text_classes"
#define TABLE_KINDS "csv, text_classes"
#define PICTURE_KINDS "images, segmentation"
#define PIXEL_KINDS "idx, cifar, " PICTURE_KINDS

/* Options go with some kinds; what is given with another would do nothing: its name, whether it is given, the kinds. */
// clang-format off
#define OPTIONS(OPTION) \
    OPTION(context,        o->context,                               WINDOW_KINDS) \
    OPTION(bytes,          o->bytes,                                 "text") \
    OPTION(token_bytes,    o->token_bytes,                           "tokens") \
    OPTION(vocab_size,     o->vocab_size,                            "tokens") \
    OPTION(classes,        o->classes,                               "idx, segmentation") \
    OPTION(n_channels,     o->n_channels,                            PIXEL_KINDS) \
    OPTION(mean,           is_any(o->mean, 3),                       PIXEL_KINDS) \
    OPTION(std,            is_any(o->std, 3),                        PIXEL_KINDS) \
    OPTION(augment,        o->augment,                               "cifar, " PICTURE_KINDS) \
    OPTION(csv_header,     o->csv_header,                            TABLE_KINDS) \
    OPTION(csv_separator,  o->csv_separator,                         TABLE_KINDS) \
    OPTION(csv_label,      o->csv_label,                             TABLE_KINDS) \
    OPTION(csv_text,       o->csv_text,                              "text_classes") \
    OPTION(csv_regression, o->csv_regression,                        "csv") \
    OPTION(unlabelled,     o->unlabelled,                            "csv, " PICTURE_KINDS ", text_classes") \
    OPTION(csv_columns,    o->n_csv_columns,                         "csv") \
    OPTION(csv_missing,    o->csv_missing,                           "csv") \
    OPTION(csv_one_hot,    o->csv_one_hot,                           "csv") \
    OPTION(csv_id,         o->csv_id,                                "csv") \
    OPTION(height,         o->height,                                PICTURE_KINDS) \
    OPTION(width,          o->width,                                 PICTURE_KINDS) \
    OPTION(scale,          is_any(o->scale, 2),                      PICTURE_KINDS) \
    OPTION(jitter,         is_any(o->jitter, 3),                     PICTURE_KINDS) \
    OPTION(skip_bad,       o->skip_bad,                              PICTURE_KINDS) \
    OPTION(label_colors,   o->n_label_colors,                        "segmentation") \
    OPTION(label_table,    o->label_table,                           "segmentation") \
    OPTION(val_height,     o->val_height,                            PICTURE_KINDS) \
    OPTION(val_width,      o->val_width,                             PICTURE_KINDS) \
    OPTION(val_scale,      o->val_scale != 0,                        PICTURE_KINDS) \
    OPTION(val_fit,        o->val_fit,                               PICTURE_KINDS) \
    OPTION(crop_area,      is_any(o->crop_area, 2),                  "images") \
    OPTION(crop_ratio,     is_any(o->crop_ratio, 2),                 "images") \
    OPTION(uniform_scale,  o->uniform_scale,                         PICTURE_KINDS) \
    OPTION(fill,           o->n_fill || is_any(o->fill, 3),          "segmentation") \
    OPTION(ignored_label,  o->has_ignored_label || o->ignored_label, "segmentation") \
    OPTION(tokenizer,      o->tokenizer,                             "text_classes") \
    OPTION(vocab,          o->vocab,                                 "text_classes")
// clang-format on

bool tcc_dataset_takes(const char *kind, const char *option) {
#define ROW(name, given, kinds) {#name, kinds},
    static const struct {
        const char *name, *kinds;
    } rows[] = {OPTIONS(ROW)};
#undef ROW
    const tcc__reader *reader = reader_of(kind);
    if (reader && !strcmp(option, "padding")) return reader->length;
    if (reader && !strcmp(option, "counts")) return reader->counts;
    if (reader && !strcmp(option, "mixup")) return reader->mixes;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, option)) return is_among(kind, rows[i].kinds);
    return false;
}

static tcc_status check_kind(tcc_diag *d, const tcc_data_options *o) {
#define ROW(name, given, kinds) {#name, given, kinds},
    const struct {
        const char *name;
        bool given;
        const char *kinds;
    } rows[] = {OPTIONS(ROW)};
#undef ROW
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].given && !is_among(o->kind, rows[i].kinds))
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "%s does not apply to data of kind %s; it goes with %s",
                             rows[i].name, o->kind, rows[i].kinds);
    return TCC_OK;
}

static tcc_status check_options(tcc_diag *d, const tcc_data_options *o) {
    if (o->size != sizeof *o)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tcc_data_options.size is %zu, should be %zu", o->size, sizeof *o);
    if (!o->kind || !reader_of(o->kind))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "data kind '%s' is unknown; kinds are %s", o->kind ? o->kind : "",
                         kinds);
    if ((!o->path && !o->learned) || (o->path && !*o->path))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "data of kind %s needs a path", o->kind);
    if (!(o->val_split < 1))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "val_split is %g; it is the part held out for validation, below 1",
                         o->val_split);
    if (o->val_path && o->val_split != 0)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "val_split and val_path exclude each other");
    if ((unsigned)o->csv_header > TCC_CSV_HEADER_NO)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "csv_header is %d", (int)o->csv_header);
    TCC_TRY(check_kind(d, o));
    if (o->unlabelled && (!o->learned || o->path))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "unlabelled goes with learned and val_path");
    if (o->csv_id && !o->learned) return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "csv_id goes with learned");
    for (int c = o->n_channels < 0 ? 0 : o->n_channels; c < 3; c++)
        if (o->mean[c] != 0 || o->std[c] != 0)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                             "mean %g and std %g of channel %d are given, but n_channels, of how many they are, is %d",
                             o->mean[c], o->std[c], c, o->n_channels);
    return TCC_OK;
}

/* ---- what was learned before ---- */

/* Options that the user may give and else are found in the training files. */
static tcc_status take_channels(tcc_diag *d, const cJSON *learned, tcc_data_options *o) {
    const cJSON *list, *channel;
    TCC_TRY(tcc__learned_list(d, learned, "channels", &list));
    cJSON_ArrayForEach(channel, list) {
        if (o->n_channels == 3) break;
        TCC_TRY(tcc__learned_number(d, channel, "mean", &o->mean[o->n_channels]));
        TCC_TRY(tcc__learned_number(d, channel, "std", &o->std[o->n_channels++]));
    }
    return TCC_OK;
}

static tcc_status take_missing(tcc_diag *d, const cJSON *learned, tcc_data_options *o) {
    int64_t policy;
    TCC_TRY(tcc__learned_integer(d, learned, "missing", TCC_MISSING_CATEGORY, &policy));
    o->csv_missing = (tcc_csv_missing)policy;
    return TCC_OK;
}

static tcc_status take_options(tcc_diag *d, const cJSON *learned, tcc_data_options *o) {
    int64_t classes;
    TCC_TRY(tcc__learned_integer(d, learned, "n_classes", INT_MAX, &classes));
    o->csv_regression |= !classes && !strcmp(o->kind, "csv");
    if (!o->csv_missing && cJSON_HasObjectItem(learned, "missing")) TCC_TRY(take_missing(d, learned, o));
    o->bytes |= cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(learned, "bytes"));
    if (!o->classes && tcc_dataset_takes(o->kind, "classes")) o->classes = (int)classes;
    if (!o->vocab_size && tcc_dataset_takes(o->kind, "vocab_size")) o->vocab_size = classes;
    if (!o->n_channels && tcc_dataset_takes(o->kind, "mean")) TCC_TRY(take_channels(d, learned, o));
    if (!o->height && tcc_dataset_takes(o->kind, "height")) {
        TCC_TRY(tcc__learned_integer(d, learned, "height", INT_MAX, &o->height));
        TCC_TRY(tcc__learned_integer(d, learned, "width", INT_MAX, &o->width));
    }
    return TCC_OK;
}

/* Which samples were held out depends on the training data as it was. */
static tcc_status check_digest(tcc_diag *d, const char *path, const tcc_dataset *data) {
    const char *before;
    tcc__digest now;
    TCC_TRY(tcc__learned_text(d, data->learned, "digest", &before));
    TCC_TRY(tcc__digest_of(d, path, &now));
    if (!*before || !strcmp(before, now.text)) return TCC_OK;
    return tcc_error(d, TCC_EINVAL, (tcc_loc){path, 0},
                     "is not as it was when it was trained on, so what was held out for validation cannot be told; "
                     "give a val_path");
}

static tcc_status open_files(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    tcc_data_options o = *options;
    if (!o.learned) {
        TCC_TRY(data->reader->open(d, &o, data));
        return tcc__digest_of(d, o.path, &data->digest);
    }
    const char *kind;
    data->learned = cJSON_Parse(o.learned);
    data->learned_text = tcc__strdup(o.learned);
    if (!data->learned_text) return tcc_enomem(d);
    if (!data->learned)
        return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "what was learned from the training data is no JSON");
    TCC_TRY(tcc__learned_text(d, data->learned, "kind", &kind));
    if (strcmp(kind, o.kind))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "data of kind %s was trained on, not %s", kind, o.kind);
    TCC_TRY(take_options(d, data->learned, &o));
    if (o.path && !o.val_path) TCC_TRY(check_digest(d, o.path, data));
    if (o.val_path) o.path = NULL;
    return data->reader->open(d, &o, data);
}

static tcc_status count_classes(tcc_diag *d, tcc_dataset *data) {
    const tcc_dataset_info *info = &data->info;
    if (data->learned || data->counts || !data->reader->class_of || !info->classes) return TCC_OK;
    data->counts = tcc__calloc((size_t)info->classes, sizeof *data->counts);
    for (int64_t i = 0; data->counts && i < info->samples[TCC_SPLIT_TRAIN]; i++) {
        const int64_t number = tcc__source_of(data, TCC_SPLIT_TRAIN, i);
        data->counts[data->reader->class_of(data, TCC_SPLIT_TRAIN, number)]++;
    }
    return data->counts ? TCC_OK : tcc_enomem(d);
}

/* What is learned is text that checkpoints hold, in UTF-8. Names that are read from files are; those of folders may be
 * anything. */
static tcc_status check_names(tcc_diag *d, const char *path, const tcc_dataset *data) {
    for (int64_t i = 0; data->reader->names_classes && !data->learned && i < data->info.classes; i++) {
        size_t length;
        const char *name = data->reader->label(data, i, &length);
        if (name && tcc__utf8_check((const uint8_t *)name, length) != length)
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                             "class '%.*s': its name is not UTF-8; rename the folder", (int)length, name);
    }
    return TCC_OK;
}

tcc_status tcc_dataset_open(tcc_context *cx, const tcc_data_options *options, tcc_dataset **out) {
    tcc_diag_begin(&cx->diag);
    tcc_diag *d = &cx->diag;
    *out = NULL;
    TCC_TRY(check_options(d, options));
    tcc_dataset *data = tcc__calloc(1, sizeof *data);
    if (!data) return tcc_enomem(d);
    data->reader = reader_of(options->kind);
    data->info.kind = data->reader->kind;
    data->info.x.name = "x";
    data->info.y.name = "y";
    tcc_status status = open_files(d, options, data);
    if (status == TCC_OK) status = check_names(d, options->path, data);
    if (status == TCC_OK) status = count_classes(d, data);
    if (status != TCC_OK) {
        tcc_dataset_close(data);
        return status;
    }
    tcc_logf(cx, TCC_LOG_DATA, "%s: kind %s, %lld training and %lld validation samples, %lld classes",
             options->path       ? options->path
             : options->val_path ? options->val_path
                                 : "no files",
             options->kind, (long long)data->info.samples[TCC_SPLIT_TRAIN],
             (long long)data->info.samples[TCC_SPLIT_VALIDATION], (long long)data->info.classes);
    *out = data;
    return TCC_OK;
}

void tcc_dataset_close(tcc_dataset *data) {
    if (!data) return;
    if (data->own) data->reader->close(data);
    cJSON_Delete(data->learned);
    tcc__free(data->learned_text);
    tcc__free(data->counts);
    tcc__free(data);
}

/* ---- looking ---- */

void tcc_dataset_get_info(const tcc_dataset *data, tcc_dataset_info *out) { *out = data->info; }

void tcc_dataset_get_arrays(const tcc_dataset *data, tcc_split split, tcc_array arrays[2]) {
    for (int i = 0; i < 2; i++) arrays[i] = *tcc__sample_array(data, split, i);
}

const char *tcc_dataset_sample_name(const tcc_dataset *data, tcc_split split, int64_t index) {
    if (!data->reader->sample_name || index < 0 || index >= data->info.samples[split]) return NULL;
    return data->reader->sample_name(data, split, data->held_out_of ? tcc__source_of(data, split, index) : index);
}

void tcc_dataset_color(const tcc_dataset *data, int64_t id, uint8_t rgb[3]) {
    memset(rgb, 0, 3);
    if (id < 0 || id >= data->info.classes) return;
    if (data->reader->color && data->reader->color(data, id, rgb)) return;
    for (int bit = 0; bit < 8; bit++) /* as PASCAL VOC has them, whose first is black */
        for (int c = 0; c < 3; c++) rgb[c] |= (uint8_t)(((id + 1) >> (3 * bit + c) & 1) << (7 - bit));
}

const char *tcc_dataset_label(const tcc_dataset *data, int64_t id, size_t *length) {
    *length = 0;
    if (!data->reader->label || id < 0 || id >= data->info.classes) return NULL;
    return data->reader->label(data, id, length);
}

tcc_status tcc_dataset_encode(tcc_context *cx, const tcc_dataset *data, const char *text, size_t length,
                              int32_t *tokens, int64_t capacity, int64_t *count) {
    tcc_diag_begin(&cx->diag);
    *count = 0;
    if (!data->reader->encode)
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "data of kind %s has no vocabulary of text",
                         data->info.kind);
    return data->reader->encode(&cx->diag, data, text, length, tokens, capacity, count);
}

static tcc_status decode_labels(tcc_diag *d, const tcc_dataset *data, const int32_t *tokens, int64_t count,
                                tcc_strbuf *out) {
    for (int64_t i = 0; i < count; i++) {
        size_t size;
        const char *text = tcc_dataset_label(data, tokens[i], &size);
        if (!text)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "data of kind %s has no text for token %d at %lld",
                             data->info.kind, tokens[i], (long long)i);
        tcc_strbuf_addn(out, text, size);
    }
    return TCC_OK;
}

tcc_status tcc_dataset_decode(tcc_context *cx, const tcc_dataset *data, const int32_t *tokens, int64_t count,
                              char **text, size_t *length) {
    tcc_diag_begin(&cx->diag);
    tcc_strbuf b = {0};
    *text = NULL;
    *length = 0;
    if (!data->reader->windows)
        return tcc_error(&cx->diag, TCC_EINVAL, TCC_NOWHERE, "data of kind %s has no text of tokens", data->info.kind);
    const tcc_status status = (data->reader->decode ? data->reader->decode : decode_labels)(&cx->diag, data, tokens,
                                                                                            count, &b);
    *length = b.length;
    if (status == TCC_OK) *text = tcc_strbuf_take(&b);
    else tcc_strbuf_free(&b);
    return status != TCC_OK ? status : *text ? TCC_OK : tcc_enomem(&cx->diag);
}
