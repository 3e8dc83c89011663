/* SPDX-License-Identifier: MIT
 * Recipes: one table of keys, read from YAML by libyaml and from the command line by the same code. */
#include "train_recipe.h"
#include "eval_metrics.h"
#include "recipe_kind.h"
#include "recipe_paths.h"
#include "recipe_rules.h"
#include "recipe_weights.h"

#include <traincc/model.h>
#include <traincc/nearest.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A key: where its value goes, its default, and what it may be. */
typedef struct key {
    const char *path;
    recipe_kind kind;
    size_t offset;
    const char *initial;         /* default, as it would be written; NULL: none; "": it must be given */
    const char *choices;         /* CHOICE, NAMES: "a|b|c"; NUMBER, INTEGER: another value, NaN or 0 */
    double least, most;          /* INTEGER, NUMBER, elements of LIST and, whole numbers, of WHOLES */
    const char *(*listed)(void); /* CHOICE: the choices, where the library knows them */
} key;

#define NONE NULL
#define REQUIRED ""
#define ANY NULL, 0, 0, NULL
#define ONE_OF(choices) choices, 0, 0, NULL
#define RANGE(least, most) NULL, least, most, NULL
#define OR(word, least, most) word, least, most, NULL
#define LISTED(list) NULL, 0, 0, list

static const key keys[] = {
#define RECIPE_SECTION(name)
#define RECIPE_END(name)
#define RECIPE_KEY(in, name, type, initial, values, ...) {#in #name, type, offsetof(recipe, in name), initial, values},
#include "recipe.def"
};
enum { KEY_COUNT = RECIPE_KEY_COUNT };

static const char *choices_of(const key *k) { return k->listed ? k->listed() : k->choices; }

static bool has_default(const key *k) { return k->initial && *k->initial; }

static bool is_text(const key *k) { return k->kind <= WEIGHTS; }

/* -- Messages: "recipe.yaml:12: ..." or "command line: ..." -- */

typedef struct place {
    const char *file;
    size_t line; /* 0: no line */
} place;

__attribute__((format(printf, 3, 4))) static bool fail(char *error, place at, const char *format, ...) {
    size_t used = at.line ? (size_t)snprintf(error, RECIPE_ERROR_MAX, "%s:%zu: ", at.file, at.line)
                          : (size_t)snprintf(error, RECIPE_ERROR_MAX, "%s: ", at.file);
    if (used >= RECIPE_ERROR_MAX) return false;
    va_list args;
    va_start(args, format);
    vsnprintf(error + used, RECIPE_ERROR_MAX - used, format, args);
    va_end(args);
    return false;
}

/* -- Values -- */

static bool set_string(char **to, const char *value) {
    char *copy = value ? strdup(value) : NULL;
    if (value && !copy) return false;
    free(*to);
    *to = copy;
    return true;
}

bool recipe_is_choice(const char *choices, const char *value) {
    size_t length = strlen(value);
    for (const char *c = choices; *c; c += strcspn(c, "|"), c += *c == '|')
        if (strcspn(c, "|") == length && !memcmp(c, value, length)) return true;
    return false;
}

static bool parse_number(const char *text, double *out) {
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out) && !errno;
}

/* A number of key k within its bounds. */
static bool bounded_number(const key *k, const char *text, place at, char *error, double *out) {
    if (!parse_number(text, out)) return fail(error, at, "%s: \"%s\" is not a number", k->path, text);
    if ((k->kind == INTEGER || k->kind == WHOLES) && *out != floor(*out))
        return fail(error, at, "%s: must be a whole number, not %s", k->path, text);
    if (*out < k->least || *out > k->most)
        return fail(error, at, "%s: must be from %.15g to %.15g, not %s", k->path, k->least, k->most, text);
    return true;
}

static bool set_flag(const key *k, bool *to, const char *text, place at, char *error) {
    static const char *const yes[] = {"true", "True", "yes", "on"}, *const no[] = {"false", "False", "no", "off"};
    for (int i = 0; i < 4; i++) {
        if (!strcmp(text, yes[i])) return *to = true, true;
        if (!strcmp(text, no[i])) return *to = false, true;
    }
    return fail(error, at, "%s: must be true or false, not \"%s\"", k->path, text);
}

