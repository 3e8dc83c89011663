/* SPDX-License-Identifier: MIT
 * TensorBoard's event files. */
#ifndef TCC_RUNTIME_FILES_TENSORBOARD_H
#define TCC_RUNTIME_FILES_TENSORBOARD_H

#include "ir/support/diag.h"
#include "traincc/metrics.h"

typedef struct tcc__events tcc__events;

/* A new event file in `folder`. TensorBoard drops what older files say of `first_step` and later
 * steps. */
tcc_status tcc__events_open(tcc_diag *d, const char *folder, int64_t first_step, tcc__events **out);
tcc_status tcc__events_write(tcc_diag *d, tcc__events *e, int64_t step, const tcc_metric *metrics, int count);
tcc_status tcc__events_write_histogram(tcc_diag *d, tcc__events *e, int64_t step, const char *key, const float *values,
                                       int64_t count);
tcc_status tcc__events_write_text(tcc_diag *d, tcc__events *e, int64_t step, const char *key, const char *text,
                                  size_t size_bytes);
tcc_status tcc__events_write_image(tcc_diag *d, tcc__events *e, int64_t step, const char *key,
                                   const tcc_metrics_image *image);
void tcc__events_close(tcc__events *e);

/* CRC-32C, Castagnoli's polynomial. */
uint32_t tcc__crc32c(const void *data, size_t size_bytes);

#endif
