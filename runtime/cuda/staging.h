/* SPDX-License-Identifier: MIT
 * The ways in and out of a CUDA device, through pinned memory. */
#ifndef TCC_RUNTIME_CUDA_STAGING_H
#define TCC_RUNTIME_CUDA_STAGING_H

#include "runtime/cuda/context.h"

/* device_ops.feed, pin, fetch, collect, upload and download. */
tcc_status tcc__cuda_feed(tcc_device *device, tcc_diag *d, void *to, const tcc_feed *parts, int n_parts);
tcc_status tcc__cuda_pin(tcc_device *device, tcc_diag *d, void *memory, int64_t size_bytes);
tcc_status tcc__cuda_fetch(tcc_device *device, tcc_diag *d, const void *from, int64_t size_bytes, int64_t *ticket);
tcc_status tcc__cuda_collect(tcc_device *device, tcc_diag *d, int64_t ticket, void *to_host, int64_t size_bytes);
tcc_status tcc__cuda_upload(tcc_device *device, tcc_diag *d, void *to, const void *from_host, int64_t size_bytes);
tcc_status tcc__cuda_download(tcc_device *device, tcc_diag *d, void *to_host, const void *from, int64_t size_bytes);
/* Have room for `size_bytes` in every slot; entered. */
tcc_status tcc__cuda_staging_reserve(tcc_device_cuda *cuda, tcc_diag *d, int64_t size_bytes);
tcc_status tcc__cuda_staging_create(tcc_device_cuda *cuda, tcc_diag *d);
void tcc__cuda_staging_destroy(tcc_device_cuda *cuda);

#endif
