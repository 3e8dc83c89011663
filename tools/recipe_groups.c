/* SPDX-License-Identifier: MIT
 * A list of mappings, one for each group. */
#include "recipe_groups.h"
#include "train_recipe.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    yaml_items *items;
    const yaml_item *item; /* the one just read */
    char *problem;
} reader;

__attribute__((format(printf, 2, 3))) static bool fail(reader *in, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(in->problem, RECIPE_PROBLEM_MAX, format, args);
    va_end(args);
    return false;
}

static yaml_item_kind next(reader *in) {
    in->item = yaml_items_next(in->items);
    return in->item->kind;
}

static const char *scalar(reader *in, const char *expected) {
    if (in->item->kind == YAML_ITEM_SCALAR) return in->item->text;
    fail(in, "%s is expected", expected);
    return NULL;
}

static const char *next_scalar(reader *in, const char *expected) {
    next(in);
    return scalar(in, expected);
}

static bool read_number(reader *in, const char *key, double most, double *out) {
    const char *text = next_scalar(in, "a number");
    char *end;
    if (!text) return false;
    *out = strtod(text, &end);
    if (end == text || *end || !isfinite(*out)) return fail(in, "%s: \"%s\" is not a number", key, text);
    if (*out < 0 || *out > most) return fail(in, "%s: must be from 0 to %.15g, not %s", key, most, text);
    return true;
}

static bool read_betas(reader *in, double betas[2]) {
    if (next(in) != YAML_ITEM_LIST) return fail(in, "betas: a list of two numbers is expected");
    for (int i = 0; i < 2; i++)
        if (!read_number(in, "betas", 0.9999999, &betas[i])) return false;
    return next(in) == YAML_ITEM_END || fail(in, "betas: a list of two numbers is expected");
}

static bool read_match(reader *in, recipe_group *g) {
    const char *text = next_scalar(in, "a pattern");
    if (!text) return false;
    if (!*text || strlen(text) >= sizeof g->match)
        return fail(in, "match: a pattern of 1 to %d bytes is expected", RECIPE_MATCH_MAX - 1);
    snprintf(g->match, sizeof g->match, "%s", text);
    return true;
}

static bool read_frozen(reader *in, recipe_group *g) {
    const char *text = next_scalar(in, "true or false");
    if (!text) return false;
    g->frozen = !strcmp(text, "true");
    return g->frozen || !strcmp(text, "false") || fail(in, "frozen: must be true or false, not \"%s\"", text);
}

/* The keys of a group, in the order in which they are printed. */
enum { MATCH, FROZEN, LR, LR_SCALE, WEIGHT_DECAY, MOMENTUM, BETAS, FIELDS };
static const char *const fields[FIELDS] = {"match", "frozen", "lr", "lr_scale", "weight_decay", "momentum", "betas"};

static bool read_field(reader *in, recipe_group *g, int field) {
    switch (field) {
    case MATCH: return read_match(in, g);
    case FROZEN: return read_frozen(in, g);
    case LR: return read_number(in, "lr", 1e6, &g->lr);
    case LR_SCALE: return read_number(in, "lr_scale", 1e6, &g->lr_scale);
    case WEIGHT_DECAY: return read_number(in, "weight_decay", 1e6, &g->weight_decay);
    case MOMENTUM: return read_number(in, "momentum", 1, &g->momentum);
    default: return read_betas(in, g->betas);
    }
}

static bool read_group(reader *in, recipe_group *g) {
    bool given[FIELDS] = {false};
    *g = (recipe_group){.lr = NAN, .lr_scale = NAN, .weight_decay = NAN, .momentum = NAN, .betas = {NAN, NAN}};
    for (;;) {
        if (next(in) == YAML_ITEM_END) break;
        const char *key = scalar(in, "a key");
        int field = 0;
        if (!key) return false;
        while (field < FIELDS && strcmp(fields[field], key) != 0) field++;
        if (field == FIELDS)
            return fail(
                in, "unknown key \"%s\"; a group has match, frozen, lr, lr_scale, weight_decay, momentum, betas", key);
        if (given[field]) return fail(in, "%s is given twice", key);
        given[field] = true;
        if (!read_field(in, g, field)) return false;
    }
    if (!given[MATCH]) return fail(in, "a group needs match: a pattern of parameters' names");
    if (given[LR] && given[LR_SCALE]) return fail(in, "%s: give one of lr and lr_scale", g->match);
    return true;
}

