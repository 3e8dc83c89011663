/* SPDX-License-Identifier: MIT
 * plan-memory: offsets for blocks of memory, so that blocks that are alive at once do not overlap. */
#ifndef TCC_PASSES_PLAN_PLACE_H
#define TCC_PASSES_PLAN_PLACE_H

#include "ir/support/diag.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tcc_block {
    int64_t size_bytes, offset_bytes;
    int first, last; /* moments in which it is alive, from -1 on */
    bool scratch;    /* no value but a temporary, or a state on its way */
} tcc_block;

/* Gives each block its offset, and the size of the arena that holds them all; moments are below `moments`. Errors:
 * TCC_ENOMEM. */
tcc_status tcc_place_blocks(tcc_block *blocks, int count, int moments, int64_t *arena_bytes, tcc_diag *diag);

#endif
