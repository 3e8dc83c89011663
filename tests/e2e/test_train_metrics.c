/* SPDX-License-Identifier: MIT
 * What an evaluation tells of a run, the best by a chosen metric, and stopping early. */
#include "eval_metrics.h"
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "traincc/checkpoint.h"
#include "traincc/traincc.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN(...) program_run(NULL, "tcc-train", (const char *const[]){__VA_ARGS__, NULL})

/* -- The numbers -- */

/* Expected values by hand; class 3 does not occur, and counts for nothing. */
static void numbers(void **state) {
    (void)state;
    double confusion[25] = {2, 1, 0, 0, 0, 0, 2, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 2};
    const eval_sums s = {
        .loss = 6, .samples = 12, .labels = 12, .correct = 7, .top5 = 9, .classes = 5, .confusion = confusion};
    assert_true(eval_value(&s, EVAL_LOSS) == 0.5 && eval_value(&s, EVAL_PERPLEXITY) == exp(0.5));
    assert_true(eval_value(&s, EVAL_ACCURACY) == 7.0 / 12 && eval_value(&s, EVAL_TOP5) == 0.75);
    const double f1[] = {4.0 / 6, 4.0 / 7, 2.0 / 5, 4.0 / 6}, iou[] = {2.0 / 4, 2.0 / 5, 1.0 / 4, 2.0 / 4};
    assert_true(fabs(eval_value(&s, EVAL_F1) - (f1[0] + f1[1] + f1[2] + f1[3]) / 4) < 1e-15);
    assert_true(fabs(eval_value(&s, EVAL_MEAN_IOU) - (iou[0] + iou[1] + iou[2] + iou[3]) / 4) < 1e-15);
    assert_true(eval_class_iou(&s, 1) == iou[1] && eval_class_iou(&s, 4) == iou[3] && isnan(eval_class_iou(&s, 3)));
    assert_int_equal(eval_find("mean_iou"), EVAL_MEAN_IOU);
    assert_int_equal(eval_find("class_iou"), EVAL_METRICS);
    assert_string_equal(eval_key(EVAL_F1), "val_f1");
}

/* -- Runs -- */

/* Eight classes, which the first two columns tell: 16 rows of each. */
static const char *write_recipe(void **state, const char *more) {
    FILE *f = fopen(test_path(state, "data.csv"), "w");
    fputs("a,b,c,label\n", f);
    for (int i = 0; i < 128; i++) fprintf(f, "%d,%d,%d,%d\n", i % 8 == 0 ? 4 : i % 8 % 3, i % 8 / 3 * 2, i % 5, i % 8);
    fclose(f);
    const char *path = test_path(state, "recipe.yaml");
    f = fopen(path, "w");
    fprintf(f,
            "model: {name: mlp, hidden: [64]}\n"
            "data: {kind: csv, path: %s, val_path: %s, batch_size: 32}\n"
            "training:\n  max_steps: 600\n  eval_every: 200\n  save_every: 200\n"
            "  metrics: [top5, perplexity, f1, mean_iou, class_iou]\n%s",
            test_path(state, "data.csv"), test_path(state, "data.csv"), more);
    fclose(f);
    return path;
}

/* The value of `key` in the line of a step in metrics.jsonl; NaN: it is not there. */
static double metric(void **state, int step, const char *key) {
    char *text = test_read(test_path(state, "run/metrics.jsonl"), NULL), start[64], name[64];
    snprintf(start, sizeof start, "{\"step\":%d,\"val_", step);
    snprintf(name, sizeof name, "\"%s\":", key);
    const char *line = strstr(text, start), *at = line ? strstr(line, name) : NULL;
    const double value = at && at < line + strcspn(line, "\n") ? strtod(at + strlen(name), NULL) : NAN;
    free(text);
    return value;
}

