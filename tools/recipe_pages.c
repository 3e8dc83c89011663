/* SPDX-License-Identifier: MIT
 * What the build makes of recipe.def for readers: the keys' section of tcc-train(1), and the JSON schema by which an
 * editor checks and completes a recipe.
 *   recipe-pages man PAGE.in > PAGE         puts the keys where the line `.\" KEYS` is
 *   recipe-pages schema > recipe.schema.json */
#include "eval_metrics.h"
#include "recipe_kind.h"
#include "recipe_rules.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NONE NULL
#define REQUIRED ""
#define ANY NULL, 0, 0
#define ONE_OF(choices) NULL, 0, 0
#define LISTED(list) NULL, 0, 0
#define RANGE(least, most) NULL, least, most
#define OR(word, least, most) word, least, most

/* By key, as recipe_key counts. */
static const struct about {
    recipe_kind type;
    const char *initial; /* NULL: none; "": required */
    const char *word;    /* another value than a number */
    double least, most;
    const char *help;
} abouts[] = {
#define RECIPE_SECTION(name)
#define RECIPE_END(name)
#define RECIPE_KEY(in, name, type, initial, values, goes, resume, plan, help) {type, initial, values, help},
#include "recipe.def"
};

/* -- The page -- */

static bool is_name(const char *word, size_t length) {
    char text[128];
    snprintf(text, sizeof text, "%.*s", (int)length, word);
    if (!strncmp(text, "--", 2)) return true;
    for (int i = 0; recipe_key(i); i++)
        if (!strcmp(recipe_key(i), text)) return true;
    return false;
}

/* Text as groff reads it, with options and keys in bold. */
static void print_roff(const char *text) {
    for (const char *c = text; *c;) {
        size_t length = strcspn(c, " ");
        while (length && strchr(".,;:()", c[length - 1])) length--;
        const bool bold = length && is_name(c, length);
        if (bold) fputs("\\fB", stdout);
        for (size_t i = 0; i < length; i++) {
            if (c[i] == '-') fputs("\\-", stdout);
            else if (c[i] == '\\') fputs("\\e", stdout);
            else putchar(c[i]);
        }
        if (bold) fputs("\\fR", stdout);
        for (c += length; *c && (*c == ' ' || strchr(".,;:()", *c)); c++) putchar(*c);
    }
}

/* "a, b or c". */
static void print_choices(const char *choices) {
    for (const char *c = choices, *next; *c; c = next) {
        char word[128];
        const size_t length = strcspn(c, "|");
        next = c + length + (c[length] == '|');
        snprintf(word, sizeof word, isalnum((unsigned char)*c) ? "%.*s" : "\"%.*s\"", (int)length, c);
        print_roff(word);
        if (*next) fputs(next[strcspn(next, "|")] ? ", " : " or ", stdout);
    }
}

/* "It goes with data.kind csv or text_classes." */
static void print_goes(int key) {
    char values[RECIPE_VALUES_MAX];
    for (int i = 0; i < RECIPE_RULES_MAX; i++) {
        const char *by = recipe_goes_with(key, i, values);
        if (!by) break;
        fputs(i ? " and " : "It goes with ", stdout);
        print_roff(by);
        putchar(' ');
        print_choices(values);
    }
    if (recipe_goes_with(key, 0, values)) puts(".");
}

static void print_range(const struct about *a) {
    if (a->least == 0 && a->most == 0) return;
    fputs(a->type == LIST || a->type == WHOLES ? "Numbers from " : "From ", stdout);
    recipe_print_number(a->least, stdout);
    if (a->most < UNBOUNDED) {
        fputs(" to ", stdout);
        recipe_print_number(a->most, stdout);
    }
    if (a->word) printf(", or %s", a->word);
    puts(".");
}

