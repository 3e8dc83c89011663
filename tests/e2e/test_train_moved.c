/* SPDX-License-Identifier: MIT
 * Moved and orphaned: a run's folder is somewhere else, and the data that it was trained on is gone. For each kind of
 * data what can be done with the run is what could be done before, or is refused with the reason. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/program.h"
#include "harness/same_run.h"
#include "harness/train_data.h"

#include <traincc/checkpoint.h>
#include <traincc/run.h>

#include <stdio.h>
#include <stdlib.h>

#define RUN(...) program_run(&elsewhere, "tcc-train", (const char *const[]){__VA_ARGS__, NULL})

static const program_options elsewhere = {.folder = "/"};

static char *output(const char *kind, program_result r) {
    if (r.status) fail_msg("%s: exit status %d:\n%s%s", kind, r.status, r.out, r.err);
    free(r.err);
    return r.out;
}

static void refused(const char *kind, program_result r, const char *why) {
    if (!r.status || !strstr(r.err, why)) fail_msg("%s: %d, not \"%s\":\n%s%s", kind, r.status, why, r.out, r.err);
    program_free(&r);
}

/* The line of an evaluation. */
static const char *evaluation(const char *out) {
    const char *line = strstr(out, "  val_loss");
    if (!line) fail_msg("no evaluation:\n%s", out);
    return line;
}

static void same(const char *kind, char *before, char *after) {
    if (strcmp(before, after)) fail_msg("%s: before\n%safter\n%s", kind, before, after);
    free(before);
    free(after);
}

static bool has_rows(const train_kind *k) { return !strcmp(k->kind, "csv") || !strcmp(k->kind, "text_classes"); }

/* What a language model writes; others refuse to, with the reason. */
static char *written(const train_kind *k, const char *run) {
    if (!strcmp(k->kind, "text")) return output(k->name, RUN("generate", run, "--prompt", "the ", "--length", "12"));
    refused(k->name, RUN("generate", run),
            strcmp(k->kind, "tokens") ? "is no language model and writes no text"
                                      : "the tokenizer of this data is not known");
    return NULL;
}

/* The export of a run is the same wherever the run is, and answers as the run does. */
static void same_export(void **state, const train_kind *k) {
    static const char *const files[] = {"model.safetensors", "config.json", "learned.json"};
    for (int i = 0; i < 3; i++) same_file(state, "exported", "again", files[i]);
    if (!strcmp(k->kind, "text"))
        same(k->name, written(k, test_path(state, "again")), written(k, test_path(state, "b/run")));
}

static bool has_pixels(const train_kind *k) { return !strcmp(k->kind, "segmentation"); }

/* Predicts from the data's pictures into FOLDER/predictions, which is then `kept`. */
static void predict_pictures(void **state, const train_kind *k, const char *folder, const char *data,
                             const char *kept) {
    char images[4300], made[4300];
    snprintf(images, sizeof images, "%s/images", data);
    snprintf(made, sizeof made, "%s/predictions", folder);
    free(output(k->name, RUN("predict", folder, images)));
    assert_int_equal(rename(made, test_path(state, kept)), 0);
}

static void same_pictures(void **state, const char *kept, const char *again) {
    static const char *const files[] = {"0.png", "7.png", "3.color.png", "3.beside.png"};
    for (int i = 0; i < 4; i++) same_file(state, kept, again, files[i]);
}

static bool no_answer(void *user, const tcc_answer *a) {
    (void)user, (void)a;
    fail_msg("an answer");
    return false;
}

/* A program has no answers of it, which is said, but the classes of pixels. */
static void opened_by_a_program(void **state, const char *folder, const char *data) {
    char images[4300];
    float *x = calloc(4 * 3 * 32 * 32, sizeof *x);
    tcc_context *cx;
    tcc_run *run;
    tcc_array classes, in = {.name = "x", .data = x, .dtype = TCC_F32, .rank = 4, .dims = {4, 3, 32, 32}};
    (void)state;
    snprintf(images, sizeof images, "%s/images", data);
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_run_open(cx, folder, &run) != TCC_OK) fail_msg("%s", tcc_context_error(cx));
    assert_int_equal(tcc_run_predict(run, images, no_answer, NULL), TCC_EINVAL);
    if (!strstr(tcc_context_error(cx), "output \"classes\"")) fail_msg("%s", tcc_context_error(cx));
    assert_int_equal(tcc_model_evaluate(tcc_run_model(run), &in, 1), TCC_OK);
    assert_int_equal(tcc_model_output(tcc_run_model(run), "classes", &classes), TCC_OK);
    assert_true(classes.rank == 3 && classes.dims[0] == 4 && classes.dims[1] == 32 && classes.dims[2] == 32);
    tcc_run_close(run);
    tcc_context_destroy(cx);
    free(x);
}