/* Answers become right one by one, and so do all numbers that are made of them. */
static void counts_on_the_device(void **state) {
    const char *recipe = write_recipe(state, "optimizer: {lr: 0.01}\n");
    program_result r = RUN(recipe, "--device", "cpu", "--run-dir", test_path(state, "run"), "training.best_metric=f1");
    if (r.status || !strstr(r.out, "  val_f1 1.0000  val_mean_iou 1.0000"))
        fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
    assert_true(metric(state, 600, "val_accuracy") == 1 && metric(state, 600, "val_top5") == 1);
    assert_true(metric(state, 600, "val_f1") == 1 && metric(state, 600, "val_iou.7") == 1);
    const double loss = metric(state, 600, "val_loss");
    assert_true(fabs(metric(state, 600, "val_perplexity") - exp(loss)) < 1e-12);

    r = RUN("eval", "--device", "cpu", test_path(state, "run"));
    if (r.status || !strstr(r.out, "weights: as trained\nstep 600  val_loss") || !strstr(r.out, "val_iou.7 1.0000"))
        fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
    r = RUN("eval", "--device", "cpu", test_path(state, "run/checkpoints/step-000000.safetensors"));
    if (r.status || !strstr(r.out, "\nstep 0  val_loss")) fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
    r = RUN("eval", "--device", "cpu", test_path(state, "gone"));
    if (r.status != 2 || !strstr(r.err, "gone/recipe.yaml")) fail_msg("%d: %s", r.status, r.err);
    program_free(&r);
    r = RUN("eval");
    if (r.status != 2 || !strstr(r.err, "eval: no checkpoint or run folder given")) fail_msg("%d: %s", r.status, r.err);
    program_free(&r);

    r = RUN(recipe, "--device", "cpu", "--run-dir", test_path(state, "run"), "optimizer.lr=0",
            "training.max_steps=200");
    assert_int_equal(r.status, 0);
    program_free(&r);
    const double accuracy = metric(state, 200, "val_accuracy"), top5 = metric(state, 200, "val_top5");
    if (!(accuracy < top5 && top5 < 1 && metric(state, 200, "val_f1") <= 2 * accuracy))
        fail_msg("accuracy %g, top5 %g", accuracy, top5);
}

static void stops_early(void **state) {
    const char *recipe = write_recipe(state, "  early_stopping: {metric: f1, patience: 2}\noptimizer: {lr: 0}\n"),
               *run = test_path(state, "run");
    program_result r = RUN(recipe, "--device", "cpu", "--run-dir", run, "training.eval_every=3");
    if (r.status || !strstr(r.out, "stops early: 2 evaluations in a row without a val_f1 better than"))
        fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
    assert_false(isnan(metric(state, 9, "val_f1")));
    assert_true(isnan(metric(state, 12, "val_f1")));

    /* What was waited is kept: one evaluation more is enough for a patience of 3. */
    r = RUN(recipe, "--device", "cpu", "--run-dir", run, "training.eval_every=3", "--resume",
            "training.early_stopping.patience=3");
    assert_int_equal(r.status, 0);
    program_free(&r);
    assert_false(isnan(metric(state, 12, "val_f1")));
    assert_true(isnan(metric(state, 15, "val_f1")));
}

/* A checkpoint whose head's parameters all hold `value`, without metadata: those have a checksum. */
static void fill_head(const char *from, const char *to, float value) {
    size_t size;
    char *bytes = test_read(from, &size);
    uint64_t length;
    memcpy(&length, bytes, sizeof length);
    cJSON *header = cJSON_ParseWithLength(bytes + 8, length), *entry;
    int found = 0;
    assert_non_null(header);
    cJSON_ArrayForEach(entry, header) {
        if (strncmp(entry->string, "fc2.", 4)) continue;
        const cJSON *offsets = cJSON_GetObjectItem(entry, "data_offsets");
        const size_t begin = (size_t)cJSON_GetArrayItem(offsets, 0)->valuedouble,
                     end = (size_t)cJSON_GetArrayItem(offsets, 1)->valuedouble;
        for (size_t at = begin; at < end; at += sizeof value) memcpy(bytes + 8 + length + at, &value, sizeof value);
        found++;
    }
    assert_int_equal(found, 2);
    cJSON_DeleteItemFromObject(header, "__metadata__");
    char *text = cJSON_PrintUnformatted(header);
    const uint64_t written = strlen(text), rest = size - 8 - length;
    FILE *f = fopen(to, "w");
    assert_int_equal(fwrite(&written, sizeof written, 1, f), 1);
    assert_int_equal(fwrite(text, 1, written, f), written);
    assert_int_equal(fwrite(bytes + 8 + length, 1, rest, f), rest);
    fclose(f);
    cJSON_free(text);
    cJSON_Delete(header);
    free(bytes);
}

