/* SPDX-License-Identifier: MIT
 * The CPU as a device: a thread pool and plain memory. */
#ifndef TCC_RUNTIME_CPU_DEVICE_H
#define TCC_RUNTIME_CPU_DEVICE_H

#include "runtime/device.h"
#include "runtime/cpu/pool.h"

typedef struct tcc_device_cpu {
    tcc_device base;
    tcc_pool *pool;
    unsigned char fetched[TCC_FETCHES][TCC_FETCH_BYTES]; /* by ticket, round and round */
    int64_t n_fetched;
} tcc_device_cpu;

/* `threads`: 0 for what TCC_NUM_THREADS or the machine says. Executables of one device may run in several threads of
 * the user; their runs take turns. Errors: TCC_EINVAL (a malformed environment variable), TCC_ENOMEM, TCC_EDEVICE. */
tcc_status tcc_device_cpu_create(tcc_context *cx, int threads, tcc_device **out);

/* In commands.c: the program-running part of the device's table. */
tcc_status tcc__commands_cpu_prepare(tcc_device *device, tcc_context *cx, const tcc_program *program,
                                     const tcc_code_store *store, tcc_commands **out);
void tcc__commands_cpu_release(tcc_commands *commands);
void tcc__commands_cpu_place(tcc_commands *commands, tcc_space space, int binding, void *base);
void tcc__commands_cpu_set_collectives(tcc_commands *commands, const tcc_collectives *collectives);
tcc_status tcc__commands_cpu_run(tcc_commands *commands, tcc_diag *d, tcc_step_time *times);
/* In roofline.c. */
tcc_status tcc__device_cpu_measure(tcc_device *device, tcc_diag *d, tcc_roofline *out);

#endif