static void moved(void **state, const train_kind *k) {
    char at[4300], there[4200], beside[4200], end[64], *own = NULL, *answers = NULL;
    const char *data, *recipe = write_kind_recipe(state, k, &data);
    const char *run = test_path(state, "run"), *whole = test_path(state, "whole"), *now = test_path(state, "b/run"),
               *kept = test_path(state, "kept");
    free(output(k->name, RUN("--quiet", recipe, "--run-dir", run)));
    free(output(k->name, RUN("--quiet", recipe, "--run-dir", whole, "training.max_steps=16")));
    snprintf(at, sizeof at, "data.val_path=%s", data);
    own = output(k->name, RUN("eval", run, at, "data.val_split=auto"));
    if (has_rows(k)) answers = output(k->name, RUN("predict", run, data));
    if (has_pixels(k)) predict_pictures(state, k, run, data, "before");
    free(output(k->name, RUN("export", run, test_path(state, "exported"))));
    char *text = written(k, run);

    test_make_folders(state, "b/run");
    assert_int_equal(rename(run, now), 0);
    test_make_folders(state, "kept/data");
    snprintf(there, sizeof there, "%s%s", kept, strrchr(data, '/'));
    assert_int_equal(rename(data, there), 0);
    snprintf(beside, sizeof beside, "%s/%s", kept, k->beside ? k->beside : "");
    if (k->beside) assert_int_equal(rename(test_path(state, k->beside), beside), 0);

    refused(k->name, RUN("eval", now), data);
    refused(k->name, RUN("eval", now), "give data.val_path=PATH");
    snprintf(at, sizeof at, "data.val_path=%s", there);
    char *again = output(k->name, RUN("eval", now, at, "data.val_split=auto"));
    if (strcmp(evaluation(own), evaluation(again))) fail_msg("%s: before\n%safter\n%s", k->name, own, again);
    free(own);
    free(again);
    free(output(k->name, RUN("export", now, test_path(state, "again"))));
    same_export(state, k);
    if (text) same(k->name, text, written(k, now));
    if (has_rows(k)) same(k->name, strdup(answers), output(k->name, RUN("predict", test_path(state, "again"), there)));
    if (has_rows(k)) same(k->name, answers, output(k->name, RUN("predict", now, there)));
    if (has_pixels(k)) {
        predict_pictures(state, k, now, there, "after");
        same_pictures(state, "before", "after");
        predict_pictures(state, k, test_path(state, "again"), there, "by_export");
        same_pictures(state, "before", "by_export");
        opened_by_a_program(state, test_path(state, "again"), there);
    }
    free(output(k->name, RUN("report", now)));

    /* On the data that is back, under another name, it goes on as if nothing had happened. */
    char old[4200], vocabulary[4300];
    snprintf(old, sizeof old, "%s/recipe.yaml", now);
    snprintf(at, sizeof at, "data.path=%s", there);
    snprintf(vocabulary, sizeof vocabulary, "data.vocab_file=%s", beside);
    snprintf(end, sizeof end, "checkpoints/step-000016.safetensors");
    refused(k->name, RUN("--quiet", old, "--run-dir", now, "--resume", "training.max_steps=16"), "");
    free(output(k->name, RUN("--quiet", old, "--run-dir", now, "--resume", at, "training.max_steps=16",
                             k->beside ? vocabulary : NULL)));
    size_t size, size_again;
    snprintf(old, sizeof old, "whole/%s", end);
    char *a = test_read(test_path(state, old), &size);
    snprintf(old, sizeof old, "b/run/%s", end);
    char *b = test_read(test_path(state, old), &size_again);
    if (size != size_again || memcmp(a, b, size)) fail_msg("%s: resumed, it ends otherwise", k->name);
    free(a);
    free(b);
}

#define KIND(name, i) \
    static void name(void **state) { moved(state, &train_kinds[i]); }
KIND(text, 0)
KIND(tokens, 1)
KIND(idx, 2)
KIND(cifar, 3)
KIND(table, 4)
KIND(regression, 5)
KIND(images, 6)
KIND(texts, 7)
KIND(pixels, 8)

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[TRAIN_KINDS] = {FOLDER_TEST(text),   FOLDER_TEST(tokens), FOLDER_TEST(idx),
                                                  FOLDER_TEST(cifar),  FOLDER_TEST(table),  FOLDER_TEST(regression),
                                                  FOLDER_TEST(images), FOLDER_TEST(texts),  FOLDER_TEST(pixels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
