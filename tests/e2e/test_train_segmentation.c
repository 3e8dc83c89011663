/* SPDX-License-Identifier: MIT
 * Runs that learn a class for each pixel, on a small generated set. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/pictures.h"
#include "harness/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 64, PICTURES = 6, IGNORED = 255 };

/* Grey fields, and in each one a bright rectangle, which is class 1; its frame does not count. */
static void write_pair(void **state, const char *set, int i) {
    static uint8_t picture[3 * SIDE * SIDE], labels[SIDE * SIDE];
    const int top = 8 + 4 * (i % 4), left = 8 + 5 * (i % 3), size = 28;
    char name[64];
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            const int rows = y - top, columns = x - left, last = size - 1;
            const bool within = rows >= 0 && columns >= 0 && rows < size && columns < size;
            const bool frame = within && (!rows || !columns || rows == last || columns == last);
            labels[y * SIDE + x] = (uint8_t)(frame ? IGNORED : within);
            for (int c = 0; c < 3; c++)
                picture[3 * (y * SIDE + x) + c] = (uint8_t)(within ? 220 - 20 * c : 40 + (x * 7 + y * 3 + i) % 30);
        }
    snprintf(name, sizeof name, "%s/images/%d.png", set, i);
    write_png(state, name, SIDE, SIDE, 3, picture);
    snprintf(name, sizeof name, "%s/labels/%d.png", set, i);
    write_png(state, name, SIDE, SIDE, 1, labels);
}

static void write_sets(void **state) {
    for (int i = 0; i < PICTURES; i++) write_pair(state, i < PICTURES - 2 ? "train" : "val", i);
}

static const char *write_recipe(void **state, const char *model) {
    char text[1024];
    snprintf(text, sizeof text,
             "model: {name: %s}\n"
             "data: {kind: segmentation, path: %s, val_path: %s, classes: 2, batch_size: 2, augment: true}\n"
             "loss: {name: edge_dice, weights: [1, 0.5, 0.5, 0.5]}\n"
             "optimizer: {name: sgd, lr: 0.02, momentum: 0.9}\n"
             "training: {max_steps: 16, log_every: 1, metrics: [class_iou]}\n",
             model, test_path(state, "train"), test_path(state, "val"));
    return test_write_text(state, "r.yaml", text);
}

static program_result run(void **state, const char *more, const char *again) {
    return program_run(NULL, "tcc-train",
                       (const char *const[]){"--device", "cpu", "--run-dir", test_path(state, "run"),
                                             write_recipe(state, "pp-liteseg-t"), more, again, NULL});
}

/* Behind the last `key`, which is there. */
static double number_after(const char *text, const char *key) {
    const char *at = strstr(text, key), *last = NULL;
    for (; at; at = strstr(at + 1, key)) last = at;
    if (!last) fail_msg("no %s in:\n%s", key, text);
    return strtod(last + strlen(key), NULL);
}

static double first_after(const char *text, const char *key) {
    const char *at = strstr(text, key);
    if (!at) fail_msg("no %s in:\n%s", key, text);
    return strtod(at + strlen(key), NULL);
}

/* The loss of all heads falls; val_mean_iou is the mean of the classes' own. */
static void learns(void **state) {
    write_sets(state);
    program_result r = run(state, NULL, NULL);
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    const double before = first_after(r.out, "  loss "), after = number_after(r.out, "  loss ");
    if (!(after < 0.6 * before)) fail_msg("the loss goes from %g to %g:\n%s", before, after, r.out);
    const double mean = number_after(r.out, "val_mean_iou ");
    size_t size;
    char *lines = test_read(test_path(state, "run/metrics.jsonl"), &size);
    const double first = number_after(lines, "\"val_iou.0\":"), second = number_after(lines, "\"val_iou.1\":");
    if (!(fabs((first + second) / 2 - mean) < 1e-4)) fail_msg("%g and %g have the mean %g", first, second, mean);
    free(lines);
    program_free(&r);
}

/* Which is said before anything is trained. */
static void refuses_what_does_not_go_together(void **state) {
    static const struct {
        const char *more, *message;
    } cases[] = {
        {"data.size=[48, 64]", "height and width must be multiples of 32"},
        {"data.classes=1", "data.classes"},
        {"model.name=resnet18", "model.name resnet18 cannot be trained on data.kind segmentation"},
        {"loss.weights=[1, 1, 1, 1, 1]", "loss.weights has 5 values"},
        {"data.ignored_label=7", "label 255 at row"},
    };
    write_sets(state);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program_result r = run(state, cases[i].more, "--dry-run");
        if (!r.status || !strstr(r.err, cases[i].message))
            fail_msg("%s: exit status %d, not \"%s\":\n%s%s", cases[i].more, r.status, cases[i].message, r.out, r.err);
        program_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {FOLDER_TEST(learns), FOLDER_TEST(refuses_what_does_not_go_together)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
