/* SPDX-License-Identifier: MIT
 * The table of a recipe's keys. */
#include "recipe_keys.h"
#include "eval_metrics.h"
#include "recipe_rules.h"

#include <stdarg.h>
#include <string.h>

#define NONE NULL
#define REQUIRED ""
#define ANY NULL, 0, 0, NULL
#define ONE_OF(choices) choices, 0, 0, NULL
#define RANGE(least, most) NULL, least, most, NULL
#define OR(word, least, most) word, least, most, NULL
#define LISTED(list) NULL, 0, 0, list

const recipe_row recipe_rows[RECIPE_KEY_COUNT] = {
#define RECIPE_SECTION(name)
#define RECIPE_END(name)
#define RECIPE_KEY(in, name, type, initial, values, ...) {#in #name, type, offsetof(recipe, in name), initial, values},
#include "recipe.def"
};

const char *recipe_row_choices(const recipe_row *k) { return k->listed ? k->listed() : k->choices; }

bool recipe_row_has_default(const recipe_row *k) { return k->initial && *k->initial; }

bool recipe_row_is_text(const recipe_row *k) { return k->kind <= WEIGHTS; }

bool recipe_is_choice(const char *choices, const char *value) {
    size_t length = strlen(value);
    for (const char *c = choices; *c; c += strcspn(c, "|"), c += *c == '|')
        if (strcspn(c, "|") == length && !memcmp(c, value, length)) return true;
    return false;
}

int recipe_key_index(const char *path) {
    int i = 0;
    while (strcmp(recipe_rows[i].path, path) != 0) i++;
    return i;
}

const char *recipe_key(int index) { return index >= 0 && index < RECIPE_KEY_COUNT ? recipe_rows[index].path : NULL; }

const char *recipe_key_values(int index) {
    switch (recipe_rows[index].kind) {
    case PATH: return ":files";
    case FLAG: return "true|false";
    case BUDGET: return "auto|min|none";
    default: return recipe_row_choices(&recipe_rows[index]);
    }
}

const char *recipe_choice(const recipe *r, int index) {
    return *(const char *const *)((const char *)r + recipe_rows[index].offset);
}

int64_t recipe_step_samples(const recipe *r) { return r->data.batch_size * r->training.batch_accumulate; }

bool recipe_replays(const recipe *r) { return r->training.compile && strcmp(r->training.compile_mode, "default") != 0; }

tcc_optimizer_kind recipe_optimizer(const recipe *r) { return recipe_optimizer_named(r->optimizer.name); }

bool recipe_fail(char *error, recipe_place at, const char *format, ...) {
    size_t used = at.line ? (size_t)snprintf(error, RECIPE_ERROR_MAX, "%s:%zu: ", at.file, at.line)
                          : (size_t)snprintf(error, RECIPE_ERROR_MAX, "%s: ", at.file);
    if (used >= RECIPE_ERROR_MAX) return false;
    va_list args;
    va_start(args, format);
    vsnprintf(error + used, RECIPE_ERROR_MAX - used, format, args);
    va_end(args);
    return false;
}
