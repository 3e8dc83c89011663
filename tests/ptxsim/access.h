/* SPDX-License-Identifier: MIT
 * Accesses of memory, as the instructions that make them see them. Each is located, checked, tracked (race.c) and
 * counted (traffic.c). A check that fails reports a fault of the launch. */
#ifndef PTXSIM_ACCESS_H
#define PTXSIM_ACCESS_H

#include "machine.h"

/* Where an access lies. NULL where the space has no such thing. */
typedef struct sim_place {
    uint8_t *data, *init;
    uint64_t *words;         /* of global memory, first word of the access */
    sim_shared_word *shared; /* of shared memory */
    uint32_t within;         /* offset inside the first word */
    sim_space space;
} sim_place;

/* --- access.c. `slot`: of the worker's cache of allocations. */
bool sim_locate(sim_warp *w, const sim_inst *i, uint32_t slot, int lane, sim_space space, uint64_t address,
                uint32_t bytes, bool write, sim_place *at);
bool sim_check_alignment(sim_warp *w, const sim_inst *i, int lane, sim_space space, uint64_t address, uint32_t bytes);
/* Whether row `r` was written in all lanes of `mask`; `what` stands in the message. */
bool sim_check_registers(sim_warp *w, const sim_inst *i, int r, uint32_t mask, const char *what);
/* All of one lane's checks; the bytes, or NULL after a fault. */
uint8_t *sim_touch_slot(sim_warp *w, const sim_inst *i, uint32_t slot, int lane, sim_space space, uint64_t address,
                        uint32_t bytes, sim_access access);
/* All checks of all lanes, and each one's bytes; false after a fault. */
bool sim_touch_lanes(sim_warp *w, const sim_inst *i, const uint64_t *address, uint32_t mask, uint32_t bytes,
                     sim_access access, uint8_t **data);
/* The addresses of an instruction's lanes, checked for alignment. */
bool sim_addresses(sim_warp *w, const sim_inst *i, uint32_t mask, uint32_t bytes, uint64_t *address);

/* --- race.c */
/* An access of global memory; the bytes that this launch had not touched before. */
uint32_t sim_track(sim_warp *w, const sim_inst *i, int lane, const sim_place *at, uint64_t address, uint32_t bytes,
                   sim_access access);
/* The same of whole words, read or written; false: one of them needs sim_track, those before it are done. */
bool sim_track_run(sim_warp *w, uint64_t *words, uint32_t bytes, bool write, uint32_t *fresh);
void sim_track_shared(sim_warp *w, const sim_inst *i, int lane, const sim_place *at, uint64_t address, uint32_t bytes,
                      sim_access access);
/* The same of lanes at aligned addresses. */
void sim_track_shared_lanes(sim_warp *w, const sim_inst *i, const uint64_t *address, uint32_t mask, uint32_t bytes,
                            sim_access access);

/* --- traffic.c */
/* Whether lane after lane lies at the same place, `step` 0, or that many bytes behind the one before. */
bool sim_is_regular(const uint64_t *address, uint64_t step);
void sim_count_access(sim_warp *w, const sim_inst *i, const uint64_t *address, uint32_t mask, uint32_t bytes,
                      bool write);
void sim_count_global(sim_warp *w, const uint64_t *address, uint32_t mask, uint32_t bytes, bool write);

#endif