static bool expected_list(reader *in) {
    return fail(in, "a list of groups is expected, as [{match: \"*.bias\", weight_decay: 0}]");
}

bool recipe_groups_read(recipe_groups *g, yaml_items *items, size_t *line, char problem[RECIPE_PROBLEM_MAX]) {
    reader in = {.items = items, .problem = problem};
    bool ok = true;
    g->count = 0;
    while (ok && next(&in) != YAML_ITEM_END) {
        if (in.item->kind != YAML_ITEM_MAPPING) ok = expected_list(&in);
        else if (g->count == RECIPE_GROUPS_MAX) ok = fail(&in, "more than %d groups", RECIPE_GROUPS_MAX);
        else ok = read_group(&in, &g->v[g->count++]);
    }
    *line = in.item->line;
    return ok;
}

bool recipe_groups_parse(recipe_groups *g, const char *text, char problem[RECIPE_PROBLEM_MAX]) {
    yaml_items items;
    size_t line;
    reader in = {.items = &items, .problem = problem};
    bool ok = yaml_items_read(&items, text, strlen(text), &line, problem);
    if (ok) ok = next(&in) == YAML_ITEM_LIST ? recipe_groups_read(g, &items, &line, problem) : expected_list(&in);
    yaml_items_free(&items);
    return ok;
}

/* -- Patterns -- */

bool recipe_patterns_add(recipe_patterns *p, const char *text, char problem[RECIPE_PROBLEM_MAX]) {
    reader in = {.problem = problem};
    if (!*text || strlen(text) >= RECIPE_MATCH_MAX)
        return fail(&in, "a pattern of 1 to %d bytes is expected", RECIPE_MATCH_MAX - 1);
    if (p->count == RECIPE_GROUPS_MAX) return fail(&in, "more than %d patterns", RECIPE_GROUPS_MAX);
    snprintf(p->v[p->count++], RECIPE_MATCH_MAX, "%s", text);
    return true;
}

bool recipe_patterns_parse(recipe_patterns *p, const char *text, char problem[RECIPE_PROBLEM_MAX]) {
    yaml_items items;
    size_t line;
    reader in = {.items = &items, .problem = problem};
    p->count = 0;
    if (*text != '[' || text[strlen(text) - 1] != ']') return recipe_patterns_add(p, text, problem);
    bool ok = yaml_items_read(&items, text, strlen(text), &line, problem);
    if (ok) next(&in);
    while (ok && next(&in) != YAML_ITEM_END) {
        const char *pattern = scalar(&in, "a pattern");
        ok = pattern && recipe_patterns_add(p, pattern, problem);
    }
    yaml_items_free(&items);
    return ok;
}

void recipe_patterns_print(const recipe_patterns *p, FILE *out) {
    fputc('[', out);
    for (int i = 0; i < p->count; i++) {
        if (i) fputs(", ", out);
        recipe_print_quoted(p->v[i], out);
    }
    fputc(']', out);
}

/* -- Printing -- */

static void print_field(const char *name, double value, FILE *out) {
    if (isnan(value)) return;
    fprintf(out, ", %s: ", name);
    recipe_print_number(value, out);
}

void recipe_groups_print(const recipe_groups *g, FILE *out) {
    fputc('[', out);
    for (int i = 0; i < g->count; i++) {
        const recipe_group *group = &g->v[i];
        fputs(i ? ", {match: " : "{match: ", out);
        recipe_print_quoted(group->match, out);
        if (group->frozen) fputs(", frozen: true", out);
        print_field("lr", group->lr, out);
        print_field("lr_scale", group->lr_scale, out);
        print_field("weight_decay", group->weight_decay, out);
        print_field("momentum", group->momentum, out);
        if (!isnan(group->betas[0])) {
            fputs(", betas: [", out);
            recipe_print_number(group->betas[0], out);
            fputs(", ", out);
            recipe_print_number(group->betas[1], out);
            fputc(']', out);
        }
        fputc('}', out);
    }
    fputc(']', out);
}
