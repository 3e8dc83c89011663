/* SPDX-License-Identifier: MIT
 * Pictures of what a network says of each pixel: files of predictions, and triples of image, label and prediction as
 * training goes on. */
#include "train_run.h"

#include <inttypes.h>
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { RGB = 3 };

/* -- Pixels -- */

/* A view of a batch: pictures of height x width. */
typedef struct views {
    int64_t height, width;
    const float *x;
    const int32_t *labels, *classes; /* labels: NULL: not known; -1 and below: does not count, which is black */
} views;

/* A picture `column` of some side by side, `columns` of them, row by row. */
static uint8_t *at(uint8_t *out, const views *v, int columns, int column, int64_t pixel) {
    return out + RGB * ((pixel / v->width * columns + column) * v->width + pixel % v->width);
}

static void put_image(const run *s, const views *v, int64_t i, uint8_t *out, int columns, int column) {
    const int64_t pixels = v->height * v->width;
    const float *x = v->x + i * RGB * pixels;
    for (int64_t p = 0; p < pixels; p++)
        for (int c = 0; c < RGB; c++) {
            const double value = 255 * ((double)x[c * pixels + p] * s->info.std[c] + s->info.mean[c]);
            at(out, v, columns, column, p)[c] = (uint8_t)lround(fmin(fmax(value, 0), 255));
        }
}

static void put_classes(const run *s, const views *v, const int32_t *classes, int64_t i, uint8_t *out, int columns,
                        int column) {
    const int64_t pixels = v->height * v->width;
    for (int64_t p = 0; p < pixels; p++)
        tcc_dataset_color(s->data, classes[i * pixels + p], at(out, v, columns, column, p));
}

static tcc_metrics_image image_of(const views *v, int columns, int channels, const uint8_t *pixels) {
    return (tcc_metrics_image){.size = sizeof(tcc_metrics_image),
                               .height = v->height,
                               .width = columns * v->width,
                               .channels = channels,
                               .pixels = pixels};
}

/* The classes of a batch, which the model is asked for. */
static tcc_status ask(run *s, const tcc_batch *batch, views *out) {
    tcc_array classes;
    tcc_status status = tcc_model_evaluate(s->model, batch->arrays, 1);
    if (status == TCC_OK) status = tcc_model_output(s->model, "classes", &classes);
    if (status == TCC_OK)
        *out = (views){.height = batch->arrays[0].dims[2],
                       .width = batch->arrays[0].dims[3],
                       .x = batch->arrays[0].data,
                       .labels = batch->arrays[1].data,
                       .classes = classes.data};
    return status;
}

/* -- Predictions -- */

static tcc_status write_file(run *s, const char *folder, const char *name, const char *what, tcc_metrics_image image) {
    char *path = NULL;
    if (asprintf(&path, "%s/%s%s.png", folder, name, what) < 0) return TCC_ENOMEM;
    const tcc_status status = tcc_image_write(s->cx, path, &image);
    free(path);
    return status;
}

static int compare_names(const void *a, const void *b) { return strcmp(a, b); }

/* The picture's name without folder and ending; a number follows where another one has this name, too. */
static tcc_status name_prediction(run *s, const char *path, char name[256]) {
    const char *slash = strrchr(path, '/');
    char *base = strdup(slash ? slash + 1 : path);
    if (!base) return TCC_ENOMEM;
    if (strrchr(base, '.')) *strrchr(base, '.') = '\0';
    snprintf(name, 256, "%.200s", base);
    for (int n = 2; tfind(name, &s->predicted, compare_names); n++) snprintf(name, 256, "%.200s-%d", base, n);
    free(base);
    char *kept = strdup(name);
    if (kept && tsearch(kept, &s->predicted, compare_names)) return TCC_OK;
    free(kept);
    return TCC_ENOMEM;
}

void run_forget_predicted(run *s) {
    tdestroy(s->predicted, free);
    s->predicted = NULL;
}

