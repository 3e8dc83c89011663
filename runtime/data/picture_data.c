/* SPDX-License-Identifier: MIT
 * Picture files as samples. */
#include "runtime/data/picture_data.h"
#include "ir/support/alloc.h"
#include "ir/support/hash.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* ---- lists ---- */

tcc_status tcc__picture_files(tcc_diag *d, const char *path, tcc__file_list *out) {
    struct stat info;
    tcc__file_list all = {0};
    if (stat(path, &info) || !S_ISDIR(info.st_mode)) return tcc__file_list_add(d, path, out);
    tcc_status status = tcc__file_list_add(d, path, &all);
    const int before = out->count;
    for (int i = 0; i < all.count && status == TCC_OK; i++) {
        if (!tcc__picture_is_named(all.data[i])) continue;
        if (tcc_vec_push(out, all.data[i])) all.data[i] = NULL;
        else status = tcc_enomem(d);
    }
    tcc__file_list_free(&all);
    if (status == TCC_OK && out->count == before)
        return tcc_error(d, TCC_EFORMAT, (tcc_loc){path, 0}, "has no .png, .jpg, .jpeg or .webp file");
    return status;
}

/* ---- bad pictures ---- */

static tcc_status open_skipped(tcc_diag *d, tcc__picture_data *p) {
    p->skipped = tcc__calloc(1, sizeof *p->skipped);
    if (!p->skipped) return tcc_enomem(d);
    pthread_mutex_init(&p->skipped->mutex, NULL);
    return TCC_OK;
}

/* Each is said once. */
static void remember(tcc__skipped *s, const char *words) {
    pthread_mutex_lock(&s->mutex);
    bool known = false;
    for (int i = 0; i < s->said.count && !known; i++) known = !strcmp(s->said.data[i], words);
    char *copy = known ? NULL : tcc__strdup(words);
    if (!known && (!copy || !tcc_vec_push(&s->said, copy))) {
        tcc__free(copy);
        s->failed = true;
    }
    pthread_mutex_unlock(&s->mutex);
}

const char *tcc__picture_data_skipped(const tcc__picture_data *p, int64_t i) {
    pthread_mutex_lock(&p->skipped->mutex);
    const char *words = i >= 0 && i < p->skipped->said.count ? p->skipped->said.data[i] : NULL;
    pthread_mutex_unlock(&p->skipped->mutex);
    return words;
}

tcc_status tcc__picture_data_spoil(tcc__picture_data *p, int split, int i, tcc_diag *error, tcc_status status) {
    if (!p->skips || status == TCC_ENOMEM) return status;
    remember(p->skipped, tcc_diag_text(error));
    tcc_diag_clear(error);
    p->found[split][i] = (tcc__picture_found){0};
    return TCC_OK;
}

tcc_status tcc__picture_data_check(tcc_diag *d, const tcc_data_options *options, tcc__picture_data *p) {
    p->skips = options->skip_bad;
    TCC_TRY(open_skipped(d, p));
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        const tcc__file_list *files = &p->pictures[split];
        p->found[split] = tcc__calloc((size_t)files->count + 1, sizeof **p->found);
        if (!p->found[split]) return tcc_enomem(d);
        TCC_TRY(tcc__picture_check_all(d, files, p->skips, p->found[split]));
        for (int i = 0; i < files->count; i++) {
            tcc__picture size;
            if (!tcc__picture_data_is_bad(p, split, i)) continue;
            const tcc_status status = tcc__picture_check(d, files->data[i], &size); /* once more, in words */
            TCC_TRY(tcc__picture_data_spoil(p, split, i, d, status));
        }
    }
    return TCC_OK;
}

static void leave_out(tcc__picture_data *p) {
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        tcc__file_list *files = &p->pictures[split];
        int kept = 0;
        for (int i = 0; i < files->count; i++) {
            if (tcc__picture_data_is_bad(p, split, i)) {
                tcc__free(files->data[i]);
                continue;
            }
            p->found[split][kept] = p->found[split][i];
            files->data[kept++] = files->data[i];
        }
        files->count = kept;
        for (int i = 0; i < TCC_SPLIT_COUNT; i++) {
            if (!kept || p->view[i].height) continue;
            p->view[i].height = p->found[split]->height;
            p->view[i].width = p->found[split]->width;
        }
    }
}

