/* SPDX-License-Identifier: MIT
 * Rules about a recipe's keys. */
#include "recipe_rules.h"

#include <traincc/data.h>

#include <stdlib.h>
#include <string.h>

/* -- Keys that go with a choice -- */

/* The key that chooses, and with which of its values a key goes; "!" with which it does not, so that a value that is
 * added goes with all of them. `option`: where that is data.kind, and the library knows which. `reads`: the
 * same of optimizer.name. */
typedef struct rule {
    const char *by, *values, *option;
    unsigned reads;
} rule;

enum { FREE, OPEN, KEEP, CODE, HOST }; /* columns resume and plan */

#define ALWAYS {NULL, NULL, NULL, 0}
#define WITH(key, choices) {#key, choices, NULL, 0}
#define BUT(key, choices) {#key, "!" choices, NULL, 0}
#define DATA(field) {"data.kind", NULL, #field, 0}
#define READS(what) {"optimizer.name", NULL, NULL, TCC_READS_##what}
#define BOTH(...) __VA_ARGS__

/* What recipe.def says of each key. */
static const struct {
    rule with[RECIPE_RULES_MAX];
    int resume, plan;
} about[] = {
#define RECIPE_SECTION(name)
#define RECIPE_END(name)
#define RECIPE_KEY(in, name, type, initial, values, goes, resume, plan, help) {{goes}, resume, plan},
#include "recipe.def"
};

static int find_key(const char *path) {
    int i = 0;
    while (recipe_key(i) && strcmp(recipe_key(i), path) != 0) i++;
    return i;
}

/* -- What the library knows -- */

static const struct {
    const char *name;
    unsigned reads;
} optimizers[] = {
#define TCC_OPTIMIZER(id, name, lr, beta1, beta2, eps, reads, ...) [TCC_##id] = {name, reads},
#include <traincc/optimizer.def>
};
enum { OPTIMIZERS = sizeof optimizers / sizeof optimizers[0] };

tcc_optimizer_kind recipe_optimizer_named(const char *name) {
    int kind = 0;
    while (strcmp(optimizers[kind].name, name) != 0) kind++;
    return (tcc_optimizer_kind)kind;
}

/* "a|b" of the optimizers that read one of these; 0: all. */
static void print_optimizers(unsigned reads, char *to, size_t size) {
    size_t used = 0;
    *to = '\0';
    for (int i = 0; i < OPTIMIZERS && used < size; i++)
        if (!reads || optimizers[i].reads & reads)
            used += (size_t)snprintf(to + used, size - used, "%s%s", used ? "|" : "", optimizers[i].name);
}

const char *recipe_optimizers(void) {
    static char names[RECIPE_VALUES_MAX];
    print_optimizers(0, names, sizeof names);
    return names;
}

static bool fits(const rule *with, const char *value) {
    if (with->reads) return optimizers[recipe_optimizer_named(value)].reads & with->reads;
    if (with->option) return tcc_dataset_takes(value, with->option);
    const bool negated = *with->values == '!';
    return recipe_is_choice(with->values + negated, value) != negated;
}

/* The rule by which a key does not apply; NULL if it does. */
static const rule *broken_rule(const recipe *r, int key) {
    for (int i = 0; i < RECIPE_RULES_MAX; i++) {
        const rule *with = &about[key].with[i];
        const int by = with->by ? find_key(with->by) : key;
        const char *value = with->by ? recipe_choice(r, by) : NULL;
        if (!value || !recipe_applies(r, by)) continue; /* that chooses nothing here */
        if (!fits(with, value)) return with;
    }
    return NULL;
}

/* "a|b" of the kinds of data that an option goes with; NULL: all. */
static void print_kinds(const char *option, char *to, size_t size) {
    size_t used = 0;
    *to = '\0';
    for (const char *from = tcc_dataset_kinds(); *from; from += strspn(from, ", ")) {
        char kind[64];
        snprintf(kind, sizeof kind, "%.*s", (int)strcspn(from, ","), from);
        from += strcspn(from, ",");
        if ((option && !tcc_dataset_takes(kind, option)) || used >= size) continue;
        used += (size_t)snprintf(to + used, size - used, "%s%s", used ? "|" : "", kind);
    }
}

const char *recipe_data_kinds(void) {
    static char kinds[RECIPE_VALUES_MAX];
    print_kinds(NULL, kinds, sizeof kinds);
    return kinds;
}

/* "gpt|mlp", "any but cnn". */
static void print_values(const rule *with, char values[RECIPE_VALUES_MAX]) {
    if (with->reads) print_optimizers(with->reads, values, RECIPE_VALUES_MAX);
    else if (with->option) print_kinds(with->option, values, RECIPE_VALUES_MAX);
    else if (*with->values == '!') snprintf(values, RECIPE_VALUES_MAX, "any but %s", with->values + 1);
    else snprintf(values, RECIPE_VALUES_MAX, "%s", with->values);
}

