/* SPDX-License-Identifier: MIT
 * Libraries of NVIDIA's that are opened at run time for CUDA devices, and the entries that a program's library steps
 * name. A call is made once, with all that the library wants to know; a run of it only puts work on the compute stream.
 * The device keeps it: steps with equal params share one, also with the question of codegen before, because a library
 * may compile a kernel for it.
 *
 * A library is looked for when it is first wanted: programs without large products never open it. TCC_LIBRARIES
 * restricts what is opened, as for the CPU's libraries. */
#ifndef TCC_RUNTIME_CUDA_LIBRARY_H
#define TCC_RUNTIME_CUDA_LIBRARY_H

#include "codegen/calls.h"
#include "runtime/cuda/context.h"

typedef struct tcc_cuda_entry {
    tcc_call call;
    /* Make a call ready; the device is entered. `params` are the struct's that codegen/calls.def names. They have
     * passed tcc_call_check, and are lowered where the call needs less. Errors: TCC_EUNSUPPORTED (no library, or it
     * refuses; where they ask for its answer of a rank, they have its name then), TCC_ENOMEM, TCC_EDEVICE. */
    tcc_status (*create)(tcc_device_cuda *cuda, tcc_diag *d, int64_t *params, void **call);
    void (*destroy)(void *call);
    /* Enqueue it; entered. Errors: TCC_EDEVICE with the library's own words. */
    tcc_status (*run)(void *call, tcc_diag *d, const tcc_cuda_address *buffers);
} tcc_cuda_entry;

/* The entry of that name; NULL: there is none. */
const tcc_cuda_entry *tcc__cuda_entry_find(const char *name);
/* The call of these params, made now or before; the device's. Entered. `params`: lowered as by create. Errors: as those
 * of create; TCC_EFORMAT (params that the call cannot have). */
tcc_status tcc__cuda_call(tcc_device_cuda *cuda, tcc_diag *d, const tcc_cuda_entry *entry, int64_t *params,
                          void **call);
/* device_ops.takes_call. */
bool tcc__cuda_takes_call(tcc_device *device, tcc_context *cx, const char *name, int64_t *params);
/* One line a library: version and file, or what is lost without it; for this driver, or the one that is found. */
void tcc__cuda_libraries_describe(const tcc_cuda_driver *driver, tcc_strbuf *out);
void tcc_cuda_libraries_describe(tcc_strbuf *out);
/* Give the libraries of this device and their calls back; its context is current, and nothing runs. */
void tcc__cuda_libraries_close(tcc_device_cuda *cuda);

#endif
