/* SPDX-License-Identifier: MIT
 * Recipes as people write them: with anchors, aliases, merge keys and paths in short. */
#include "harness/check.h"
#include "harness/files.h"
#include "train_recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char head[] = "model: {name: mlp, hidden: [8]}\n";

static recipe reads(const char *text, const char *file) {
    recipe r;
    char error[RECIPE_ERROR_MAX], whole[4096];
    snprintf(whole, sizeof whole, "%s%s", head, text);
    assert_true(recipe_init(&r));
    if (!recipe_parse(&r, whole, strlen(whole), file, error)) fail_msg("%s\n%s", error, whole);
    return r;
}

static void refuses(const char *text, const char *message) {
    recipe r;
    char error[RECIPE_ERROR_MAX] = "";
    assert_true(recipe_init(&r));
    if (recipe_parse(&r, text, strlen(text), "r.yaml", error)) fail_msg("accepted: %s", text);
    if (!strstr(error, message)) fail_msg("\"%s\" does not say \"%s\"", error, message);
    recipe_free(&r);
}

static void aliases_stand_for_what_they_name(void **state) {
    (void)state;
    recipe r = reads("data: {kind: csv, path: d.csv, batch_size: &n 2, mean: &m [1, 2], std: *m}\n"
                     "optimizer: {groups: [&g {match: a, lr: 0.5}, *g]}\n"
                     "training: {max_steps: *n}\n",
                     "r.yaml");
    assert_int_equal(r.training.max_steps, 2);
    assert_true(r.data.std.count == 2 && r.data.std.v[1] == 2);
    assert_true(r.optimizer.groups.count == 2 && r.optimizer.groups.v[1].lr == 0.5);
    recipe_free(&r);
}

/* A mapping's own keys, wherever they stand, and of what it merges the first. */
static void merges_what_is_not_given(void **state) {
    (void)state;
    recipe r = reads("x-short: &short {max_steps: 3, seed: 5, log_every: 7}\n"
                     "x-often: &often {log_every: 1, eval_every: 2, seed: 6}\n"
                     "x-both: &both {<<: [*short, *often], keep_last: 9}\n"
                     "training: {<<: *both, max_steps: 4}\n",
                     "r.yaml");
    assert_int_equal(r.training.max_steps, 4);
    assert_int_equal(r.training.seed, 5);
    assert_int_equal(r.training.log_every, 7);
    assert_int_equal(r.training.eval_every, 2);
    assert_int_equal(r.training.keep_last, 9);
    recipe_free(&r);
    refuses("optimizer: &o {name: sgd}\ntraining: {<<: *o}\n", "unknown key \"training.name\"");
    refuses("training: {seed: 1, seed: 2}\n", "training.seed is given twice");
    refuses("training: {<<: 3}\n", "r.yaml:1: <<: a mapping, or a list of some, is expected");
    refuses("training: {\"<<\": {seed: 1}}\n", "unknown key \"training.<<\"");
}

static void aliases_have_bounds(void **state) {
    (void)state;
    char text[8192] = "x-a0: &a0 [1, 2]\n";
    refuses("training: {seed: *nothing}\n", "r.yaml:1: malformed YAML: found undefined alias");
    refuses("x: &x [*x]\n", "an alias stands in what it names");
    refuses("training: &t {<<: *t}\n", "<<: is merged into itself");
    for (int i = 1; i < 40; i++) /* 2^40 values, and as many mappings to merge */
        snprintf(text + strlen(text), sizeof text - strlen(text), "x-a%d: &a%d [*a%d, *a%d]\n", i, i, i - 1, i - 1);
    strcat(text, "data: {mean: *a39}\n");
    refuses(text, "an alias stands in what it names, or lists are too deep");
    strcpy(strstr(text, "data:"), "data: {mean: *a25}\n");
    refuses(text, "aliases make more than 131072 values of it");
    strcpy(text, "x-a0: &a0 {seed: 1}\n");
    for (int i = 1; i < 25; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "x-a%d: &a%d [*a%d, *a%d]\n", i, i, i - 1, i - 1);
    strcat(text, "training: {<<: *a24}\n");
    refuses(text, "<<: is merged into itself, or too often");
}

