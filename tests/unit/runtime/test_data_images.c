/* SPDX-License-Identifier: MIT
 * Data kinds idx and cifar. */
#include "harness/check.h"
#include "harness/datasets.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "traincc/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static tcc_context cx;

static void refused(tcc_data_options options, tcc_status status, const char *part) {
    dataset_refused(&cx, options, status, part);
}

static tcc_dataset *open_data(tcc_data_options options) {
    options.size = sizeof options;
    tcc_dataset *data;
    assert_ok(tcc_dataset_open(&cx, &options, &data), &cx.diag);
    return data;
}

/* The whole split as one batch. */
static tcc_loader *load(const tcc_dataset *data, tcc_split split, const tcc_batch **batch) {
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    tcc_loader_options options = {.size = sizeof options, .split = split, .batch_size = info.samples[split]};
    tcc_loader *l;
    assert_ok(tcc_loader_create(&cx, data, &options, &l), &cx.diag);
    assert_ok(tcc_loader_next(l, batch), &cx.diag);
    return l;
}

/* ---- idx ---- */

enum { H = 3, W = 2 };

/* n images whose pixels count up from `first`, and labels i mod 10. `headers` are put in front as
 * given. */
static void write_idx(void **state, const char *prefix, int n, int first, bool gzip) {
    uint8_t images[16 + 100 * H * W] = {0, 0, 8, 3, 0, 0, 0, (uint8_t)n, 0, 0, 0, H, 0, 0, 0, W};
    uint8_t labels[8 + 100] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)n};
    for (int i = 0; i < n * H * W; i++) images[16 + i] = (uint8_t)(first + i);
    for (int i = 0; i < n; i++) labels[8 + i] = (uint8_t)(i % 10);
    char name[64];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte%s", prefix, gzip ? ".gz" : "");
    (gzip ? test_write_gzip : test_write)(state, name, images, (size_t)(16 + n * H * W));
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte%s", prefix, gzip ? ".gz" : "");
    (gzip ? test_write_gzip : test_write)(state, name, labels, (size_t)(8 + n));
}

