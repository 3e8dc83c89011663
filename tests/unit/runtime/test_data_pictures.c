/* SPDX-License-Identifier: MIT
 * Data kinds images and segmentation: picture files, views of them, and that a batch depends on its number alone. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "harness/files.h"
#include "harness/pictures.h"
#include "ir/support/context.h"
#include "traincc/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { H = 6, W = 8 };

static tcc_context cx;

static tcc_dataset *open_data(tcc_data_options options) {
    options.size = sizeof options;
    tcc_dataset *data;
    assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
    return data;
}

static tcc_loader *open_loader(const tcc_dataset *data, tcc_split split, int64_t batch, int workers, bool shuffle) {
    tcc_loader_options options = {.size = sizeof options,
                                  .split = split,
                                  .batch_size = batch,
                                  .num_workers = workers,
                                  .shuffle = shuffle,
                                  .seed = 7};
    tcc_loader *l;
    assert_ok(tcc_loader_create(&cx, data, &options, &l), &cx.diag);
    return l;
}

static const tcc_batch *next(tcc_loader *l) {
    const tcc_batch *batch;
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    return batch;
}

/* A picture whose red says the row, green the column and blue is `blue`. */
static void paint(uint8_t *pixels, int height, int width, int blue) {
    for (int i = 0; i < height * width; i++) {
        pixels[3 * i] = (uint8_t)(10 * (i / width));
        pixels[3 * i + 1] = (uint8_t)(10 * (i % width));
        pixels[3 * i + 2] = (uint8_t)blue;
    }
}

/* x is the pixel's value from 0 to 255 then. */
static tcc_data_options plain(const char *kind, const char *path) {
    return (tcc_data_options){
        .kind = kind, .path = path, .val_split = -1, .n_channels = 1, .mean = {0}, .std = {1.0 / 255}};
}

/* Two classes of `count` pictures each. */
static const char *write_classes(void **state, const char *name, int count) {
    static const char *const classes[] = {"cat", "dog"};
    uint8_t pixels[3 * H * W];
    char file[128];
    for (int i = 0; i < 2 * count; i++) {
        paint(pixels, H, W, 20 * i);
        snprintf(file, sizeof file, "%s/%s/%02d.%s", name, classes[i / count], i, i == 1 ? "jpg" : "png");
        if (i == 1) write_jpeg(state, file, H, W, pixels);
        else write_png(state, file, H, W, 3, pixels);
    }
    snprintf(file, sizeof file, "%s/cat/notes.txt", name);
    test_write_text(state, file, "not a picture");
    return test_path(state, name);
}

/* Pictures with labels: the label is the row, but 11 in the first column. */
static const char *write_pairs(void **state, const char *name, int count) {
    uint8_t pixels[3 * H * W], labels[H * W];
    char file[128];
    for (int i = 0; i < count; i++) {
        paint(pixels, H, W, 20 * i);
        for (int j = 0; j < H * W; j++) labels[j] = (uint8_t)(j % W ? j / W : 11);
        snprintf(file, sizeof file, "%s/images/%02d.png", name, i);
        write_png(state, file, H, W, 3, pixels);
        snprintf(file, sizeof file, "%s/labels/%02d.png", name, i);
        write_png(state, file, H, W, 1, labels);
    }
    return test_path(state, name);
}

static tcc_data_options pairs(const char *path) {
    tcc_data_options o = plain("segmentation", path);
    o.classes = H;
    o.has_ignored_label = true;
    o.ignored_label = 11;
    return o;
}

