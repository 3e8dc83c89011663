/* SPDX-License-Identifier: MIT
 * Recipes: what they say when they are wrong, overrides, and printing. */
#include "harness/check.h"
#include "harness/files.h"
#include "recipe_rules.h"
#include "train_recipe.h"

#include <glob.h>
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

/* Those that come with the program, with data where their comments have it. */
static void shipped_recipes_are_right(void **state) {
    (void)state;
    glob_t files;
    assert_int_equal(glob(TCC_SOURCE_DIR "/tools/recipes/*.yaml", 0, NULL, &files), 0);
    assert_true(files.gl_pathc > 4);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        recipe r;
        size_t size;
        char error[RECIPE_ERROR_MAX] = "", *text = test_read(files.gl_pathv[i], &size);
        assert_true(recipe_init(&r));
        if (!recipe_parse(&r, text, size, files.gl_pathv[i], error) || !recipe_override(&r, "data.path=a", error) ||
            (recipe_has(&r, "data.vocab_file") && !recipe_override(&r, "data.vocab_file=a", error)) ||
            !recipe_check(&r, error))
            fail_msg("%s", error);
        recipe_free(&r);
        free(text);
    }
    globfree(&files);
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

static void defaults_of_the_optimizer(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double lr, beta2;
    } cases[] = {{"sgd", 0.1, 0.999},  {"adam", 1e-3, 0.999},      {"adamw", 1e-3, 0.999},
                 {"lion", 1e-4, 0.99}, {"adafactor", 1e-2, 0.999}, {"adagrad", 1e-2, 0.999}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        recipe r;
        char text[512], error[RECIPE_ERROR_MAX];
        snprintf(text, sizeof text, "%soptimizer:\n  name: %s\n", good, cases[i].name);
        assert_true(recipe_init(&r) && parse(&r, text, error) && recipe_check(&r, error));
        assert_true(r.optimizer.eps == (!strcmp(cases[i].name, "adafactor") ? 1e-3
                                        : !strcmp(cases[i].name, "adagrad") ? 1e-10
                                                                            : 1e-8));
        assert_true(r.optimizer.lr == cases[i].lr && r.optimizer.betas.v[1] == cases[i].beta2);
        recipe_free(&r);
    }
    check_refused(
        "optimizer:\n  betas: []\nmodel:\n  name: mlp\ndata:\n  kind: csv\n  path: a\ntraining:\n  max_steps: 1\n",
        "optimizer.betas must have 2 values, not 0");
}

/* What is printed reads back as the same, from a file and from the command line. */
static void reads_groups(void **state) {
    (void)state;
    recipe r;
    char text[1024], error[RECIPE_ERROR_MAX], *printed = NULL, assignment[1100];
    size_t length;
    snprintf(text, sizeof text,
             "%soptimizer:\n  groups:\n    - {match: \"*.bias\", weight_decay: 0, lr_scale: 0.5}\n"
             "    - match: fc1.*\n      frozen: true\n    - {match: \"a\\\"b\", lr: 0.01, betas: [0.5, 0.75]}\n",
             good);
    assert_true(recipe_init(&r));
    if (!parse(&r, text, error) || !recipe_check(&r, error)) fail_msg("%s", error);
    assert_int_equal(r.optimizer.groups.count, 3);
    assert_true(r.optimizer.groups.v[0].lr_scale == 0.5 && r.optimizer.groups.v[1].frozen);
    int key = 0;
    while (strcmp(recipe_key(key), "optimizer.groups") != 0) key++;
    FILE *out = open_memstream(&printed, &length);
    recipe_print_value(&r, key, out);
    fclose(out);
    assert_string_equal(printed,
                        "[{match: \"*.bias\", lr_scale: 0.5, weight_decay: 0}, {match: \"fc1.*\", frozen: true}, "
                        "{match: \"a\\\"b\", lr: 0.01, betas: [0.5, 0.75]}]");
    snprintf(assignment, sizeof assignment, "optimizer.groups=%s", printed);
    recipe_free(&r);
    assert_true(recipe_init(&r) && parse(&r, good, error));
    if (!recipe_override(&r, assignment, error)) fail_msg("%s", error);
    assert_true(r.optimizer.groups.count == 3 && r.optimizer.groups.v[2].betas[1] == 0.75);
    recipe_free(&r);
    free(printed);
}