/* NAME.png: classes as numbers; NAME.color.png: in their colours; NAME.beside.png: the image and these. */
static tcc_status write_prediction(run *s, const char *folder, const views *v, int64_t i, int64_t index) {
    const int64_t pixels = v->height * v->width;
    const char *path = tcc_dataset_sample_name(s->data, TCC_SPLIT_VALIDATION, index);
    char name[256];
    uint8_t *numbers = malloc((size_t)pixels), *drawn = malloc((size_t)(2 * RGB * pixels));
    tcc_status status = numbers && drawn ? name_prediction(s, path, name) : TCC_ENOMEM;
    if (status == TCC_OK) {
        for (int64_t p = 0; p < pixels; p++) numbers[p] = (uint8_t)v->classes[i * pixels + p];
        status = write_file(s, folder, name, "", image_of(v, 1, 1, numbers));
    }
    if (status == TCC_OK) {
        put_classes(s, v, v->classes, i, drawn, 1, 0);
        status = write_file(s, folder, name, ".color", image_of(v, 1, RGB, drawn));
    }
    if (status == TCC_OK) {
        put_image(s, v, i, drawn, 2, 0);
        put_classes(s, v, v->classes, i, drawn, 2, 1);
        status = write_file(s, folder, name, ".beside", image_of(v, 2, RGB, drawn));
    }
    if (status == TCC_OK) printf("%s\t%s/%s.png\n", path, folder, name);
    free(numbers);
    free(drawn);
    return status;
}

static tcc_status make_folder(const char *path) {
    const run_folder folder = {.path = (char *)path, .lock = -1};
    return run_folder_make(&folder) ? TCC_EIO : TCC_OK;
}

tcc_status run_predict_pixels(run *s) {
    const tcc_loader_options how = {.size = sizeof how,
                                    .split = TCC_SPLIT_VALIDATION,
                                    .batch_size = s->recipe->data.batch_size,
                                    .num_workers = (int)s->recipe->data.num_workers,
                                    .last_batch = TCC_LAST_PAD};
    tcc_loader *loader = NULL;
    char *folder = NULL;
    if (asprintf(&folder, "%s/predictions", s->folder.path) < 0) return TCC_ENOMEM;
    tcc_status status = make_folder(folder);
    if (status != TCC_OK) snprintf(s->problem, sizeof s->problem, "predict: cannot make the folder %s", folder);
    if (status == TCC_OK) status = tcc_loader_create(s->cx, s->data, &how, &loader);
    const int64_t batches = status == TCC_OK ? tcc_loader_batches(loader) : 0;
    int64_t index = 0;
    for (int64_t b = 0; b < batches && status == TCC_OK && !*s->interrupted; b++) {
        const tcc_batch *batch;
        views v;
        status = tcc_loader_next(loader, &batch);
        if (status == TCC_OK) status = ask(s, batch, &v);
        for (int64_t i = 0; status == TCC_OK && i < batch->count; i++)
            status = write_prediction(s, folder, &v, i, index++);
    }
    fflush(stdout);
    tcc_loader_destroy(loader);
    free(folder);
    return status;
}

/* -- As training goes on -- */

static tcc_status write_triple(run *s, int64_t step, const views *v, int64_t i) {
    char key[32];
    uint8_t *drawn = malloc((size_t)(3 * RGB * v->height * v->width));
    if (!drawn) return TCC_ENOMEM;
    put_image(s, v, i, drawn, 3, 0);
    put_classes(s, v, v->labels, i, drawn, 3, 1);
    put_classes(s, v, v->classes, i, drawn, 3, 2);
    snprintf(key, sizeof key, "val_image_%" PRId64, i);
    const tcc_metrics_image image = image_of(v, 3, RGB, drawn);
    tcc_status status = tcc_metrics_write_image(s->metrics, step, key, &image);
    char *folder = NULL;
    if (asprintf(&folder, "%s/pictures", s->folder.path) < 0) folder = NULL;
    if (status == TCC_OK) status = folder ? make_folder(folder) : TCC_ENOMEM;
    if (status == TCC_OK) status = write_file(s, folder, key, "", image);
    free(folder);
    free(drawn);
    return status;
}

tcc_status run_write_pictures(run *s, int64_t step) {
    enum { SHOWN = 3 };
    const tcc_batch *batch;
    views v;
    if (!s->pixels) return TCC_OK;
    tcc_status status = tcc_loader_set_state(s->val_loader, (tcc_loader_state){0});
    if (status == TCC_OK) status = tcc_loader_next(s->val_loader, &batch);
    if (status == TCC_OK) status = ask(s, batch, &v);
    for (int64_t i = 0; i < SHOWN && status == TCC_OK && i < batch->count; i++) status = write_triple(s, step, &v, i);
    return status;
}
