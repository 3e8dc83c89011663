/* SPDX-License-Identifier: MIT
 * The kinds of values that keys of recipe.def have, under the names that its rows use. */
#ifndef TCC_TOOLS_RECIPE_KIND_H
#define TCC_TOOLS_RECIPE_KIND_H

/* Those whose value is a text come first. */
typedef enum recipe_kind {
    STRING,
    PATH,
    CHOICE,
    BUDGET,
    WEIGHTS,
    INTEGER,
    NUMBER,
    FLAG,
    LIST,
    WHOLES,
    NAMES,
    PATTERNS,
    GROUPS,
    PAIRS
} recipe_kind;

#endif
