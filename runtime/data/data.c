/* SPDX-License-Identifier: MIT
 * Data sets: the table of readers, and what readers share. */
#include "runtime/data/data.h"
#include "ir/support/alloc.h"
#include "runtime/data/draw.h"

#include <math.h>
#include <string.h>

/* The table of kinds: a new one is a row here. */
// clang-format off
#define KINDS(KIND, SEPARATOR) \
    KIND(text) SEPARATOR KIND(tokens) SEPARATOR KIND(idx) SEPARATOR KIND(cifar) SEPARATOR KIND(csv)
// clang-format on
#define READER(kind) &tcc__##kind##_reader
#define NAME(kind) #kind
#define COMMA ,
static const tcc__reader *const readers[] = {KINDS(READER, COMMA)};
static const char kinds[] = KINDS(NAME, ", ");
enum { READER_COUNT = sizeof readers / sizeof *readers };

static const double default_val_split = 0.1;

const char *tcc_dataset_kinds(void) { return kinds; }

/* ---- opening ---- */

static const tcc__reader *reader_of(const char *kind) {
    for (int i = 0; i < READER_COUNT; i++)
        if (!strcmp(readers[i]->kind, kind)) return readers[i];
    return NULL;
}

static tcc_status check_options(tcc_diag *d, const tcc_data_options *o) {
    if (o->size != sizeof *o)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "tcc_data_options.size is %zu, should be %zu", o->size, sizeof *o);
    if (!o->kind || !reader_of(o->kind))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "data kind '%s' is unknown; kinds are %s", o->kind ? o->kind : "",
                         kinds);
    if (!o->path || !*o->path) return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "data of kind %s needs a path", o->kind);
    if (!(o->val_split < 1))
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "val_split is %g; it is the part held out for validation, below 1",
                         o->val_split);
    if (o->val_path && o->val_split != 0)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "val_split and val_path exclude each other");
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
    tcc_status status = data->reader->open(d, options, data);
    if (status != TCC_OK) {
        tcc_dataset_close(data);
        return status;
    }
    tcc_logf(cx, TCC_LOG_DATA, "%s: kind %s, %lld training and %lld validation samples, %lld classes", options->path,
             options->kind, (long long)data->info.samples[TCC_SPLIT_TRAIN],
             (long long)data->info.samples[TCC_SPLIT_VALIDATION], (long long)data->info.classes);
    *out = data;
    return TCC_OK;
}

void tcc_dataset_close(tcc_dataset *data) {
    if (!data) return;
    if (data->own) data->reader->close(data);
    tcc__free(data);
}

/* ---- looking ---- */

void tcc_dataset_get_info(const tcc_dataset *data, tcc_dataset_info *out) { *out = data->info; }

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

/* ---- splits ---- */

int64_t tcc__val_count(int64_t count, double val_split) {
    if (val_split < 0) return 0;
    double part = val_split == 0 ? default_val_split : val_split;
    return count - (int64_t)((double)count * (1 - part));
}

tcc_status tcc__hold_out(tcc_diag *d, const char *path, tcc_dataset *data, int64_t count, double val_split) {
    int64_t held_out = tcc__val_count(count, val_split);
    if (count - held_out < 1)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                         "there are %lld samples, too few to hold out %lld for validation", (long long)count,
                         (long long)held_out);
    data->held_out_of = count;
    data->info.samples[TCC_SPLIT_TRAIN] = count - held_out;
    data->info.samples[TCC_SPLIT_VALIDATION] = held_out;
    return TCC_OK;
}

int64_t tcc__source_of(const tcc_dataset *data, tcc_split split, int64_t i) {
    if (!data->held_out_of || !data->info.samples[TCC_SPLIT_VALIDATION]) return i;
    tcc__permutation p = tcc__permutation_of(data->held_out_of, 0, TCC__DRAW_HOLD_OUT, 0);
    return tcc__permute(&p, split == TCC_SPLIT_TRAIN ? i : data->info.samples[TCC_SPLIT_TRAIN] + i);
}

/* ---- images ---- */

static void measure(const tcc_dataset *data, int channels, const uint8_t *images, int64_t plane_bytes,
                    int64_t stride_bytes, double *mean, double *std) {
    int64_t n = data->info.samples[TCC_SPLIT_TRAIN];
    for (int c = 0; c < channels; c++) {
        uint64_t sum = 0, squares = 0; /* exact: 255^2 * 2^48 pixels fit */
        for (int64_t i = 0; i < n; i++) {
            const uint8_t *plane = images + tcc__source_of(data, TCC_SPLIT_TRAIN, i) * stride_bytes + c * plane_bytes;
            for (int64_t j = 0; j < plane_bytes; j++) {
                sum += plane[j];
                squares += (uint64_t)plane[j] * plane[j];
            }
        }
        double count = (double)n * (double)plane_bytes, average = (double)sum / count;
        double variance = (double)squares / count - average * average;
        mean[c] = average / 255;
        std[c] = variance > 0 ? sqrt(variance) / 255 : 1; /* one colour alone: nothing to scale */
    }
}

tcc_status tcc__pixels_init(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data, int channels,
                            const uint8_t *images, int64_t plane_bytes, int64_t stride_bytes, tcc__pixels *out) {
    tcc_dataset_info *info = &data->info;
    int given = options->n_channels;
    if (given != 0 && given != 1 && given != channels)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "mean and std are given for %d channels, but images have %d",
                         given, channels);
    info->n_channels = channels;
    if (given == 0) measure(data, channels, images, plane_bytes, stride_bytes, info->mean, info->std);
    for (int c = 0; c < channels; c++) {
        if (given) {
            info->mean[c] = options->mean[given == 1 ? 0 : c];
            info->std[c] = options->std[given == 1 ? 0 : c];
        }
        if (!isfinite(info->mean[c]) || !isfinite(info->std[c]) || info->std[c] <= 0)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "mean %g and std %g of channel %d cannot normalize pixels",
                             info->mean[c], info->std[c], c);
        for (int v = 0; v < 256; v++) out->value[c][v] = (float)((v / 255.0 - info->mean[c]) / info->std[c]);
    }
    return TCC_OK;
}

tcc_status tcc__data_file(tcc_diag *d, const char *folder, const char *name, bool required, char **path,
                          tcc__bytes *out) {
    *out = (tcc__bytes){0};
    *path = tcc__path_join(folder, name);
    if (!*path) return tcc_enomem(d);
    if (tcc__file_exists(*path)) return tcc__file_load(d, *path, out);
    tcc_strbuf zipped = {0};
    tcc_strbuf_printf(&zipped, "%s.gz", *path);
    char *zipped_path = tcc_strbuf_take(&zipped);
    if (!zipped_path) return tcc_enomem(d);
    if (tcc__file_exists(zipped_path)) {
        tcc__free(*path);
        *path = zipped_path;
        return tcc__file_load(d, *path, out);
    }
    tcc__free(zipped_path);
    if (!required) return TCC_OK;
    return tcc_error(d, TCC_ENOTFOUND, (tcc_loc){folder, 0}, "has no file %s or %s.gz", name, name);
}