static bool add_to_list(const key *k, recipe_list *list, const char *text, place at, char *error) {
    double x;
    if (!bounded_number(k, text, at, error, &x)) return false;
    if (list->count == RECIPE_LIST_MAX) return fail(error, at, "%s: more than %d values", k->path, RECIPE_LIST_MAX);
    list->v[list->count++] = x;
    return true;
}

/* The bit of a name among k's choices. */
static bool add_name(const key *k, unsigned *set, const char *text, place at, char *error) {
    unsigned bit = 1;
    if (!recipe_is_choice(k->choices, text))
        return fail(error, at, "%s: \"%s\" is none of %s", k->path, text, k->choices);
    for (const char *c = k->choices; strncmp(c, text, strlen(text)) || (c[strlen(text)] && c[strlen(text)] != '|');)
        c += strcspn(c, "|") + 1, bit <<= 1;
    *set |= bit;
    return true;
}

static bool add_item(const key *k, void *to, const char *text, place at, char *error) {
    char problem[RECIPE_PROBLEM_MAX] = "";
    if (k->kind == PATTERNS)
        return recipe_patterns_add(to, text, problem) || fail(error, at, "%s: %s", k->path, problem);
    return k->kind == NAMES ? add_name(k, to, text, at, error) : add_to_list(k, to, text, at, error);
}

static void empty_list(const key *k, void *to) {
    if (k->kind == NAMES) *(unsigned *)to = 0;
    else if (k->kind == PATTERNS) ((recipe_patterns *)to)->count = 0;
    else ((recipe_list *)to)->count = 0;
}

/* "[1, 2]", also without brackets. */
static bool set_list(const key *k, void *to, const char *text, place at, char *error) {
    static const char blanks[] = " \t";
    empty_list(k, to);
    const char *c = text + strspn(text, blanks), *end = text + strlen(text);
    while (end > c && strchr(blanks, end[-1])) end--;
    const bool opens = c < end && *c == '[', closes = end > c && end[-1] == ']';
    if (opens != closes) return fail(error, at, "%s: \"%s\" is no list as [1, 2]", k->path, text);
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
            return fail(error, at, "%s: \"%s\" is no list as [1, 2]", k->path, text);
        snprintf(item, sizeof item, "%.*s", (int)length, c);
        if (!add_item(k, to, item, at, error)) return false;
        c = after + 1;
    }
    return true;
}

static bool set_groups(const key *k, recipe_groups *to, const char *text, place at, char *error) {
    char problem[RECIPE_PROBLEM_MAX] = "";
    return recipe_groups_parse(to, text, problem) || fail(error, at, "%s: %s", k->path, problem);
}

static bool set_patterns(const key *k, recipe_patterns *to, const char *text, place at, char *error) {
    char problem[RECIPE_PROBLEM_MAX] = "";
    return recipe_patterns_parse(to, text, problem) || fail(error, at, "%s: %s", k->path, problem);
}

/* What a file says may lie beside it. */
static bool set_path(const recipe *r, const key *k, char **to, const char *text, place at, char *error) {
    char problem[RECIPE_PROBLEM_MAX];
    char *path = recipe_path_read(text, at.line ? r->file : NULL, problem);
    if (!path) return fail(error, at, "%s: %s", k->path, problem);
    free(*to);
    *to = path;
    return true;
}

/* A text that a recipe can hold. */
static bool set_text(const key *k, char **to, const char *text, place at, char *error) {
    if (!yaml_can_hold(text)) return fail(error, at, "%s: the value is not UTF-8", k->path);
    return set_string(to, text) || fail(error, at, "out of memory");
}

static bool set_weights(const key *k, char **to, const char *text, place at, char *error) {
    if (recipe_is_choice(k->choices, text)) return set_string(to, text) || fail(error, at, "out of memory");
    char *list = recipe_weights_text(text);
    if (!list)
        return fail(error, at, "%s: \"%s\" is neither %s nor a list of numbers from 0 to 1e6, as [1, 2.5]", k->path,
                    text, k->choices);
    free(*to);
    *to = list;
    return true;
}

static bool set_pairs(const key *k, recipe_pairs *to, const char *text, place at, char *error) {
    char problem[RECIPE_PROBLEM_MAX] = "";
    return recipe_pairs_parse(to, text, problem) || fail(error, at, "%s: %s", k->path, problem);
}

