/* SPDX-License-Identifier: MIT
 * Data that is cut short or goes away while a run reads it: the run ends, says which file and where, and its last step
 * is kept, from which another goes on. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/patience.h"
#include "harness/pictures.h"
#include "harness/program.h"
#include "harness/train_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *recipe_of(void **state, const char *model_and_data) {
    char text[2048];
    snprintf(text, sizeof text, "%s\ntraining: {max_steps: 100000000, save_every: 5, keep_last: 0}\n", model_and_data);
    return test_write_text(state, "r.yaml", text);
}

static program_process start(void **state, const char *recipe, const char *workers) {
    const char *const arguments[] = {"--device", "cpu", "--run-dir", test_path(state, "run"), recipe, workers, NULL};
    return program_start(NULL, "tcc-train", arguments);
}

static bool has_saved(void *path) { return test_exists(path); }

static void wait_for_steps(void **state, program_process *p) {
    const char *saved = test_path(state, "run/checkpoints/step-000005.safetensors");
    if (test_wait(has_saved, (void *)saved, 60)) return;
    program_result r = program_wait(p);
    fail_msg("no checkpoint came:\n%s%s", r.out, r.err);
}

/* The run has ended with this message; it names a checkpoint, which is there, and which is later than step 5. */
static long expect_kept(void **state, program_process *p, const char *message) {
    program_result r = program_wait(p);
    const char *kept = strstr(r.err, "the last checkpoint is of step ");
    if (r.status != 1 || !strstr(r.err, message) || !kept)
        fail_msg("exit status %d, or this does not say \"%s\" and which step is kept:\n%s%s", r.status, message, r.out,
                 r.err);
    long step = strtol(kept + strlen("the last checkpoint is of step "), NULL, 10);
    char name[96];
    snprintf(name, sizeof name, "run/checkpoints/step-%06ld.safetensors", step);
    assert_true(step > 5 && test_exists(test_path(state, name)));
    program_free(&r);
    return step;
}

/* It goes on from there: nothing but the missing data had stopped it. */
static void expect_resumes(void **state, const char *recipe, long step) {
    char steps[64], resumed[64];
    snprintf(steps, sizeof steps, "training.max_steps=%ld", step + 2);
    snprintf(resumed, sizeof resumed, ", step %ld\n", step);
    program_result r = program_run(NULL, "tcc-train",
                                   (const char *const[]){"--device", "cpu", "--run-dir", test_path(state, "run"),
                                                         "--resume", recipe, steps, NULL});
    if (r.status || !strstr(r.out, resumed)) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    program_free(&r);
}

static void text_is_cut_short(void **state) {
    const char *path = write_text_data(state);
    char text[512];
    snprintf(text, sizeof text,
             "model: {name: gpt, layers: 1, heads: 2, width: 16, context: 16}\n"
             "data: {kind: text, path: %s, batch_size: 4}\nsample: {length: 0}",
             path);
    const char *recipe = recipe_of(state, text);
    program_process p = start(state, recipe, "data.num_workers=2");
    wait_for_steps(state, &p);
    assert_int_equal(truncate(path, 100), 0);
    long step = expect_kept(state, &p, "text.txt: error: the file ends at byte 100");
    write_text_data(state);
    expect_resumes(state, recipe, step);
}

static void tokens_are_cut_short(void **state) {
    uint16_t tokens[4000];
    for (int i = 0; i < 4000; i++) tokens[i] = (uint16_t)(i * i % 17);
    const char *path = test_write(state, "tokens.bin", tokens, sizeof tokens);
    char text[512];
    snprintf(text, sizeof text,
             "model: {name: gpt, layers: 1, heads: 2, width: 16, context: 16}\n"
             "data: {kind: tokens, path: %s, batch_size: 4}",
             path);
    const char *recipe = recipe_of(state, text);
    program_process p = start(state, recipe, "data.num_workers=0");
    wait_for_steps(state, &p);
    assert_int_equal(truncate(path, 100), 0);
    long step = expect_kept(state, &p, "tokens.bin: error: the file ends at byte 100, in front of byte ");
    test_write(state, "tokens.bin", tokens, sizeof tokens);
    expect_resumes(state, recipe, step);
}

static void write_pictures(void **state) {
    uint8_t pixels[3 * 8 * 8];
    char name[64];
    for (int i = 0; i < 12; i++) {
        for (int j = 0; j < 3 * 8 * 8; j++) pixels[j] = (uint8_t)(i % 2 ? 200 + j % 9 : j % 7);
        snprintf(name, sizeof name, "set/%s/%d.png", i % 2 ? "light" : "dark", i);
        write_png(state, name, 8, 8, 3, pixels);
    }
}

static void a_picture_goes_away(void **state) {
    write_pictures(state);
    char text[512];
    snprintf(text, sizeof text,
             "model: {name: mlp, hidden: [4]}\n"
             "data: {kind: images, path: %s, batch_size: 4, val_split: 0}",
             test_path(state, "set"));
    const char *recipe = recipe_of(state, text);
    program_process p = start(state, recipe, "data.num_workers=3");
    wait_for_steps(state, &p);
    assert_int_equal(unlink(test_path(state, "set/dark/4.png")), 0);
    long step = expect_kept(state, &p, "set/dark/4.png: error: cannot open the file: No such file or directory");
    write_pictures(state);
    expect_resumes(state, recipe, step);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(text_is_cut_short), FOLDER_TEST(tokens_are_cut_short),
                                       FOLDER_TEST(a_picture_goes_away)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
