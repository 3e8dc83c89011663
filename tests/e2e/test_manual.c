/* SPDX-License-Identifier: MIT
 * The manual pages name every option that --help names, every key of a recipe and what it may be, and nothing else. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "recipe_rules.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* A manual page without the backslashes before its dashes. From malloc. */
static char *read_page(const char *program) {
    char path[4200], *text;
    const bool made = !strcmp(program, "tcc-train"); /* with the keys of recipe.def */
    snprintf(path, sizeof path, "%s/tools/man/%s.1%s", TCC_SOURCE_DIR, program, made ? ".in" : "");
    if (made) {
        program_result r = program_run(NULL, "recipe-pages", (const char *const[]){"man", path, NULL});
        assert_int_equal(r.status, 0);
        text = strdup(r.out);
        program_free(&r);
    } else {
        text = test_read(path, NULL);
    }
    char *to = text;
    for (const char *from = text; *from; from++)
        if (*from != '\\' || from[1] != '-') *to++ = *from;
    *to = '\0';
    return text;
}

static bool has_word(const char *text, const char *word, size_t length) {
    for (const char *at = text; (at = memmem(at, strlen(at), word, length)); at += length)
        if (!isalnum((unsigned char)at[length]) && at[length] != '-' && at[length] != '_') return true;
    return false;
}

static void check_options(const char *program) {
    program_result r = program_run(NULL, program, (const char *const[]){"--help", NULL});
    char *page = read_page(program);
    int found = 0;
    assert_int_equal(r.status, 0);
    for (const char *at = r.out; (at = strstr(at, "--")); at++) {
        const size_t length = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
        if (!islower((unsigned char)at[2]) || (at > r.out && at[-1] == '-')) continue;
        if (!has_word(page, at, length)) fail_msg("%s(1) does not name %.*s", program, (int)length, at);
        found++;
    }
    assert_true(found > 15);
    free(page);
    program_free(&r);
}

/* What a page says of options and keys is still so: `is_known` knows each word that begins as one. */
static void check_words(const char *program, const char *begin, const char *letters, bool (*is_known)(const char *)) {
    char *page = read_page(program), word[128];
    int found = 0;
    for (const char *at = page; (at = strstr(at, begin)); at += strlen(begin)) {
        if (at > page && (isalnum((unsigned char)at[-1]) || strchr("-._", at[-1]))) continue;
        size_t length = strlen(begin) + strspn(at + strlen(begin), letters);
        while (at[length - 1] == '.') length--;
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (length <= strlen(begin)) continue;
        if (!is_known(word)) fail_msg("%s(1) names %s, which there is not", program, word);
        found++;
    }
    assert_true(found > 0);
    free(page);
}

static char *helps; /* of all programs */

static bool is_option(const char *word) { return has_word(helps, word, strlen(word)); }

/* model.safetensors is a file, not a key. */
static bool is_key(const char *word) {
    const char *dot = strrchr(word, '.');
    if (!strcmp(dot, ".safetensors") || !strcmp(dot, ".json")) return true;
    for (int i = 0; recipe_key(i); i++)
        if (!strcmp(recipe_key(i), word)) return true;
    return false;
}

static void nothing_else(void **state) {
    (void)state;
    static const char *const sections[] = {"model.", "data.", "optimizer.", "schedule.", "training.", "sample."};
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_.";
    program_result of[] = {program_run(NULL, "tcc-train", (const char *const[]){"--help", NULL}),
                           program_run(NULL, "tcc-train", (const char *const[]){"tokenize", "--help", NULL}),
                           program_run(NULL, "tcc-train", (const char *const[]){"report", "--help", NULL}),
                           program_run(NULL, "tcc-opt", (const char *const[]){"--help", NULL})};
    assert_true(asprintf(&helps, "%s%s%s%s", of[0].out, of[1].out, of[2].out, of[3].out) > 0);
    check_words("tcc-train", "--", "abcdefghijklmnopqrstuvwxyz-", is_option);
    check_words("tcc-opt", "--", "abcdefghijklmnopqrstuvwxyz-", is_option);
    for (int i = 0; i < 6; i++) check_words("tcc-train", sections[i], letters, is_key);
    for (int i = 0; i < 4; i++) program_free(&of[i]);
    free(helps);
}

static void options(void **state) {
    (void)state;
    check_options("tcc-train");
    check_options("tcc-opt");
}

static void keys(void **state) {
    (void)state;
    char *page = read_page("tcc-train");
    for (int i = 0; recipe_key(i); i++) {
        if (!has_word(page, recipe_key(i), strlen(recipe_key(i))))
            fail_msg("tcc-train(1) does not name the key %s", recipe_key(i));
        const char *values = recipe_key_values(i);
        for (const char *v = values; v && *v && *v != ':'; v += strcspn(v, "|"), v += *v == '|') {
            const size_t length = strcspn(v, "|");
            if (isalnum((unsigned char)*v) && !has_word(page, v, length))
                fail_msg("tcc-train(1) does not say that %s may be %.*s", recipe_key(i), (int)length, v);
        }
    }
    free(page);
}

/* The schema for editors has each key in the place that its path says, and what it may be. */
static void schema(void **state) {
    (void)state;
    program_result r = program_run(NULL, "recipe-pages", (const char *const[]){"schema", NULL});
    assert_int_equal(r.status, 0);
    cJSON *all = cJSON_Parse(r.out);
    for (int i = 0; recipe_key(i); i++) {
        const cJSON *at = all;
        char path[128], *rest = path;
        snprintf(path, sizeof path, "%s", recipe_key(i));
        for (const char *name; (name = strsep(&rest, "."));)
            at = cJSON_GetObjectItem(cJSON_GetObjectItem(at, "properties"), name);
        if (!cJSON_GetObjectItem(at, "description")) fail_msg("the schema has no %s", recipe_key(i));
        const cJSON *items = cJSON_GetObjectItem(at, "items"),
                    *choices = cJSON_GetObjectItem(items ? items : at, "enum");
        for (const cJSON *c = choices ? choices->child : NULL; c; c = c->next)
            assert_true(recipe_is_choice(recipe_key_values(i), c->valuestring));
    }
    cJSON_Delete(all);
    program_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(options), cmocka_unit_test(keys),
                                       cmocka_unit_test(nothing_else), cmocka_unit_test(schema)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