/* The optimizers' own values of lr, eps and betas. */
static void print_own_values(const char *path) {
    static const struct {
        const char *name;
        double lr, eps, beta1, beta2;
    } own[] = {
#define TCC_OPTIMIZER(id, name, lr, beta1, beta2, eps, ...) {name, lr, eps, beta1, beta2},
#include <traincc/optimizer.def>
    };
    recipe r = {.optimizer = {0}};
    int told = 0;
    const bool lr = !strcmp(path, "optimizer.lr"), eps = !strcmp(path, "optimizer.eps");
    if (!lr && !eps && strcmp(path, "optimizer.betas")) return;
    fputs("The optimizers' own values are", stdout);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        r.optimizer.name = (char *)own[i].name;
        if (!recipe_has(&r, path)) continue;
        fputs(told++ ? ", " : " ", stdout);
        if (lr || eps) printf("%g", lr ? own[i].lr : own[i].eps);
        else printf("[%g, %g]", own[i].beta1, own[i].beta2);
        printf(" of %s", own[i].name);
    }
    puts(".");
}

static void print_facts(int key) {
    const struct about *a = &abouts[key];
    if (a->type == CHOICE || a->type == NAMES) {
        fputs(a->type == CHOICE ? "One of " : "A list of ", stdout);
        print_choices(recipe_key_values(key));
        puts(".");
    }
    print_range(a);
    if (a->initial && !*a->initial) puts("Required.");
    else if (a->initial && strcmp(a->initial, "[]")) printf("The default is %s.\n", a->initial);
    print_own_values(recipe_key(key));
    print_goes(key);
    if (recipe_may_change(key)) puts("May change with \\fB\\-\\-resume\\fR.");
}

static void print_keys(void) {
    char section[64] = "";
    for (int i = 0; i < RECIPE_KEY_COUNT; i++) {
        const size_t length = strcspn(recipe_key(i), ".");
        if (recipe_key(i)[length] && (strncmp(section, recipe_key(i), length) || section[length])) {
            snprintf(section, sizeof section, "%.*s", (int)length, recipe_key(i));
            printf(".SS %s\n", section);
        }
        printf(".TP\n.B %s\n", recipe_key(i));
        print_roff(abouts[i].help);
        putchar('\n');
        print_facts(i);
    }
}

static int print_page(const char *path) {
    char line[4096];
    bool found = false;
    FILE *in = fopen(path, "r");
    while (in && fgets(line, sizeof line, in)) {
        if (strcmp(line, ".\\\" KEYS\n")) {
            fputs(line, stdout);
            continue;
        }
        print_keys();
        found = true;
    }
    if (in) fclose(in);
    if (found) return EXIT_SUCCESS;
    fprintf(stderr, "recipe-pages: %s %s\n", path, in ? "has no line .\\\" KEYS" : "cannot be read");
    return EXIT_FAILURE;
}

/* -- The schema -- */

static void add_range(cJSON *to, const struct about *a) {
    if (a->least == 0 && a->most == 0) return;
    cJSON_AddNumberToObject(to, "minimum", a->least);
    if (a->most < UNBOUNDED) cJSON_AddNumberToObject(to, "maximum", a->most);
}

static void add_choices(cJSON *to, const char *choices) {
    cJSON *list = cJSON_AddArrayToObject(to, "enum");
    for (const char *c = choices; *c; c += strcspn(c, "|"), c += *c == '|') {
        char word[128];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(c, "|"), c);
        cJSON_AddItemToArray(list, cJSON_CreateString(word));
    }
}

/* What one value, or an element of a list, may be. */
static void add_value(cJSON *to, int key) {
    static const char *const names[] = {
        [INTEGER] = "integer", [NUMBER] = "number", [LIST] = "number",  [WHOLES] = "integer", [FLAG] = "boolean",
        [GROUPS] = "object",   [CHOICE] = "string", [NAMES] = "string", [PATH] = "string",    [PATTERNS] = "string"};
    const struct about *a = &abouts[key];
    if (names[a->type]) cJSON_AddStringToObject(to, "type", names[a->type]);
    if (a->type == CHOICE || a->type == NAMES) add_choices(to, recipe_key_values(key));
    add_range(to, a);
}

