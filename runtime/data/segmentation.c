/* SPDX-License-Identifier: MIT
 * Data kind segmentation: a folder images/ of PNG and JPEG files, and a folder labels/ of PNG files with the same names
 * in which each pixel is its class. */
#include "ir/support/alloc.h"
#include "runtime/data/picture_data.h"

#include <string.h>

enum { DEFAULT_IGNORED = 255, IGNORED = -100 }; /* in files; in y, as cross-entropy has it by default */

typedef struct segmentation {
    tcc__picture_data pictures;
    tcc__file_list labels[TCC_SPLIT_COUNT]; /* paths */
    int ignored;
} segmentation;

static size_t stem(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

/* FOLDER/labels/NAME.png for FOLDER/images/NAME.jpg, both appended. */
static tcc_status add_pair(tcc_diag *d, const char *images, const char *labels, const char *name,
                           tcc__file_list *pictures, tcc__file_list *label_files) {
    tcc_strbuf b = {0};
    tcc_strbuf_printf(&b, "%s/%.*s.png", labels, (int)stem(name), name);
    char *label = tcc_strbuf_take(&b), *picture = tcc__path_join(images, name);
    tcc_status status = label && picture ? TCC_OK : tcc_enomem(d);
    if (status == TCC_OK && !tcc__file_exists(label))
        status = tcc_error(d, TCC_ENOTFOUND, (tcc_loc){picture, 0}, "has no labels: there is no %s", label);
    if (status == TCC_OK && tcc_vec_push(pictures, picture)) picture = NULL;
    else if (status == TCC_OK) status = tcc_enomem(d);
    if (status == TCC_OK && tcc_vec_push(label_files, label)) label = NULL;
    else if (status == TCC_OK) status = tcc_enomem(d);
    tcc__free(picture);
    tcc__free(label);
    return status;
}

static tcc_status list_pairs(tcc_diag *d, const char *path, tcc__file_list *pictures, tcc__file_list *label_files) {
    tcc__file_list names = {0};
    char *images = tcc__path_join(path, "images"), *labels = tcc__path_join(path, "labels");
    tcc_status status = images && labels ? tcc__folder_names(d, images, false, &names) : tcc_enomem(d);
    for (int i = 0; i < names.count && status == TCC_OK; i++)
        if (tcc__picture_is_named(names.data[i]))
            status = add_pair(d, images, labels, names.data[i], pictures, label_files);
    if (status == TCC_OK && !pictures->count)
        status = tcc_error(d, TCC_EFORMAT, (tcc_loc){images, 0}, "has no .png, .jpg or .jpeg file");
    tcc__file_list_free(&names);
    tcc__free(images);
    tcc__free(labels);
    return status;
}

static tcc_status check_size(tcc_diag *d, const char *path, const tcc__picture *labels, const tcc__picture *picture) {
    if (labels->height == picture->height && labels->width == picture->width) return TCC_OK;
    return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "labels are %lld x %lld, the image %lld x %lld pixels",
                     (long long)labels->width, (long long)labels->height, (long long)picture->width,
                     (long long)picture->height);
}

/* Labels are as large as their pictures. The largest class is found where it is not given. */
static tcc_status check_labels(tcc_diag *d, const segmentation *s, int classes, int64_t *found) {
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        for (int i = 0; i < s->labels[split].count; i++) {
            tcc__picture size, labels;
            const char *path = s->labels[split].data[i];
            TCC_TRY(tcc__picture_load(d, s->pictures.pictures[split].data[i], TCC__PICTURE_SIZE, &size));
            TCC_TRY(tcc__picture_load(d, path, classes ? TCC__PICTURE_SIZE : TCC__PICTURE_LABELS, &labels));
            for (int64_t j = 0; labels.pixels && j < labels.height * labels.width; j++)
                if (labels.pixels[j] != s->ignored && labels.pixels[j] >= *found) *found = labels.pixels[j] + 1;
            tcc__free(labels.pixels);
            TCC_TRY(check_size(d, path, &labels, &size));
        }
    }
    return TCC_OK;
}

static tcc_status open_segmentation(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data) {
    segmentation *s = data->own = tcc__calloc(1, sizeof *s);
    if (!s) return tcc_enomem(d);
    s->ignored = options->has_ignored_label || options->ignored_label ? options->ignored_label : DEFAULT_IGNORED;
    if (s->ignored < 0 || s->ignored > 255)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "ignored_label is %d; labels are bytes", s->ignored);
    if (options->classes < 0 || options->classes > 256)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "classes is %d; labels are bytes", options->classes);
    if (options->path) TCC_TRY(list_pairs(d, options->path, &s->pictures.pictures[0], &s->labels[0]));
    if (options->val_path) TCC_TRY(list_pairs(d, options->val_path, &s->pictures.pictures[1], &s->labels[1]));
    data->info.classes = options->classes;
    TCC_TRY(check_labels(d, s, options->classes, &data->info.classes));
    TCC_TRY(tcc__picture_data_init(d, options, false, data, &s->pictures));
    data->info.y.rank = 2;
    data->info.y.dims[0] = s->pictures.view.height;
    data->info.y.dims[1] = s->pictures.view.width;
    return TCC_OK;
}

/* Classes stay, the ignored ones become what cross-entropy leaves out. */
static tcc_status check_classes(tcc_diag *d, const char *path, const segmentation *s, int64_t classes,
                                tcc__picture *labels) {
    for (int64_t i = 0; i < labels->height * labels->width; i++) {
        int label = labels->pixels[i];
        if (label < classes || label == s->ignored) continue;
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0},
                         "label %d at row %lld, column %lld is not below the number of classes, %lld", label,
                         (long long)(i / labels->width), (long long)(i % labels->width), (long long)classes);
    }
    return TCC_OK;
}

static tcc_status read_segmentation(tcc_diag *d, const tcc_dataset *data, const tcc__sample *sample, void *x, void *y) {
    const segmentation *s = data->own;
    const char *path = s->labels[tcc__picture_list_of(data, sample)].data[sample->number];
    const tcc__view_options *o = &s->pictures.view;
    tcc__view view;
    tcc__picture size, labels;
    TCC_TRY(tcc__picture_data_read(d, data, &s->pictures, sample, &view, &size, x));
    TCC_TRY(tcc__picture_load(d, path, TCC__PICTURE_LABELS, &labels));
    tcc_status status = check_size(d, path, &labels, &size);
    if (status == TCC_OK) status = check_classes(d, path, s, data->info.classes, &labels);
    if (status == TCC_OK) tcc__view_labels(o, &view, &labels, IGNORED, y);
    tcc__free(labels.pixels);
    for (int64_t i = 0; i < o->height * o->width; i++)
        if (((int32_t *)y)[i] == s->ignored) ((int32_t *)y)[i] = IGNORED;
    return status;
}

static void close_segmentation(tcc_dataset *data) {
    segmentation *s = data->own;
    tcc__picture_data_free(&s->pictures);
    for (int i = 0; i < TCC_SPLIT_COUNT; i++) tcc__file_list_free(&s->labels[i]);
    tcc__free(s);
}

const tcc__reader tcc__segmentation_reader = {
    .kind = "segmentation",
    .open = open_segmentation,
    .read = read_segmentation,
    .close = close_segmentation,
};
