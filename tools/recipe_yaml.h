/* SPDX-License-Identifier: MIT
 * A YAML document as the list of what is in it, in order: aliases stand for what they name, and merge keys ("<<") for
 * the entries that their mapping lacks. Keys at the top that begin with "x-" are left out: they hold what is named. */
#ifndef TCC_TOOLS_RECIPE_YAML_H
#define TCC_TOOLS_RECIPE_YAML_H

#include <stdbool.h>
#include <stddef.h>

enum { RECIPE_PROBLEM_MAX = 256 };

typedef enum yaml_item_kind { YAML_ITEM_SCALAR, YAML_ITEM_LIST, YAML_ITEM_MAPPING, YAML_ITEM_END } yaml_item_kind;

/* A scalar, or the begin or the end of a list or mapping. */
typedef struct yaml_item {
    yaml_item_kind kind;
    const char *text; /* of a scalar: without a NUL in it */
    bool plain;       /* a scalar without quotes */
    size_t line;
} yaml_item;

typedef struct yaml_items {
    yaml_item *v;
    int count, at; /* at: the next to be read */
    void *document;
} yaml_items;

/* Reads the one document of a text: the first item is its root, the last an end. On failure `problem` says why, and
 * *line where. */
bool yaml_items_read(yaml_items *items, const char *text, size_t length, size_t *line,
                     char problem[RECIPE_PROBLEM_MAX]);
void yaml_items_free(yaml_items *items);

/* The next item; behind the last one stays an end. */
const yaml_item *yaml_items_next(yaml_items *items);

/* Whether a text can stand in YAML: it is UTF-8. */
bool yaml_can_hold(const char *text);

#endif
