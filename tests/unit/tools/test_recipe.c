/* SPDX-License-Identifier: MIT
 * Recipes: what they say when they are wrong, overrides, and printing. */
#include "harness/check.h"
#include "train_recipe.h"

#include <stdio.h>
#include <stdlib.h>

static const char good[] =
    "model:\n  name: gpt\n  layers: 2\ndata:\n  kind: text\n  path: a.txt\ntraining:\n  max_steps: 10\n";

static bool parse(recipe *r, const char *text, char *error) {
    return recipe_parse(r, text, strlen(text), "r.yaml", error);
}

static void check_refused(const char *text, const char *message) {
    recipe r;
    char error[RECIPE_ERROR_MAX] = "";
    assert_true(recipe_init(&r));
    bool ok = parse(&r, text, error) && recipe_check(&r, error);
    if (ok) fail_msg("accepted: %s", text);
    if (!strstr(error, message)) fail_msg("\"%s\" does not say \"%s\"", error, message);
    recipe_free(&r);
}

static void reads_values_and_defaults(void **state) {
    (void)state;
    recipe r;
    char error[RECIPE_ERROR_MAX];
    assert_true(recipe_init(&r));
    assert_true(parse(&r, good, error));
    assert_true(recipe_check(&r, error));
    assert_string_equal(r.model.name, "gpt");
    assert_int_equal(r.model.layers, 2);
    assert_int_equal(r.model.width, 128);
    assert_string_equal(r.data.path, "a.txt");
    assert_true(r.optimizer.betas.v[1] == 0.999);
    assert_string_equal(r.training.compile_mode, "default");
    recipe_free(&r);
}

static void reads_modes(void **state) {
    (void)state;
    recipe r;
    char text[512], error[RECIPE_ERROR_MAX];
    snprintf(text, sizeof text, "%s  compile_mode: reduce-overhead\n", good);
    assert_true(recipe_init(&r));
    assert_true(parse(&r, text, error));
    assert_true(recipe_check(&r, error));
    assert_string_equal(r.training.compile_mode, "reduce-overhead");
    recipe_free(&r);
    check_refused("training:\n  compile_mode: fast\n", "\"fast\" is none of default|reduce-overhead|max-autotune");
    check_refused("training:\n  autotune_budget_s: 0\n", "training.autotune_budget_s");
}

static void names_line_and_nearest_key(void **state) {
    (void)state;
    check_refused("model:\n  name: gpt\n  layer: 2\n",
                  "r.yaml:3: unknown key \"model.layer\"; did you mean \"model.layers\"?");
    check_refused("model:\n  name: gpt\ntrainning:\n  max_steps: 2\n", "r.yaml:4: unknown key \"trainning.max_steps\"");
    check_refused("banana: 1\n", "r.yaml:1: unknown key \"banana\"");
}

static void refuses_wrong_values(void **state) {
    (void)state;
    check_refused("model:\n  layers: two\n", "r.yaml:2: model.layers: \"two\" is not a number");
    check_refused("model:\n  layers: 2.5\n", "must be a whole number");
    check_refused("model:\n  layers: -1\n", "must be from 1 to 1000");
    check_refused("model:\n  layers: 1e30\n", "must be from");
    check_refused("model:\n  name: bert\n", "\"bert\" is none of gpt|mlp|cnn");
    check_refused("model:\n  bias: maybe\n", "must be true or false");
    check_refused("model:\n  layers: [1, 2]\n", "one value is expected, not a list");
    check_refused("model:\n  layers:\n    a: 1\n", "a value is expected");
    check_refused("optimizer:\n  betas: [0.9, x]\n", "\"x\" is not a number");
    check_refused("model:\n  layers: 1\n  layers: 2\n", "r.yaml:3: model.layers is given twice");
    check_refused("training:\n  checkpointing: some\n", "\"some\" is none of none|auto|segments");
    check_refused("training:\n  memory_budget: 12 elephants\n",
                  "r.yaml:2: training.memory_budget: \"12 elephants\" is no budget; one is bytes (1.5GiB, 800MB");
    check_refused("training:\n  memory_budget: 0\n", "\"0\" is no budget");
    check_refused("training:\n  memory_budget: 101%\n", "\"101%\" is no budget");
}

