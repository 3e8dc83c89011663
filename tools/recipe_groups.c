/* SPDX-License-Identifier: MIT
 * A list of mappings, one for each group. */
#include "recipe_groups.h"
#include "train_recipe.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    yaml_parser_t *parser;
    yaml_event_t event; /* the one just read; deleted by the next */
    bool has_event;
    size_t line;
    char *problem;
} reader;

__attribute__((format(printf, 2, 3))) static bool fail(reader *in, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(in->problem, RECIPE_PROBLEM_MAX, format, args);
    va_end(args);
    return false;
}

static bool next(reader *in) {
    if (in->has_event) yaml_event_delete(&in->event);
    in->has_event = yaml_parser_parse(in->parser, &in->event);
    in->line = (in->has_event ? in->event.start_mark.line : in->parser->problem_mark.line) + 1;
    return in->has_event || fail(in, "malformed YAML: %s", in->parser->problem ? in->parser->problem : "out of memory");
}

/* The text of a scalar, there as a whole: a NUL in it would cut it. */
static const char *scalar(reader *in, const char *expected) {
    if (in->event.type == YAML_SCALAR_EVENT) {
        const char *text = (const char *)in->event.data.scalar.value;
        if (strlen(text) == in->event.data.scalar.length) return text;
    }
    fail(in, "%s is expected", expected);
    return NULL;
}

static bool read_number(reader *in, const char *key, double most, double *out) {
    const char *text = next(in) ? scalar(in, "a number") : NULL;
    char *end;
    if (!text) return false;
    *out = strtod(text, &end);
    if (end == text || *end || !isfinite(*out)) return fail(in, "%s: \"%s\" is not a number", key, text);
    if (*out < 0 || *out > most) return fail(in, "%s: must be from 0 to %.15g, not %s", key, most, text);
    return true;
}

static bool read_betas(reader *in, double betas[2]) {
    if (!next(in)) return false;
    if (in->event.type != YAML_SEQUENCE_START_EVENT) return fail(in, "betas: a list of two numbers is expected");
    for (int i = 0; i < 2; i++)
        if (!read_number(in, "betas", 0.9999999, &betas[i])) return false;
    return next(in) &&
           (in->event.type == YAML_SEQUENCE_END_EVENT || fail(in, "betas: a list of two numbers is expected"));
}

static bool read_match(reader *in, recipe_group *g) {
    const char *text = next(in) ? scalar(in, "a pattern") : NULL;
    if (!text) return false;
    if (!*text || strlen(text) >= sizeof g->match)
        return fail(in, "match: a pattern of 1 to %d bytes is expected", RECIPE_MATCH_MAX - 1);
    snprintf(g->match, sizeof g->match, "%s", text);
    return true;
}

static bool read_frozen(reader *in, recipe_group *g) {
    const char *text = next(in) ? scalar(in, "true or false") : NULL;
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
        if (!next(in)) return false;
        if (in->event.type == YAML_MAPPING_END_EVENT) break;
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

bool recipe_groups_read(recipe_groups *g, yaml_parser_t *parser, size_t *line, char problem[RECIPE_PROBLEM_MAX]) {
    reader in = {.parser = parser, .problem = problem};
    bool ok;
    g->count = 0;
    while ((ok = next(&in)) && in.event.type != YAML_SEQUENCE_END_EVENT) {
        if (in.event.type != YAML_MAPPING_START_EVENT)
            ok = fail(&in, "a list of groups is expected, as [{match: \"*.bias\", weight_decay: 0}]");
        else if (g->count == RECIPE_GROUPS_MAX) ok = fail(&in, "more than %d groups", RECIPE_GROUPS_MAX);
        else ok = read_group(&in, &g->v[g->count++]);
        if (!ok) break;
    }
    if (in.has_event) yaml_event_delete(&in.event);
    *line = in.line;
    return ok;
}

bool recipe_groups_parse(recipe_groups *g, const char *text, char problem[RECIPE_PROBLEM_MAX]) {
    yaml_parser_t parser;
    size_t line;
    reader in = {.parser = &parser, .problem = problem};
    if (!yaml_parser_initialize(&parser)) return fail(&in, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    bool ok = next(&in) && next(&in); /* stream start, document start */
    ok = ok && in.event.type != YAML_STREAM_END_EVENT && next(&in);
    if (ok && in.event.type == YAML_SEQUENCE_START_EVENT) ok = recipe_groups_read(g, &parser, &line, problem);
    else if (!*problem || ok) ok = fail(&in, "a list of groups is expected, as [{match: \"*.bias\", weight_decay: 0}]");
    ok = ok && next(&in) && next(&in); /* document end, and what comes then */
    if (ok && in.event.type != YAML_STREAM_END_EVENT) ok = fail(&in, "one list is expected");
    if (in.has_event) yaml_event_delete(&in.event);
    yaml_parser_delete(&parser);
    return ok;
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
