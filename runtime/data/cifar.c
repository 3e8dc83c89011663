/* SPDX-License-Identifier: MIT
 * Data kind cifar: CIFAR-10's binary version. Format: https://www.cs.toronto.edu/~kriz/cifar.html.
 * Records of a label byte and three planes of 32 x 32 bytes, red, green, blue. */
#include "ir/support/alloc.h"
#include "runtime/data/describe.h"
#include "runtime/data/images.h"
#include "runtime/data/draw.h"

#include <stdio.h>
#include <string.h>

enum { SIDE = TCC__CIFAR_SIDE, PLANE = SIDE * SIDE, RECORD = TCC__CIFAR_RECORD, PADDING = 4, MAX_BATCHES = 5 };

static const char *const class_names[TCC__CIFAR_CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
};

tcc_status tcc__cifar_check(tcc_diag *d, const char *path, const tcc__bytes *file, int64_t *count) {
    tcc_loc place = {path, 0};
    if (file->size == 0) return tcc_error(d, TCC_EFORMAT, place, "holds no records");
    if (file->size % RECORD)
        return tcc_error(d, TCC_EFORMAT, place,
                         "%zu bytes are not whole records of %d bytes: %zu are left over, the file is truncated",
                         file->size, RECORD, file->size % RECORD);
    *count = (int64_t)(file->size / RECORD);
    for (int64_t i = 0; i < *count; i++)
        if (file->data[i * RECORD] >= TCC__CIFAR_CLASSES)
            return tcc_error(d, TCC_EFORMAT, place, "label %d at byte %lld is not below %d", file->data[i * RECORD],
                             (long long)i * RECORD, TCC__CIFAR_CLASSES);
    return TCC_OK;
}

/* ---- the reader ---- */

typedef struct cifar {
    tcc__bytes train, test; /* records */
    tcc__pixels pixels;
    bool augment;
} cifar;

/* Append a file's records to `all`; a file that is missing adds none. */
static tcc_status load_records(tcc_diag *d, const char *folder, const char *name, bool required, tcc__bytes *all) {
    char *path;
    tcc__bytes file;
    int64_t count = 0;
    tcc_status status = tcc__data_file(d, folder, name, required, &path, &file);
    if (status == TCC_OK && file.data) status = tcc__cifar_check(d, path, &file, &count);
    tcc__free(path);
    if (status != TCC_OK || !file.data || !all->data) {
        if (status == TCC_OK && file.data) *all = file;
        else tcc__free(file.data);
        return status;
    }
    uint8_t *larger = tcc__realloc(all->data, all->size + file.size);
    if (larger) {
        memcpy(larger + all->size, file.data, file.size);
        *all = (tcc__bytes){larger, all->size + file.size};
    }
    tcc__free(file.data);
    return larger ? TCC_OK : tcc_enomem(d);
}

static tcc_status open_cifar(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    cifar *c = data->own = tcc__calloc(1, sizeof *c);
    if (!c) return tcc_enomem(d);
    c->augment = options->augment;
    const char *folder = options->val_path ? options->val_path : options->path;
    const bool holds_out = options->path && options->val_split != 0, learns = !data->learned || holds_out;
    for (int i = 1; i <= MAX_BATCHES && learns; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        TCC_TRY(load_records(d, options->path, name, false, &c->train));
    }
    if (!c->train.data && learns)
        return tcc_error(d, TCC_ENOTFOUND, (tcc_loc){options->path, 0},
                         "has no file data_batch_1.bin to data_batch_%d.bin, gzipped or not", MAX_BATCHES);
    int64_t n_train = (int64_t)(c->train.size / RECORD);
    if (holds_out) {
        TCC_TRY(tcc__hold_out(d, options->path, data, n_train, options->val_split));
    } else if (folder) {
        TCC_TRY(load_records(d, folder, "test_batch.bin", true, &c->test));
        data->info.samples[TCC_SPLIT_TRAIN] = n_train;
        data->info.samples[TCC_SPLIT_VALIDATION] = (int64_t)(c->test.size / RECORD);
    }
    data->info.classes = TCC__CIFAR_CLASSES;
    data->info.x.dtype = TCC_F32;
    data->info.x.rank = 3;
    data->info.x.dims[0] = 3;
    data->info.x.dims[1] = data->info.x.dims[2] = SIDE;
    data->info.y.dtype = TCC_I32;
    return tcc__pixels_init(d, options, data, 3, learns ? c->train.data + 1 : NULL, PLANE, RECORD, &c->pixels);
}

/* Where a crop starts in the padded image, and whether it is mirrored. */
typedef struct crop {
    int top, left; /* from -PADDING to PADDING, in the image's own rows and columns */
    bool mirrored;
} crop;

static crop draw_crop(const tcc__sample *sample) {
    tcc__draw draw = tcc__draw_at(sample->seed, TCC__DRAW_AUGMENT, sample->epoch, sample->position);
    int places = 2 * PADDING + 1;
    return (crop){(int)((uint64_t)draw.bits[0] * (unsigned)places >> 32) - PADDING,
                  (int)((uint64_t)draw.bits[1] * (unsigned)places >> 32) - PADDING, draw.bits[2] >> 31};
}

static void copy_plane(const uint8_t *plane, crop cut, const float value[256], float *out) {
    for (int row = 0; row < SIDE; row++) {
        int from_row = row + cut.top;
        for (int column = 0; column < SIDE; column++) {
            int from = (cut.mirrored ? SIDE - 1 - column : column) + cut.left;
            bool inside = from_row >= 0 && from_row < SIDE && from >= 0 && from < SIDE;
            *out++ = value[inside ? plane[from_row * SIDE + from] : 0];
        }
    }
}

static tcc_status read_cifar(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    (void)d;
    const cifar *c = data->own;
    const tcc__bytes *records = data->held_out_of || sample->split == TCC_SPLIT_TRAIN ? &c->train : &c->test;
    const uint8_t *record = records->data + sample->number * RECORD;
    crop cut = c->augment && sample->split == TCC_SPLIT_TRAIN ? draw_crop(sample) : (crop){0};
    for (int plane = 0; plane < 3; plane++)
        copy_plane(record + 1 + plane * PLANE, cut, c->pixels.value[plane], (float *)x + plane * PLANE);
    *(int32_t *)y = record[0];
    return TCC_OK;
}

static uint64_t hash_cifar(const tcc_dataset *data, tcc_split split, int64_t number, bool rough) {
    const cifar *c = data->own;
    const tcc__bytes *records = data->held_out_of || split == TCC_SPLIT_TRAIN ? &c->train : &c->test;
    return tcc__sample_hash(records->data + number * RECORD + 1, RECORD - 1, rough);
}

static void close_cifar(tcc_dataset *data) {
    cifar *c = data->own;
    tcc__free(c->train.data);
    tcc__free(c->test.data);
    tcc__free(c);
}

static const char *label_cifar(const tcc_dataset *data, int64_t id, size_t *length) {
    (void)data;
    *length = strlen(class_names[id]);
    return class_names[id];
}

static int32_t class_of_cifar(const tcc_dataset *data, tcc_split split, int64_t number) {
    const cifar *c = data->own;
    return (data->held_out_of || split == TCC_SPLIT_TRAIN ? &c->train : &c->test)->data[number * RECORD];
}

const tcc__reader tcc__cifar_reader = {
    .kind = "cifar",
    .open = open_cifar,
    .read = read_cifar,
    .close = close_cifar,
    .hash = hash_cifar,
    .label = label_cifar,
    .class_of = class_of_cifar,
    .counts = true,
    .mixes = true,
};
