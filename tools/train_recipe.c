/* SPDX-License-Identifier: MIT
 * Recipes are read from YAML by libyaml, and from the command line by the same code. */
#include "train_recipe.h"
#include "recipe_keys.h"
#include "recipe_paths.h"
#include "recipe_rules.h"
#include "recipe_weights.h"

#include <traincc/model.h>
#include <traincc/nearest.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- Values -- */

static bool set_string(char **to, const char *value) {
    char *copy = value ? strdup(value) : NULL;
    if (value && !copy) return false;
    free(*to);
    *to = copy;
    return true;
}

static bool parse_number(const char *text, double *out) {
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out) && !errno;
}

/* A number of key k within its bounds. */
static bool bounded_number(const recipe_row *k, const char *text, recipe_place at, char *error, double *out) {
    if (!parse_number(text, out)) return recipe_fail(error, at, "%s: \"%s\" is not a number", k->path, text);
    if ((k->kind == INTEGER || k->kind == WHOLES) && *out != floor(*out))
        return recipe_fail(error, at, "%s: must be a whole number, not %s", k->path, text);
    if (*out < k->least || *out > k->most)
        return recipe_fail(error, at, "%s: must be from %.15g to %.15g, not %s", k->path, k->least, k->most, text);
    return true;
}

static bool set_flag(const recipe_row *k, bool *to, const char *text, recipe_place at, char *error) {
    static const char *const yes[] = {"true", "True", "yes", "on"}, *const no[] = {"false", "False", "no", "off"};
    for (int i = 0; i < 4; i++) {
        if (!strcmp(text, yes[i])) return *to = true, true;
        if (!strcmp(text, no[i])) return *to = false, true;
    }
    return recipe_fail(error, at, "%s: must be true or false, not \"%s\"", k->path, text);
}

static bool add_to_list(const recipe_row *k, recipe_list *list, const char *text, recipe_place at, char *error) {
    double x;
    if (!bounded_number(k, text, at, error, &x)) return false;
    if (list->count == RECIPE_LIST_MAX)
        return recipe_fail(error, at, "%s: more than %d values", k->path, RECIPE_LIST_MAX);
    list->v[list->count++] = x;
    return true;
}

/* The bit of a name among k's choices. */
static bool add_name(const recipe_row *k, unsigned *set, const char *text, recipe_place at, char *error) {
    unsigned bit = 1;
    if (!recipe_is_choice(k->choices, text))
        return recipe_fail(error, at, "%s: \"%s\" is none of %s", k->path, text, k->choices);
    for (const char *c = k->choices; strncmp(c, text, strlen(text)) || (c[strlen(text)] && c[strlen(text)] != '|');)
        c += strcspn(c, "|") + 1, bit <<= 1;
    *set |= bit;
    return true;
}

static bool add_item(const recipe_row *k, void *to, const char *text, recipe_place at, char *error) {
    char problem[RECIPE_PROBLEM_MAX] = "";
    if (k->kind == PATTERNS)
        return recipe_patterns_add(to, text, problem) || recipe_fail(error, at, "%s: %s", k->path, problem);
    return k->kind == NAMES ? add_name(k, to, text, at, error) : add_to_list(k, to, text, at, error);
}

static void empty_list(const recipe_row *k, void *to) {
    if (k->kind == NAMES) *(unsigned *)to = 0;
    else if (k->kind == PATTERNS) ((recipe_patterns *)to)->count = 0;
    else ((recipe_list *)to)->count = 0;
}