/* A pattern stands for a list of it; in a file, on the command line, and as it is printed. */
static void reads_patterns(void **state) {
    (void)state;
    recipe r;
    char text[512], error[RECIPE_ERROR_MAX], *printed;
    snprintf(text, sizeof text, "init_ignore: classifier.*\nfreeze: [\"a.*\", \"b[0-2].*\"]\n%s", good);
    assert_true(recipe_init(&r) && parse(&r, text, error) && recipe_check(&r, error));
    assert_int_equal(r.init_ignore.count, 1);
    assert_string_equal(r.init_ignore.v[0], "classifier.*");
    assert_true(r.freeze.count == 2 && !strcmp(r.freeze.v[1], "b[0-2].*"));
    assert_true(recipe_override(&r, "freeze=[\"c.*\", d]", error) && r.freeze.count == 2);
    assert_true(recipe_override(&r, "freeze=layer[0-2].*", error) && r.freeze.count == 1);
    assert_non_null(printed = recipe_print_results(&r));
    assert_non_null(strstr(printed, "freeze: [\"layer[0-2].*\"]\n"));
    free(printed);
    recipe_free(&r);
    check_refused("freeze: [[a]]\n", "freeze: a list of patterns is expected");
    check_refused("freeze: \"\"\n", "freeze: a pattern of 1 to 127 bytes");
}

static void refuses_groups(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"[{weight_decay: 0}]", "r.yaml:2: optimizer.groups: a group needs match"},
        {"[{match: a, lr: 1, lr_scale: 2}]", "a: give one of lr and lr_scale"},
        {"[{match: a, decay: 1}]", "unknown key \"decay\"; a group has match, frozen"},
        {"[{match: a, match: b}]", "match is given twice"},
        {"[{match: a, lr: x}]", "lr: \"x\" is not a number"},
        {"[{match: a, lr: -1}]", "lr: must be from 0 to 1000000, not -1"},
        {"[{match: a, betas: 1}]", "betas: a list of two numbers is expected"},
        {"[{match: a, betas: [0.5]}]", "a number is expected"},
        {"[{match: a, betas: [0, 0, 0]}]", "betas: a list of two numbers is expected"},
        {"[{match: a, frozen: 1}]", "frozen: must be true or false, not \"1\""},
        {"[{match: \"\"}]", "match: a pattern of 1 to 127 bytes is expected"},
        {"[1]", "a list of groups is expected"},
        {"x", "a list of groups is expected"},
        {"[{match: a}", "malformed YAML"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        recipe r;
        char text[512], error[RECIPE_ERROR_MAX] = "";
        snprintf(text, sizeof text, "optimizer:\n  groups: %s\n", cases[i][0]);
        check_refused(text, cases[i][1]);
        snprintf(text, sizeof text, "optimizer.groups=%s", cases[i][0]);
        assert_true(recipe_init(&r));
        if (recipe_override(&r, text, error)) fail_msg("accepted: %s", text);
        recipe_free(&r);
    }
    char text[512];
    snprintf(text, sizeof text, "%soptimizer:\n  groups: [{match: a, momentum: 0.5}]\n", good);
    check_refused(text, "optimizer.groups: a: momentum does not apply to optimizer.name adamw");
    snprintf(text, sizeof text, "%soptimizer:\n  name: sgd\n  groups: [{match: a, betas: [0, 0]}]\n", good);
    check_refused(text, "optimizer.groups: a: betas does not apply to optimizer.name sgd");
    snprintf(text, sizeof text, "%soptimizer:\n  lr: 0\n  groups: [{match: a, lr: 1}]\n", good);
    check_refused(text, "optimizer.groups: a: lr is what it has where the schedule gives optimizer.lr, which is 0");
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

