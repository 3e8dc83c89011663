/* SPDX-License-Identifier: MIT
 * Mixed samples: mixup and CutMix, against the samples as they are. */
#include "harness/check.h"
#include "harness/files.h"
#include "ir/support/context.h"
#include "traincc/data.h"

#include <math.h>
#include <stdlib.h>

enum { H = 6, W = 5, PIXELS = H * W, SAMPLES = 64, CLASSES = 10 };

static tcc_context cx;

/* Images whose pixels tell the image, row and column, as MNIST's files have them; x is a pixel's value. */
static tcc_dataset *digits(void **state) {
    uint8_t images[16 + SAMPLES * PIXELS] = {0, 0, 8, 3, 0, 0, 0, SAMPLES, 0, 0, 0, H, 0, 0, 0, W};
    uint8_t labels[8 + SAMPLES] = {0, 0, 8, 1, 0, 0, 0, SAMPLES};
    for (int i = 0; i < SAMPLES * PIXELS; i++) images[16 + i] = (uint8_t)(i / PIXELS * 3 + i % PIXELS);
    for (int i = 0; i < SAMPLES; i++) labels[8 + i] = (uint8_t)(i % CLASSES);
    test_write(state, "train-images-idx3-ubyte", images, sizeof images);
    test_write(state, "train-labels-idx1-ubyte", labels, sizeof labels);
    const tcc_data_options o = {.size = sizeof o,
                                .kind = "idx",
                                .path = *state,
                                .val_split = -1,
                                .n_channels = 1,
                                .mean = {0},
                                .std = {1.0 / 255}};
    tcc_dataset *data;
    assert_ok(tcc_dataset_open(&cx, &o, &data), &cx.diag);
    return data;
}

static tcc_loader *load(const tcc_dataset *data, int64_t batch, int workers, double mixup, double cutmix) {
    const tcc_loader_options o = {.size = sizeof o,
                                  .batch_size = batch,
                                  .num_workers = workers,
                                  .shuffle = true,
                                  .last_batch = TCC_LAST_KEEP,
                                  .seed = 3,
                                  .mixup = mixup,
                                  .cutmix = cutmix};
    tcc_loader *l;
    assert_ok(tcc_loader_create(&cx, data, &o, &l), &cx.diag);
    return l;
}

static const tcc_batch *next(tcc_loader *l) {
    const tcc_batch *batch;
    assert_ok(tcc_loader_next(l, &batch), &cx.diag);
    return batch;
}

/* What was seen of pairs. */
typedef struct seen {
    int blended, cut, whole;
    double sum, squares; /* of shares */
} seen;

static bool near(double a, double b) { return fabs(a - b) < 1e-4; }

/* Whether the pixels of `a` that are b0's, not a0's, are a rectangle; how many there are. */
static int exchanged(const float *a, const float *a0, const float *b0, bool *rectangle) {
    int count = 0, top = H, bottom = 0, left = W, right = 0;
    for (int i = 0; i < PIXELS; i++) {
        if (a[i] == a0[i]) continue;
        assert_true(a[i] == b0[i]);
        count++;
        top = i / W < top ? i / W : top, bottom = i / W + 1 > bottom ? i / W + 1 : bottom;
        left = i % W < left ? i % W : left, right = i % W + 1 > right ? i % W + 1 : right;
    }
    *rectangle = !count || count == (bottom - top) * (right - left);
    return count;
}

static bool is_one_of(const float *a, const float *a0, const float *b0) {
    for (int i = 0; i < PIXELS; i++)
        if (a[i] != a0[i] && a[i] != b0[i]) return false;
    return true;
}

/* Samples `a` and `b` of both batches; the share that each has of itself. */
static double check_pair(const float *x, const float *y, const float *x0, const int32_t *y0, seen *s) {
    const float *a = x, *b = x + PIXELS, *a0 = x0, *b0 = x0 + PIXELS;
    double share = (double)y[y0[0]];
    assert_true(y0[0] != y0[1]);
    for (int c = 0; c < CLASSES; c++) {
        assert_true(near((double)y[c], c == y0[0] ? share : c == y0[1] ? 1 - share : 0));
        assert_true(near((double)y[CLASSES + c], c == y0[1] ? share : c == y0[0] ? 1 - share : 0));
    }
    if (is_one_of(a, a0, b0) && is_one_of(b, b0, a0)) {
        bool first, second;
        const int count = exchanged(a, a0, b0, &first);
        assert_int_equal(exchanged(b, b0, a0, &second), count);
        assert_true(first && second && near(share, 1 - (double)count / PIXELS));
        s->cut += count > 0, s->whole += !count;
        return share;
    }
    for (int i = 0; i < PIXELS; i++) {
        assert_true(near((double)a[i] / 255, (share * (double)a0[i] + (1 - share) * (double)b0[i]) / 255));
        assert_true(near((double)b[i] / 255, (share * (double)b0[i] + (1 - share) * (double)a0[i]) / 255));
    }
    s->blended++;
    return share;
}

static seen check(const tcc_dataset *data, double mixup, double cutmix, int epochs) {
    enum { BATCH = 16 };
    tcc_loader *plain = load(data, BATCH, 0, 0, 0), *mixed = load(data, BATCH, 2, mixup, cutmix);
    seen s = {0};
    for (int i = 0; i < epochs * SAMPLES / BATCH; i++) {
        const tcc_batch *was = next(plain), *is = next(mixed);
        assert_true(is->arrays[1].dtype == TCC_F32 && is->arrays[1].rank == 2 && is->arrays[1].dims[1] == CLASSES);
        const float *x = is->arrays[0].data, *y = is->arrays[1].data, *x0 = was->arrays[0].data;
        const int32_t *y0 = was->arrays[1].data;
        for (int k = 0; k < BATCH; k += 2) {
            if (y0[k] == y0[k + 1]) continue; /* y does not tell the share */
            const double share = check_pair(x + k * PIXELS, y + k * CLASSES, x0 + k * PIXELS, y0 + k, &s);
            s.sum += share, s.squares += share * share;
        }
    }
    tcc_loader_destroy(plain);
    tcc_loader_destroy(mixed);
    return s;
}