/* Mean and deviation of training pictures that lie evenly in their list. */
static tcc_status measure(tcc_diag *d, const tcc_dataset *data, tcc__picture_data *p, double mean[3], double std[3]) {
    enum { MOST = 256 };
    int64_t n = data->info.samples[TCC_SPLIT_TRAIN], used = n < MOST ? n : MOST;
    double sum[3] = {0}, squares[3] = {0}, count = 0;
    for (int64_t i = 0; i < used; i++) {
        tcc__picture picture;
        int64_t from = tcc__source_of(data, TCC_SPLIT_TRAIN, i * n / used);
        tcc_status status = tcc__picture_load(d, p->pictures[TCC_SPLIT_TRAIN].data[from], TCC__PICTURE_RGB, &picture);
        if (status != TCC_OK && p->skips && status != TCC_ENOMEM) {
            remember(p->skipped, tcc_diag_text(d));
            tcc_diag_clear(d);
            continue;
        }
        TCC_TRY(status);
        int64_t pixels = picture.height * picture.width;
        uint64_t s[3] = {0}, q[3] = {0};
        for (int64_t j = 0; j < 3 * pixels; j += 3)
            for (int c = 0; c < 3; c++) {
                s[c] += picture.pixels[j + c];
                q[c] += (uint64_t)picture.pixels[j + c] * picture.pixels[j + c];
            }
        for (int c = 0; c < 3; c++) {
            sum[c] += (double)s[c];
            squares[c] += (double)q[c];
        }
        count += (double)pixels;
        tcc__free(picture.pixels);
    }
    for (int c = 0; c < 3; c++) {
        if (count <= 0)
            return tcc_error(d, TCC_EFORMAT, TCC_NOWHERE, "no picture can be read, so their mean is not known");
        double average = sum[c] / count, variance = squares[c] / count - average * average;
        mean[c] = average / 255;
        std[c] = variance > 0 ? sqrt(variance) / 255 : 1; /* one colour alone: nothing to scale */
    }
    return TCC_OK;
}

static tcc_status set_normalization(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data,
                                    tcc__picture_data *p) {
    tcc_dataset_info *info = &data->info;
    int given = options->n_channels;
    if (given != 0 && given != 1 && given != 3)
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "mean and std are given for %d channels, but images have 3",
                         given);
    info->n_channels = 3;
    if (!given) TCC_TRY(measure(d, data, p, info->mean, info->std));
    for (int c = 0; c < 3; c++) {
        if (given) {
            info->mean[c] = options->mean[given == 1 ? 0 : c];
            info->std[c] = options->std[given == 1 ? 0 : c];
        }
        if (!isfinite(info->mean[c]) || !isfinite(info->std[c]) || info->std[c] <= 0)
            return tcc_error(d, TCC_EINVAL, TCC_NOWHERE, "mean %g and std %g of channel %d cannot normalize pixels",
                             info->mean[c], info->std[c], c);
        const double fill = options->n_fill ? options->fill[options->n_fill == 1 ? 0 : c] / 255 : info->mean[c];
        for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
            tcc__view_options *view = &p->view[split];
            view->mean[c] = (float)info->mean[c];
            view->std[c] = (float)info->std[c];
            view->outside[c] = (float)((fill - info->mean[c]) / info->std[c]);
        }
    }
    return TCC_OK;
}

tcc_status tcc__picture_data_init(tcc_diag *d, const tcc_data_options *options, bool cover, tcc_dataset *data,
                                  tcc__picture_data *p) {
    TCC_TRY(tcc__view_check(d, options, cover, p->view));
    leave_out(p);
    int64_t count = p->pictures[TCC_SPLIT_TRAIN].count;
    if (options->val_path) {
        for (int split = 0; split < TCC_SPLIT_COUNT; split++) data->info.samples[split] = p->pictures[split].count;
    } else if (options->path) {
        TCC_TRY(tcc__hold_out(d, options->path, data, count, options->val_split));
    }
    TCC_TRY(set_normalization(d, options, data, p));
    data->info.x.dtype = TCC_F32;
    data->info.x.rank = 3;
    data->info.x.dims[0] = 3;
    data->info.y.dtype = TCC_I32;
    data->val_x = data->info.x;
    data->val_y = data->info.y;
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        tcc_array *x = split == TCC_SPLIT_TRAIN ? &data->info.x : &data->val_x;
        x->dims[1] = p->view[split].height;
        x->dims[2] = p->view[split].width;
    }
    return TCC_OK;
}

