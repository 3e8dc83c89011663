/* SPDX-License-Identifier: MIT
 * Weights of classes in a recipe: a word of recipe.def's, or a list of numbers, as many as there are classes. A recipe
 * keeps a list as a text, "[1, 2.5]". */
#ifndef TCC_TOOLS_RECIPE_WEIGHTS_H
#define TCC_TOOLS_RECIPE_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

/* The numbers of a list, from malloc, also without brackets; NULL where it is none, or memory is short. */
double *recipe_weights_list(const char *text, int64_t *count);
/* The same list as a recipe keeps it, from malloc; NULL where it is none. */
char *recipe_weights_text(const char *text);

#endif
