/* SPDX-License-Identifier: MIT
 * Metrics of a run: metrics.jsonl, one JSON object a line, and event files for TensorBoard beside it. */
#ifndef TRAINCC_METRICS_H
#define TRAINCC_METRICS_H

#include "traincc/context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

TCC_API_BEGIN

typedef struct tcc_metrics_options {
    size_t size;           /* sizeof(tcc_metrics_options) */
    const char *folder;    /* the run's; it must exist */
    int64_t first_step;    /* the first that will be written. Lines of this step and later are removed;
                            0: a new run, all are */
    bool no_tensorboard;   /* metrics.jsonl alone */
    const char *abandoned; /* a file to write the removed lines to; NULL: they are lost */
} tcc_metrics_options;

/* A number by name: "loss", "lr", "step_ms", "val_loss", ... */
typedef struct tcc_metric {
    const char *key;
    double value;
} tcc_metric;

typedef struct tcc_metrics tcc_metrics;

/* Opens or creates the files of the folder. The caller closes it. A line that was cut off when an earlier run died is
 * removed; other lines that are not ours are kept. Errors: TCC_EINVAL, TCC_EIO (path and reason), TCC_ENOMEM. */
TCC_API tcc_status tcc_metrics_open(tcc_context *cx, const tcc_metrics_options *options, tcc_metrics **out);

/* Writes a line {"step":..., key:value, ...} in the order given, and hands it to the system at once. NaN and
 * infinities, which JSON lacks, become null. A value that a float holds exactly is printed as the shortest text that
 * gives this float back. Errors: TCC_EIO; the files then end with the last whole line. */
TCC_API tcc_status tcc_metrics_write(tcc_metrics *m, int64_t step, const tcc_metric *metrics, int count);

/* For TensorBoard alone; without its files they do nothing. A histogram of the values that are finite, in equal parts
 * between the least and the largest; and a text, whose lines it shows as they are, but for bytes that are not UTF-8.
 * Errors as above; TCC_EINVAL for less than no values. */
TCC_API tcc_status tcc_metrics_write_histogram(tcc_metrics *m, int64_t step, const char *key, const float *values,
                                               int64_t count);
TCC_API tcc_status tcc_metrics_write_text(tcc_metrics *m, int64_t step, const char *key, const char *text, size_t size);

/* The same of a picture: bytes row by row, a pixel's channels beside each other; 1 channel is grey, 3 are red, green
 * and blue. TCC_EINVAL for another number of them, and for a side that is not from 1 to 32768. */
typedef struct tcc_metrics_image {
    size_t size; /* sizeof(tcc_metrics_image) */
    int64_t height, width;
    int channels;
    const uint8_t *pixels;
} tcc_metrics_image;
TCC_API tcc_status tcc_metrics_write_image(tcc_metrics *m, int64_t step, const char *key,
                                           const tcc_metrics_image *image);

/* Writes a picture as a PNG file, as tcc_file_write does. Errors are those of both. */
TCC_API tcc_status tcc_image_write(tcc_context *cx, const char *path, const tcc_metrics_image *image);

TCC_API void tcc_metrics_close(tcc_metrics *m); /* NULL is allowed */

TCC_API_END

#endif
