/* SPDX-License-Identifier: MIT
 * What kinds of images share: files of a folder, and normalized pixels. */
#include "runtime/data/images.h"

#include "ir/support/alloc.h"

#include <math.h>

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
