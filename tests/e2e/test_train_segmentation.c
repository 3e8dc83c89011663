/* SPDX-License-Identifier: MIT
 * Runs that learn a class for each pixel, on a small generated set. */
#include "harness/check.h"
#include "harness/files.h"
#include "harness/pictures.h"
#include "harness/program.h"
#include "runtime/data/pictures/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIDE = 32, PICTURES = 6, IGNORED = 255 };

/* Grey fields, and in each one a bright rectangle, which is class 1; its frame does not count. */
static void write_pair(void **state, const char *set, int i) {
    static uint8_t picture[3 * SIDE * SIDE], labels[SIDE * SIDE];
    const int top = 4 + 2 * (i % 4), left = 4 + 2 * (i % 3), size = 16;
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
             "data: {kind: segmentation, path: %s, val_path: %s, classes: 2, batch_size: 4, augment: true,\n"
             "       val_size: [32, 64], scale: [0.9, 1.1], uniform_scale: true, fill: [0]}\n"
             "loss: {name: edge_dice, weights: [1, 0.5, 0.5, 0.5]}\n"
             "optimizer: {name: sgd, lr: 0.01, momentum: 0.9}\n"
             "schedule: {name: polynomial, power: 0.9, warmup_epochs: 1}\n"
             "training: {max_steps: 16, log_every: 1, metrics: [class_iou], eval_every: 4, average_best: 2,\n"
             "           ema_decay: 0.9, ema_ramp: 15, ema_buffers: true}\n",
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

/* Whether there are just these two of the evaluations' parameters, and the average beside them. */
static void check_kept(void **state, const char *out) {
    int kept = 0;
    for (int step = 4; step <= 16; step += 4) {
        char name[64];
        snprintf(name, sizeof name, "run/checkpoints/top-%06d.safetensors", step);
        kept += access(test_path(state, name), F_OK) == 0;
    }
    assert_int_equal(kept, 2);
    if (!strstr(out, "average of the 2 best:")) fail_msg("no average:\n%s", out);
    program_result r = program_run(NULL, "tcc-train",
                                   (const char *const[]){"eval",
                                                         test_path(state, "run/checkpoints/average.safetensors"),
                                                         "--device", "cpu", NULL});
    const double again = number_after(r.out, "val_mean_iou "), before = number_after(out, "val_mean_iou ");
    if (r.status || again != before) fail_msg("%d, %g and %g:\n%s%s", r.status, again, before, r.out, r.err);
    program_free(&r);
}

static void load_picture(void **state, const char *name, tcc__picture_form form, tcc__picture *out) {
    tcc_diag d = {0};
    if (tcc__picture_load(&d, test_path(state, name), form, out) != TCC_OK) fail_msg("%s", tcc_diag_text(&d));
}

/* Pictures of the validation set have the share of right classes that its evaluation tells, and are shown in colours
 * beside the image; the same comes of a picture without labels. */
static void check_predictions(void **state) {
    enum { WIDE = 64, MARGIN = (WIDE - SIDE) / 2 };
    tcc__picture p, labels, beside;
    double right = 0, count = 0;
    const char *weights = test_path(state, "run/checkpoints/average.safetensors");
    program_result eval = program_run(NULL, "tcc-train", (const char *const[]){"eval", weights, NULL});
    program_result r = program_run(NULL, "tcc-train", (const char *const[]){"predict", weights, NULL});
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    for (int i = PICTURES - 2; i < PICTURES; i++) {
        char name[64];
        snprintf(name, sizeof name, "run/predictions/%d.png", i);
        load_picture(state, name, TCC__PICTURE_LABELS, &p);
        snprintf(name, sizeof name, "val/labels/%d.png", i);
        load_picture(state, name, TCC__PICTURE_LABELS, &labels);
        snprintf(name, sizeof name, "run/predictions/%d.beside.png", i);
        load_picture(state, name, TCC__PICTURE_RGB, &beside);
        assert_true(p.height == SIDE && p.width == WIDE && beside.width == 2 * WIDE);
        for (int k = 0; k < SIDE * SIDE; k++) {
            const int at = k / SIDE * WIDE + MARGIN + k % SIDE;
            const uint8_t *color = beside.pixels + 3 * (at + (k / SIDE + 1) * WIDE);
            if (labels.pixels[k] != IGNORED) right += labels.pixels[k] == p.pixels[at], count++;
            assert_true(color[p.pixels[at]] == 128); /* class 0 is dark red, class 1 green */
        }
        free(p.pixels);
        free(labels.pixels);
        free(beside.pixels);
    }
    const double told = number_after(eval.out, "val_accuracy ");
    if (!(fabs(right / count - told) < 1e-4)) fail_msg("%g is right, %g is told", right / count, told);
    program_free(&eval);
    program_free(&r);
    remove(test_path(state, "run/predictions/5.png"));
    r = program_run(NULL, "tcc-train",
                    (const char *const[]){"predict", weights, test_path(state, "val/images/5.png"),
                                          test_path(state, "val/images/5.png"), NULL});
    if (r.status || access(test_path(state, "run/predictions/5.png"), F_OK) ||
        access(test_path(state, "run/predictions/5-2.color.png"), F_OK) || !strstr(r.out, "predictions/5-2.png\n"))
        fail_msg("%s%s", r.out, r.err);
    program_free(&r);
}

/* A checkpoint of another number of classes. */
static void refuses_other_weights(void **state) {
    static const char message[] = "these are not the model's weights: 0 missing, 4 wrongly shaped";
    char from[512];
    snprintf(from, sizeof from, "init_from=%s", test_path(state, "run/checkpoints/best.safetensors"));
    program_result r = program_run(NULL, "tcc-train",
                                   (const char *const[]){"--device", "cpu", "--run-dir", test_path(state, "other"),
                                                         test_path(state, "r.yaml"), "data.classes=3", from, NULL});
    if (!r.status || !strstr(r.err, message)) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    program_free(&r);
}

static int digit_of(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return c == '=' ? 0 : (int)(strchr(digits, c) - digits);
}

/* The page of the run has its pictures, byte for byte. */
static void check_page(void **state) {
    program_result r = program_run(NULL, "tcc-train", (const char *const[]){"report", test_path(state, "run"), NULL});
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    program_free(&r);
    char *page = test_read(test_path(state, "run/report.html"), NULL), *at = page;
    assert_non_null(strstr(page, "<h2>Image, label and prediction: run</h2>"));
    for (int i = 0; i < 2; i++) {
        char name[64];
        size_t size;
        snprintf(name, sizeof name, "run/pictures/val_image_%d.png", i);
        char *picture = test_read(test_path(state, name), &size);
        at = strstr(at, "base64,") + 7;
        for (size_t k = 0; k < size; k++) {
            const char *four = at + k / 3 * 4;
            const int bits = digit_of(four[0]) << 18 | digit_of(four[1]) << 12 | digit_of(four[2]) << 6 |
                             digit_of(four[3]);
            assert_int_equal((unsigned char)picture[k], bits >> (16 - 8 * (k % 3)) & 255);
        }
        assert_true(at[(size + 2) / 3 * 4] == '"');
        free(picture);
    }
    free(page);
}

/* The loss of all heads falls; val_mean_iou is the mean of the classes' own. */
static void learns(void **state) {
    write_sets(state);
    program_result r = run(state, NULL, NULL);
    if (r.status) fail_msg("exit status %d:\n%s%s", r.status, r.out, r.err);
    const double before = first_after(r.out, "  loss "), after = number_after(r.out, "  loss ");
    if (!(after < 0.6 * before)) fail_msg("the loss goes from %g to %g:\n%s", before, after, r.out);
    check_kept(state, r.out);
    check_predictions(state);
    check_page(state);
    refuses_other_weights(state);
    assert_int_equal(access(test_path(state, "run/pictures/val_image_1.png"), F_OK), 0);
    *strstr(r.out, "average of") = '\0';
    const double mean = number_after(r.out, "val_mean_iou ");
    size_t size;
    char *lines = test_read(test_path(state, "run/metrics.jsonl"), &size);
    const double first = number_after(lines, "\"val_iou.0\":"), second = number_after(lines, "\"val_iou.1\":");
    if (!(fabs((first + second) / 2 - mean) < 1e-4)) fail_msg("%g and %g have the mean %g", first, second, mean);
    free(lines);
    program_free(&r);
}

/* Cityscapes' numbers, with the recipes that are shipped: their keys and the table of labels. Pixels are counted in
 * the training set. */
static void shipped_recipes_read_their_data(void **state) {
    static const char *const names[] = {"pp-liteseg", "stdc", "ddrnet", "regseg", "segformer"};
    static uint8_t picture[3 * SIDE * SIDE], labels[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) labels[i] = (uint8_t)(i % 34);
    write_png(state, "city/images/a.png", SIDE, SIDE, 3, picture);
    write_png(state, "city/labels/a.png", SIDE, SIDE, 1, labels);
    char path[512], val_path[512], recipe[512];
    snprintf(path, sizeof path, "data.path=%s", test_path(state, "city"));
    snprintf(val_path, sizeof val_path, "data.val_path=%s", test_path(state, "city"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(recipe, sizeof recipe, "%s/tools/recipes/%s.yaml", TCC_SOURCE_DIR, names[i]);
        program_result r = program_run(NULL, "tcc-train", (const char *const[]){"data", recipe, path, val_path, NULL});
        if (r.status || !strstr(r.out, "classes (19): road 30"))
            fail_msg("%s: exit status %d:\n%s%s", names[i], r.status, r.out, r.err);
        program_free(&r);
    }
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
    program_share_cache();
    const struct CMUnitTest tests[] = {FOLDER_TEST(learns), FOLDER_TEST(shipped_recipes_read_their_data),
                                       FOLDER_TEST(refuses_what_does_not_go_together)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
