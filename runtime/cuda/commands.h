/* SPDX-License-Identifier: MIT
 * A program on a CUDA device. */
#ifndef TCC_RUNTIME_CUDA_COMMANDS_H
#define TCC_RUNTIME_CUDA_COMMANDS_H

#include "runtime/cuda/context.h"

/* device_ops.prepare, release, place, run and set_collectives. */
tcc_status tcc__commands_cuda_prepare(tcc_device *device, tcc_context *cx, const tcc_program *program,
                                      const tcc_code_store *store, tcc_commands **out);
void tcc__commands_cuda_release(tcc_commands *commands);
void tcc__commands_cuda_place(tcc_commands *commands, tcc_space space, int binding, void *base);
tcc_status tcc__commands_cuda_run(tcc_commands *commands, tcc_diag *d, tcc_step_time *times);
void tcc__commands_cuda_set_collectives(tcc_commands *commands, const tcc_collectives *collectives);
/* device_ops.set_replay and get_replay. */
void tcc__commands_cuda_set_replay(tcc_commands *commands, tcc_replay_mode mode);
void tcc__commands_cuda_get_replay(const tcc_commands *commands, tcc_replay *out);
int64_t tcc__commands_cuda_local_bytes(const tcc_commands *commands); /* device_ops.local_bytes */

#endif
