/* SPDX-License-Identifier: MIT
 * Conditions that hold at a few places of a row (spot.c). */
#ifndef TCC_CODEGEN_SCHEDULE_SPOT_H
#define TCC_CODEGEN_SCHEDULE_SPOT_H

#include "codegen/body/body.h"

/* A condition that holds at no more than `most` neighbouring places of loop `lane_var`; NULL: there is none. */
const tcc_expr *tcc_spot_of(const tcc_body *b, int lane_var, int most);
/* The vectors of [from, to) where it may hold: [*first, *end). All begin at multiples of their lanes, and what is the
 * same in all lanes has been emitted. */
void tcc_spot_vectors(tcc_body_run *r, const tcc_expr *spot, int lane_var, int lanes, tcc_emit_value from,
                      tcc_emit_value to, tcc_emit_value *first, tcc_emit_value *end);

#endif
