/* SPDX-License-Identifier: MIT
 * The learning-rate range test: the rate it finds, the table and the picture, and that it leaves a run alone. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){__VA_ARGS__, NULL})

/* Two classes that a line tells apart. */
static const char *write_recipe(void **state) {
    FILE *f = fopen(test_path(state, "data.csv"), "w");
    for (int i = 0; i < 256; i++) fprintf(f, "%d,%d,%d\n", i % 16, i / 16, i % 16 > 7);
    fclose(f);
    const char *path = test_path(state, "recipe.yaml");
    f = fopen(path, "w");
    fprintf(f,
            "model: {name: mlp, hidden: []}\ndata: {kind: csv, path: %s, batch_size: 64}\n"
            "training: {max_steps: 10, save_every: 10}\noptimizer: {name: sgd}\nschedule: {name: one_cycle}\n",
            test_path(state, "data.csv"));
    fclose(f);
    return path;
}

static bool exists(const char *path) {
    struct stat info;
    return !stat(path, &info);
}

/* Plain gradient descent on a logistic loss with inputs of variance 1 learns at rates about 1, far from both ends. */
static void finds_a_rate(void **state) {
    const char *recipe = write_recipe(state), *run = test_path(state, "run");
    program_result r = RUN(recipe, "--device", "cpu", "--run-dir", run, "--lr-find=60");
    double fastest = 0, end = 0, lr = 0;
    const char *line = strstr(r.out, "the loss falls fastest at a learning rate of ");
    if (r.status || !line) fail_msg("%d: %s%s", r.status, r.out, r.err);
    const char *tried = strstr(line, "try optimizer.lr=");
    if (!tried) fail_msg("%s", line);
    fastest = strtod(line + sizeof "the loss falls fastest at a learning rate of " - 1, NULL);
    lr = strtod(tried + sizeof "try optimizer.lr=" - 1, NULL);
    if (!(fastest > 0.02 && fastest < 8 && fabs(lr / fastest - 1) < 0.05)) fail_msg("%s", line);
    program_free(&r);

    /* Rates of 60 steps from 1e-7 to 10, each as many times the one before. */
    char *table = test_read(test_path(state, "run/lr_find.csv"), NULL), *at = table;
    double before = 0, loss, smooth;
    int rows = 0, used = 0;
    assert_int_equal(strncmp(at, "lr,loss,smooth_loss\n", 20), 0);
    for (at += 20; sscanf(at, "%lf,%lf,%lf\n%n", &end, &loss, &smooth, &used) == 3; at += used, rows++, before = end) {
        if (rows) assert_true(fabs(end / before / pow(1e8, 1.0 / 59) - 1) < 1e-4);
        else assert_true(end == 1e-7 && fabs(loss - smooth) < 1e-6 * loss);
    }
    assert_true(!*at && rows == 60 && fabs(end - 10) < 1e-4);
    free(table);
    char *picture = test_read(test_path(state, "run/lr_find.svg"), NULL);
    assert_non_null(strstr(picture, "class=\"mark\""));
    assert_non_null(strstr(picture, "learning rate</text>"));
    free(picture);
    assert_false(exists(test_path(state, "run/checkpoints")) || exists(test_path(state, "run/metrics.jsonl")));

    /* A run in that folder trains with the recipe's own rate, and stays as it is when the test is made again. */
    r = RUN(recipe, "--device", "cpu", "--run-dir", run);
    assert_int_equal(r.status, 0);
    program_free(&r);
    size_t size, again;
    char *saved = test_read(test_path(state, "run/checkpoints/step-000010.safetensors"), &size);
    r = RUN(recipe, "--device", "cpu", "--run-dir", run, "--lr-find", "--quiet");
    if (r.status || strncmp(r.out, "the loss falls fastest", 22) != 0) fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
    char *kept = test_read(test_path(state, "run/checkpoints/step-000010.safetensors"), &again);
    assert_int_equal(size, again);
    assert_memory_equal(saved, kept, size);
    free(saved);
    free(kept);
}

static void modes_and_precisions(void **state) {
    const char *recipe = write_recipe(state);
    static const char *const more[] = {"training.mixed_precision=bf16", "training.mixed_precision=fp16",
                                       "training.compile=false",        "training.batch_accumulate=3",
                                       "training.detect_anomaly=true",  "optimizer.name=adamw"};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        program_result r = RUN(recipe, "--device", "cpu", "--run-dir", test_path(state, "run"), "--lr-find=50",
                               more[i]);
        if (r.status || !strstr(r.out, "try optimizer.lr=")) fail_msg("%s: %d: %s%s", more[i], r.status, r.out, r.err);
        program_free(&r);
    }
}

static void refuses(void **state) {
    const char *recipe = write_recipe(state);
    static const char *const values[] = {"--lr-find=9", "--lr-find=x", "--lr-find=1e3", "--lr-find="};
    for (int i = 0; i < 4; i++) {
        program_result r = RUN(recipe, "--device", "cpu", values[i]);
        if (r.status != 2 || !strstr(r.err, ": must be a number of steps from 10 to 1000000"))
            fail_msg("%s: %d: %s", values[i], r.status, r.err);
        program_free(&r);
    }
    /* Nothing is learned: no rate is made up. */
    program_result r = RUN(recipe, "--device", "cpu", "--run-dir", test_path(state, "none"), "--lr-find",
                           "optimizer.groups=[{match: '*', lr_scale: 1e-12}]");
    if (r.status || !strstr(r.out, "the loss falls at no learning rate")) fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
    test_write_text(state, "file", "");
    r = RUN(recipe, "--device", "cpu", "--run-dir", test_path(state, "file"), "--lr-find=20");
    if (r.status != 1 || !strstr(r.err, "file/lr_find.csv: error: cannot create the file: Not a directory"))
        fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(finds_a_rate), FOLDER_TEST(modes_and_precisions),
                                       FOLDER_TEST(refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