/* "[1, 2]", also without brackets. */
static bool set_list(const recipe_row *k, void *to, const char *text, recipe_place at, char *error) {
    static const char blanks[] = " \t";
    empty_list(k, to);
    const char *c = text + strspn(text, blanks), *end = text + strlen(text);
    while (end > c && strchr(blanks, end[-1])) end--;
    const bool opens = c < end && *c == '[', closes = end > c && end[-1] == ']';
    if (opens != closes) return recipe_fail(error, at, "%s: \"%s\" is no list as [1, 2]", k->path, text);
    c += opens;
    end -= closes;
    c += strspn(c, blanks);
    for (bool more = c < end; more;) {
        char item[64];
        c += strspn(c, blanks);
        const size_t length = strcspn(c, ",[] \t");
        const char *after = c + length + strspn(c + length, blanks);
        more = after < end && *after == ',';
        if (!length || length >= sizeof item || (after < end && !more))
            return recipe_fail(error, at, "%s: \"%s\" is no list as [1, 2]", k->path, text);
        snprintf(item, sizeof item, "%.*s", (int)length, c);
        if (!add_item(k, to, item, at, error)) return false;
        c = after + 1;
    }
    return true;
}

static bool set_groups(const recipe_row *k, recipe_groups *to, const char *text, recipe_place at, char *error) {
    char problem[RECIPE_PROBLEM_MAX] = "";
    return recipe_groups_parse(to, text, problem) || recipe_fail(error, at, "%s: %s", k->path, problem);
}

static bool set_patterns(const recipe_row *k, recipe_patterns *to, const char *text, recipe_place at, char *error) {
    char problem[RECIPE_PROBLEM_MAX] = "";
    return recipe_patterns_parse(to, text, problem) || recipe_fail(error, at, "%s: %s", k->path, problem);
}

/* What a file says may lie beside it. */
static bool set_path(const recipe *r, const recipe_row *k, char **to, const char *text, recipe_place at, char *error) {
    char problem[RECIPE_PROBLEM_MAX];
    char *path = recipe_path_read(text, at.line ? r->file : NULL, problem);
    if (!path) return recipe_fail(error, at, "%s: %s", k->path, problem);
    free(*to);
    *to = path;
    return true;
}

/* A text that a recipe can hold. */
static bool set_text(const recipe_row *k, char **to, const char *text, recipe_place at, char *error) {
    if (!yaml_can_hold(text)) return recipe_fail(error, at, "%s: the value is not UTF-8", k->path);
    return set_string(to, text) || recipe_fail(error, at, "out of memory");
}

static bool set_weights(const recipe_row *k, char **to, const char *text, recipe_place at, char *error) {
    if (recipe_is_choice(k->choices, text)) return set_string(to, text) || recipe_fail(error, at, "out of memory");
    char *list = recipe_weights_text(text);
    if (!list)
        return recipe_fail(error, at, "%s: \"%s\" is neither %s nor a list of numbers from 0 to 1e6, as [1, 2.5]",
                           k->path, text, k->choices);
    free(*to);
    *to = list;
    return true;
}

static bool set_pairs(const recipe_row *k, recipe_pairs *to, const char *text, recipe_place at, char *error) {
    char problem[RECIPE_PROBLEM_MAX] = "";
    return recipe_pairs_parse(to, text, problem) || recipe_fail(error, at, "%s: %s", k->path, problem);
}

static bool set_value(recipe *r, const recipe_row *k, const char *text, recipe_place at, char *error) {
    void *to = (char *)r + k->offset;
    double x;
    switch (k->kind) {
    case CHOICE:
        if (!recipe_is_choice(recipe_row_choices(k), text))
            return recipe_fail(error, at, "%s: \"%s\" is none of %s", k->path, text, recipe_row_choices(k));
        /* fall through */
    case STRING: return set_text(k, to, text, at, error);
    case PATH: return set_path(r, k, to, text, at, error);
    case BUDGET:
        if (tcc_is_memory_budget(text)) return set_string(to, text) || recipe_fail(error, at, "out of memory");
        return recipe_fail(
            error, at,
            "%s: \"%s\" is no budget; one is bytes (1.5GiB, 800MB, 123456789), a share of the activation "
            "memory (50%%), min, auto or none",
            k->path, text);
    case WEIGHTS: return set_weights(k, to, text, at, error);
    case INTEGER:
        x = 0;
        if ((!k->choices || !recipe_is_choice(k->choices, text)) && !bounded_number(k, text, at, error, &x))
            return false;
        *(int64_t *)to = (int64_t)x;
        return true;
    case NUMBER:
        if (!k->choices || !recipe_is_choice(k->choices, text)) return bounded_number(k, text, at, error, to);
        *(double *)to = NAN;
        return true;
    case FLAG: return set_flag(k, to, text, at, error);
    case LIST:
    case WHOLES:
    case NAMES: return set_list(k, to, text, at, error);
    case PATTERNS: return set_patterns(k, to, text, at, error);
    case GROUPS: return set_groups(k, to, text, at, error);
    case PAIRS: return set_pairs(k, to, text, at, error);
    }
    return false;
}