static void checks_schedules(void **state) {
    (void)state;
    char text[1024];
    static const struct {
        const char *schedule, *message;
    } cases[] = {
        {"name: exponential", "\"exponential\" is none of constant|step|"},
        {"name: step\n  step_size: 0", "schedule.step_size: must be from 1"},
        {"name: step\n  milestones: [3]", "schedule.milestones does not apply to schedule.name step"},
        {"name: multi_step\n  milestones: [3, 2]", "schedule.milestones must ascend, but 2 comes after 3"},
        {"name: multi_step\n  milestones: [3.5]", "must be a whole number, not 3.5"},
        {"name: cyclic\n  warmup_steps: 3", "schedule.warmup_steps does not apply to schedule.name cyclic"},
        {"name: cyclic\n  cycle_mode: square", "\"square\" is none of triangular|triangular2|exp_range"},
        {"name: cyclic\n  gamma: 0.9", "schedule.gamma does not apply to schedule.cycle_mode triangular; it goes with"},
        {"name: constant\n  gamma: 0.9", "schedule.gamma does not apply to schedule.name constant"},
        {"name: one_cycle\n  pct_start: 1.5", "schedule.pct_start: must be from 0 to 1, not 1.5"},
        {"name: one_cycle\n  max_momentum: 1", "schedule.max_momentum: must be from 0 to 0.9999999"},
        {"name: cosine\n  cycle_momentum: true", "it goes with cyclic|one_cycle"},
        {"name: linear\n  power: 2", "schedule.power does not apply to schedule.name linear; it goes with polynomial"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, "%sschedule:\n  %s\n", good, cases[i].schedule);
        check_refused(text, cases[i].message);
    }
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
    check_refused("model:\n  name: vgg\n", "\"vgg\" is none of gpt|mlp|cnn");
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
    check_refused("training:\n  ema_decay: 1\n", "training.ema_decay: must be from 0 to 0.9999999");
}

static void refuses_malformed_yaml(void **state) {
    (void)state;
    check_refused("", "the recipe is empty");
    check_refused("- 1\n- 2\n", "a recipe is a mapping");
    check_refused("model: {\n", "malformed YAML");
    check_refused("model: 3\n", "model is a section");
    check_refused("model:\n\t- x\n", "r.yaml:2: malformed YAML");
}

static void reads_all_of_a_file_or_refuses_it(void **state) {
    (void)state;
    check_refused("model:\n  name: gpt\n---\nmodel:\n  name: mlp\n", "r.yaml:3: a second document begins");
    check_refused("{model: {name: gpt}} x\n", "r.yaml:1: malformed YAML");
    check_refused("model:\n  name: gpt\nmodel:\n  layers: 2\n", "r.yaml:3: section model is given twice");
    check_refused("init_from: null\n", "r.yaml:1: init_from: null is no value; leave the key out for its default");
    check_refused("init_from: ~\n", "init_from: null is no value");
    check_refused("data:\n  path:\n", "r.yaml:2: data.path: null is no value");
    check_refused("data:\n  path: \"a\\0b\"\n", "r.yaml:2: \"a\" is followed by a NUL character");
    check_refused("model:\n  name: gpt\n  gelu: \xff\n", "r.yaml:3: malformed YAML: invalid leading UTF-8 octet");
    check_refused("lr: 3\n", "r.yaml:1: unknown key \"lr\"; did you mean \"optimizer.lr\"?");
    check_refused("name: gpt\n",
                  "did you mean \"model.name\" or \"loss.name\" or \"optimizer.name\" or \"schedule.name\"?");
}

static void lists_are_lists(void **state) {
    (void)state;
    static const char *const bad[] = {"[[[0.9,]]]0.99", "[0.9,]", "0.9,", "[0.9, 0.99", "0.9, 0.99]",
                                      "0.9 0.99",       "[,]",    ",",    "[0.9] 0.99", "[0.9,,0.99]"};
    recipe r;
    char error[RECIPE_ERROR_MAX], text[64];
    assert_true(recipe_init(&r));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "optimizer.betas=%s", bad[i]);
        if (recipe_override(&r, text, error)) fail_msg("accepted: %s", text);
        if (!strstr(error, "is no list as [1, 2]")) fail_msg("%s: %s", text, error);
    }
    assert_true(recipe_override(&r, "optimizer.betas=0.5,0.75", error) && r.optimizer.betas.v[1] == 0.75);
    assert_true(recipe_override(&r, "optimizer.betas= [ 0.25 , 0.5 ] ", error) && r.optimizer.betas.v[0] == 0.25);
    assert_true(recipe_override(&r, "model.hidden=[]", error) && r.model.hidden.count == 0);
    assert_false(recipe_override(&r, "model.hidden=[1.5]", error));
    assert_non_null(strstr(error, "model.hidden: must be a whole number, not 1.5"));
    recipe_free(&r);
}

