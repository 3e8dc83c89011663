/* SPDX-License-Identifier: MIT
 * Picture files as samples. */
#include "runtime/data/picture_data.h"
#include "ir/support/alloc.h"

#include <math.h>

static tcc_status check_heads(tcc_diag *d, tcc__picture_data *p) {
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) {
        for (int i = 0; i < p->pictures[split].count; i++) {
            tcc__picture size;
            TCC_TRY(tcc__picture_load(d, p->pictures[split].data[i], TCC__PICTURE_SIZE, &size));
            if (p->view.height) continue;
            p->view.height = size.height;
            p->view.width = size.width;
        }
    }
    return TCC_OK;
}

/* Mean and deviation of training pictures that lie evenly in their list. */
static tcc_status measure(tcc_diag *d, const tcc_dataset *data, const tcc__picture_data *p, double mean[3],
                          double std[3]) {
    enum { MOST = 256 };
    int64_t n = data->info.samples[TCC_SPLIT_TRAIN], used = n < MOST ? n : MOST;
    double sum[3] = {0}, squares[3] = {0}, count = 0;
    for (int64_t i = 0; i < used; i++) {
        tcc__picture picture;
        int64_t from = tcc__source_of(data, TCC_SPLIT_TRAIN, i * n / used);
        TCC_TRY(tcc__picture_load(d, p->pictures[TCC_SPLIT_TRAIN].data[from], TCC__PICTURE_RGB, &picture));
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
        p->view.mean[c] = (float)info->mean[c];
        p->view.std[c] = (float)info->std[c];
    }
    return TCC_OK;
}

tcc_status tcc__picture_data_init(tcc_diag *d, const tcc_data_options *options, bool cover, tcc_dataset *data,
                                  tcc__picture_data *p) {
    TCC_TRY(tcc__view_check(d, options, cover, &p->view));
    int64_t count = p->pictures[TCC_SPLIT_TRAIN].count;
    if (options->val_path) {
        for (int split = 0; split < TCC_SPLIT_COUNT; split++) data->info.samples[split] = p->pictures[split].count;
    } else if (options->path) {
        TCC_TRY(tcc__hold_out(d, options->path, data, count, options->val_split));
    }
    TCC_TRY(check_heads(d, p));
    TCC_TRY(set_normalization(d, options, data, p));
    data->info.x.dtype = TCC_F32;
    data->info.x.rank = 3;
    data->info.x.dims[0] = 3;
    data->info.x.dims[1] = p->view.height;
    data->info.x.dims[2] = p->view.width;
    data->info.y.dtype = TCC_I32;
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
    *view = tcc__view_of(&p->view, sample, picture.height, picture.width);
    tcc_status status = tcc__view_picture(d, &p->view, view, &picture, x);
    *size = (tcc__picture){.height = picture.height, .width = picture.width};
    tcc__free(picture.pixels);
    return status;
}

void tcc__picture_data_free(tcc__picture_data *p) {
    for (int split = 0; split < TCC_SPLIT_COUNT; split++) tcc__file_list_free(&p->pictures[split]);
}