static void idx_plain_and_gzipped(void **state) {
    write_idx(state, "train", 12, 0, true);
    write_idx(state, "t10k", 5, 100, false);
    tcc_dataset *data =
        open_data((tcc_data_options){.kind = "idx", .path = *state, .n_channels = 1, .mean = {0.5}, .std = {0.25}});
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.samples[0] == 12 && info.samples[1] == 5 && info.classes == 10);
    assert_true(info.x.rank == 3 && info.x.dims[0] == 1 && info.x.dims[1] == H && info.x.dims[2] == W &&
                info.x.dtype == TCC_F32);
    assert_true(info.y.rank == 0 && info.y.dtype == TCC_I32);
    const tcc_batch *batch;
    tcc_loader *l = load(data, TCC_SPLIT_VALIDATION, &batch);
    const tcc_array *x = &batch->arrays[0], *y = &batch->arrays[1];
    assert_true(x->rank == 4 && x->dims[0] == 5 && x->dims[1] == 1 && x->dims[2] == H && x->dims[3] == W &&
                y->rank == 1 && y->dims[0] == 5);
    for (int i = 0; i < 5 * H * W; i++)
        assert_true(((const float *)x->data)[i] == (float)(((100 + i) / 255.0 - 0.5) / 0.25));
    for (int i = 0; i < 5; i++) assert_int_equal(((const int32_t *)y->data)[i], i);
    size_t length;
    assert_string_equal(tcc_dataset_label(data, 7, &length), "7");
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void statistics_are_computed(void **state) {
    write_idx(state, "train", 20, 3, false);
    write_idx(state, "t10k", 2, 0, false);
    tcc_dataset *data = open_data((tcc_data_options){.kind = "idx", .path = *state});
    const tcc_batch *batch;
    tcc_loader *l = load(data, TCC_SPLIT_TRAIN, &batch);
    double sum = 0, squares = 0;
    int n = 20 * H * W;
    for (int i = 0; i < n; i++) {
        double v = (double)((const float *)batch->arrays[0].data)[i];
        sum += v, squares += v * v;
    }
    assert_true(fabs(sum / n) < 1e-6 && fabs(squares / n - 1) < 1e-6);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void held_out_images(void **state) {
    write_idx(state, "train", 40, 0, false); /* no test files are needed */
    tcc_dataset *data =
        open_data((tcc_data_options){.kind = "idx", .path = *state, .val_split = 0.25, .n_channels = 1, .std = {1}});
    int seen[40] = {0};
    for (int split = 0; split < 2; split++) {
        const tcc_batch *batch;
        tcc_loader *l = load(data, (tcc_split)split, &batch);
        assert_int_equal(batch->count, split ? 10 : 30);
        for (int i = 0; i < batch->count; i++) {
            int image = (int)lround((double)((const float *)batch->arrays[0].data)[i * H * W] * 255) / (H * W);
            assert_int_equal(((const int32_t *)batch->arrays[1].data)[i], image % 10);
            seen[image]++;
        }
        tcc_loader_destroy(l);
    }
    for (int i = 0; i < 40; i++) assert_int_equal(seen[i], 1);
    tcc_dataset_close(data);
}

/* Change one byte of a file and put it back. */
static void refused_with(void **state, const char *name, long offset, uint8_t value, const char *part) {
    const char *path = test_path(state, name);
    size_t size;
    char *bytes = test_read(path, &size), before = bytes[offset];
    bytes[offset] = (char)value;
    test_write(state, name, bytes, size);
    refused((tcc_data_options){.kind = "idx", .path = *state}, TCC_EFORMAT, part);
    bytes[offset] = before;
    test_write(state, name, bytes, size);
    free(bytes);
}

static void bad_idx(void **state) {
    static const char images[] = "train-images-idx3-ubyte", labels[] = "train-labels-idx1-ubyte";
    refused((tcc_data_options){.kind = "idx", .path = *state}, TCC_ENOTFOUND,
            "has no file train-images-idx3-ubyte or train-images-idx3-ubyte.gz");
    write_idx(state, "train", 12, 0, false);
    refused((tcc_data_options){.kind = "idx", .path = *state}, TCC_ENOTFOUND, "has no file t10k-images");
    write_idx(state, "t10k", 5, 0, false);
    refused_with(state, images, 2, 9,
                 "train-images-idx3-ubyte: error: magic number at byte 0 is 0x00000903, that of "
                 "idx images is 0x00000803");
    refused_with(state, labels, 3, 3, "that of idx labels is 0x00000801");
    refused_with(state, images, 7, 13, "announces 78 bytes of data, but 72 follow: the file is truncated");
    refused_with(state, images, 7, 11, "but 72 follow: the file is damaged");
    refused_with(state, images, 4, 255, "truncated");
    refused_with(state, images, 11, 0, "size 1 at byte 8 is 0");
    refused_with(state, labels, 8 + 4, 10, "label 10 at byte 12 is not below the number of classes, 10");
    test_write(state, labels, "\0\0\x08\x01\0\0\0\x02\x01\x02", 10);
    refused((tcc_data_options){.kind = "idx", .path = *state}, TCC_EFORMAT, "holds 2 labels for 12 images");
    test_write(state, labels, "\0\0\x08", 3);
    refused((tcc_data_options){.kind = "idx", .path = *state}, TCC_EFORMAT,
            "3 bytes are too few for an idx header of 8");
    write_idx(state, "train", 12, 0, false);
    refused((tcc_data_options){.kind = "idx", .path = *state, .classes = 5}, TCC_EFORMAT, "label 5 at byte 13");
    refused((tcc_data_options){.kind = "idx", .path = *state, .classes = 300}, TCC_EINVAL, "classes is 300");
    refused((tcc_data_options){.kind = "idx", .path = *state, .n_channels = 3}, TCC_EINVAL,
            "given for 3 channels, but images have 1");
    refused((tcc_data_options){.kind = "idx", .path = *state, .n_channels = 1}, TCC_EINVAL, "std 0 of channel 0");
}

/* ---- cifar ---- */

enum { RECORD = 3073 };

/* n records: label (first + i) mod 10, a pixel at row r, column c of plane p is (r * 8 + c + 50 * p
 * + first + i) mod 256. */
static uint8_t pixel(int record, int plane, int row, int column) {
    return (uint8_t)(row * 8 + column + 50 * plane + record);
}

static void write_cifar(void **state, const char *name, int first, int n, bool gzip) {
    uint8_t *bytes = malloc((size_t)n * RECORD);
    for (int i = 0; i < n; i++) {
        bytes[i * RECORD] = (uint8_t)((first + i) % 10);
        for (int j = 0; j < 3072; j++) bytes[i * RECORD + 1 + j] = pixel(first + i, j / 1024, j / 32 % 32, j % 32);
    }
    (gzip ? test_write_gzip : test_write)(state, name, bytes, (size_t)n * RECORD);
    free(bytes);
}

static void cifar_batches(void **state) {
    write_cifar(state, "data_batch_2.bin", 0, 3, false);
    write_cifar(state, "data_batch_4.bin.gz", 3, 2, true);
    write_cifar(state, "test_batch.bin.gz", 20, 4, true);
    tcc_dataset *data = open_data((tcc_data_options){
        .kind = "cifar", .path = *state, .n_channels = 3, .mean = {0.1, 0.2, 0.3}, .std = {1, 2, 4}});
    tcc_dataset_info info;
    tcc_dataset_get_info(data, &info);
    assert_true(info.samples[0] == 5 && info.samples[1] == 4 && info.classes == 10 && info.x.dims[0] == 3 &&
                info.x.dims[2] == 32);
    for (int split = 0; split < 2; split++) {
        const tcc_batch *batch;
        tcc_loader *l = load(data, (tcc_split)split, &batch);
        const float *x = batch->arrays[0].data;
        for (int i = 0; i < batch->count; i++) {
            int record = split * 20 + i;
            assert_int_equal(((const int32_t *)batch->arrays[1].data)[i], record % 10);
            for (int j = 0; j < 3072; j++) {
                double raw = pixel(record, j / 1024, j / 32 % 32, j % 32) / 255.0;
                assert_true(*x++ == (float)((raw - info.mean[j / 1024]) / info.std[j / 1024]));
            }
        }
        tcc_loader_destroy(l);
    }
    size_t length;
    assert_string_equal(tcc_dataset_label(data, 9, &length), "truck");
    tcc_dataset_close(data);
}

/* Is `x` record 0, cropped at (top, left) and mirrored or not? */
static bool is_crop(const float *x, int top, int left, bool mirrored) {
    for (int plane = 0; plane < 3; plane++) {
        for (int row = 0; row < 32; row++) {
            for (int column = 0; column < 32; column++) {
                int from_row = row + top, from_column = (mirrored ? 31 - column : column) + left;
                bool inside = from_row >= 0 && from_row < 32 && from_column >= 0 && from_column < 32;
                double raw = inside ? pixel(0, plane, from_row, from_column) / 255.0 : 0;
                if (*x++ != (float)((raw - 0.5) / 0.5)) return false;
            }
        }
    }
    return true;
}

static void augmentation(void **state) {
    write_cifar(state, "data_batch_1.bin", 0, 1, false);
    write_cifar(state, "test_batch.bin", 0, 1, false);
    tcc_dataset *data = open_data((tcc_data_options){
        .kind = "cifar", .path = *state, .n_channels = 1, .mean = {0.5}, .std = {0.5}, .augment = true});
    const tcc_batch *batch;
    tcc_loader *l = load(data, TCC_SPLIT_VALIDATION, &batch);
    assert_true(is_crop(batch->arrays[0].data, 0, 0, false)); /* validation images are never changed */
    tcc_loader_destroy(l);
    l = load(data, TCC_SPLIT_TRAIN, &batch);
    int mirrored = 0, tops[9] = {0}, lefts[9] = {0};
    for (int epoch = 0; epoch < 200; epoch++) {
        bool found = false;
        for (int i = 0; i < 2 * 81 && !found; i++) {
            found = is_crop(batch->arrays[0].data, i / 9 % 9 - 4, i % 9 - 4, i >= 81);
            if (found) mirrored += i >= 81, tops[i / 9 % 9]++, lefts[i % 9]++;
        }
        assert_true(found);
        assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    }
    assert_in_range(mirrored, 70, 130);
    for (int i = 0; i < 9; i++) assert_true(tops[i] > 5 && lefts[i] > 5);
    tcc_loader_destroy(l);
    tcc_dataset_close(data);
}

static void bad_cifar(void **state) {
    refused((tcc_data_options){.kind = "cifar", .path = *state}, TCC_ENOTFOUND,
            "has no file data_batch_1.bin to data_batch_5.bin");
    write_cifar(state, "data_batch_1.bin", 0, 2, false);
    refused((tcc_data_options){.kind = "cifar", .path = *state}, TCC_ENOTFOUND,
            "has no file test_batch.bin or test_batch.bin.gz");
    write_cifar(state, "test_batch.bin", 0, 2, false);
    refused((tcc_data_options){.kind = "cifar", .path = *state, .n_channels = 2}, TCC_EINVAL, "given for 2 channels");
    assert_int_equal(truncate(test_path(state, "data_batch_1.bin"), RECORD + 100), 0);
    refused((tcc_data_options){.kind = "cifar", .path = *state}, TCC_EFORMAT,
            "data_batch_1.bin: error: 3173 bytes are not whole records of 3073 bytes: 100");
    test_write(state, "data_batch_1.bin", "", 0);
    refused((tcc_data_options){.kind = "cifar", .path = *state}, TCC_EFORMAT, "holds no records");
    uint8_t wrong[2 * RECORD] = {0};
    wrong[RECORD] = 10;
    test_write(state, "data_batch_1.bin", wrong, sizeof wrong);
    refused((tcc_data_options){.kind = "cifar", .path = *state}, TCC_EFORMAT, "label 10 at byte 3073 is not below 10");
}

static void out_of_memory(void **state) {
    write_idx(state, "train", 12, 0, false);
    write_idx(state, "t10k", 12, 0, false);
    write_cifar(state, "data_batch_1.bin", 0, 1, false);
    write_cifar(state, "data_batch_2.bin", 0, 1, false);
    write_cifar(state, "test_batch.bin", 0, 1, false);
    for (int i = 0; i < 2; i++) {
        const tcc_data_options options = {.size = sizeof options, .kind = i ? "cifar" : "idx", .path = *state};
        dataset_out_of_memory(&cx, options);
    }
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(idx_plain_and_gzipped),
        FOLDER_TEST(statistics_are_computed),
        FOLDER_TEST(held_out_images),
        FOLDER_TEST(bad_idx),
        FOLDER_TEST(cifar_batches),
        FOLDER_TEST(augmentation),
        FOLDER_TEST(bad_cifar),
        FOLDER_TEST(out_of_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