/* Equal logits are ranked by class, so five of eight classes are among the first five; NaN is never right. */
static void ties_and_nan(void **state) {
    const char *recipe = write_recipe(state, "");
    program_result r = RUN(recipe, "--device", "cpu", "--run-dir", test_path(state, "run"), "training.max_steps=1");
    assert_int_equal(r.status, 0);
    program_free(&r);
    for (int nan = 0; nan < 2; nan++) {
        char weights[4200];
        snprintf(weights, sizeof weights, "init_from=%s", test_path(state, "head.safetensors"));
        fill_head(test_path(state, "run/checkpoints/step-000000.safetensors"), test_path(state, "head.safetensors"),
                  nan ? NAN : 0);
        r = RUN(recipe, "--device", "cpu", "--run-dir", test_path(state, "run"), weights, "optimizer.lr=0",
                "training.max_steps=1", "training.eval_every=1", "training.on_nan=continue");
        if (r.status) fail_msg("%d: %s%s", r.status, r.out, r.err);
        program_free(&r);
        assert_true(metric(state, 1, "val_accuracy") == (nan ? 0 : 1.0 / 8));
        assert_true(metric(state, 1, "val_top5") == (nan ? 0 : 5.0 / 8));
        const double f1 = metric(state, 1, "val_f1"), iou = metric(state, 1, "val_mean_iou");
        assert_true(nan ? f1 == 0 && iou == 0 : f1 > 0 && iou > 0);
    }
}

static void check_refused(void **state, const char *a, const char *b, const char *message) {
    program_result r = RUN(test_path(state, "recipe.yaml"), "--dry-run", "--device", "cpu", a, b);
    if (r.status != 2 || !strstr(r.err, message))
        fail_msg("%s %s: %d, or this does not say \"%s\": %s", a, b, r.status, message, r.err);
    program_free(&r);
}

static void refuses(void **state) {
    write_recipe(state, "");
    check_refused(state, "training.metrics=[f2]", "--quiet", "training.metrics: \"f2\" is none of loss|accuracy");
    check_refused(state, "training.metrics=[f1", "--quiet", "is no list");
    check_refused(state, "training.best_metric=class_iou", "--quiet", "\"class_iou\" is none of auto|loss");
    check_refused(state, "training.early_stopping.patience=-1", "--quiet", "must be from 0");
    check_refused(state, "training.early_stopping.metric=x", "--quiet", "\"x\" is none of loss");
    check_refused(state, "training.early_stopping=3", "--quiet", "training.early_stopping is a section");
    check_refused(state, "training.early_stopping.patience=2", "training.eval_every=0",
                  "training.early_stopping.patience needs training.eval_every");
    check_refused(state, "data.regression=true", "training.metrics=[f1]", "there is only the loss");
    program_result r = RUN(test_path(state, "recipe.yaml"), "--dry-run", "--device", "cpu", "data.val_split=0",
                           "training.early_stopping.patience=2");
    if (r.status != 1 || !strstr(r.err, "early_stopping.patience: there is no validation data to stop by; give data.v"))
        fail_msg("%d: %s", r.status, r.err);
    program_free(&r);
}

/* -- Memory -- */

static void net(tcc_trace *t, void *user) {
    (void)user;
    const tcc_tensor logits = tcc_cnn(t, tcc_input(t, "x"),
                                      &(tcc_cnn_options){.channels1 = 8, .channels2 = 16, .hidden = 32, .classes = 10});
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

/* Evaluation runs in the training step's arena, and needs no more than that: it saves nothing for backward. */
static void shares_the_arena(void **state) {
    (void)state;
    static float x[8 * 28 * 28];
    static int32_t y[8];
    const tcc_array batch[2] = {{.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {8, 1, 28, 28}, .data = x},
                                {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {8}, .data = y}};
    tcc_context *cx;
    tcc_model *m;
    tcc_program_info training, both;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    const tcc_model_options o = {.size = sizeof o};
    assert_int_equal(tcc_model_create(cx, net, NULL, &o, &m), TCC_OK);
    assert_int_equal(tcc_model_compile(m, true, batch, 2), TCC_OK);
    assert_int_equal(tcc_model_info(m, &training), TCC_OK);
    assert_int_equal(tcc_model_compile(m, false, batch, 2), TCC_OK);
    assert_int_equal(tcc_model_info(m, &both), TCC_OK);
    assert_true(both.arena_bytes > 0 && both.arena_bytes < training.arena_bytes);
    const int64_t fed = (int64_t)(sizeof x + sizeof y); /* a batch and outputs are a program's own */
    assert_true(training.arena_bytes > 2 * fed && both.peak_bytes - training.peak_bytes <= fed + 256);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), FOLDER_TEST(counts_on_the_device),
                                       FOLDER_TEST(ties_and_nan), FOLDER_TEST(stops_early),
                                       FOLDER_TEST(refuses),      cmocka_unit_test(shares_the_arena)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
