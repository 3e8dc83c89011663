/* SPDX-License-Identifier: MIT
 * How much classes count in the loss, and labels that are smoothed. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/same_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){"--device", "cpu", __VA_ARGS__, NULL})

/* 48 rows of a, 16 of b: of equal weight in sum with 2/3 and 2. */
static const char *write_recipe(void **state, const char *training) {
    char text[4096];
    size_t length = (size_t)sprintf(text, "x,y,kind\n");
    for (int i = 0; i < 64; i++)
        length += (size_t)sprintf(text + length, "%d,%d,%s\n", i * 7 % 11, i * 5 % 13, i % 4 ? "a" : "b");
    const char *data = test_write(state, "t.csv", text, length);
    char recipe[4400];
    snprintf(recipe, sizeof recipe,
             "model: {name: mlp, hidden: [4]}\ndata: {kind: csv, path: %s, val_path: %s, batch_size: 64}\n"
             "optimizer: {name: sgd, lr: 0.1}\ntraining: {log_every: 1, %s}\n",
             data, data, training);
    return test_write_text(state, "r.yaml", recipe);
}

static void train(const char *recipe, const char *run, const char *override) {
    program_result r = RUN("--quiet", "--run-dir", run, recipe, override);
    if (r.status) fail_msg("%s: exit status %d:\n%s%s", override, r.status, r.out, r.err);
    program_free(&r);
}

static double number(void **state, const char *run, const char *key) {
    char name[64];
    snprintf(name, sizeof name, "%s/metrics.jsonl", run);
    char *text = test_read(test_path(state, name), NULL);
    const char *at = strstr(text, key);
    const double value = at ? strtod(at + strlen(key), NULL) : NAN;
    free(text);
    return value;
}

static void refused(const char *recipe, const char *override, const char *why) {
    program_result r = RUN("--dry-run", recipe, override);
    if (!r.status || !strstr(r.err, why)) fail_msg("%s: %d: %s%s", override, r.status, r.out, r.err);
    program_free(&r);
}

static void weights_are_balanced_or_a_list(void **state) {
    static const char end[] = "checkpoints/step-000005.safetensors";
    const char *recipe = write_recipe(state, "max_steps: 5, class_weights: [0.6666666666666666, 2]");
    train(recipe, test_path(state, "list"), "training.seed=1337");
    train(recipe, test_path(state, "balanced"), "training.class_weights=balanced");
    train(recipe, test_path(state, "none"), "training.class_weights=none");
    train(recipe, test_path(state, "ones"), "training.class_weights=[1, 1]");
    const double list = number(state, "list", "\"loss\":"), balanced = number(state, "balanced", "\"loss\":");
    assert_true(number(state, "none", "\"loss\":") == number(state, "ones", "\"loss\":"));
    if (!(fabs(list - balanced) < 1e-6) || fabs(balanced - number(state, "none", "\"loss\":")) < 1e-3)
        fail_msg("losses %g, %g and %g", list, balanced, number(state, "none", "\"loss\":"));
    same_file(state, "list", "balanced", end);
    refused(recipe, "training.class_weights=[1, 2, 3]", "has 3 numbers, but there are 2 classes");
    refused(recipe, "training.class_weights=[1, -2]", "neither none|balanced nor a list");
    refused(recipe, "data.regression=true", "");
}

/* A loss with smoothing s is (1 - s) times the plain one and s times the mean over all classes. */
static void labels_are_smoothed_in_training_alone(void **state) {
    const char *recipe = write_recipe(state, "max_steps: 1");
    train(recipe, test_path(state, "0"), "optimizer.lr=0");
    train(recipe, test_path(state, "4"), "training.label_smoothing=0.4");
    train(recipe, test_path(state, "8"), "training.label_smoothing=0.8");
    const double plain = number(state, "0", "\"loss\":"), some = number(state, "4", "\"loss\":") - plain,
                 twice = number(state, "8", "\"loss\":") - plain;
    if (!(fabs(some) > 1e-3) || !(fabs(twice - 2 * some) < 1e-6)) fail_msg("0.4: %g, 0.8: %g more", some, twice);
    const char *still = write_recipe(state, "max_steps: 1, label_smoothing: 0.4"); /* nothing is learned */
    train(still, test_path(state, "still"), "optimizer.lr=0");
    assert_true(number(state, "still", "\"val_loss\":") == number(state, "0", "\"val_loss\":"));
    refused(recipe, "training.label_smoothing=1", "must be from 0 to 0.99");
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(weights_are_balanced_or_a_list),
                                       FOLDER_TEST(labels_are_smoothed_in_training_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
