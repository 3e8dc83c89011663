/* SPDX-License-Identifier: MIT
 * Where C has what module.f90 looks for. */
#include <traincc/traincc.h>

#include <stddef.h>

#define FIELD(id, type, field) \
    size_t id(void);           \
    size_t id(void) { return offsetof(type, field) * 10000 + sizeof(type); }

FIELD(c_array, tcc_array, memory)
FIELD(c_optimizer, tcc_optimizer_options, ema_ramp)
FIELD(c_model, tcc_model_options, sync_batch_norm)
FIELD(c_info, tcc_program_info, cache_trouble)
FIELD(c_contents, tcc_checkpoint_contents, n_values)
