/* SPDX-License-Identifier: MIT
 * Data kind images: a folder for each class, with PNG, JPEG and WebP files in it. */
#include "ir/support/alloc.h"
#include "runtime/data/learned.h"
#include "runtime/data/picture_data.h"

#include <string.h>

typedef tcc_vec(int32_t) numbers;

typedef struct class_folders {
    tcc__picture_data pictures;
    tcc__file_list classes; /* their names */
    numbers labels[TCC_SPLIT_COUNT];
} class_folders;

/* The pictures of one class. Files that are none, by their names, are left out. */
static tcc_status add_class(tcc_diag *d, const char *folder, int32_t label, tcc__file_list *pictures, numbers *labels) {
    const int before = pictures->count;
    TCC_TRY(tcc__picture_files(d, folder, pictures));
    for (int i = before; i < pictures->count; i++)
        if (!tcc_vec_push(labels, label)) return tcc_enomem(d);
    return TCC_OK;
}

static int32_t find_class(const class_folders *f, const char *name) {
    for (int i = 0; i < f->classes.count; i++)
        if (!strcmp(f->classes.data[i], name)) return i;
    return -1;
}

static tcc_status add_folder(tcc_diag *d, const class_folders *f, const char *path, const tcc__file_list *names,
                             tcc__file_list *pictures, numbers *labels) {
    for (int i = 0; i < names->count; i++) {
        int32_t label = find_class(f, names->data[i]);
        if (label < 0)
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "class %s is not among those of the training images",
                             names->data[i]);
        char *folder = tcc__path_join(path, names->data[i]);
        tcc_status status = folder ? add_class(d, folder, label, pictures, labels) : tcc_enomem(d);
        tcc__free(folder);
        TCC_TRY(status);
    }
    return TCC_OK;
}

/* What belongs to pictures that are bad. */
static void leave_out(class_folders *f) {
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        int kept = 0;
        for (int i = 0; i < f->labels[split].count; i++)
            if (!tcc__picture_data_is_bad(&f->pictures, split, i))
                f->labels[split].data[kept++] = f->labels[split].data[i];
        f->labels[split].count = kept;
    }
}

static tcc_status open_images(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    class_folders *f = data->own = tcc__calloc(1, sizeof *f);
    if (!f) return tcc_enomem(d);
    TCC_TRY(data->learned ? tcc__learned_classes(d, data->learned, &f->classes)
                          : tcc__folder_names(d, options->path, true, &f->classes));
    if (f->classes.count < 2)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){options->path, 0},
                         "has %d folders; images lie in a folder for each class, of which there are at least 2",
                         f->classes.count);
    if (options->path) TCC_TRY(add_folder(d, f, options->path, &f->classes, &f->pictures.pictures[0], &f->labels[0]));
    if (options->unlabelled) {
        TCC_TRY(add_class(d, options->val_path, -1, &f->pictures.pictures[1], &f->labels[1]));
    } else if (options->val_path) {
        tcc__file_list names = {0};
        tcc_status status = tcc__folder_names(d, options->val_path, true, &names);
        if (status == TCC_OK)
            status = add_folder(d, f, options->val_path, &names, &f->pictures.pictures[1], &f->labels[1]);
        tcc__file_list_free(&names);
        TCC_TRY(status);
        if (!f->labels[1].count)
            return tcc_error(d, TCC_EFORMAT, (tcc_loc){options->val_path, 0}, "has no folder of images");
    }
    data->info.classes = f->classes.count;
    TCC_TRY(tcc__picture_data_check(d, options, &f->pictures));
    leave_out(f);
    return tcc__picture_data_init(d, options, true, data, &f->pictures);
}

static tcc_status read_image(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    const class_folders *f = data->own;
    tcc__view view;
    tcc__picture size;
    *(int32_t *)y = f->labels[tcc__picture_list_of(data, sample)].data[sample->number];
    return tcc__picture_data_read(d, data, &f->pictures, sample, &view, &size, x);
}

static tcc_status read_images(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    const class_folders *f = data->own;
    return tcc__picture_data_read_any(d, data, &f->pictures, sample, x, y, read_image);
}

static int32_t class_of_images(const tcc_dataset *data, tcc_split split, int64_t number) {
    const class_folders *f = data->own;
    return f->labels[data->held_out_of ? TCC_SPLIT_TRAIN : split].data[number];
}

static bool describe_images(const tcc_dataset *data, tcc_strbuf *out) {
    return tcc__picture_data_describe(&((const class_folders *)data->own)->pictures, out);
}

static const char *skipped_images(const tcc_dataset *data, int64_t i) {
    return tcc__picture_data_skipped(&((const class_folders *)data->own)->pictures, i);
}

static const char *name_of_image(const tcc_dataset *data, tcc_split split, int64_t number) {
    const class_folders *f = data->own;
    return f->pictures.pictures[data->held_out_of ? TCC_SPLIT_TRAIN : split].data[number];
}

static uint64_t hash_image(const tcc_dataset *data, tcc_split split, int64_t number, bool rough) {
    return tcc__file_hash(name_of_image(data, split, number), rough);
}

static void close_images(tcc_dataset *data) {
    class_folders *f = data->own;
    tcc__picture_data_free(&f->pictures);
    tcc__file_list_free(&f->classes);
    for (int i = 0; i < TCC_SPLIT_COUNT; i++) tcc_vec_free(&f->labels[i]);
    tcc__free(f);
}

static const char *label_images(const tcc_dataset *data, int64_t id, size_t *length) {
    const class_folders *f = data->own;
    *length = strlen(f->classes.data[id]);
    return f->classes.data[id];
}

const tcc__reader tcc__images_reader = {
    .kind = "images",
    .open = open_images,
    .read = read_images,
    .close = close_images,
    .hash = hash_image,
    .sample_name = name_of_image,
    .label = label_images,
    .names_classes = true,
    .class_of = class_of_images,
    .counts = true,
    .mixes = true,
    .describe = describe_images,
    .skipped = skipped_images,
};