static const char network[] = "model:\n  name: %s\n%sdata:\n  kind: %s\n  path: a\n%straining:\n  max_steps: 1\n";

static void weights_of_classes(void **state) {
    (void)state;
    static const struct {
        const char *text, *kept; /* NULL: refused */
    } cases[] = {{"none", "none"},
                 {"balanced", "balanced"},
                 {"[1, 2.50]", "[1, 2.5]"},
                 {" 1,2", "[1, 2]"},
                 {"[1e-3,0 ]", "[0.001, 0]"},
                 {"[1, 2", NULL},
                 {"1]", NULL},
                 {"[]", NULL},
                 {"[1,,2]", NULL},
                 {"[1, nan]", NULL},
                 {"[-1, 2]", NULL},
                 {"heavy", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        recipe r;
        char error[RECIPE_ERROR_MAX], text[256];
        assert_true(recipe_init(&r));
        snprintf(text, sizeof text, "training.class_weights=%s", cases[i].text);
        assert_int_equal(recipe_override(&r, text, error), cases[i].kept != NULL);
        if (cases[i].kept) assert_string_equal(r.training.class_weights, cases[i].kept);
        recipe_free(&r);
        assert_true(recipe_init(&r)); /* and as YAML, where it is a list or a word */
        snprintf(text, sizeof text, "training: {class_weights: %s}", cases[i].text);
        if (!cases[i].kept || strchr(cases[i].text, '['))
            assert_int_equal(parse(&r, text, error), cases[i].kept != NULL);
        if (cases[i].kept && strchr(cases[i].text, '[')) assert_string_equal(r.training.class_weights, cases[i].kept);
        recipe_free(&r);
    }
    check_refused("model: {name: mlp}\ndata: {kind: csv, path: a, regression: true}\n"
                  "training: {max_steps: 1, class_weights: [1, 2]}\n",
                  "training.class_weights: with data.regression there are no classes");
    check_refused("model: {name: mlp}\ndata: {kind: csv, path: a, regression: true}\n"
                  "training: {max_steps: 1, label_smoothing: 0.1}\n",
                  "training.label_smoothing: with data.regression there are no classes");
    check_refused("model: {name: regseg}\ndata: {kind: segmentation, path: a}\n"
                  "training: {max_steps: 1, class_weights: balanced}\n",
                  "training.class_weights does not apply to data.kind segmentation; it goes with any but segmentation");
}

static void keys_that_do_not_apply(void **state) {
    (void)state;
    static const struct {
        const char *model, *of_model, *kind, *of_data, *message;
    } cases[] = {
        {"resnet18", "  dropout: 0.1\n", "cifar", "",
         "r.yaml:3: model.dropout does not apply to model.name resnet18; it goes with "
         "gpt|mlp|cnn|distilbert|bert|stdc1|stdc2|segformer-b0|segformer-b1"},
        {"mlp", "  heads: 4\n", "csv", "", "r.yaml:3: model.heads does not apply to model.name mlp; it goes with gpt"},
        {"cnn", "", "idx", "  regression: true\n", "r.yaml:6: data.regression does not apply to data.kind idx"},
        {"gpt", "", "text", "  token_bytes: 4\n", "data.token_bytes does not apply to data.kind text"},
        {"gpt", "", "text", "optimizer:\n  momentum: 0.9\n",
         "optimizer.momentum does not apply to optimizer.name adamw"},
        {"mlp", "", "csv", "sample:\n  prompt: x\n", "sample.prompt does not apply to data.kind csv"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, network, cases[i].model, cases[i].of_model, cases[i].kind, cases[i].of_data);
        check_refused(text, cases[i].message);
    }
}

/* A choice on the command line leaves out what the file has for another; a resolved recipe has what applies. */
static void overrides_replace_what_they_contradict(void **state) {
    (void)state;
    recipe r;
    char error[RECIPE_ERROR_MAX], text[512];
    snprintf(text, sizeof text, network, "resnet18", "  cifar_stem: true\n", "cifar", "  augment: true\n");
    assert_true(recipe_init(&r) && parse(&r, text, error) && recipe_check(&r, error));
    assert_null(recipe_left_out(&r));
    assert_true(recipe_override(&r, "model.name=mlp", error) && recipe_check(&r, error));
    char *left = recipe_left_out(&r);
    assert_string_equal(left, "model.cifar_stem");
    free(left);
    char again[1024] = "";
    FILE *out = fmemopen(again, sizeof again, "w");
    recipe_print(&r, out);
    fclose(out);
    assert_null(strstr(again, "cifar_stem"));
    assert_true(recipe_override(&r, "model.heads=2", error));
    assert_false(recipe_check(&r, error)); /* both are asked for on the command line */
    assert_non_null(strstr(error, "command line: model.heads does not apply to model.name mlp"));
    recipe_free(&r);

    assert_true(recipe_init(&r) && parse(&r, good, error));
    assert_true(recipe_override(&r, "training.max_epochs=3", error) && recipe_check(&r, error));
    assert_true(r.training.max_epochs == 3 && r.training.max_steps == 0);
    assert_true(recipe_override(&r, "training.max_steps=5", error)); /* now both */
    assert_false(recipe_check(&r, error));
    assert_non_null(strstr(error, "give one of training.max_steps and training.max_epochs"));
    recipe_free(&r);

    assert_true(recipe_init(&r) && parse(&r, good, error));
    assert_true(recipe_override(&r, "training.max_epochs=0", error) && recipe_check(&r, error)); /* says nothing */
    assert_int_equal(r.training.max_steps, 10);
    recipe_free(&r);
}

/* A rule names a key that has choices, and some of them; the library's options go with some kinds. */
static void rules_name_keys_and_choices(void **state) {
    (void)state;
    char values[RECIPE_VALUES_MAX];
    for (int key = 0; recipe_key(key); key++)
        for (int i = 0; i < RECIPE_RULES_MAX; i++) {
            const char *by = recipe_goes_with(key, i, values);
            int chooser = 0;
            if (!by) continue;
            while (recipe_key(chooser) && strcmp(recipe_key(chooser), by) != 0) chooser++;
            if (!recipe_key(chooser)) fail_msg("%s goes with %s, which is no key", recipe_key(key), by);
            if (!*values) fail_msg("%s goes with no %s", recipe_key(key), by);
            const bool negated = !strncmp(values, "any but ", 8);
            for (char *rest = values + 8 * negated, *value; (value = strsep(&rest, "|"));)
                if (!recipe_is_choice(recipe_key_values(chooser), value))
                    fail_msg("%s goes with %s %s, which it cannot be", recipe_key(key), by, value);
        }
}

/* What data may be, and which options go with it, is what the library says. */
static void kinds_of_data_are_the_librarys(void **state) {
    (void)state;
    recipe r;
    char error[RECIPE_ERROR_MAX];
    assert_string_equal(recipe_data_kinds(), "text|tokens|idx|cifar|csv|images|segmentation|text_classes");
    assert_true(recipe_init(&r) && recipe_override(&r, "data.kind=segmentation", error));
    assert_true(recipe_has(&r, "data.classes") && recipe_has(&r, "data.size") && recipe_has(&r, "data.augment"));
    assert_false(recipe_has(&r, "data.label") || recipe_has(&r, "data.padding") || recipe_has(&r, "data.bytes"));
    recipe_free(&r);
    check_refused("model:\n  name: cnn\ndata:\n  kind: segmentation\n  path: a\ntraining:\n  max_steps: 1\n",
                  "model.name cnn cannot be trained on data.kind segmentation");
}

static void what_may_change(void **state) {
    (void)state;
    assert_true(recipe_fits_plan("schedule.gamma=0.5") && recipe_fits_plan("training.keep_last=1"));
    assert_false(recipe_fits_plan("training.max_steps") || recipe_fits_plan("model.width=8") ||
                 recipe_fits_plan("training.max_step=8"));
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
                recipe_override(&r, "optimizer.betas=[0.4914, 3e-17]", error));
    FILE *out = open_memstream(&text, &length);
    assert_true(recipe_print(&r, out));
    fclose(out);
    if (!recipe_parse(&again, text, length, "printed", error)) fail_msg("%s\n%s", error, text);
    out = open_memstream(&second, &second_length);
    assert_true(recipe_print(&again, out));
    fclose(out);
    assert_string_equal(text, second);
    assert_non_null(strstr(text, "  lr: 0.1\n"));
    assert_non_null(strstr(text, "  betas: [0.4914, 3e-17]\n"));
    free(text);
    free(second);
    recipe_free(&r);
    recipe_free(&again);
}