const char *recipe_goes_with(int key, int number, char values[RECIPE_VALUES_MAX]) {
    const rule *with = &about[key].with[number];
    if (with->by) print_values(with, values);
    return with->by;
}

bool recipe_applies(const recipe *r, int key) { return !broken_rule(r, key); }

bool recipe_has(const recipe *r, const char *path) { return recipe_applies(r, find_key(path)); }

bool recipe_check_applies(const recipe *r, char error[RECIPE_ERROR_MAX]) {
    for (int i = 0; recipe_key(i); i++) {
        const rule *broken = r->given[i] && r->given[i] != RECIPE_LEFT_OUT ? broken_rule(r, i) : NULL;
        const int by = broken ? find_key(broken->by) : 0;
        if (!broken || (r->given[i] > 0 && r->given[by] == RECIPE_OVERRIDDEN)) continue;
        char where[256] = "command line", values[RECIPE_VALUES_MAX];
        if (r->given[i] > 0) snprintf(where, sizeof where, "%s:%d", r->file, r->given[i]);
        print_values(broken, values);
        snprintf(error, RECIPE_ERROR_MAX, "%s: %s does not apply to %s %s; it goes with %s", where, recipe_key(i),
                 broken->by, recipe_choice(r, by), values);
        return false;
    }
    return true;
}

char *recipe_left_out(const recipe *r) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) return NULL;
    for (int i = 0; recipe_key(i); i++)
        if (r->given[i] == RECIPE_LEFT_OUT)
            fprintf(out, "%s%s%s", ftell(out) ? ", " : "",
                    strcmp(recipe_key(i), "optimizer.groups") ? "" : "betas or momentum of ", recipe_key(i));
    if (!fclose(out) && length) return text;
    free(text);
    return NULL;
}

/* -- Resuming, and plans -- */

bool recipe_may_change(int key) { return about[key].resume != KEEP; }

bool recipe_fits_plan(const char *assignment) {
    char path[256];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(assignment, "="), assignment);
    const int key = find_key(path);
    return assignment[strcspn(assignment, "=")] && recipe_key(key) && about[key].plan == HOST;
}

/* A key's value as it is printed, from malloc: "none" where it has none. */
static char *value_text(const recipe *r, int key) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out) return NULL;
    if (!recipe_print_value(r, key, out)) fputs("none", out);
    if (!fclose(out)) return text;
    free(text);
    return NULL;
}

char *recipe_print_results(const recipe *r) {
    char *text = NULL, section[64] = "";
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out) return NULL;
    for (int i = 0; recipe_key(i); i++)
        if (about[i].resume != FREE) recipe_print_key(r, i, section, out);
    if (!fclose(out)) return text;
    free(text);
    return NULL;
}

static bool compare_key(const recipe *r, const recipe *before, int key, FILE *said, char *error) {
    const char *name = recipe_key(key);
    char *now = value_text(r, key), *then = value_text(before, key);
    bool ok = now && then;
    if (!ok) {
        snprintf(error, RECIPE_ERROR_MAX, "out of memory");
    } else if (strcmp(now, then) && about[key].resume == OPEN) {
        fprintf(said, "%s%s was %s, is %s", ftell(said) ? "; " : "", name, then, now);
    } else if (strcmp(now, then)) {
        snprintf(error, RECIPE_ERROR_MAX,
                 "--resume: %s is %s, but the checkpoint is of a run with %s, and that cannot change on the way; for a "
                 "new run from its weights leave out --resume and give init_from=CHECKPOINT",
                 name, now, then);
        ok = false;
    }
    free(now);
    free(then);
    return ok;
}

bool recipe_may_resume(recipe *r, const char *before, char **said, char error[RECIPE_ERROR_MAX]) {
    recipe old;
    size_t length;
    *said = NULL;
    FILE *out = open_memstream(said, &length);
    bool ok = out && recipe_init(&old);
    if (!ok) {
        snprintf(error, RECIPE_ERROR_MAX, "out of memory");
    } else {
        ok = recipe_parse(&old, before, strlen(before), "--resume: the checkpoint's recipe", error);
        if (ok && !r->data.batch_size) r->data.batch_size = old.data.batch_size; /* that was chosen */
        for (int i = 0; ok && recipe_key(i); i++)
            if (about[i].resume != FREE && recipe_applies(r, i)) ok = compare_key(r, &old, i, out, error);
        recipe_free(&old);
    }
    if (out && fclose(out)) ok = false;
    if (ok && length) return true;
    free(*said);
    *said = NULL;
    return ok;
}
