/* SPDX-License-Identifier: MIT
 * A CUDA device. All work goes through one stream in order; batches come in beside it on a second and results of any
 * size leave on a third. Nothing on the way of a step waits for the device: the host is a few steps ahead at most, as
 * many as there are staging slots.
 *
 * An error of a kernel shows in a later call. TCC_LAUNCH_BLOCKING=1 waits after each step of a program instead, and
 * names the one that failed, its user's lines and a file with its PTX. After such an error the device is of no more use
 * to this process: every call says so with the first error's words, and what was taken is still given back. */
#ifndef TCC_RUNTIME_CUDA_DEVICE_H
#define TCC_RUNTIME_CUDA_DEVICE_H

#include "runtime/device.h"

/* `ordinal`: as the driver counts, or -1 for the first device that is usable: sm_75 or newer and not closed to compute.
 * Takes the primary context. Errors: TCC_EUNSUPPORTED (no driver, no such device, too old; says what to do),
 * TCC_EDEVICE, TCC_ENOMEM. */
tcc_status tcc_device_cuda_create(tcc_context *cx, int ordinal, tcc_device **out);
/* A line for each device that the driver shows, and why it is of no use where it is not; how many are `usable`. Errors:
 * TCC_EUNSUPPORTED (no driver, no device), TCC_EDEVICE, TCC_ENOMEM. */
tcc_status tcc_device_cuda_list(tcc_context *cx, int *usable, tcc_strbuf *text);
/* How many the driver shows. Errors: TCC_EUNSUPPORTED (no driver, no device), TCC_EDEVICE, TCC_ENOMEM. */
tcc_status tcc_device_cuda_count(tcc_context *cx, int *count);
/* Which device create would take, without taking it: its number, and what it says of itself is added to `description`.
 * Errors as create's. */
tcc_status tcc_device_cuda_probe(tcc_context *cx, int ordinal, int *found, int *sm, tcc_strbuf *description);

#endif
