/* SPDX-License-Identifier: MIT
 * Patterns of parameters' names, and groups of parameters: [{match: "*.bias", weight_decay: 0, lr_scale: 0.5}, ...],
 * from a recipe's file or from the command line. */
#ifndef TCC_TOOLS_RECIPE_GROUPS_H
#define TCC_TOOLS_RECIPE_GROUPS_H

#include "recipe_yaml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { RECIPE_GROUPS_MAX = 16, RECIPE_MATCH_MAX = 128 };

/* Of parameters' names, by the rules of the shell. */
typedef struct recipe_patterns {
    int count;
    char v[RECIPE_GROUPS_MAX][RECIPE_MATCH_MAX];
} recipe_patterns;

/* NaN: not given. */
typedef struct recipe_group {
    char match[RECIPE_MATCH_MAX];
    double lr, lr_scale, weight_decay, momentum, betas[2];
    bool frozen;
} recipe_group;

typedef struct recipe_groups {
    int count;
    recipe_group v[RECIPE_GROUPS_MAX];
} recipe_groups;

/* Reads what is behind a list's start up to its end. On failure `problem` says why, and *line where. */
bool recipe_groups_read(recipe_groups *g, yaml_items *items, size_t *line, char problem[RECIPE_PROBLEM_MAX]);
/* The same from a text, as from the command line. */
bool recipe_groups_parse(recipe_groups *g, const char *text, char problem[RECIPE_PROBLEM_MAX]);
/* A text as from the command line: a pattern, or a list in brackets of them. */
bool recipe_patterns_parse(recipe_patterns *p, const char *text, char problem[RECIPE_PROBLEM_MAX]);
bool recipe_patterns_add(recipe_patterns *p, const char *text, char problem[RECIPE_PROBLEM_MAX]);
void recipe_patterns_print(const recipe_patterns *p, FILE *out);
/* As YAML on one line. */
void recipe_groups_print(const recipe_groups *g, FILE *out);

#endif