/* They are printed as they were read, and read again as they were printed. */
static void mappings_of_names(void **state) {
    (void)state;
    recipe r = reads("data: {kind: csv, path: d.csv, columns: {age: number, \"a: b\": drop}}\n", "r.yaml");
    char error[RECIPE_ERROR_MAX], *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    int key = 0;
    while (strcmp(recipe_key(key), "data.columns")) key++;
    assert_true(recipe_print_value(&r, key, out));
    fclose(out);
    assert_string_equal(text, "{\"age\": \"number\", \"a: b\": \"drop\"}");
    free(text);
    assert_true(recipe_override(&r, "data.columns={city: category}", error));
    assert_int_equal(r.data.columns.count, 1);
    assert_string_equal(r.data.columns.v[0].value, "category");
    assert_false(recipe_override(&r, "data.columns=age", error));
    assert_non_null(strstr(error, "data.columns: \"age\" is no mapping"));
    recipe_free(&r);
    refuses("data: {columns: {a: number, a: drop}}\n", "r.yaml:1: data.columns: a is given twice");
    refuses("data: {columns: {a: [1]}}\n", "data.columns: a: one value is expected");
}

static void paths_in_short(void **state) {
    char text[512], file[4200], there[4300], error[RECIPE_ERROR_MAX], *printed = NULL;
    size_t length;
    setenv("HOME", "/home/somebody", 1);
    setenv("TCC_TEST_DATA", "sets/one", 1);
    unsetenv("TCC_TEST_NONE");
    recipe r = reads("data: {path: ~/a.csv, val_path: \"/x/${TCC_TEST_DATA}/$b\"}\ninit_from: a~b\n", "r.yaml");
    assert_string_equal(r.data.path, "/home/somebody/a.csv");
    assert_string_equal(r.data.val_path, "/x/sets/one/$b");
    assert_string_equal(r.init_from, "a~b");
    assert_true(recipe_override(&r, "data.path=~/b.csv", error));
    assert_string_equal(r.data.path, "/home/somebody/b.csv");
    assert_false(recipe_override(&r, "data.path=${TCC_TEST_NONE}/b", error));
    assert_non_null(strstr(error, "data.path: \"${TCC_TEST_NONE}/b\": the variable TCC_TEST_NONE is not set"));
    assert_false(recipe_override(&r, "data.path=a\xff", error));
    assert_non_null(strstr(error, "data.path: the path is not UTF-8"));
    setenv("TCC_TEST_NONE", "", 1);
    assert_false(recipe_override(&r, "init_from=${TCC_TEST_NONE}", error));
    assert_non_null(strstr(error, "init_from: the path is empty; leave out a key that has none"));
    assert_false(recipe_override(&r, "data.label=a\xff", error));
    assert_non_null(strstr(error, "data.label: the value is not UTF-8"));
    recipe_free(&r);

    /* Beside the recipe, unless it is there from here. Printed, it is the same from anywhere. */
    snprintf(file, sizeof file, "%s", test_write_text(state, "conf/r.yaml", ""));
    test_write_text(state, "conf/d.csv", "");
    snprintf(text, sizeof text, "data: {path: d.csv, val_path: nowhere.csv}\n");
    r = reads(text, file);
    snprintf(there, sizeof there, "%s/conf/d.csv", (char *)*state);
    assert_string_equal(r.data.path, there);
    assert_string_equal(r.data.val_path, "nowhere.csv");
    FILE *out = open_memstream(&printed, &length);
    char *here = getcwd(NULL, 0);
    assert_true(recipe_print(&r, out));
    fclose(out);
    snprintf(there, sizeof there, "val_path: \"%s/nowhere.csv\"", here);
    assert_non_null(strstr(printed, there));
    free(here);
    free(printed);
    recipe_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aliases_stand_for_what_they_name),
        cmocka_unit_test(merges_what_is_not_given),
        cmocka_unit_test(aliases_have_bounds),
        cmocka_unit_test(mappings_of_names),
        FOLDER_TEST(paths_in_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
