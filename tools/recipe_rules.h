/* SPDX-License-Identifier: MIT
 * Rules about a recipe's keys: which may be changed when a run is resumed. */
#ifndef TCC_TOOLS_RECIPE_RULES_H
#define TCC_TOOLS_RECIPE_RULES_H

#include "train_recipe.h"

/* The keys that decide what a run computes, with their values, as YAML: what a checkpoint keeps to be compared with.
 * NULL when memory is short; from malloc. */
char *recipe_print_results(const recipe *r);

/* Compares a recipe with that of the run that is resumed, as recipe_print_results gave it. What differs and may is
 * listed in `said` ("optimizer.lr was 0.1, is 0.01; ..."), from malloc; NULL where nothing differs. What differs and
 * may not makes it false; `error` says which and why. */
bool recipe_may_resume(const recipe *r, const char *before, char **said, char error[RECIPE_ERROR_MAX]);

#endif
