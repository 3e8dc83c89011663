/* SPDX-License-Identifier: MIT
 * A lowering in the text form of the graph: its launches, their memory, and the predicted time. */
#ifndef TCC_CODEGEN_CHOICE_H
#define TCC_CODEGEN_CHOICE_H

#include "codegen/schedule/lowering.h"

/* What the lowering launches, as implementation `name`, in `arena`; NULL when memory is short (reported). */
tcc_implementation *tcc_choice_record(const tcc_lowering *l, tcc_arena *arena, const char *name);
/* Checks that a lowering by choice has all parameters of the text, not only those that it asked for. */
tcc_status tcc_choice_check_params(const tcc_lowering *l);
/* Checks that a lowering by choice launches what the graph says, on the same memory. Errors: TCC_EINVAL: the choice was
 * made for another target, or by hand. */
tcc_status tcc_choice_check(const tcc_lowering *l);

/* In select.c. Lowers l->group as its choice says, or, where that is NULL, a pointwise group by plain loops. Errors:
 * TCC_EINVAL where the graph was made for another target. */
tcc_status tcc_select_lower(tcc_lowering *l);

#endif