static bool set_value(recipe *r, const key *k, const char *text, place at, char *error) {
    void *to = (char *)r + k->offset;
    double x;
    switch (k->kind) {
    case CHOICE:
        if (!recipe_is_choice(choices_of(k), text))
            return fail(error, at, "%s: \"%s\" is none of %s", k->path, text, choices_of(k));
        /* fall through */
    case STRING: return set_text(k, to, text, at, error);
    case PATH: return set_path(r, k, to, text, at, error);
    case BUDGET:
        if (tcc_is_memory_budget(text)) return set_string(to, text) || fail(error, at, "out of memory");
        return fail(error, at,
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
    for (int i = 0; i < KEY_COUNT; i++)
        if (!strncmp(keys[i].path, name, length) && keys[i].path[length] == '.') return true;
    return false;
}

/* The keys of all sections that are called `name`, as "optimizer.lr"; how many. */
static int find_in_sections(const char *name, char *out, size_t size) {
    int count = 0;
    *out = '\0';
    for (int i = 0; i < KEY_COUNT; i++) {
        const char *dot = strchr(keys[i].path, '.');
        if (!dot || strcmp(dot + 1, name)) continue;
        const size_t used = strlen(out);
        snprintf(out + used, size - used, "%s\"%s\"", count++ ? " or " : "", keys[i].path);
    }
    return count;
}

static const key *find_key(const char *path, place at, char *error) {
    const char *paths[KEY_COUNT];
    char elsewhere[256];
    for (int i = 0; i < KEY_COUNT; i++) {
        if (!strcmp(keys[i].path, path)) return &keys[i];
        paths[i] = keys[i].path;
    }
    const char *nearest = tcc_nearest(path, paths, KEY_COUNT);
    if (is_section(path)) fail(error, at, "%s is a section: a mapping of keys is expected", path);
    else if (find_in_sections(path, elsewhere, sizeof elsewhere))
        fail(error, at, "unknown key \"%s\"; did you mean %s?", path, elsewhere);
    else if (nearest) fail(error, at, "unknown key \"%s\"; did you mean \"%s\"?", path, nearest);
    else fail(error, at, "unknown key \"%s\"", path);
    return NULL;
}

/* -- Life -- */

bool recipe_init(recipe *r) {
    char error[RECIPE_ERROR_MAX];
    memset(r, 0, sizeof *r);
    for (int i = 0; i < KEY_COUNT; i++)
        if (has_default(&keys[i]) && !set_value(r, &keys[i], keys[i].initial, (place){"defaults", 0}, error))
            return false;
    return true;
}

void recipe_free(recipe *r) {
    for (int i = 0; i < KEY_COUNT; i++) {
        void *value = (char *)r + keys[i].offset;
        if (is_text(&keys[i])) free(*(char **)value);
        if (keys[i].kind == PAIRS) recipe_pairs_free(value);
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

static place here(const reader *in) { return (place){in->file, in->item->line}; }

static yaml_item_kind next(reader *in) {
    in->item = yaml_items_next(&in->items);
    return in->item->kind;
}

static bool read_list(reader *in, recipe *r, const key *k) {
    if (k->kind != LIST && k->kind != WHOLES && k->kind != NAMES && k->kind != PATTERNS)
        return fail(in->error, here(in), "%s: one value is expected, not a list", k->path);
    void *list = (char *)r + k->offset;
    empty_list(k, list);
    while (next(in) != YAML_ITEM_END) {
        if (in->item->kind != YAML_ITEM_SCALAR)
            return fail(in->error, here(in), "%s: a list of %s is expected", k->path,
                        k->kind == NAMES      ? "names"
                        : k->kind == PATTERNS ? "patterns"
                                              : "numbers");
        if (!add_item(k, list, in->item->text, here(in), in->error)) return false;
    }
    return true;
}

/* As the command line has it. */
static bool read_weights(reader *in, recipe *r, const key *k) {
    char *text = NULL;
    size_t length;
    const place at = here(in);
    FILE *out = open_memstream(&text, &length);
    if (!out) return fail(in->error, at, "out of memory");
    bool ok = true;
    for (const char *separator = "["; ok && next(in) != YAML_ITEM_END; separator = ", ") {
        ok = in->item->kind == YAML_ITEM_SCALAR ||
             fail(in->error, here(in), "%s: a list of numbers is expected", k->path);
        if (ok) fprintf(out, "%s%s", separator, in->item->text);
    }
    fputc(']', out);
    if (fclose(out)) ok = fail(in->error, at, "out of memory");
    ok = ok && set_value(r, k, text, at, in->error);
    free(text);
    return ok;
}

static bool read_groups(reader *in, recipe *r, const key *k) {
    char problem[RECIPE_PROBLEM_MAX];
    size_t line;
    if (recipe_groups_read((recipe_groups *)((char *)r + k->offset), &in->items, &line, problem)) return true;
    return fail(in->error, (place){in->file, line}, "%s: %s", k->path, problem);
}

static bool read_pairs(reader *in, recipe *r, const key *k) {
    char problem[RECIPE_PROBLEM_MAX];
    size_t line;
    if (recipe_pairs_read((recipe_pairs *)((char *)r + k->offset), &in->items, &line, problem)) return true;
    return fail(in->error, (place){in->file, line}, "%s: %s", k->path, problem);
}

/* YAML's null: nothing, null, Null, NULL or ~ without quotes. */
static bool is_null(const reader *in) {
    return in->item->plain && (!*in->item->text || recipe_is_choice("null|Null|NULL|~", in->item->text));
}

/* The value of a key that stands alone (not a section). */
static bool read_value(reader *in, recipe *r, const key *k) {
    if (in->item->kind == YAML_ITEM_LIST && k->kind == WEIGHTS) return read_weights(in, r, k);
    if (in->item->kind == YAML_ITEM_LIST) return k->kind == GROUPS ? read_groups(in, r, k) : read_list(in, r, k);
    if (in->item->kind == YAML_ITEM_MAPPING && k->kind == PAIRS) return read_pairs(in, r, k);
    if (in->item->kind != YAML_ITEM_SCALAR) return fail(in->error, here(in), "%s: a value is expected", k->path);
    if (is_null(in))
        return fail(in->error, here(in), "%s: null is no value; leave the key out for its default", k->path);
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
        if (in->item->kind != YAML_ITEM_SCALAR) return fail(in->error, here(in), "a key is expected");
        if (section) snprintf(path, sizeof path, "%s.%s", section, in->item->text);
        else snprintf(path, sizeof path, "%s", in->item->text);
        place at = here(in);
        if (next(in) == YAML_ITEM_MAPPING && (!section || is_section(path))) {
            char name[256];
            memcpy(name, path, sizeof name);
            if (had_section(in, name)) return fail(in->error, at, "section %s is given twice", name);
            if (!read_mapping(in, r, name)) return false;
            continue;
        }
        const key *k = find_key(path, at, in->error);
        if (!k) return false;
        if (r->given[k - keys]) return fail(in->error, at, "%s is given twice", path);
        r->given[k - keys] = (int)at.line;
        if (!read_value(in, r, k)) return false;
    }
    return true;
}

bool recipe_parse(recipe *r, const char *text, size_t length, const char *file, char error[RECIPE_ERROR_MAX]) {
    if (!set_string(&r->file, file)) return fail(error, (place){file, 0}, "out of memory");
    char problem[RECIPE_PROBLEM_MAX];
    size_t line;
    reader in = {.file = file, .error = error};
    bool ok = yaml_items_read(&in.items, text, length, &line, problem) ||
              fail(error, (place){file, line}, "%s", problem);
    if (ok && next(&in) != YAML_ITEM_MAPPING)
        ok = fail(error, here(&in), "a recipe is a mapping of sections: model, data, ...");
    ok = ok && read_mapping(&in, r, NULL);
    yaml_items_free(&in.items);
    return ok;
}

/* Keys of which one may be given. */
static const char *const either[][2] = {{"training.max_steps", "training.max_epochs"},
                                        {"data.val_path", "data.val_split"}};

static int key_index(const char *path) {
    int i = 0;
    while (strcmp(keys[i].path, path) != 0) i++;
    return i;
}

static bool reset(recipe *r, int i, char *error) {
    r->given[i] = 0;
    if (has_default(&keys[i])) return set_value(r, &keys[i], keys[i].initial, (place){"defaults", 0}, error);
    return set_string((char **)((char *)r + keys[i].offset), NULL);
}

/* What the command line says replaces what the recipe says otherwise; a 0 says nothing. */
static bool replace_contradicted(recipe *r, const key *k, char *error) {
    const bool is_zero = k->kind == INTEGER && !*(const int64_t *)((const char *)r + k->offset);
    for (size_t i = 0; i < sizeof either / sizeof either[0] && !is_zero; i++)
        for (int side = 0; side < 2; side++) {
            const int other = key_index(either[i][!side]);
            if (!strcmp(k->path, either[i][side]) && r->given[other] > 0 && !reset(r, other, error)) return false;
        }
    return true;
}

bool recipe_override(recipe *r, const char *assignment, char error[RECIPE_ERROR_MAX]) {
    const place at = {"command line", 0};
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment) return fail(error, at, "\"%s\" is not of the form key.path=value", assignment);
    char path[256];
    snprintf(path, sizeof path, "%.*s", (int)(equals - assignment), assignment);
    const key *k = find_key(path, at, error);
    if (!k || !set_value(r, k, equals + 1, at, error)) return false;
    r->given[k - keys] = RECIPE_OVERRIDDEN;
    return replace_contradicted(r, k, error);
}

int64_t recipe_step_samples(const recipe *r) { return r->data.batch_size * r->training.batch_accumulate; }

bool recipe_replays(const recipe *r) { return r->training.compile && strcmp(r->training.compile_mode, "default") != 0; }

tcc_optimizer_kind recipe_optimizer(const recipe *r) { return recipe_optimizer_named(r->optimizer.name); }

/* Defaults that depend on the optimizer. */
static void settle(recipe *r) {
    tcc_optimizer_options o;
    tcc_optimizer_init(&o, recipe_optimizer(r));
    if (isnan(r->optimizer.lr)) r->optimizer.lr = o.lr;
    if (isnan(r->optimizer.eps)) r->optimizer.eps = o.eps;
    if (!strcmp(r->data.kind, "idx") && !r->data.classes) r->data.classes = 10;
    const int given = r->given[key_index("optimizer.betas")];
    if (!r->optimizer.betas.count && (!given || given == RECIPE_LEFT_OUT))
        r->optimizer.betas = (recipe_list){2, {o.beta1, o.beta2}};
}

/* Leaves out a key of the file that does not go with what the command line says for `by`. False where it stays: it is
 * from the command line, too, or `by` is from the file. */
static bool leaves_out(recipe *r, const char *path, const char *by) {
    char error[RECIPE_ERROR_MAX];
    const int i = key_index(path);
    if (r->given[i] <= 0 || r->given[key_index(by)] != RECIPE_OVERRIDDEN || !reset(r, i, error)) return false;
    r->given[i] = RECIPE_LEFT_OUT;
    return true;
}

/* Of groups only the rates that do not go with the optimizer. */
static void cut_groups(recipe *r, bool betas, bool momentum) {
    const int i = key_index("optimizer.groups");
    if (r->given[i] <= 0 || r->given[key_index("optimizer.name")] != RECIPE_OVERRIDDEN) return;
    for (int k = 0; k < r->optimizer.groups.count; k++) {
        recipe_group *g = &r->optimizer.groups.v[k];
        if ((isnan(g->betas[0]) || betas) && (isnan(g->momentum) || momentum)) continue;
        if (!betas) g->betas[0] = g->betas[1] = NAN;
        if (!momentum) g->momentum = NAN;
        r->given[i] = RECIPE_LEFT_OUT;
    }
}

static bool check_groups(recipe *r, place at, char *error) {
    const bool betas = recipe_has(r, "optimizer.betas"), momentum = recipe_has(r, "optimizer.momentum");
    cut_groups(r, betas, momentum);
    if (r->freeze.count + r->optimizer.groups.count > RECIPE_GROUPS_MAX)
        return fail(error, at, "freeze and optimizer.groups: more than %d together", RECIPE_GROUPS_MAX);
    for (int i = 0; i < r->optimizer.groups.count; i++) {
        const recipe_group *g = &r->optimizer.groups.v[i];
        if ((!isnan(g->betas[0]) && !betas) || (!isnan(g->momentum) && !momentum))
            return fail(error, at, "optimizer.groups: %s: %s does not apply to optimizer.name %s", g->match,
                        momentum || isnan(g->momentum) ? "betas" : "momentum", r->optimizer.name);
        if (!isnan(g->lr) && r->optimizer.lr == 0)
            return fail(error, at,
                        "optimizer.groups: %s: lr is what it has where the schedule gives optimizer.lr, which "
                        "is 0",
                        g->match);
    }
    return true;
}

/* What goes by classes is nothing where numbers are predicted. */
static bool check_classes(recipe *r, place at, char *error) {
    const bool weighted = strcmp(r->training.class_weights, "none"), smoothed = r->training.label_smoothing > 0;
    if (weighted && r->data.regression && !leaves_out(r, "training.class_weights", "data.regression"))
        return fail(error, at, "training.class_weights: with data.regression there are no classes");
    if (smoothed && r->data.regression && !leaves_out(r, "training.label_smoothing", "data.regression"))
        return fail(error, at, "training.label_smoothing: with data.regression there are no classes");
    return true;
}

/* Metrics that cannot be had for this model. */
static bool check_metrics(recipe *r, place at, char *error) {
    const bool language = !strcmp(r->model.name, "gpt");
    const struct {
        const char *key;
        unsigned set;
    } asked[] = {{"training.metrics", r->training.metrics},
                 {"training.best_metric", 1u << eval_find(r->training.best_metric)},
                 {"training.early_stopping.metric", 1u << eval_find(r->training.early_stopping.metric)}};
    if (r->training.early_stopping.patience && !r->training.eval_every &&
        !leaves_out(r, "training.early_stopping.patience", "training.eval_every"))
        return fail(error, at, "training.early_stopping.patience needs training.eval_every");
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++)
        for (int m = EVAL_ACCURACY; m < EVAL_METRICS; m++) {
            if (!(asked[i].set >> m & 1)) continue;
            if (r->data.regression && leaves_out(r, asked[i].key, "data.regression")) break;
            if (r->data.regression)
                return fail(error, at, "%s: with data.regression there is only the loss", asked[i].key);
            if (language && eval_needs_confusion((eval_metric)m))
                return fail(error, at, "%s: f1 and IoU are of classes, not of a language model's tokens", asked[i].key);
        }
    return true;
}

bool recipe_check(recipe *r, char error[RECIPE_ERROR_MAX]) {
    const place at = {r->file, 0};
    for (int i = 0; i < KEY_COUNT; i++) {
        const char *const *value = (const char *const *)((const char *)r + keys[i].offset);
        const bool required = keys[i].initial && !*keys[i].initial && recipe_applies(r, i);
        if (required && !*value)
            return fail(error, at, "%s is missing%s%s", keys[i].path,
                        keys[i].kind == CHOICE ? "; one of "
                                               : "; give it in the recipe or on the command line, KEY=VALUE",
                        keys[i].kind == CHOICE ? choices_of(&keys[i]) : "");
    }
    if (!recipe_check_applies(r, error)) return false;
    bool left_out[KEY_COUNT]; /* such a key has no value of its own; it may be what others go by */
    for (int i = 0; i < KEY_COUNT; i++) left_out[i] = r->given[i] > 0 && !recipe_applies(r, i);
    for (int i = 0; i < KEY_COUNT; i++) {
        if (left_out[i] && !reset(r, i, error)) return false;
        if (left_out[i]) r->given[i] = RECIPE_LEFT_OUT;
    }
    settle(r);
    if (!check_groups(r, at, error) || !check_metrics(r, at, error) || !check_classes(r, at, error)) return false;
    bool language = !strcmp(r->data.kind, "text") || !strcmp(r->data.kind, "tokens");
    bool classified = !strcmp(r->data.kind, "text_classes"), pixels = !strcmp(r->data.kind, "segmentation");
    if (language != !strcmp(r->model.name, "gpt") || classified != recipe_is_choice("distilbert|bert", r->model.name) ||
        pixels != recipe_is_choice(PIXEL_MODELS, r->model.name))
        return fail(error, at, "model.name %s cannot be trained on data.kind %s", r->model.name, r->data.kind);
    if (r->loss.weights.count > 4)
        return fail(error, at, "loss.weights has %d values; networks have up to 4 heads", r->loss.weights.count);
    if (classified && r->data.max_length > r->model.context)
        return fail(error, at, "data.max_length %lld is more than model.context %lld", (long long)r->data.max_length,
                    (long long)r->model.context);
    if ((language || classified) && r->model.width % r->model.heads)
        return fail(error, at, "model.width %lld is not a multiple of model.heads %lld", (long long)r->model.width,
                    (long long)r->model.heads);
    if (!r->training.max_steps == !r->training.max_epochs)
        return fail(error, at, "give one of training.max_steps and training.max_epochs");
    if (r->optimizer.betas.count != 2)
        return fail(error, at, "optimizer.betas must have 2 values, not %d", r->optimizer.betas.count);
    if (!strcmp(r->training.checkpointing, "none") && !recipe_is_choice("none|auto", r->training.memory_budget) &&
        !leaves_out(r, "training.memory_budget", "training.checkpointing"))
        return fail(error, at,
                    "training.memory_budget %s with training.checkpointing none: then nothing may be computed again to "
                    "meet it; make checkpointing auto, or leave the budget out",
                    r->training.memory_budget);
    for (int i = 1; i < r->schedule.milestones.count; i++)
        if (r->schedule.milestones.v[i] < r->schedule.milestones.v[i - 1])
            return fail(error, at, "schedule.milestones must ascend, but %.15g comes after %.15g",
                        r->schedule.milestones.v[i], r->schedule.milestones.v[i - 1]);
    if (r->training.ema_warmup && r->training.ema_decay == 0 &&
        !leaves_out(r, "training.ema_warmup", "training.ema_decay"))
        return fail(error, at, "training.ema_warmup needs a training.ema_decay above 0");
    if ((r->training.ema_buffers && r->training.ema_decay == 0 &&
         !leaves_out(r, "training.ema_buffers", "training.ema_decay")) ||
        (r->training.ema_ramp > 0 && r->training.ema_decay == 0 &&
         !leaves_out(r, "training.ema_ramp", "training.ema_decay")))
        return fail(error, at, "training.ema_buffers and training.ema_ramp need a training.ema_decay above 0");
    if (r->training.ema_ramp > 0 && r->training.ema_warmup)
        return fail(error, at, "give one of training.ema_ramp and training.ema_warmup");
    if (r->schedule.warmup_steps && r->schedule.warmup_epochs)
        return fail(error, at, "give one of schedule.warmup_steps and schedule.warmup_epochs");
    if (r->data.val_size.count != 0 && r->data.val_size.count != 2)
        return fail(error, at, "data.val_size is [height, width]; it has %d values", r->data.val_size.count);
    if (r->data.fill.count != 0 && r->data.fill.count != 1 && r->data.fill.count != 3)
        return fail(error, at, "data.fill is a grey or [red, green, blue]; it has %d values", r->data.fill.count);
    if (r->data.mean.count != r->data.std.count)
        return fail(error, at, "data.mean and data.std must have as many values");
    if (r->data.size.count != 0 && r->data.size.count != 2)
        return fail(error, at, "data.size is [height, width]; it has %d values", r->data.size.count);
    if (r->data.scale.count != 0 && r->data.scale.count != 2)
        return fail(error, at, "data.scale is [least, most]; it has %d values", r->data.scale.count);
    if (r->data.jitter.count != 0 && r->data.jitter.count != 3)
        return fail(error, at, "data.jitter is [brightness, contrast, saturation]; it has %d values",
                    r->data.jitter.count);
    if (r->data.token_bytes == 3) return fail(error, at, "data.token_bytes must be 2 or 4");
    if (r->data.mean.count > 3) return fail(error, at, "data.mean and data.std have at most 3 values, one a channel");
    return true;
}

/* -- Printing -- */

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

static void print_value(const recipe *r, const key *k, FILE *out) {
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

const char *recipe_key(int index) { return index >= 0 && index < KEY_COUNT ? keys[index].path : NULL; }

const char *recipe_key_values(int index) {
    switch (keys[index].kind) {
    case PATH: return ":files";
    case FLAG: return "true|false";
    case BUDGET: return "auto|min|none";
    default: return choices_of(&keys[index]);
    }
}

const char *recipe_choice(const recipe *r, int index) {
    return *(const char *const *)((const char *)r + keys[index].offset);
}

bool recipe_print_value(const recipe *r, int index, FILE *out) {
    const key *k = &keys[index];
    if (is_text(k) && !*(char *const *)((const char *)r + k->offset)) return false;
    print_value(r, k, out);
    return true;
}

void recipe_print_key(const recipe *r, int index, char section[64], FILE *out) {
    const key *k = &keys[index];
    if ((is_text(k) && !*(char *const *)((const char *)r + k->offset)) || !recipe_applies(r, index)) return;
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
    for (int i = 0; i < KEY_COUNT; i++) recipe_print_key(r, i, section, out);
    return !ferror(out);
}
