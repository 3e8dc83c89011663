/* SPDX-License-Identifier: MIT
 * Arrays of a caller who computes on the same GPU: whether a program may be bound to them, and the order of the
 * caller's stream and ours. */
#ifndef TCC_RUNTIME_CUDA_CALLER_H
#define TCC_RUNTIME_CUDA_CALLER_H

#include "runtime/device.h"

/* device_ops.check_memory, follow, lead and copy. */
tcc_status tcc__cuda_check_memory(tcc_device *device, tcc_diag *d, const char *what, const char *name,
                                  const void *memory, void *stream);
tcc_status tcc__cuda_follow(tcc_device *device, tcc_diag *d, void *stream);
tcc_status tcc__cuda_lead(tcc_device *device, tcc_diag *d, void *stream);
tcc_status tcc__cuda_copy(tcc_device *device, tcc_diag *d, void *to, const void *from, int64_t size_bytes);

#endif