int tcc__picture_list_of(const tcc_dataset *data, const tcc__sample *sample) {
    return data->held_out_of ? TCC_SPLIT_TRAIN : (int)sample->split;
}

tcc_status tcc__picture_data_read(tcc_diag *d, const tcc_dataset *data, const tcc__picture_data *p,
                                  const tcc__sample *sample, tcc__view *view, tcc__picture *size, float *x) {
    tcc__picture picture;
    const char *path = p->pictures[tcc__picture_list_of(data, sample)].data[sample->number];
    TCC_TRY(tcc__picture_load(d, path, TCC__PICTURE_RGB, &picture));
    const tcc__view_options *how = &p->view[sample->split];
    *view = tcc__view_of(how, sample, picture.height, picture.width);
    tcc_status status = tcc__view_picture(d, how, view, &picture, x);
    *size = (tcc__picture){.height = picture.height, .width = picture.width};
    tcc__free(picture.pixels);
    return status;
}

tcc_status tcc__picture_data_read_any(tcc_diag *d, const tcc_dataset *data, const tcc__picture_data *p,
                                      const tcc__sample *sample, void *x, void *y,
                                      tcc_status (*read)(tcc_diag *d, const tcc_dataset *data,
                                                         const tcc__sample *sample, void *x, void *y)) {
    enum { TRIES = 100 };
    tcc__sample other = *sample;
    tcc_status status = read(d, data, sample, x, y);
    for (int i = 0; i < TRIES && p->skips && status != TCC_OK && status != TCC_ENOMEM; i++) {
        const uint64_t drawn = tcc_hash_add((uint64_t)sample->number, (uint64_t)i);
        remember(p->skipped, tcc_diag_text(d));
        tcc_diag_clear(d);
        other.number = tcc__source_of(data, sample->split,
                                      (int64_t)(drawn % (uint64_t)data->info.samples[sample->split]));
        status = read(d, data, &other, x, y);
    }
    return status;
}

bool tcc__picture_data_describe(const tcc__picture_data *p, tcc_strbuf *out) {
    enum { SHOWN = 5 };
    tcc__picture_found least = {INT64_MAX, INT64_MAX}, most = {0, 0};
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        for (int i = 0; i < p->pictures[split].count; i++) {
            const tcc__picture_found *f = &p->found[split][i];
            least.height = f->height < least.height ? f->height : least.height;
            least.width = f->width < least.width ? f->width : least.width;
            most.height = f->height > most.height ? f->height : most.height;
            most.width = f->width > most.width ? f->width : most.width;
        }
    }
    if (most.height)
        tcc_strbuf_printf(out, "pictures: %lld to %lld rows, %lld to %lld columns; read as %lld x %lld\n",
                          (long long)least.height, (long long)most.height, (long long)least.width,
                          (long long)most.width, (long long)p->view[0].height, (long long)p->view[0].width);
    if (most.height && (p->view[0].height != p->view[1].height || p->view[0].width != p->view[1].width))
        tcc_strbuf_printf(out, "validation pictures are read as %lld x %lld\n", (long long)p->view[1].height,
                          (long long)p->view[1].width);
    const char *words;
    for (int i = 0; i < SHOWN && (words = tcc__picture_data_skipped(p, i)); i++)
        tcc_strbuf_printf(out, "skipped: %s\n", words);
    if (p->skipped->said.count > SHOWN) tcc_strbuf_printf(out, "skipped: %d more\n", p->skipped->said.count - SHOWN);
    return !p->skipped->failed;
}

void tcc__picture_data_free(tcc__picture_data *p) {
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        tcc__file_list_free(&p->pictures[split]);
        tcc__free(p->found[split]);
    }
    if (!p->skipped) return;
    pthread_mutex_destroy(&p->skipped->mutex);
    tcc__file_list_free(&p->skipped->said);
    tcc__free(p->skipped);
}