/* Shares are of Beta(a, a): their mean is 1/2, and their variance 1 / (4 (2 a + 1)). */
static void values_are_mixed(void **state) {
    static const double shapes[] = {0.2, 1, 4};
    tcc_dataset *data = digits(state);
    for (int i = 0; i < 3; i++) {
        const seen s = check(data, shapes[i], 0, 100);
        const double n = s.blended + s.cut + s.whole, mean = s.sum / n, variance = s.squares / n - mean * mean;
        assert_true(n > 2000 && (i == 0 || s.blended > 0.99 * n)); /* else a share is often 0 or 1 but for rounding */
        assert_true(fabs(mean - 0.5) < 0.04);
        assert_true(fabs(variance * 4 * (2 * shapes[i] + 1) - 1) < 0.1);
    }
    tcc_dataset_close(data);
}

static void rectangles_are_exchanged(void **state) {
    tcc_dataset *data = digits(state);
    seen s = check(data, 0, 1, 20);
    assert_true(!s.blended && s.cut > 2 * s.whole); /* of few pixels, so none is often */
    s = check(data, 1, 1, 20);
    assert_true(s.blended > 0.4 * (s.blended + s.cut + s.whole) && s.blended < 0.6 * (s.blended + s.cut + s.whole));
    tcc_dataset_close(data);
}

/* The last of an odd batch is as it was; an epoch is mixed in its own way. */
static void odd_batches(void **state) {
    tcc_dataset *data = digits(state);
    tcc_loader *plain = load(data, 5, 0, 0, 0), *mixed = load(data, 5, 0, 0.5, 0);
    const tcc_batch *was = next(plain), *is = next(mixed);
    const float *y = is->arrays[1].data;
    assert_memory_equal((const float *)is->arrays[0].data + 4 * PIXELS, (const float *)was->arrays[0].data + 4 * PIXELS,
                        4 * PIXELS);
    for (int c = 0; c < CLASSES; c++)
        assert_true(y[4 * CLASSES + c] == (c == ((const int32_t *)was->arrays[1].data)[4]));
    tcc_loader_destroy(plain);
    tcc_loader_destroy(mixed);
    tcc_dataset_close(data);
}

/* What a rank gets is what it would be of the whole batch. */
static void parts_are_those_of_the_whole(void **state) {
    tcc_dataset *data = digits(state);
    tcc_loader *whole = load(data, 16, 0, 1, 1);
    const tcc_batch *all = next(whole);
    tcc_loader_options o = {.size = sizeof o,
                            .batch_size = 16,
                            .shuffle = true,
                            .last_batch = TCC_LAST_KEEP,
                            .seed = 3,
                            .mixup = 1,
                            .cutmix = 1,
                            .parts = 2};
    for (; o.part < 2; o.part++) {
        tcc_loader *l;
        assert_ok(tcc_loader_create(&cx, data, &o, &l), &cx.diag);
        const tcc_batch *half = next(l);
        assert_memory_equal(half->arrays[0].data, (const float *)all->arrays[0].data + o.part * 8 * PIXELS,
                            sizeof(float) * 8 * PIXELS);
        assert_memory_equal(half->arrays[1].data, (const float *)all->arrays[1].data + o.part * 8 * CLASSES,
                            sizeof(float) * 8 * CLASSES);
        tcc_loader_destroy(l);
    }
    tcc_loader_destroy(whole);
    tcc_loader *none;
    o.batch_size = 10, o.part = 0;
    assert_int_equal(tcc_loader_create(&cx, data, &o, &none), TCC_EINVAL);
    assert_non_null(strstr(tcc_diag_text(&cx.diag), "in 2 parts has 5 in each; to be mixed they must be even"));
    tcc_diag_clear(&cx.diag);
    tcc_dataset_close(data);
}

static void refused(const tcc_dataset *data, double mixup, double cutmix, const char *part) {
    const tcc_loader_options o = {.size = sizeof o, .batch_size = 2, .mixup = mixup, .cutmix = cutmix};
    tcc_loader *l;
    assert_int_equal(tcc_loader_create(&cx, data, &o, &l), TCC_EINVAL);
    assert_non_null(strstr(tcc_diag_text(&cx.diag), part));
}

static void bad_options(void **state) {
    tcc_dataset *data = digits(state);
    refused(data, NAN, 0, "mixup is nan and cutmix 0; they must be from 0 to 1000");
    refused(data, 0, -1, "cutmix -1");
    tcc_dataset_close(data);
    const tcc_data_options o = {.size = sizeof o,
                                .kind = "csv",
                                .path = test_write_text(state, "t.csv", "1,a\n2,b\n3,a\n4,b\n"),
                                .val_split = -1};
    assert_ok(tcc_dataset_open(&cx, &o, &data), &cx.diag);
    refused(data, 1, 0, "samples of kind csv cannot be mixed");
    tcc_dataset_close(data);
    tcc_diag_clear(&cx.diag);
}

int main(void) {
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const struct CMUnitTest tests[] = {FOLDER_TEST(values_are_mixed), FOLDER_TEST(rectangles_are_exchanged),
                                       FOLDER_TEST(odd_batches), FOLDER_TEST(parts_are_those_of_the_whole),
                                       FOLDER_TEST(bad_options)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tcc_context_clear(&cx);
    return failed;
}