static void class_folders(void **state) {
    const char *path = write_classes(state, "set", 3), *other = write_classes(state, "other", 1);
    tcc_dataset *data = open_data(plain("images", path));
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.samples[0] == 6 && info.samples[1] == 0 && info.classes == 2 && info.n_channels == 3);
    assert_true(info.x.rank == 3 && info.x.dims[1] == H && info.x.dims[2] == W && info.y.rank == 0);
    size_t length;
    assert_string_equal(tcc_dataset_label(data, 1, &length), "dog");
    tcc_loader *l = open_loader(data, TCC_SPLIT_TRAIN, 6, 1, false);
    const tcc_batch *batch = next(l);
    const float *x = batch->arrays[0].data;
    const int32_t *y = batch->arrays[1].data;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(y[i], i / 3);
        for (int j = 0; j < 3 * H * W; j++) {
            int p = j % (H * W), plane = j / (H * W);
            double expected = plane == 0 ? 10 * (p / W) : plane == 1 ? 10 * (p % W) : 20 * i;
            assert_true(fabs((double)x[i * 3 * H * W + j] - expected) <= (i == 1 ? 12 : 1e-3)); /* a JPEG is lossy */
        }
    }
    tcc_loader_destroy(l);
    tcc_dataset_close(data);

    tcc_data_options o = {.kind = "images", .path = path, .val_path = other};
    data = open_data(o);
    tcc_dataset_get_info(data, &info);
    assert_true(info.samples[0] == 6 && info.samples[1] == 2);
    assert_true(fabs(info.mean[0] - 25 / 255.0) < 0.01 && fabs(info.mean[2] - 50 / 255.0) < 0.01);
    tcc_dataset_close(data);
    o.val_path = NULL;
    o.val_split = 0.5;
    data = open_data(o);
    tcc_dataset_get_info(data, &info);
    assert_true(info.samples[0] == 3 && info.samples[1] == 3);
    tcc_dataset_close(data);
}

