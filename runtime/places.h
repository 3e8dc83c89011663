/* SPDX-License-Identifier: MIT
 * Where a program's buffers are: the pointers that commands hold, kept right while spaces and bindings move. */
#ifndef TCC_RUNTIME_PLACES_H
#define TCC_RUNTIME_PLACES_H

#include "codegen/program.h"

#include <stdbool.h>

typedef struct tcc_places tcc_places;

/* Where the commands keep the address of a buffer, as tcc_program_for_buffers counts them: 8 bytes, or NULL if they
 * have no use for it. */
typedef void *tcc_place_of(void *user, int step, int instance, int buffer);

/* Collect the places of all steps; in `memory`. Errors: TCC_ENOMEM. */
tcc_status tcc_places_make(tcc_arena *memory, tcc_diag *d, const tcc_program *program, tcc_place_of *place_of,
                           void *user, tcc_places **out);
/* Let a space or a binding begin at `base`. */
void tcc_places_set(const tcc_places *places, tcc_space space, int binding, const void *base);
/* Whether that writes to [begin, end). */
bool tcc_places_reach(const tcc_places *places, tcc_space space, int binding, const void *begin, const void *end);

#endif
