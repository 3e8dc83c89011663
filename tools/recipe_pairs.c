/* SPDX-License-Identifier: MIT
 * A mapping of names to values. */
#include "recipe_pairs.h"
#include "train_recipe.h"

#include <stdlib.h>
#include <string.h>

static bool fail(char problem[RECIPE_PROBLEM_MAX], const char *what, const char *name) {
    snprintf(problem, RECIPE_PROBLEM_MAX, what, name);
    return false;
}

void recipe_pairs_free(recipe_pairs *p) {
    for (int i = 0; i < p->count; i++) {
        free(p->v[i].name);
        free(p->v[i].value);
    }
    free(p->v);
    *p = (recipe_pairs){0};
}

static bool add(recipe_pairs *p, const char *name, const char *value) {
    if (p->count == p->room) {
        const int room = p->room ? 2 * p->room : 16;
        recipe_pair *more = realloc(p->v, (size_t)room * sizeof *more);
        if (!more) return false;
        p->v = more;
        p->room = room;
    }
    recipe_pair pair = {strdup(name), strdup(value)};
    if (pair.name && pair.value) {
        p->v[p->count++] = pair;
        return true;
    }
    free(pair.name);
    free(pair.value);
    return false;
}

bool recipe_pairs_read(recipe_pairs *p, yaml_items *items, size_t *line, char problem[RECIPE_PROBLEM_MAX]) {
    recipe_pairs_free(p);
    for (;;) {
        const yaml_item *name = yaml_items_next(items);
        *line = name->line;
        if (name->kind == YAML_ITEM_END) return true;
        if (name->kind != YAML_ITEM_SCALAR) return fail(problem, "a name is expected%s", "");
        const yaml_item *value = yaml_items_next(items);
        *line = value->line;
        if (value->kind != YAML_ITEM_SCALAR) return fail(problem, "%s: one value is expected", name->text);
        for (int i = 0; i < p->count; i++)
            if (!strcmp(p->v[i].name, name->text)) return fail(problem, "%s is given twice", name->text);
        if (!add(p, name->text, value->text)) return fail(problem, "out of memory%s", "");
    }
}

bool recipe_pairs_parse(recipe_pairs *p, const char *text, char problem[RECIPE_PROBLEM_MAX]) {
    yaml_items items;
    size_t line;
    bool ok = yaml_items_read(&items, text, strlen(text), &line, problem);
    if (ok && yaml_items_next(&items)->kind != YAML_ITEM_MAPPING)
        ok = fail(problem, "\"%s\" is no mapping as {age: number, city: category}", text);
    ok = ok && recipe_pairs_read(p, &items, &line, problem);
    yaml_items_free(&items);
    return ok;
}

void recipe_pairs_print(const recipe_pairs *p, FILE *out) {
    fputc('{', out);
    for (int i = 0; i < p->count; i++) {
        if (i) fputs(", ", out);
        recipe_print_quoted(p->v[i].name, out);
        fputs(": ", out);
        recipe_print_quoted(p->v[i].value, out);
    }
    fputc('}', out);
}