static bool is_section(const char *name) {
    size_t length = strlen(name);
    for (int i = 0; i < RECIPE_KEY_COUNT; i++)
        if (!strncmp(recipe_rows[i].path, name, length) && recipe_rows[i].path[length] == '.') return true;
    return false;
}

/* The keys of all sections that are called `name`, as "optimizer.lr"; how many. */
static int find_in_sections(const char *name, char *out, size_t size) {
    int count = 0;
    *out = '\0';
    for (int i = 0; i < RECIPE_KEY_COUNT; i++) {
        const char *dot = strchr(recipe_rows[i].path, '.');
        if (!dot || strcmp(dot + 1, name)) continue;
        const size_t used = strlen(out);
        snprintf(out + used, size - used, "%s\"%s\"", count++ ? " or " : "", recipe_rows[i].path);
    }
    return count;
}

static const recipe_row *find_key(const char *path, recipe_place at, char *error) {
    const char *paths[RECIPE_KEY_COUNT];
    char elsewhere[256];
    for (int i = 0; i < RECIPE_KEY_COUNT; i++) {
        if (!strcmp(recipe_rows[i].path, path)) return &recipe_rows[i];
        paths[i] = recipe_rows[i].path;
    }
    const char *nearest = tcc_nearest(path, paths, RECIPE_KEY_COUNT);
    if (is_section(path)) recipe_fail(error, at, "%s is a section: a mapping of keys is expected", path);
    else if (find_in_sections(path, elsewhere, sizeof elsewhere))
        recipe_fail(error, at, "unknown key \"%s\"; did you mean %s?", path, elsewhere);
    else if (nearest) recipe_fail(error, at, "unknown key \"%s\"; did you mean \"%s\"?", path, nearest);
    else recipe_fail(error, at, "unknown key \"%s\"", path);
    return NULL;
}

/* -- Life -- */

bool recipe_init(recipe *r) {
    char error[RECIPE_ERROR_MAX];
    memset(r, 0, sizeof *r);
    for (int i = 0; i < RECIPE_KEY_COUNT; i++)
        if (recipe_row_has_default(&recipe_rows[i]) &&
            !set_value(r, &recipe_rows[i], recipe_rows[i].initial, (recipe_place){"defaults", 0}, error))
            return false;
    return true;
}

void recipe_free(recipe *r) {
    for (int i = 0; i < RECIPE_KEY_COUNT; i++) {
        void *value = (char *)r + recipe_rows[i].offset;
        if (recipe_row_is_text(&recipe_rows[i])) free(*(char **)value);
        if (recipe_rows[i].kind == PAIRS) recipe_pairs_free(value);
    }
    free(r->file);
    memset(r, 0, sizeof *r);
}

/* -- YAML: a mapping of sections, each a mapping of keys to scalars or flat lists -- */

enum { MOST_SECTIONS = 16 };

typedef struct reader {
    yaml_items items;
    const yaml_item *item; /* the one just read */
    const char *file;
    char *error;
    char sections[MOST_SECTIONS][64];
    int n_sections;
} reader;

