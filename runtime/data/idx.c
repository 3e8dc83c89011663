/* SPDX-License-Identifier: MIT
 * Data kind idx: MNIST and the sets made like it. Format: http://yann.lecun.com/exdb/mnist. A magic
 * number (0x0803 for images, 0x0801 for labels), sizes, all big-endian 32-bit, then bytes. */
#include "ir/support/alloc.h"
#include "runtime/data/describe.h"
#include "runtime/data/images.h"
#include "runtime/data/learned.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const int default_classes = 10;

/* ---- files in memory ---- */

static uint32_t big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Check magic and size; sizes[0..rank) are the dimensions. */
static tcc_status parse_sizes(tcc_diag *d, const char *path, const tcc__bytes *file, int rank, int64_t *sizes) {
    tcc_loc place = {path, 0};
    size_t header = 4 + 4 * (size_t)rank;
    uint32_t expected = 0x0800u + (uint32_t)rank;
    if (file->size < header)
        return tcc_error(d, TCC_EFORMAT, place, "%zu bytes are too few for an idx header of %zu", file->size, header);
    uint32_t magic = big_endian(file->data);
    if (magic != expected)
        return tcc_error(d, TCC_EFORMAT, place, "magic number at byte 0 is 0x%08x, that of idx %s is 0x%08x", magic,
                         rank == 1 ? "labels" : "images", expected);
    uint64_t bytes = 1;
    for (int i = 0; i < rank; i++) {
        sizes[i] = big_endian(file->data + 4 + 4 * i);
        if (sizes[i] == 0) return tcc_error(d, TCC_EFORMAT, place, "size %d at byte %d is 0", i, 4 + 4 * i);
        if (__builtin_mul_overflow(bytes, (uint64_t)sizes[i], &bytes)) bytes = UINT64_MAX / 2;
    }
    if (bytes != file->size - header)
        return tcc_error(
            d, TCC_EFORMAT, place, "the header announces %llu bytes of data, but %zu follow: the file is %s",
            (unsigned long long)bytes, file->size - header, bytes > file->size - header ? "truncated" : "damaged");
    return TCC_OK;
}

tcc_status tcc__idx_parse_images(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__idx_images *out) {
    int64_t sizes[3];
    TCC_TRY(parse_sizes(d, path, file, 3, sizes));
    *out = (tcc__idx_images){sizes[0], sizes[1], sizes[2], file->data + 16};
    return TCC_OK;
}

tcc_status tcc__idx_parse_labels(tcc_diag *d, const char *path, const tcc__bytes *file, int64_t count, int classes,
                                 const uint8_t **labels) {
    int64_t n = 0;
    TCC_TRY(parse_sizes(d, path, file, 1, &n));
    if (n != count)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "holds %lld labels for %lld images", (long long)n,
                         (long long)count);
    *labels = file->data + 8;
    for (int64_t i = 0; i < n; i++)
        if ((*labels)[i] >= classes)
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                             "label %d at byte %lld is not below the number of classes, %d", (*labels)[i],
                             (long long)i + 8, classes);
    return TCC_OK;
}

/* ---- the reader ---- */

typedef struct idx_files {
    tcc__bytes image_file, label_file;
    tcc__idx_images images;
    const uint8_t *labels;
} idx_files;

typedef struct idx {
    idx_files parts[TCC_SPLIT_COUNT];
    tcc__pixels pixels;
    char names[256][12]; /* "0" ... */
} idx;

static tcc_status load_part(tcc_diag *d, const char *folder, const char *prefix, int classes, idx_files *out) {
    char name[64];
    char *path;
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    tcc_status status = tcc__data_file(d, folder, name, true, &path, &out->image_file);
    if (status == TCC_OK) status = tcc__idx_parse_images(d, path, &out->image_file, &out->images);
    tcc__free(path);
    TCC_TRY(status);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", prefix);
    status = tcc__data_file(d, folder, name, true, &path, &out->label_file);
    if (status == TCC_OK)
        status = tcc__idx_parse_labels(d, path, &out->label_file, out->images.count, classes, &out->labels);
    tcc__free(path);
    return status;
}

