/* SPDX-License-Identifier: MIT
 * A run on picture files, parts of which are seen and mixed: it learns, it goes on from the middle of an epoch with the
 * same batches, and it says how long it waited for data. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/pictures.h"
#include "harness/program.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 16 };

/* Two classes: bright above, or below. */
static const char *write_classes(void **state) {
    uint8_t pixels[3 * SIDE * SIDE];
    char name[64];
    for (int i = 0; i < 20; i++) {
        for (int j = 0; j < 3 * SIDE * SIDE; j++)
            pixels[j] = (uint8_t)((j / (3 * SIDE) < SIDE / 2) == i % 2 ? 200 + i : 20 + j % 7);
        snprintf(name, sizeof name, "set/%s/%d.%s", i % 2 ? "above" : "below", i, i < 10 ? "png" : "jpg");
        if (i < 10) write_png(state, name, SIDE, SIDE, 3, pixels);
        else write_jpeg(state, name, SIDE, SIDE, pixels);
    }
    return test_path(state, "set");
}

static program_result train(void **state, const char *run, const char *steps, const char *more) {
    char text[1024];
    snprintf(
        text, sizeof text,
        "model: {name: mlp, hidden: [8]}\n"
        "data: {kind: images, path: %s, size: [12, 12], augment: true, crop_area: [0.5, 1],\n"
        "       jitter: [0.2, 0.2, 0.2], batch_size: 4, num_workers: 3, val_split: 0.2, val_scale: 1.1, mixup: 0.4,\n"
        "       cutmix: 1}\n"
        "training: {max_steps: 20, save_every: 5, log_every: 1, label_smoothing: 0.1}\noptimizer: {lr: 0.01}\n",
        test_path(state, "set"));
    const char *recipe = test_write_text(state, "r.yaml", text);
    program_result r = program_run(
        NULL, "tcc-train",
        (const char *const[]){"--device", "cpu", "--run-dir", test_path(state, run), recipe, steps, more, NULL});
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    return r;
}

static void learns_and_goes_on(void **state) {
    write_classes(state);
    program_result whole = train(state, "whole", "training.max_steps=20", NULL);
    if (!strstr(whole.out, "step 20  val_loss")) fail_msg("no evaluation:\n%s", whole.out);
    if (!strstr(whole.out, "waited for data: ")) fail_msg("no word of waiting:\n%s", whole.out);
    program_free(&whole);
    program_result first = train(state, "parts", "training.max_steps=10", NULL);
    program_free(&first); /* 16 pictures, 4 batches: in the middle of the third epoch */
    program_result rest = train(state, "parts", "training.max_steps=20", "--resume");
    program_free(&rest);
    size_t size, other;
    char *a = test_read(test_path(state, "whole/checkpoints/step-000020.safetensors"), &size);
    char *b = test_read(test_path(state, "parts/checkpoints/step-000020.safetensors"), &other);
    assert_int_equal(size, other);
    assert_memory_equal(a, b, size);
    free(a);
    free(b);
}

/* In JSON a name's bytes that are no UTF-8 are as Python has them; no recipe holds such a folder. */
static void names_of_any_bytes(void **state) {
    write_classes(state);
    program_result r = train(state, "run", "training.max_steps=1", NULL);
    program_free(&r);
    const char *odd = test_path(state, "odd\xff/\xfe\xc3\xa4.png");
    test_make_folders(state, "odd\xff/");
    assert_int_equal(rename(test_path(state, "set/above/1.png"), odd), 0);
    r = program_run(NULL, "tcc-train",
                    (const char *const[]){"predict", test_path(state, "run"), odd, "--format", "json", NULL});
    if (r.status || !strstr(r.out, "odd\\udcff/\\udcfe\xc3\xa4.png\",")) fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
    const program_options there = {.folder = test_path(state, "odd\xff")};
    r = program_run(&there, "tcc-train",
                    (const char *const[]){"--dry-run", test_path(state, "r.yaml"), "data.path=../set", NULL});
    if (r.status != 2 || !strstr(r.err, "the path leads through this folder, whose name is not UTF-8"))
        fail_msg("%d: %s%s", r.status, r.out, r.err);
    program_free(&r);
}

int main(void) {
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(learns_and_goes_on), FOLDER_TEST(names_of_any_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