static recipe_place here(const reader *in) { return (recipe_place){in->file, in->item->line}; }

static yaml_item_kind next(reader *in) {
    in->item = yaml_items_next(&in->items);
    return in->item->kind;
}

static bool read_list(reader *in, recipe *r, const recipe_row *k) {
    if (k->kind != LIST && k->kind != WHOLES && k->kind != NAMES && k->kind != PATTERNS)
        return recipe_fail(in->error, here(in), "%s: one value is expected, not a list", k->path);
    void *list = (char *)r + k->offset;
    empty_list(k, list);
    while (next(in) != YAML_ITEM_END) {
        if (in->item->kind != YAML_ITEM_SCALAR)
            return recipe_fail(in->error, here(in), "%s: a list of %s is expected", k->path,
                               k->kind == NAMES      ? "names"
                               : k->kind == PATTERNS ? "patterns"
                                                     : "numbers");
        if (!add_item(k, list, in->item->text, here(in), in->error)) return false;
    }
    return true;
}

/* As the command line has it. */
static bool read_weights(reader *in, recipe *r, const recipe_row *k) {
    char *text = NULL;
    size_t length;
    const recipe_place at = here(in);
    FILE *out = open_memstream(&text, &length);
    if (!out) return recipe_fail(in->error, at, "out of memory");
    bool ok = true;
    for (const char *separator = "["; ok && next(in) != YAML_ITEM_END; separator = ", ") {
        ok = in->item->kind == YAML_ITEM_SCALAR ||
             recipe_fail(in->error, here(in), "%s: a list of numbers is expected", k->path);
        if (ok) fprintf(out, "%s%s", separator, in->item->text);
    }
    fputc(']', out);
    if (fclose(out)) ok = recipe_fail(in->error, at, "out of memory");
    ok = ok && set_value(r, k, text, at, in->error);
    free(text);
    return ok;
}

static bool read_groups(reader *in, recipe *r, const recipe_row *k) {
    char problem[RECIPE_PROBLEM_MAX];
    size_t line;
    if (recipe_groups_read((recipe_groups *)((char *)r + k->offset), &in->items, &line, problem)) return true;
    return recipe_fail(in->error, (recipe_place){in->file, line}, "%s: %s", k->path, problem);
}

static bool read_pairs(reader *in, recipe *r, const recipe_row *k) {
    char problem[RECIPE_PROBLEM_MAX];
    size_t line;
    if (recipe_pairs_read((recipe_pairs *)((char *)r + k->offset), &in->items, &line, problem)) return true;
    return recipe_fail(in->error, (recipe_place){in->file, line}, "%s: %s", k->path, problem);
}

/* YAML's null: nothing, null, Null, NULL or ~ without quotes. */
static bool is_null(const reader *in) {
    return in->item->plain && (!*in->item->text || recipe_is_choice("null|Null|NULL|~", in->item->text));
}

/* The value of a key that stands alone (not a section). */
static bool read_value(reader *in, recipe *r, const recipe_row *k) {
    if (in->item->kind == YAML_ITEM_LIST && k->kind == WEIGHTS) return read_weights(in, r, k);
    if (in->item->kind == YAML_ITEM_LIST) return k->kind == GROUPS ? read_groups(in, r, k) : read_list(in, r, k);
    if (in->item->kind == YAML_ITEM_MAPPING && k->kind == PAIRS) return read_pairs(in, r, k);
    if (in->item->kind != YAML_ITEM_SCALAR) return recipe_fail(in->error, here(in), "%s: a value is expected", k->path);
    if (is_null(in))
        return recipe_fail(in->error, here(in), "%s: null is no value; leave the key out for its default", k->path);
    return set_value(r, k, in->item->text, here(in), in->error);
}

/* Whether the text has had a section of this name; remembers it. */
static bool had_section(reader *in, const char *name) {
    for (int i = 0; i < in->n_sections; i++)
        if (!strcmp(in->sections[i], name)) return true;
    if (in->n_sections < MOST_SECTIONS) snprintf(in->sections[in->n_sections++], sizeof in->sections[0], "%.63s", name);
    return false;
}

