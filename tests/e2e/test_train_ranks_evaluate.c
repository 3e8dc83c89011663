/* SPDX-License-Identifier: MIT
 * What ranks share, whatever their number: an evaluation gives the numbers of one rank, to the last digit; and a
 * checkpoint of 4 ranks is resumed on 1, 2, 3, 4 and 8. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/same_run.h"
#include "harness/train_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN(...) \
    program_output(program_run(NULL, "tcc-train", (const char *const[]){"--device", "cpu", __VA_ARGS__, NULL}))

#define LAST "checkpoints/step-000020.safetensors"

/* What `tcc-train eval` says of the numbers, on so many ranks. */
static char *evaluate(const char *run, const char *ranks, const char *metrics) {
    char *said = RUN("--ranks", ranks, "eval", run, metrics, "training.eval_batches=0");
    char *numbers = strstr(said, "weights: ");
    assert_non_null(numbers);
    assert_non_null(strstr(numbers, "\nstep "));
    memmove(said, numbers, strlen(numbers) + 1);
    return said;
}

/* More ranks than batches, too. */
static void check_evaluations(void **state, const char *recipe, const char *steps, const char *metrics,
                              const char *said_at_least) {
    const char *run = test_path(state, "run"), *const ranks[] = {"2", "3", "8"};
    free(RUN("--quiet", recipe, "--run-dir", run, steps, "training.eval_every=0"));
    char *one = evaluate(run, "1", metrics);
    if (!strstr(one, said_at_least)) fail_msg("no %s in: %s", said_at_least, one);
    for (int i = 0; i < 3; i++) {
        char *shared = evaluate(run, ranks[i], metrics);
        assert_string_equal(shared, one);
        free(shared);
    }
    free(one);
}

static void classes(void **state) {
    check_evaluations(state, write_recipe(state, "mlp"), "training.max_steps=20", "training.metrics=[accuracy,f1]",
                      "val_f1 ");
}

static void tokens(void **state) {
    check_evaluations(state, write_recipe(state, "gpt"), "training.max_steps=4", "training.metrics=[perplexity]",
                      "val_perplexity ");
}

static void pixels(void **state) {
    const char *data;
    for (int i = 0; i < TRAIN_KINDS; i++)
        if (!strcmp(train_kinds[i].kind, "segmentation"))
            check_evaluations(state, write_kind_recipe(state, &train_kinds[i], &data), "training.max_steps=1",
                              "training.metrics=[mean_iou,class_iou]", "val_iou.1 ");
}

static void resumed_on_other_ranks(void **state) {
    const char *recipe = write_recipe(state, "mlp");
    const char *steps = "training.max_steps=10", *path = test_path(state, "four/checkpoints/step-000010.safetensors");
#define COMMON "--quiet", recipe, "data.batch_size=6", "training.eval_every=0"
    free(RUN(COMMON, "--run-dir", test_path(state, "whole"), "--ranks", "4"));
    free(RUN(COMMON, "--run-dir", test_path(state, "four"), "--ranks", "4", steps));
    const struct {
        const char *ranks, *said;
        bool same;
    } cases[] = {{"4", NULL, true},
                 {"1", "--ranks was 4, is 1: each takes 4 micro-batches of a step of 24 samples\n", true},
                 {"2",
                  "--ranks was 4, is 2: each takes 2 micro-batches of a step of 24 samples, so sums are rounded in "
                  "another order, and other random numbers are drawn\n",
                  false},
                 {"3", "--ranks was 4, is 3: each takes 2 micro-batches of a step of 24 samples, so sums", false},
                 {"8", "--ranks was 4, is 8: each takes 1 micro-batch of a step of 24 samples, so sums", false}};
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        char name[16];
        snprintf(name, sizeof name, "on-%s", cases[i].ranks);
        char *said = RUN(recipe, "data.batch_size=6", "training.eval_every=0", "--run-dir", test_path(state, name),
                         "--ranks", cases[i].ranks, "--resume", path);
        if (cases[i].said && !strstr(said, cases[i].said)) fail_msg("on %s: %s", cases[i].ranks, said);
        if (!cases[i].said) assert_null(strstr(said, "--ranks was"));
        if (cases[i].same) same_file(state, "whole", name, LAST);
        free(said);
    }
    /* A run that went on on 2 ranks still says what a step of 4 is. */
    char *said = RUN(recipe, "data.batch_size=6", "training.eval_every=0", "training.max_steps=25", "--run-dir",
                     test_path(state, "on-2"), "--ranks", "8", "--resume");
    assert_non_null(strstr(said, "--ranks was 4, is 8: each takes 1 micro-batch of a step of 24 samples"));
    free(said);
#undef COMMON
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(classes), FOLDER_TEST(tokens), FOLDER_TEST(pixels),
                                       FOLDER_TEST(resumed_on_other_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