static void add_default(cJSON *to, const struct about *a) {
    if (!a->initial || !*a->initial) return;
    cJSON *value = a->type == CHOICE || a->type == BUDGET ? NULL : cJSON_Parse(a->initial);
    cJSON_AddItemToObject(to, "default", value ? value : cJSON_CreateString(a->initial));
}

static cJSON *key_schema(int key) {
    const struct about *a = &abouts[key];
    cJSON *schema = cJSON_CreateObject();
    cJSON_AddStringToObject(schema, "description", a->help);
    if (a->type == LIST || a->type == WHOLES || a->type == NAMES || a->type == GROUPS) {
        cJSON_AddStringToObject(schema, "type", "array");
        if (a->type != GROUPS) cJSON_AddNumberToObject(schema, "maxItems", RECIPE_LIST_MAX);
        add_value(cJSON_AddObjectToObject(schema, "items"), key);
    } else if (a->type == PATTERNS) { /* one stands for a list of it */
        cJSON *either = cJSON_AddArrayToObject(schema, "anyOf"), *list = cJSON_CreateObject();
        cJSON_AddItemToArray(either, cJSON_CreateObject());
        cJSON_AddStringToObject(either->child, "type", "string");
        cJSON_AddStringToObject(list, "type", "array");
        cJSON_AddNumberToObject(list, "maxItems", RECIPE_GROUPS_MAX);
        add_value(cJSON_AddObjectToObject(list, "items"), key);
        cJSON_AddItemToArray(either, list);
    } else if (a->type == PAIRS) {
        cJSON_AddStringToObject(schema, "type", "object");
        cJSON_AddStringToObject(cJSON_AddObjectToObject(schema, "additionalProperties"), "type", "string");
    } else if (a->word) {
        cJSON *either = cJSON_AddArrayToObject(schema, "anyOf"), *number = cJSON_CreateObject();
        cJSON *word = cJSON_CreateObject();
        cJSON_AddStringToObject(word, "const", a->word);
        add_value(number, key);
        cJSON_AddItemToArray(either, number);
        cJSON_AddItemToArray(either, word);
    } else {
        add_value(schema, key);
    }
    add_default(schema, a);
    return schema;
}

static cJSON *mapping(void) {
    cJSON *m = cJSON_CreateObject();
    cJSON_AddStringToObject(m, "type", "object");
    cJSON_AddBoolToObject(m, "additionalProperties", false);
    cJSON_AddObjectToObject(m, "properties");
    return m;
}

static int print_schema(void) {
    cJSON *schema = mapping();
    cJSON_AddStringToObject(schema, "$schema", "http://json-schema.org/draft-07/schema#");
    cJSON_AddStringToObject(schema, "title", "A recipe of tcc-train");
    cJSON_AddObjectToObject(cJSON_AddObjectToObject(schema, "patternProperties"), "^x-"); /* recipe_yaml.h */
    for (int i = 0; i < RECIPE_KEY_COUNT; i++) {
        cJSON *in = schema;
        const char *name = recipe_key(i);
        for (const char *dot; (dot = strchr(name, '.')); name = dot + 1) {
            char section[64];
            snprintf(section, sizeof section, "%.*s", (int)(dot - name), name);
            cJSON *sections = cJSON_GetObjectItem(in, "properties");
            in = cJSON_GetObjectItem(sections, section);
            if (!in) cJSON_AddItemToObject(sections, section, in = mapping());
        }
        cJSON_AddItemToObject(cJSON_GetObjectItem(in, "properties"), name, key_schema(i));
    }
    char *text = cJSON_Print(schema);
    cJSON_Delete(schema);
    if (!text) return EXIT_FAILURE;
    puts(text);
    free(text);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "man")) return print_page(argv[2]);
    if (argc == 2 && !strcmp(argv[1], "schema")) return print_schema();
    fputs("usage: recipe-pages man PAGE.in | schema\n", stderr);
    return EXIT_FAILURE;
}
