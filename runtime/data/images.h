/* SPDX-License-Identifier: MIT
 * Files of small images, from memory: what kinds idx and cifar check once files are read (fuzzed).
 */
#ifndef TCC_RUNTIME_DATA_IMAGES_H
#define TCC_RUNTIME_DATA_IMAGES_H

#include "runtime/data/data.h"

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
