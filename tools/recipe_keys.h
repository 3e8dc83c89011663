/* SPDX-License-Identifier: MIT
 * The keys of a recipe as rows of a table, for the files that read, check and print recipes. */
#ifndef TCC_TOOLS_RECIPE_KEYS_H
#define TCC_TOOLS_RECIPE_KEYS_H

#include "recipe_kind.h"
#include "train_recipe.h"

/* A key: where its value goes, its default, and what it may be. */
typedef struct recipe_row {
    const char *path;
    recipe_kind kind;
    size_t offset;
    const char *initial;         /* default, as it would be written; NULL: none; "": it must be given */
    const char *choices;         /* CHOICE, NAMES: "a|b|c"; NUMBER, INTEGER: another value, NaN or 0 */
    double least, most;          /* INTEGER, NUMBER, elements of LIST and, whole numbers, of WHOLES */
    const char *(*listed)(void); /* CHOICE: the choices, where the library knows them */
} recipe_row;
extern const recipe_row recipe_rows[RECIPE_KEY_COUNT];

const char *recipe_row_choices(const recipe_row *k);
bool recipe_row_has_default(const recipe_row *k);
/* Whether its value is a string. */
bool recipe_row_is_text(const recipe_row *k);
/* Of a path that is a key. */
int recipe_key_index(const char *path);

/* Where something is wrong: "recipe.yaml:12: ..." or "command line: ...". */
typedef struct recipe_place {
    const char *file;
    size_t line; /* 0: no line */
} recipe_place;
/* Writes the message; false. */
__attribute__((format(printf, 3, 4))) bool recipe_fail(char *error, recipe_place at, const char *format, ...);

/* Gives a key its default, as if it had not been given. */
bool recipe_reset(recipe *r, int index, char *error);

#endif
