/* SPDX-License-Identifier: MIT
 * Budgets of memory as text. */
#ifndef TCC_PASSES_REMAT_BUDGET_H
#define TCC_PASSES_REMAT_BUDGET_H

#include "passes/remat/remat.h"

extern const char tcc_budget_forms[]; /* what a text may be, for messages */

/* Fills in the budget of `spec`. `*of_device`: the text is "auto", and the caller fills in the bytes that the device
 * has free. False: it is no budget, and nothing is changed. */
bool tcc_budget_parse(const char *text, tcc_remat_spec *spec, bool *of_device);

#endif
