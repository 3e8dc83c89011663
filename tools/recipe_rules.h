/* SPDX-License-Identifier: MIT
 * Rules about a recipe's keys, which recipe.def has: which apply to what was chosen, and which may be changed when a
 * run is resumed or trains from a plan. */
#ifndef TCC_TOOLS_RECIPE_RULES_H
#define TCC_TOOLS_RECIPE_RULES_H

#include "train_recipe.h"

enum { RECIPE_RULES_MAX = 2, RECIPE_VALUES_MAX = 256 };

/* The key by whose value another one applies, and with which values: "gpt|mlp", "any but cnn". A key has up to
 * RECIPE_RULES_MAX such rules; NULL: there is no rule of this number. */
const char *recipe_goes_with(int key, int number, char values[RECIPE_VALUES_MAX]);
/* Choices of recipe.def that the library knows, as "a|b". */
const char *recipe_data_kinds(void);
const char *recipe_optimizers(void);
tcc_optimizer_kind recipe_optimizer_named(const char *name); /* one of these */
/* Whether a run that is resumed may have another value. */
bool recipe_may_change(int key);
/* Whether the programs of a plan are the same with another value: of "training.max_steps=100". */
bool recipe_fits_plan(const char *assignment);

/* Whether the key means anything for what other keys chose: model.heads does for a gpt alone. A key that does not is
 * not printed. */
bool recipe_applies(const recipe *r, int key);
bool recipe_has(const recipe *r, const char *path); /* the same of the key of this name */
/* A key that the recipe's file gives and that does not apply is an error, unless the command line has chosen otherwise
 * than the file: then it is left out. */
bool recipe_check_applies(const recipe *r, char error[RECIPE_ERROR_MAX]);
/* The keys of the file that are left out, separated by commas, from malloc; NULL where there are none. */
char *recipe_left_out(const recipe *r);

/* The keys that decide what a run computes, with their values, as YAML: what a checkpoint keeps to be compared with.
 * NULL when memory is short; from malloc. */
char *recipe_print_results(const recipe *r);

/* Compares a recipe with that of the run that is resumed, as recipe_print_results gave it. What differs and may is
 * listed in `said` ("optimizer.lr was 0.1, is 0.01; ..."), from malloc; NULL where nothing differs. What differs and
 * may not makes it false; `error` says which and why. */
bool recipe_may_resume(recipe *r, const char *before, char **said, char error[RECIPE_ERROR_MAX]);

#endif
