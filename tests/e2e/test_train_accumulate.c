/* SPDX-License-Identifier: MIT
 * tcc-train with training.batch_accumulate: the run of the larger batch, resumed, from a plan, verified, reported on;
 * and what it takes of memory. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){__VA_ARGS__, NULL})

#define TRAIN(...) free(program_output(RUN("--quiet", __VA_ARGS__)))

static char *read_metrics(void **state, const char *run) {
    char path[256];
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    return test_read(test_path(state, path), NULL);
}

/* All losses, in training and in validation, agree. */
static void same_losses(void **state, const char *a, const char *b, double tolerance) {
    char *x = read_metrics(state, a), *y = read_metrics(state, b);
    const char *at_x = x, *at_y = y;
    int count = 0;
    while ((at_x = strstr(at_x, "loss\":")) && (at_y = strstr(at_y, "loss\":"))) {
        const double loss = strtod(at_x += 6, NULL), other = strtod(at_y += 6, NULL);
        if (!(fabs(loss - other) <= tolerance * fabs(loss))) fail_msg("loss %d: %.9g, not %.9g", count, other, loss);
        count++;
    }
    assert_true(count >= 20);
    free(x);
    free(y);
}

static void same_file(void **state, const char *a, const char *b) {
    size_t a_size, b_size;
    char *x = test_read(test_path(state, a), &a_size), *y = test_read(test_path(state, b), &b_size);
    if (a_size != b_size || memcmp(x, y, a_size)) fail_msg("%s and %s differ", a, b);
    free(x);
    free(y);
}

/* The same samples in the same order: 20 steps are more than an epoch, and the last step of one has a rest. */
static void larger_batch(void **state, const char *recipe, const char *batch, const char *micro) {
#define SAME                                                                                               \
    "model.dropout=0", "training.clip_grad_norm=0.5", "training.ema_decay=0.9", "training.eval_batches=0", \
        "data.drop_last=false"
    TRAIN(recipe, "--run-dir", test_path(state, "whole"), SAME, batch);
    TRAIN(recipe, "--run-dir", test_path(state, "micro"), SAME, micro, "training.batch_accumulate=3");
    same_losses(state, "whole", "micro", 1e-4);
#undef SAME
}

static void mlp_as_larger_batch(void **state) {
    larger_batch(state, write_recipe(state, "mlp"), "data.batch_size=24", "data.batch_size=8");
}

static void gpt_as_larger_batch(void **state) {
    larger_batch(state, write_recipe(state, "gpt"), "data.batch_size=6", "data.batch_size=2");
}

#define MICRO "training.batch_accumulate=3", "data.drop_last=false", "optimizer.name=adam"

static void resumes(void **state) {
    const char *recipe = write_recipe(state, "cnn"), *parts = test_path(state, "parts");
    size_t size;
    TRAIN(recipe, "--run-dir", test_path(state, "whole"), MICRO);
    TRAIN(recipe, "--run-dir", parts, MICRO, "training.max_steps=10");
    TRAIN(recipe, "--run-dir", parts, MICRO, "--resume");
    same_file(state, "whole/checkpoints/step-000020.safetensors", "parts/checkpoints/step-000020.safetensors");
    same_file(state, "whole/checkpoints/step-000020.state.safetensors",
              "parts/checkpoints/step-000020.state.safetensors");
    char *bytes = test_read(test_path(state, "whole/checkpoints/step-000020.state.safetensors"), &size);
    assert_null(memmem(bytes, size, "sum", 3));
    free(bytes);
    program_result r = RUN(recipe, "--run-dir", parts, "--resume", "data.drop_last=false", "optimizer.name=adam",
                           "training.max_steps=30");
    assert_int_equal(r.status, 2);
    assert_non_null(strstr(r.err, "training.batch_accumulate is 1, but the checkpoint is of a run with 3"));
    program_free(&r);
}

static void from_a_plan(void **state) {
    const char *recipe = write_recipe(state, "mlp"), *plan = test_path(state, "a.plan");
    TRAIN(recipe, "--save-plan", plan, "--run-dir", test_path(state, "first"), MICRO);
    TRAIN("--plan", plan, "--run-dir", test_path(state, "second"));
    same_file(state, "first/checkpoints/step-000020.safetensors", "second/checkpoints/step-000020.safetensors");
    same_file(state, "first/checkpoints/step-000020.state.safetensors",
              "second/checkpoints/step-000020.state.safetensors");
}

/* Kernels of both programs are told, and the step is verified. */
static void explains_and_verifies(void **state) {
    char *out = program_output(RUN(write_recipe(state, "mlp"), "--run-dir", test_path(state, "run"), "--explain",
                                   "--verify", MICRO, "training.max_steps=2"));
    assert_non_null(strstr(out, "verify: loss and all gradients agree"));
    const char *both = strstr(out, "a step runs 'totals' and then 'train' for each of 3 micro-batches, then 'update'");
    assert_non_null(both);
    assert_non_null(strstr(both, "program 'totals'"));
    assert_non_null(strstr(both, "program 'train'"));
    assert_non_null(strstr(both, "program 'update'"));
    free(out);
}

static double peak_mib(const char *recipe, const char *batch, const char *parts, const char *budget) {
    char *out = program_output(RUN(recipe, "--dry-run", batch, parts, budget));
    const char *said = strstr(out, "peak memory ");
    assert_non_null(said);
    const double peak = strtod(said + 12, NULL);
    free(out);
    return peak;
}

/* A quarter of the batch at a time takes less than half of the memory, though it has sums; and a budget holds for all
 * of it, the optimizer's state too, which the micro-batch's program does not know. */
static void takes_less_memory(void **state) {
    const char *recipe = write_recipe(state, "gpt"), *no = "training.memory_budget=none";
    char budget[64];
    const double whole = peak_mib(recipe, "data.batch_size=64", "training.batch_accumulate=1", no);
    const double micro = peak_mib(recipe, "data.batch_size=16", "training.batch_accumulate=4", no);
    if (!(micro < whole / 2)) fail_msg("%.1f MiB, but %.1f MiB at once", micro, whole);
    snprintf(budget, sizeof budget, "training.memory_budget=%.1fMiB", 0.8 * micro);
    const double held = peak_mib(recipe, "data.batch_size=16", "training.batch_accumulate=4", budget);
    if (!(held <= 0.8 * micro + 0.1)) fail_msg("%.1f MiB with %s", held, budget);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(mlp_as_larger_batch), FOLDER_TEST(gpt_as_larger_batch),   FOLDER_TEST(resumes),
        FOLDER_TEST(from_a_plan),         FOLDER_TEST(explains_and_verifies), FOLDER_TEST(takes_less_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
