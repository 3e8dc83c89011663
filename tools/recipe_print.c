/* SPDX-License-Identifier: MIT
 * Recipes as YAML. */
#include "recipe_keys.h"
#include "recipe_paths.h"
#include "recipe_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void recipe_print_quoted(const char *s, FILE *out) {
    fputc('"', out);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') fprintf(out, "\\%c", *s);
        else if ((unsigned char)*s < 0x20) fprintf(out, "\\x%02x", (unsigned char)*s);
        else fputc(*s, out);
    }
    fputc('"', out);
}

/* Plain where YAML reads it back as a text. */
static void print_choice(const char *s, FILE *out) {
    if (strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(s)) fputs(s, out);
    else recipe_print_quoted(s, out);
}

void recipe_print_number(double v, FILE *out) {
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    fputs(text, out);
}

static void print_names(const char *choices, unsigned set, FILE *out) {
    const char *separator = "";
    fputc('[', out);
    for (const char *c = choices; *c; c += strcspn(c, "|"), c += *c == '|', set >>= 1) {
        if (!(set & 1)) continue;
        fprintf(out, "%s%.*s", separator, (int)strcspn(c, "|"), c);
        separator = ", ";
    }
    fputc(']', out);
}

/* A recipe that is printed is read elsewhere. */
static void print_path(const char *path, FILE *out) {
    char *absolute = recipe_path_absolute(path);
    recipe_print_quoted(absolute ? absolute : path, out);
    free(absolute);
}

static void print_value(const recipe *r, const recipe_row *k, FILE *out) {
    const void *from = (const char *)r + k->offset;
    switch (k->kind) {
    case STRING:
    case BUDGET: recipe_print_quoted(*(const char *const *)from, out); break;
    case PATH: print_path(*(const char *const *)from, out); break;
    case WEIGHTS: fputs(*(const char *const *)from, out); break;
    case CHOICE: print_choice(*(const char *const *)from, out); break;
    case INTEGER:
        if (k->choices && !*(const int64_t *)from) fputs(k->choices, out);
        else fprintf(out, "%lld", (long long)*(const int64_t *)from);
        break;
    case NUMBER:
        if (isnan(*(const double *)from)) fputs(k->choices, out);
        else recipe_print_number(*(const double *)from, out);
        break;
    case FLAG: fputs(*(const bool *)from ? "true" : "false", out); break;
    case LIST:
    case WHOLES: {
        const recipe_list *list = from;
        fputc('[', out);
        for (int i = 0; i < list->count; i++) {
            if (i) fputs(", ", out);
            recipe_print_number(list->v[i], out);
        }
        fputc(']', out);
        break;
    }
    case NAMES: print_names(k->choices, *(const unsigned *)from, out); break;
    case PATTERNS: recipe_patterns_print(from, out); break;
    case GROUPS: recipe_groups_print(from, out); break;
    case PAIRS: recipe_pairs_print(from, out); break;
    }
}

bool recipe_print_value(const recipe *r, int index, FILE *out) {
    const recipe_row *k = &recipe_rows[index];
    if (recipe_row_is_text(k) && !*(char *const *)((const char *)r + k->offset)) return false;
    print_value(r, k, out);
    return true;
}

void recipe_print_key(const recipe *r, int index, char section[64], FILE *out) {
    const recipe_row *k = &recipe_rows[index];
    if ((recipe_row_is_text(k) && !*(char *const *)((const char *)r + k->offset)) || !recipe_applies(r, index)) return;
    const char *dot = strchr(k->path, '.');
    if (dot && (strncmp(section, k->path, (size_t)(dot - k->path)) || section[dot - k->path])) {
        snprintf(section, 64, "%.*s", (int)(dot - k->path), k->path);
        fprintf(out, "%s:\n", section);
    }
    fprintf(out, dot ? "  %s: " : "%s: ", dot ? dot + 1 : k->path);
    print_value(r, k, out);
    fputc('\n', out);
}

bool recipe_print(const recipe *r, FILE *out) {
    char section[64] = "";
    for (int i = 0; i < RECIPE_KEY_COUNT; i++) recipe_print_key(r, i, section, out);
    return !ferror(out);
}