/* A mapping's entries until its end; `section` is NULL at the top. */
static bool read_mapping(reader *in, recipe *r, const char *section) {
    char path[256];
    while (next(in) != YAML_ITEM_END) {
        if (in->item->kind != YAML_ITEM_SCALAR) return recipe_fail(in->error, here(in), "a key is expected");
        if (section) snprintf(path, sizeof path, "%s.%s", section, in->item->text);
        else snprintf(path, sizeof path, "%s", in->item->text);
        recipe_place at = here(in);
        if (next(in) == YAML_ITEM_MAPPING && (!section || is_section(path))) {
            char name[256];
            memcpy(name, path, sizeof name);
            if (had_section(in, name)) return recipe_fail(in->error, at, "section %s is given twice", name);
            if (!read_mapping(in, r, name)) return false;
            continue;
        }
        const recipe_row *k = find_key(path, at, in->error);
        if (!k) return false;
        if (r->given[k - recipe_rows]) return recipe_fail(in->error, at, "%s is given twice", path);
        r->given[k - recipe_rows] = (int)at.line;
        if (!read_value(in, r, k)) return false;
    }
    return true;
}

bool recipe_parse(recipe *r, const char *text, size_t length, const char *file, char error[RECIPE_ERROR_MAX]) {
    if (!set_string(&r->file, file)) return recipe_fail(error, (recipe_place){file, 0}, "out of memory");
    char problem[RECIPE_PROBLEM_MAX];
    size_t line;
    reader in = {.file = file, .error = error};
    bool ok = yaml_items_read(&in.items, text, length, &line, problem) ||
              recipe_fail(error, (recipe_place){file, line}, "%s", problem);
    if (ok && next(&in) != YAML_ITEM_MAPPING)
        ok = recipe_fail(error, here(&in), "a recipe is a mapping of sections: model, data, ...");
    ok = ok && read_mapping(&in, r, NULL);
    yaml_items_free(&in.items);
    return ok;
}

/* Keys of which one may be given. */
static const char *const either[][2] = {{"training.max_steps", "training.max_epochs"},
                                        {"data.val_path", "data.val_split"}};

bool recipe_reset(recipe *r, int i, char *error) {
    r->given[i] = 0;
    if (recipe_row_has_default(&recipe_rows[i]))
        return set_value(r, &recipe_rows[i], recipe_rows[i].initial, (recipe_place){"defaults", 0}, error);
    return set_string((char **)((char *)r + recipe_rows[i].offset), NULL);
}

/* What the command line says replaces what the recipe says otherwise; a 0 says nothing. */
static bool replace_contradicted(recipe *r, const recipe_row *k, char *error) {
    const bool is_zero = k->kind == INTEGER && !*(const int64_t *)((const char *)r + k->offset);
    for (size_t i = 0; i < sizeof either / sizeof either[0] && !is_zero; i++)
        for (int side = 0; side < 2; side++) {
            const int other = recipe_key_index(either[i][!side]);
            if (!strcmp(k->path, either[i][side]) && r->given[other] > 0 && !recipe_reset(r, other, error))
                return false;
        }
    return true;
}

bool recipe_override(recipe *r, const char *assignment, char error[RECIPE_ERROR_MAX]) {
    const recipe_place at = {"command line", 0};
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return recipe_fail(error, at, "\"%s\" is not of the form key.path=value", assignment);
    char path[256];
    snprintf(path, sizeof path, "%.*s", (int)(equals - assignment), assignment);
    const recipe_row *k = find_key(path, at, error);
    if (!k || !set_value(r, k, equals + 1, at, error)) return false;
    r->given[k - recipe_rows] = RECIPE_OVERRIDDEN;
    return replace_contradicted(r, k, error);
}
