/* SPDX-License-Identifier: MIT
 * Models for which a budget of memory or segments once gave other bits, no program, or a crash. */
#ifndef TCC_TESTS_HARNESS_BUDGET_MODELS_H
#define TCC_TESTS_HARNESS_BUDGET_MODELS_H

/* Trains each with several budgets, and with its segments: the bits of all losses and parameters are those without. */
void check_budget_models(const char *device);

#endif