/* A window of 2 x 4 pixels of a picture of half the size, or of one scaled up. */
static void sizes(void **state) {
    const char *path = write_classes(state, "set", 1);
    tcc_data_options o = plain("images", path);
    o.height = 3;
    o.width = 2;
    tcc_dataset *data = open_data(o);
    tcc_loader *l = open_loader(data, TCC_SPLIT_TRAIN, 2, 0, false);
    const float *x = next(l)->arrays[0].data;
    /* 6 x 8 becomes 3 x 4, whose middle columns are shown: column 1 lies at 2.5 of the eight, row 0 at 0.5 of six;
     * there the weights fall off over two pixels, and none lies outside but for the first row */
    assert_true(fabs((double)x[6] - 25) < 1e-3 && fabs((double)x[7] - 45) < 1e-3);
    assert_true(fabs((double)x[2] - 25) < 1e-3 && (double)x[0] > 5 && (double)x[0] < 8);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

/* Each pixel of x and its label come from the same place; beyond the picture x is 0 and y -100. */
static void pairs_fit(void **state) {
    tcc_data_options o = pairs(write_pairs(state, "pairs", 4));
    o.augment = true;
    o.height = H + 2;
    o.width = W - 3;
    tcc_dataset *data = open_data(o);
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.classes == H && info.y.rank == 2 && info.y.dims[0] == H + 2 && info.y.dims[1] == W - 3);
    tcc_loader *l = open_loader(data, TCC_SPLIT_TRAIN, 1, 0, true);
    int mirrored = 0, places = 0;
    for (int k = 0; k < 64; k++) {
        const tcc_batch *batch = next(l);
        const float *red = batch->arrays[0].data, *green = red + (H + 2) * (W - 3);
        const int32_t *y = batch->arrays[1].data;
        int seen = 0;
        for (int i = 0; i < (H + 2) * (W - 3); i++) {
            int column = (int)lround((double)green[i] / 10);
            if (y[i] == -100) continue; /* outside, or the first column */
            seen++;
            assert_true(column > 0);
            assert_int_equal(y[i], lround((double)red[i] / 10));
            if (i % (W - 3) && y[i - 1] != -100) mirrored += green[i] < green[i - 1];
        }
        assert_true(seen >= H * (W - 4) && seen <= H * (W - 3));
        places |= 1 << (int)lround((double)green[(H / 2) * (W - 3)] / 10);
    }
    assert_true(mirrored > 64 && mirrored < 64 * H * (W - 4)); /* some, not all */
    assert_true(places & (places - 1));
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void scaled_down(void **state) {
    tcc_data_options o = pairs(write_pairs(state, "pairs", 2));
    o.classes = 0; /* found */
    o.scale[0] = o.scale[1] = 0.5;
    tcc_dataset *data = open_data(o);
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_int_equal(info.classes, H);
    tcc_loader *l = open_loader(data, TCC_SPLIT_TRAIN, 1, 0, false);
    const tcc_batch *batch = next(l);
    int inside = 0;
    for (int i = 0; i < H * W; i++) {
        float red = ((const float *)batch->arrays[0].data)[i];
        int row = i / W, column = i % W;
        bool in = row >= 2 && row < 5 && column >= 2 && column < 6; /* 3 x 4 in the middle of 6 x 8 */
        inside += in;
        if (!in) assert_true(red == 0 && ((const int32_t *)batch->arrays[1].data)[i] == -100);
    }
    assert_int_equal(inside, 12);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

/* Three epochs' batches, all of x and y in a row. */
static float *collect(const tcc_dataset *data, int workers, int64_t from, size_t *count) {
    tcc_loader *l = open_loader(data, TCC_SPLIT_TRAIN, 2, workers, true);
    int64_t batches = tcc_loader_batches(l);
    assert_ok(tcc_loader_set_state(l, (tcc_loader_state){7, from / batches, from % batches}), &cx.diag);
    size_t used = 0;
    float *all = malloc(1 << 20);
    for (int64_t b = from; b < 3 * batches; b++) {
        const tcc_batch *batch = next(l);
        for (int i = 0; i < 2; i++) {
            size_t bytes = 4;
            for (int k = 0; k < batch->arrays[i].rank; k++) bytes *= (size_t)batch->arrays[i].dims[k];
            assert_true(4 * used + bytes <= 1 << 20);
            memcpy(all + used, batch->arrays[i].data, bytes);
            used += bytes / 4;
        }
    }
    tcc_loader_destroy(l);
    *count = used;
    return all;
}

static void check_repeats(tcc_data_options o) {
    o.augment = true;
    o.scale[0] = 0.7;
    o.scale[1] = 1.5;
    for (int i = 0; i < 3; i++) o.jitter[i] = 0.3;
    tcc_dataset *data = open_data(o);
    size_t count, other;
    float *all = collect(data, 0, 0, &count);
    for (int workers = 1; workers <= 4; workers += 3) {
        float *again = collect(data, workers, 0, &other);
        assert_int_equal(count, other);
        assert_memory_equal(all, again, 4 * count);
        free(again);
        again = collect(data, workers, 4, &other); /* in the middle of the second epoch */
        assert_memory_equal(all + (count - other), again, 4 * other);
        free(again);
    }
    size_t epoch = count / 3;
    assert_memory_not_equal(all, all + epoch, 4 * epoch);
    free(all);
    tcc_dataset_close(data);
}

static void repeats(void **state) {
    check_repeats(plain("images", write_classes(state, "set", 3)));
    check_repeats(pairs(write_pairs(state, "pairs", 6)));
}

static void jitter(void **state) {
    tcc_data_options o = plain("images", write_classes(state, "set", 2));
    o.jitter[0] = 0.5;
    tcc_dataset *data = open_data(o);
    tcc_loader *l = open_loader(data, TCC_SPLIT_TRAIN, 1, 0, false);
    double least = 9, most = 0;
    for (int i = 0; i < 400; i++) {
        const float *x = next(l)->arrays[0].data;
        double factor = (double)x[H * W + 1] / 10; /* green, of the second column */
        if (i % 4 == 1) continue;                  /* the JPEG */
        if (factor < least) least = factor;
        if (factor > most) most = factor;
        assert_true(fabs((double)x[H * W + 2] - 20 * factor) < 1e-3);
    }
    assert_true(least > 0.499 && least < 0.6 && most < 1.501 && most > 1.4);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void refused(tcc_data_options options, tcc_status status, const char *part) {
    dataset_refused(&cx, options, status, part);
}

/* Its first bytes are left; fewer than 0: all but so many. */
static void cut_file(const char *path, int64_t left) {
    size_t size;
    char *file = test_read(path, &size);
    FILE *f = fopen(path, "wb");
    fwrite(file, 1, (size_t)(left < 0 ? (int64_t)size + left : left), f);
    fclose(f);
    free(file);
}

/* The first batch cannot be read. */
static void unreadable(tcc_data_options o, const char *part) {
    tcc_dataset *data = open_data(o);
    tcc_loader *l = open_loader(data, TCC_SPLIT_TRAIN, 2, 2, false);
    const tcc_batch *batch;
    assert_error(tcc_loader_next(l, &batch), TCC_EFORMAT, &cx.diag, part);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
    tcc_diag_clear(&cx.diag);
}

static void bad_images(void **state) {
    const char *path = write_classes(state, "set", 2);
    refused(plain("images", test_path(state, "none")), TCC_ENOTFOUND, "none: error: cannot be opened");
    refused(plain("images", test_path(state, "set/cat")), TCC_EFORMAT, "has 0 folders");
    tcc_data_options o = plain("images", path);
    o.height = 5;
    refused(o, TCC_EINVAL, "height is 5 and width 0");
    o = plain("images", path);
    o.jitter[1] = 2;
    refused(o, TCC_EINVAL, "jitter is 2");
    o.jitter[1] = NAN;
    refused(o, TCC_EINVAL, "jitter is nan");
    o = plain("images", path);
    o.scale[0] = 2;
    o.scale[1] = 1;
    refused(o, TCC_EINVAL, "scale is from 2 to 1");
    o.scale[0] = NAN;
    refused(o, TCC_EINVAL, "scale is from nan to 1");
    cut_file(test_path(state, "set/cat/01.jpg"), -20);
    refused(plain("images", path), TCC_EFORMAT, "01.jpg: error: JPEG, before byte "); /* before the first step */
    test_write_text(state, "set/cat/01.jpg", "GIF89a ...");
    refused(plain("images", path), TCC_EFORMAT, "01.jpg: error: does not begin as a PNG, JPEG or WebP file");
    write_classes(state, "set", 2);
    cut_file(test_path(state, "set/cat/00.png"), 60);
    refused(plain("images", path), TCC_EFORMAT, "00.png: error: PNG, before byte ");
    cut_file(test_path(state, "set/cat/00.png"), 20);
    refused(plain("images", path), TCC_EFORMAT, "of 20: the file ends too early");
    mkdir(test_path(state, "set/empty"), 0777);
    refused(plain("images", path), TCC_EFORMAT, "set/empty: error: has no .png, .jpg, .jpeg or .webp file");
}

static void bad_pairs(void **state) {
    const char *path = write_pairs(state, "pairs", 2);
    tcc_data_options o = pairs(path);
    o.classes = H - 1;
    refused(o, TCC_EFORMAT, "00.png: error: label 5 at row 5, column 1 is not below the number of classes, 5");
    uint8_t pixels[3 * H * W] = {0};
    write_png(state, "pairs/labels/01.png", H, W - 1, 1, pixels);
    refused(pairs(path), TCC_EFORMAT, "labels are 7 x 6, the image 8 x 6 pixels");
    write_png(state, "pairs/labels/01.png", H, W, 3, pixels);
    refused(pairs(path), TCC_EFORMAT, "01.png: error: labels are a grey or palette PNG");
    remove(test_path(state, "pairs/labels/01.png"));
    refused(pairs(path), TCC_ENOTFOUND, "has no labels: there is no");
    remove(test_path(state, "pairs/images/01.png"));
    write_png(state, "pairs/labels/07.png", H, W, 1, pixels);
    refused(pairs(path), TCC_ENOTFOUND, "labels 07.png have no picture in");
}

/* Sets bytes of a file's middle, so that its beginning and its end are whole. */
static void damage(const char *path) {
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -24, SEEK_END), 0);
    fwrite("damaged", 1, 7, f);
    assert_int_equal(fclose(f), 0);
}

static void bad_pictures_may_be_left_out(void **state) {
    const char *path = write_classes(state, "set", 4);
    cut_file(test_path(state, "set/dog/05.png"), 60);
    tcc_data_options o = plain("images", path);
    o.skip_bad = true;
    tcc_dataset *data = open_data(o);
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_int_equal(info.samples[0], 7);
    assert_true(tcc_dataset_count(data, 0) == 4 && tcc_dataset_count(data, 1) == 3);
    assert_non_null(strstr(tcc_dataset_skipped(data, 0), "set/dog/05.png: error: PNG, before byte"));
    assert_null(tcc_dataset_skipped(data, 1));

    /* What only decoding finds: another picture takes its place, the same one each time. */
    damage(test_path(state, "set/cat/00.png"));
    float first[7];
    for (int i = 0; i < 2; i++) {
        tcc_loader *l = open_loader(data, TCC_SPLIT_TRAIN, 7, i, false);
        const tcc_batch *batch = next(l);
        for (int k = 0; k < 7; k++) {
            const float blue = ((const float *)batch->arrays[0].data)[(k * 3 + 2) * H * W];
            if (i) assert_true(blue == first[k]);
            first[k] = blue;
        }
        assert_true(first[0] > 0); /* the bad one's is 0 */
        tcc_loader_destroy(l);
    }
    assert_non_null(strstr(tcc_dataset_skipped(data, 1), "set/cat/00.png"));
    assert_null(tcc_dataset_skipped(data, 2));
    tcc_dataset_close(data);
    write_classes(state, "set", 4);
    damage(test_path(state, "set/cat/00.png"));
    unreadable(plain("images", path), "00.png: error: PNG, before byte ");
}

/* The labels of a data set of one picture. */
static void expect_labels(tcc_data_options o, int64_t classes, const int32_t *expected, int count) {
    tcc_dataset *data = open_data(o);
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_int_equal(info.classes, classes);
    tcc_loader *l = open_loader(data, TCC_SPLIT_TRAIN, 1, 0, false);
    const int32_t *y = next(l)->arrays[1].data;
    for (int i = 0; i < count; i++) assert_int_equal(y[i], expected[i]);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void masks_of_black_and_white_have_two_classes(void **state) {
    const uint8_t pixels[3 * 4] = {0}, mask[4] = {0, 255, 255, 0}, all[4] = {0};
    write_png(state, "m/images/0.png", 1, 4, 3, pixels);
    write_png(state, "m/labels/0.png", 1, 4, 1, mask);
    tcc_data_options o = plain("segmentation", test_path(state, "m"));
    expect_labels(o, 2, (int32_t[]){0, 1, 1, 0}, 4);
    o.classes = 2;
    expect_labels(o, 2, (int32_t[]){0, 1, 1, 0}, 4);
    o.has_ignored_label = true; /* asked for */
    o.ignored_label = 255;
    expect_labels(o, 2, (int32_t[]){0, -100, -100, 0}, 4);
    write_png(state, "m/labels/0.png", 1, 4, 1, all);
    refused(plain("segmentation", test_path(state, "m")), TCC_EFORMAT, "the labels have 1 classes");
}

/* Those of another folder for validation do not count, but make a class. */
static void training_labels_are_counted(void **state) {
    const uint8_t pixels[3 * 4] = {0}, mask[4] = {0, 1, 1, 255}, val_mask[4] = {2, 2, 0, 1};
    write_png(state, "m/images/0.png", 1, 4, 3, pixels);
    write_png(state, "m/labels/0.png", 1, 4, 1, mask);
    write_png(state, "v/images/0.png", 1, 4, 3, pixels);
    write_png(state, "v/labels/0.png", 1, 4, 1, val_mask);
    tcc_data_options o = plain("segmentation", test_path(state, "m"));
    o.val_path = test_path(state, "v");
    o.val_split = 0;
    tcc_dataset *data = open_data(o);
    const int64_t counts[] = {1, 2, 0, -1};
    for (int i = 0; i < 4; i++) assert_int_equal(tcc_dataset_count(data, i), counts[i]);
    tcc_dataset_close(data);
}

static void colours_stand_for_labels(void **state) {
    const uint8_t pixels[3 * 4] = {0}, mask[3 * 4] = {0, 0, 0, 128, 64, 128, 224, 224, 192, 0, 0, 0};
    const tcc_label_color colors[] = {{"ground", "#000000"}, {"road", "#804080"}, {"ignored", "#e0e0c0"}};
    write_png(state, "m/images/0.png", 1, 4, 3, pixels);
    write_png(state, "m/labels/0.png", 1, 4, 3, mask);
    tcc_data_options o = plain("segmentation", test_path(state, "m"));
    o.label_colors = colors;
    o.n_label_colors = 3;
    expect_labels(o, 2, (int32_t[]){0, 1, -100, 0}, 4);
    tcc_dataset *data = open_data(o);
    size_t length;
    assert_string_equal(tcc_dataset_label(data, 1, &length), "road");
    assert_true(tcc_dataset_count(data, 0) == 2 && tcc_dataset_count(data, 1) == 1);
    tcc_dataset_close(data);
    o.n_label_colors = 2;
    refused(o, TCC_EFORMAT, "labels/0.png: error: colour #e0e0c0 at row 0, column 2 stands for no label");
    const tcc_label_color bad[] = {{"a", "black"}, {"b", "#000000"}};
    o.label_colors = bad;
    refused(o, TCC_EINVAL, "the colour of label 'a' is 'black'; one is written as #804080");
}

static const char *write_table(void **state, const char *text) { return test_write_text(state, "labels.txt", text); }

/* Numbers of files are told apart by a table; those of one name are one class. */
static void a_table_says_what_numbers_are(void **state) {
    const uint8_t pixels[3 * 4] = {0}, mask[4] = {7, 0, 26, 9};
    uint8_t rgb[3];
    size_t length;
    write_png(state, "m/images/0.png", 1, 4, 3, pixels);
    write_png(state, "m/labels/0.png", 1, 4, 1, mask);
    tcc_data_options o = plain("segmentation", test_path(state, "m"));
    o.label_table = write_table(state, "# remark\n\n0 ignored\n7\troad  #804080\r\n26 traffic light\n9 road");
    expect_labels(o, 2, (int32_t[]){0, -100, 1, 0}, 4);
    tcc_dataset *data = open_data(o);
    assert_string_equal(tcc_dataset_label(data, 1, &length), "traffic light");
    tcc_dataset_color(data, 0, rgb);
    assert_memory_equal(rgb, ((uint8_t[]){0x80, 0x40, 0x80}), 3);
    tcc_dataset_color(data, 1, rgb); /* the second of a fixed list */
    assert_memory_equal(rgb, ((uint8_t[]){0, 128, 0}), 3);
    tcc_dataset_color(data, 2, rgb);
    assert_memory_equal(rgb, ((uint8_t[]){0, 0, 0}), 3);
    tcc_dataset_close(data);
    o.label_table = write_table(state, "0 ignored\n7 road\n26 a\n");
    refused(o, TCC_EFORMAT, "labels/0.png: error: label 9 at row 0, column 3 is not in the table of labels");
    o.label_table = write_table(state, "0 a\nroad\n");
    refused(o, TCC_EFORMAT, "labels.txt:2: error: a line is a number from 0 to 255, a name");
    o.label_table = write_table(state, "0 a\n0 b\n");
    refused(o, TCC_EFORMAT, "labels.txt:2: error: label 0 has a line already");
    o.label_table = write_table(state, "0 a #80\n");
    refused(o, TCC_EINVAL, "one is written as #804080");
    o.classes = 2;
    refused(o, TCC_EINVAL, "label_table says what classes there are");
}

/* Validation has a size and a scale of its own; what is outside is of the colour that was asked for. */
static void validation_has_its_own_size(void **state) {
    const char *path = write_pairs(state, "pairs", 2);
    tcc_data_options o = pairs(path);
    o.path = o.val_path = path;
    o.val_split = 0;
    o.val_height = H / 2;
    o.val_width = W / 2 + 2;
    o.val_scale = 0.5;
    o.n_channels = 1;
    o.mean[0] = 0;
    o.std[0] = 1;
    o.n_fill = 1;
    o.fill[0] = 51;
    for (int fits = 0; fits < 2; fits++) {
        tcc_dataset *data = open_data(o);
        tcc_array arrays[2];
        tcc_dataset_get_arrays(data, TCC_SPLIT_TRAIN, arrays);
        assert_true(arrays[0].dims[1] == H && arrays[1].dims[1] == W);
        tcc_dataset_get_arrays(data, TCC_SPLIT_VALIDATION, arrays);
        assert_true(arrays[0].dims[1] == H / 2 && arrays[1].dims[1] == W / 2 + 2);
        tcc_loader *l = open_loader(data, TCC_SPLIT_VALIDATION, 1, 0, false);
        const tcc_batch *batch = next(l);
        assert_int_equal(batch->arrays[0].dims[3], W / 2 + 2);
        for (int i = 0; i < H / 2 * (W / 2 + 2); i++) {
            const int column = i % (W / 2 + 2);
            const bool outside = column < 1 || column > W / 2;
            const float red = ((const float *)batch->arrays[0].data)[i];
            assert_true(outside == (fabsf(red - 0.2f) < 1e-6f));
            if (outside) assert_int_equal(((const int32_t *)batch->arrays[1].data)[i], -100);
        }
        tcc_loader_destroy(l);
        l = open_loader(data, TCC_SPLIT_TRAIN, 1, 0, false);
        assert_int_equal(next(l)->arrays[0].dims[3], W);
        tcc_loader_destroy(l);
        tcc_dataset_close(data);
        o.val_fit = true; /* the same: half of it just fits in */
        o.val_scale = 0;
    }
    o.val_scale = 0.5;
    refused(o, TCC_EINVAL, "val_fit is given, too");
    o.n_fill = 2;
    refused(o, TCC_EINVAL, "fill is given for 2 channels");
}

enum { ROWS = 20, COLUMNS = 24, SIDE = 32 };

/* What SIDE x SIDE pixels show of `paint`'s picture of ROWS x COLUMNS: along each direction a line, from which the part
 * follows. Beyond its edges nothing is seen. */
static void part_of(const float *x, bool down, double *first, double *extent) {
    const int step = down ? SIDE : 1, across = down ? SIDE / 2 : SIDE / 2 * SIDE;
    const double a = (double)x[across + 8 * step] / 10, b = (double)x[across + 24 * step] / 10;
    const double slope = fabs(b - a) / 16; /* of source pixels */
    *extent = slope * SIDE;
    *first = (a < b ? a : b) + 0.5 - (a < b ? 8.5 : 7.5) * slope;
    const double ends[2] = {(double)x[across] / 10, (double)x[across + (SIDE - 1) * step] / 10};
    assert_true(fabs(fmin(ends[0], ends[1]) - *first) < 1e-3);
    assert_true(fabs(fmax(ends[0], ends[1]) - (*first + *extent - 1)) < 1e-3);
    assert_true(fabs(*extent - round(*extent)) < 1e-3 && fabs(*first - round(*first)) < 1e-3);
}

static tcc_data_options parts(void **state, double least, double most) {
    uint8_t pixels[3 * ROWS * COLUMNS];
    paint(pixels, ROWS, COLUMNS, 0);
    write_png(state, "parts/a/0.png", ROWS, COLUMNS, 3, pixels);
    write_png(state, "parts/b/0.png", ROWS, COLUMNS, 3, pixels);
    tcc_data_options o = plain("images", test_path(state, "parts"));
    o.height = o.width = SIDE;
    o.augment = true;
    o.crop_area[0] = least, o.crop_area[1] = most;
    return o;
}

/* Whole pixels of the picture, of an area and a shape in the ranges; as large as the window. */
static void a_part_is_seen(void **state) {
    tcc_data_options o = parts(state, 0.2, 0.6);
    o.crop_ratio[0] = 0.5, o.crop_ratio[1] = 1.5;
    tcc_dataset *data = open_data(o);
    tcc_loader *l = open_loader(data, TCC_SPLIT_TRAIN, 1, 0, true);
    double least = 1, most = 0, wide = 0, tall = 0, last = -1;
    int moved = 0;
    for (int i = 0; i < 200; i++) {
        double top, left, h, w;
        const float *x = next(l)->arrays[0].data;
        part_of(x, true, &top, &h);
        part_of(x + SIDE * SIDE, false, &left, &w);
        assert_true(top > -1e-3 && left > -1e-3 && top + h < ROWS + 1e-3 && left + w < COLUMNS + 1e-3);
        assert_true((h + 0.5) * (w + 0.5) >= 0.2 * ROWS * COLUMNS && (h - 0.5) * (w - 0.5) <= 0.6 * ROWS * COLUMNS);
        assert_true((w + 0.5) / (h - 0.5) >= 0.5 && (w - 0.5) / (h + 0.5) <= 1.5);
        const double area = h * w / (ROWS * COLUMNS);
        least = fmin(least, area), most = fmax(most, area);
        wide = fmax(wide, w / h), tall = fmax(tall, h / w);
        moved += fabs(top - last) > 0.5;
        last = top;
    }
    assert_true(least < 0.25 && most > 0.55 && wide > 1.35 && tall > 1.7 && moved > 100);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

/* No part of that shape has that area: the largest in the middle is taken. */
static void no_part_fits(void **state) {
    tcc_data_options o = parts(state, 1, 1);
    o.crop_ratio[0] = o.crop_ratio[1] = 1;
    tcc_dataset *data = open_data(o);
    tcc_loader *l = open_loader(data, TCC_SPLIT_TRAIN, 1, 0, true);
    double top, left, h, w;
    const float *x = next(l)->arrays[0].data;
    part_of(x, true, &top, &h);
    part_of(x + SIDE * SIDE, false, &left, &w);
    assert_true(lround(top) == 0 && lround(h) == ROWS && lround(left) == 2 && lround(w) == ROWS);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
    o.crop_area[1] = 1.5;
    refused(o, TCC_EINVAL, "crop_area is from 1 to 1.5");
    o.crop_area[1] = 1;
    o.scale[0] = o.scale[1] = 2;
    refused(o, TCC_EINVAL, "crop_area and scale exclude each other");
    o.crop_area[0] = o.crop_area[1] = 0;
    refused(o, TCC_EINVAL, "crop_ratio goes with crop_area");
}

/* Validation images are scaled to cover somewhat more than their middle, which is seen. */
static void the_middle_is_evaluated(void **state) {
    tcc_data_options o = plain("images", write_classes(state, "set", 2));
    o.val_path = o.path;
    o.val_split = 0;
    o.height = o.width = 4;
    o.val_height = o.val_width = 3;
    o.val_scale = 4.0 / 3; /* 4 x 5 of 6 x 8 */
    tcc_dataset *data = open_data(o);
    tcc_loader *l = open_loader(data, TCC_SPLIT_VALIDATION, 1, 0, false);
    const tcc_batch *batch = next(l);
    assert_true(batch->arrays[0].dims[2] == 3 && batch->arrays[0].dims[3] == 3);
    const float *x = batch->arrays[0].data;
    assert_true(fabs((double)x[4] - 10 * (1.5 * 6 / 4 - 0.5)) < 1 &&
                fabs((double)x[9 + 4] - 10 * (2.5 * 8 / 5 - 0.5)) < 1);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void out_of_memory(void **state) {
    tcc_data_options o = plain("images", write_classes(state, "set", 1));
    dataset_out_of_memory(&cx, o);
    dataset_out_of_memory(&cx, pairs(write_pairs(state, "pairs", 1)));
    tcc_diag_clear(&cx.diag);
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(class_folders),
        FOLDER_TEST(sizes),
        FOLDER_TEST(pairs_fit),
        FOLDER_TEST(scaled_down),
        FOLDER_TEST(repeats),
        FOLDER_TEST(jitter),
        FOLDER_TEST(a_table_says_what_numbers_are),
        FOLDER_TEST(validation_has_its_own_size),
        FOLDER_TEST(a_part_is_seen),
        FOLDER_TEST(no_part_fits),
        FOLDER_TEST(the_middle_is_evaluated),
        FOLDER_TEST(bad_images),
        FOLDER_TEST(bad_pairs),
        FOLDER_TEST(out_of_memory),
        FOLDER_TEST(bad_pictures_may_be_left_out),
        FOLDER_TEST(masks_of_black_and_white_have_two_classes),
        FOLDER_TEST(training_labels_are_counted),
        FOLDER_TEST(colours_stand_for_labels),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