static void says_what_comes_later(void **state) {
    (void)state;
    check_refused("training:\n  ema: 0.9\n", "averaged weights comes in a later version");
}

static void refuses_malformed_yaml(void **state) {
    (void)state;
    check_refused("", "the recipe is empty");
    check_refused("- 1\n- 2\n", "a recipe is a mapping");
    check_refused("model: {\n", "malformed YAML");
    check_refused("model: 3\n", "model is a section");
    check_refused("model:\n\t- x\n", "r.yaml:2: malformed YAML");
}

static void checks_across_keys(void **state) {
    (void)state;
    check_refused("model:\n  name: gpt\n", "data.kind is missing");
    check_refused("model:\n  name: cnn\ndata:\n  kind: text\n  path: a\n", "cannot be trained on data.kind text");
    check_refused("model:\n  name: gpt\n  heads: 3\ndata:\n  kind: text\n  path: a\ntraining:\n  max_steps: 1\n",
                  "width 128 is not a multiple of model.heads 3");
    check_refused("model:\n  name: gpt\ndata:\n  kind: text\n  path: a\n",
                  "one of training.max_steps and training.max_epochs");
    check_refused("model:\n  name: gpt\ndata:\n  kind: text\n  path: a\ntraining:\n  max_steps: 1\n"
                  "  checkpointing: none\n  memory_budget: 1GiB\n",
                  "training.memory_budget 1GiB with training.checkpointing none");
}

static void overrides_from_the_command_line(void **state) {
    (void)state;
    recipe r;
    char error[RECIPE_ERROR_MAX];
    assert_true(recipe_init(&r));
    assert_true(parse(&r, good, error));
    assert_true(recipe_override(&r, "training.max_steps=77", error));
    assert_int_equal(r.training.max_steps, 77);
    assert_true(recipe_override(&r, "model.hidden=[3,4,5]", error));
    assert_int_equal(r.model.hidden.count, 3);
    assert_true(recipe_override(&r, "data.path=b=c", error));
    assert_string_equal(r.data.path, "b=c");
    assert_false(recipe_override(&r, "training.maxsteps=1", error));
    assert_non_null(
        strstr(error, "command line: unknown key \"training.maxsteps\"; did you mean \"training.max_steps\"?"));
    assert_false(recipe_override(&r, "nonsense", error));
    assert_non_null(strstr(error, "not of the form key.path=value"));
    recipe_free(&r);
}

static void prints_what_parses_again(void **state) {
    (void)state;
    recipe r, again;
    char error[RECIPE_ERROR_MAX], *text = NULL, *second = NULL;
    size_t length = 0, second_length = 0;
    assert_true(recipe_init(&r) && recipe_init(&again));
    assert_true(parse(&r, good, error));
    assert_true(recipe_override(&r, "sample.prompt=say \"x\"\n", error));
    assert_true(recipe_override(&r, "optimizer.lr=0.1", error) &&
                recipe_override(&r, "data.mean=[0.4914, 3e-17]", error));
    FILE *out = open_memstream(&text, &length);
    assert_true(recipe_print(&r, out));
    fclose(out);
    if (!recipe_parse(&again, text, length, "printed", error)) fail_msg("%s\n%s", error, text);
    out = open_memstream(&second, &second_length);
    assert_true(recipe_print(&again, out));
    fclose(out);
    assert_string_equal(text, second);
    assert_non_null(strstr(text, "  lr: 0.1\n"));
    assert_non_null(strstr(text, "  mean: [0.4914, 3e-17]\n"));
    free(text);
    free(second);
    recipe_free(&r);
    recipe_free(&again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_values_and_defaults), cmocka_unit_test(names_line_and_nearest_key),
        cmocka_unit_test(refuses_wrong_values),      cmocka_unit_test(reads_modes),
        cmocka_unit_test(says_what_comes_later),     cmocka_unit_test(refuses_malformed_yaml),
        cmocka_unit_test(checks_across_keys),        cmocka_unit_test(overrides_from_the_command_line),
        cmocka_unit_test(prints_what_parses_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
