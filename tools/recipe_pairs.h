/* SPDX-License-Identifier: MIT
 * Names with a value each: {age: number, city: category}, from a recipe's file or from the command line. */
#ifndef TCC_TOOLS_RECIPE_PAIRS_H
#define TCC_TOOLS_RECIPE_PAIRS_H

#include "recipe_yaml.h"

#include <stdio.h>

typedef struct recipe_pair {
    char *name, *value;
} recipe_pair;

typedef struct recipe_pairs {
    int count, room;
    recipe_pair *v;
} recipe_pairs;

/* Reads the items behind a mapping's start up to its end. On failure `problem` says why, and *line where. */
bool recipe_pairs_read(recipe_pairs *p, yaml_items *items, size_t *line, char problem[RECIPE_PROBLEM_MAX]);
/* The same from a text, as from the command line. */
bool recipe_pairs_parse(recipe_pairs *p, const char *text, char problem[RECIPE_PROBLEM_MAX]);
/* As YAML on one line. */
void recipe_pairs_print(const recipe_pairs *p, FILE *out);
void recipe_pairs_free(recipe_pairs *p);

#endif
