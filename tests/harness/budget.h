/* SPDX-License-Identifier: MIT
 * Training within a budget of memory has the bits of training without one. */
#ifndef TCC_TESTS_HARNESS_BUDGET_H
#define TCC_TESTS_HARNESS_BUDGET_H

#include "harness/user_check.h"

/* What training without a budget gives: after each step all outputs of the graph (losses, metrics, gradients), and in
 * the end all parameters, buffers and states of the optimizer. */
typedef struct budget_base budget_base;

typedef struct budget_result {
    char wrong[512]; /* an error, or the first value with other bits; empty: all bits are equal */
    bool unmet;      /* the budget cannot be met: nothing was compared */
    int again;       /* nodes that are computed again */
    int64_t arena_bytes;
} budget_result;

/* Trains the program's model in one mode (USER_EAGER, USER_DEFAULT, USER_GPU, USER_GPU_EAGER). `wrong` has room for 512
 * characters. NULL after an error, which it says. */
budget_base *budget_base_create(const user_program *p, unsigned mode, char *wrong);
void budget_base_destroy(budget_base *b);
int64_t budget_base_arena_bytes(const budget_base *b);
/* Trains it once more. `budget` is that of tcc_model_options, or NULL. */
void budget_compare(const budget_base *b, tcc_checkpointing checkpointing, const char *budget, budget_result *out);

/* The program's own budget in one mode, or the smallest peak where that cannot be met. */
void budget_check_own(const user_program *p, unsigned mode, budget_result *out);

#endif