/* What the command line makes meaningless is left out, by whatever rule, and said. */
static void overrides_leave_out(void **state) {
    (void)state;
    static const struct {
        const char *text, *override, *said;
    } cases[] = {
        {"optimizer: {betas: [0.5, 0.9], eps: 1e-6}\n", "optimizer.name=sgd", "optimizer.betas, optimizer.eps"},
        {"optimizer: {betas: [0.5, 0.9]}\n", "optimizer.name=adafactor", "optimizer.betas"},
        {"optimizer: {name: sgd, momentum: 0.5, nesterov: true}\n", "optimizer.name=adamw",
         "optimizer.momentum, optimizer.nesterov"},
        {"optimizer: {groups: [{match: a, betas: [0.5, 0.9], lr_scale: 2}]}\n", "optimizer.name=sgd",
         "betas or momentum of optimizer.groups"},
        {"schedule: {name: cyclic, cycle_mode: exp_range, gamma: 0.5}\n", "schedule.name=linear",
         "schedule.gamma, schedule.cycle_mode"},
        {"training: {memory_budget: 50%, seed: 3}\n", "training.checkpointing=none", "training.memory_budget"},
        {"training: {ema_decay: 0.9, ema_warmup: true}\n", "training.ema_decay=0", "training.ema_warmup"},
        {"training: {eval_every: 5, early_stopping: {patience: 2}}\n", "training.eval_every=0",
         "training.early_stopping.patience"},
        {"training: {metrics: [f1]}\n", "data.regression=true", "training.metrics"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        recipe r;
        char error[RECIPE_ERROR_MAX], text[512];
        snprintf(text, sizeof text, "model: {name: mlp}\ndata: {kind: csv, path: a}\n%s", cases[i].text);
        assert_true(recipe_init(&r));
        if (!parse(&r, text, error) || !recipe_override(&r, "training.max_steps=9", error) ||
            !recipe_override(&r, cases[i].override, error) || !recipe_check(&r, error))
            fail_msg("%s: %s", cases[i].override, error);
        char *left = recipe_left_out(&r);
        assert_string_equal(left, cases[i].said);
        assert_true(recipe_check(&r, error)); /* once more: nothing is left to refuse */
        free(left);
        recipe_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_recipes_are_right),
        cmocka_unit_test(reads_values_and_defaults),
        cmocka_unit_test(checks_schedules),
        cmocka_unit_test(names_line_and_nearest_key),
        cmocka_unit_test(refuses_wrong_values),
        cmocka_unit_test(defaults_of_the_optimizer),
        cmocka_unit_test(reads_groups),
        cmocka_unit_test(refuses_groups),
        cmocka_unit_test(reads_patterns),
        cmocka_unit_test(reads_modes),
        cmocka_unit_test(says_what_comes_later),
        cmocka_unit_test(refuses_malformed_yaml),
        cmocka_unit_test(checks_across_keys),
        cmocka_unit_test(rules_name_keys_and_choices),
        cmocka_unit_test(kinds_of_data_are_the_librarys),
        cmocka_unit_test(what_may_change),
        cmocka_unit_test(overrides_from_the_command_line),
        cmocka_unit_test(prints_what_parses_again),
        cmocka_unit_test(reads_all_of_a_file_or_refuses_it),
        cmocka_unit_test(lists_are_lists),
        cmocka_unit_test(weights_of_classes),
        cmocka_unit_test(keys_that_do_not_apply),
        cmocka_unit_test(overrides_replace_what_they_contradict),
        cmocka_unit_test(overrides_leave_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