static tcc_status open_idx(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    idx *x = data->own = tcc__calloc(1, sizeof *x);
    if (!x) return tcc_enomem(d);
    int classes = options->classes ? options->classes : default_classes;
    if (classes < 1 || classes > 256)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "classes is %d; idx labels are bytes", classes);
    for (int i = 0; i < 256; i++) snprintf(x->names[i], sizeof x->names[i], "%d", i);
    const char *folder = options->val_path ? options->val_path : options->path;
    const bool holds_out = options->path && options->val_split != 0, learns = !data->learned || holds_out;
    if (learns) TCC_TRY(load_part(d, options->path, "train", classes, &x->parts[TCC_SPLIT_TRAIN]));
    const tcc__idx_images *train = &x->parts[TCC_SPLIT_TRAIN].images, *test = &x->parts[TCC_SPLIT_VALIDATION].images;
    int64_t height = train->height, width = train->width;
    if (!learns) TCC_TRY(tcc__learned_integer(d, data->learned, "height", INT_MAX, &height));
    if (!learns) TCC_TRY(tcc__learned_integer(d, data->learned, "width", INT_MAX, &width));
    if (holds_out) {
        TCC_TRY(tcc__hold_out(d, options->path, data, train->count, options->val_split));
    } else if (folder) {
        TCC_TRY(load_part(d, folder, "t10k", classes, &x->parts[TCC_SPLIT_VALIDATION]));
        if (test->height != height || test->width != width)
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){folder, 0},
                             "test images are %lld x %lld, training images %lld x %lld", (long long)test->height,
                             (long long)test->width, (long long)height, (long long)width);
        data->info.samples[TCC_SPLIT_TRAIN] = train->count;
        data->info.samples[TCC_SPLIT_VALIDATION] = test->count;
    }
    data->info.classes = classes;
    data->info.x.dtype = TCC_F32;
    data->info.x.rank = 3;
    data->info.x.dims[0] = 1;
    data->info.x.dims[1] = height;
    data->info.x.dims[2] = width;
    data->info.y.dtype = TCC_I32;
    int64_t image_bytes = height * width;
    return tcc__pixels_init(d, options, data, 1, train->pixels, image_bytes, image_bytes, &x->pixels);
}

static tcc_status read_idx(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    (void)d;
    const idx *own = data->own;
    const idx_files *part = &own->parts[data->held_out_of ? TCC_SPLIT_TRAIN : sample->split];
    int64_t image_bytes = part->images.height * part->images.width;
    const uint8_t *pixels = part->images.pixels + sample->number * image_bytes;
    float *out = x;
    for (int64_t i = 0; i < image_bytes; i++) out[i] = own->pixels.value[0][pixels[i]];
    *(int32_t *)y = part->labels[sample->number];
    return TCC_OK;
}

static uint64_t hash_idx(const tcc_dataset *data, tcc_split split, int64_t number, bool rough) {
    const idx_files *part = &((const idx *)data->own)->parts[data->held_out_of ? TCC_SPLIT_TRAIN : split];
    const size_t bytes = (size_t)(part->images.height * part->images.width);
    return tcc__sample_hash(part->images.pixels + (size_t)number * bytes, bytes, rough);
}

static void close_idx(tcc_dataset *data) {
    idx *x = data->own;
    for (int i = 0; i < TCC_SPLIT_COUNT; i++) {
        tcc__free(x->parts[i].image_file.data);
        tcc__free(x->parts[i].label_file.data);
    }
    tcc__free(x);
}

static const char *label_idx(const tcc_dataset *data, int64_t id, size_t *length) {
    const idx *x = data->own;
    *length = strlen(x->names[id]);
    return x->names[id];
}

static int32_t class_of_idx(const tcc_dataset *data, tcc_split split, int64_t number) {
    return ((const idx *)data->own)->parts[data->held_out_of ? TCC_SPLIT_TRAIN : split].labels[number];
}

const tcc__reader tcc__idx_reader = {
    .kind = "idx",
    .open = open_idx,
    .read = read_idx,
    .close = close_idx,
    .hash = hash_idx,
    .label = label_idx,
    .class_of = class_of_idx,
    .counts = true,
    .mixes = true,
};
