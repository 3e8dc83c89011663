/* SPDX-License-Identifier: MIT
 * Files of small images: what kinds idx and cifar share, and what they check once files are read (fuzzed).
 */
#ifndef TCC_RUNTIME_DATA_IMAGES_H
#define TCC_RUNTIME_DATA_IMAGES_H

#include "runtime/data/data.h"

/* Normalization of images that lie in memory as bytes. */
typedef struct tcc__pixels {
    float value[3][256]; /* (pixel / 255 - mean) / std, a channel */
} tcc__pixels;
/* Take mean and std from the options or compute them from the training images, after info.samples
 * is known, and fill info and the table. Image i is `channels` planes of `plane_bytes` from images
 * + i * stride_bytes. */
tcc_status tcc__pixels_init(tcc_diag *d, const tcc_data_options *options, tcc_dataset *data, int channels,
                            const uint8_t *images, int64_t plane_bytes, int64_t stride_bytes, tcc__pixels *out);

/* FOLDER/name or FOLDER/name.gz, whichever exists, read whole. `required` makes its absence an
 * error; else *out is {0} then. The path found is returned for messages (tcc__free), also on an
 * error. */
tcc_status tcc__data_file(tcc_diag *d, const char *folder, const char *name, bool required, char **path,
                          tcc__bytes *out);

/* The header of an idx file of images. */
typedef struct tcc__idx_images {
    int64_t count, height, width;
    const uint8_t *pixels; /* borrowed from the file's bytes */
} tcc__idx_images;

tcc_status tcc__idx_parse_images(tcc_diag *d, const char *path, const tcc__bytes *file, tcc__idx_images *out);
/* Labels must be below `classes`, and as many as `count`; *labels is borrowed from the file's
 * bytes. */
tcc_status tcc__idx_parse_labels(tcc_diag *d, const char *path, const tcc__bytes *file, int64_t count, int classes,
                                 const uint8_t **labels);

enum { TCC__CIFAR_CLASSES = 10, TCC__CIFAR_SIDE = 32, TCC__CIFAR_RECORD = 1 + 3 * TCC__CIFAR_SIDE * TCC__CIFAR_SIDE };

/* Records of one file: whole ones, labels in range. */
tcc_status tcc__cifar_check(tcc_diag *d, const char *path, const tcc__bytes *file, int64_t *count);

#endif
