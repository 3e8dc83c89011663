/* SPDX-License-Identifier: MIT */
#include "recipe_weights.h"
#include "train_recipe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_weight(double w) { return w >= 0 && w <= 1e6; }

static const char *skip_blanks(const char *c) { return c + strspn(c, " \t"); }

double *recipe_weights_list(const char *text, int64_t *count) {
    int64_t room = 1;
    for (const char *c = text; *c; c++) room += *c == ',';
    double *list = malloc((size_t)room * sizeof *list);
    const char *c = skip_blanks(text);
    const bool opens = *c == '[';
    bool more = list != NULL;
    c += opens;
    for (*count = 0; more;) {
        char *end;
        const double w = strtod(c, &end);
        if (end == c || !is_weight(w)) break;
        list[(*count)++] = w;
        c = skip_blanks(end);
        more = *c == ',';
        c += more;
    }
    if (list && !more) {
        const bool closes = *c == ']';
        if (opens == closes && !*skip_blanks(c + closes)) return list;
    }
    free(list);
    return NULL;
}

char *recipe_weights_text(const char *text) {
    char *out_text = NULL;
    size_t length;
    int64_t count;
    double *list = recipe_weights_list(text, &count);
    FILE *out = list ? open_memstream(&out_text, &length) : NULL;
    for (int64_t i = 0; out && i < count; i++) {
        fputs(i ? ", " : "[", out);
        recipe_print_number(list[i], out);
    }
    if (out) fputc(']', out);
    free(list);
    if (!out || !fclose(out)) return out_text;
    free(out_text);
    return NULL;
}
