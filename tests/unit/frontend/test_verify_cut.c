/* SPDX-License-Identifier: MIT
 * What verification leaves of a batch that takes its interpreter long: samples first, then the middle of images or the
 * beginning of sequences. */
#include "frontend/verify/verify.h"
#include "harness/check.h"
#include "traincc/traincc.h"

#include <stdlib.h>

enum { N = 4, H = 512, W = 1024, WIDE = 64, CLASSES = 4, LENGTH = 1024, TOKEN_WIDTH = 1024 };

static float images[N * 3 * H * W];
static int32_t labels[N * H * W];

/* 1.2e11 operations for two samples: 32 times as many as are done, but for what is no product. */
static tcc_tensor body(tcc_trace *t) {
    tcc_tensor x = tcc_relu(tcc_conv_layer(tcc_input(t, "x"), "a", WIDE, 3, .padding = 1));
    return tcc_conv_layer(tcc_relu(tcc_conv_layer(x, "b", WIDE, 3, .padding = 1)), "c", CLASSES, 1);
}

static void pixels(tcc_trace *t, void *user) {
    const int64_t *multiple = user;
    if (tcc_dim(tcc_input(t, "x"), 2) % *multiple) tcc_fail(t, "the height must be a multiple");
    else tcc_loss(t, tcc_cross_entropy(body(t), tcc_input(t, "y"), .axis = 1));
}

/* Its last layer is made for one size. */
static void classes(tcc_trace *t, void *user) {
    (void)user;
    const tcc_tensor x = tcc_flatten(tcc_avg_pool(body(t), 64), 1);
    tcc_loss(t, tcc_cross_entropy(tcc_linear(x, "fc", CLASSES), tcc_input(t, "y")));
}

/* A language model, about: 1e11 operations for two samples of 1,024 tokens. */
static void tokens(tcc_trace *t, void *user) {
    const int64_t *multiple = user;
    tcc_tensor x = tcc_input(t, "x");
    if (tcc_dim(x, 1) % *multiple) tcc_fail(t, "the length must be a multiple");
    x = tcc_embedding(x, "wte", 32, TOKEN_WIDTH);
    x = tcc_linear(tcc_relu(tcc_linear(x, "a", TOKEN_WIDTH * 8)), "b", TOKEN_WIDTH);
    tcc_loss(t, tcc_cross_entropy(tcc_linear(x, "c", 32), tcc_input(t, "y"), .axis = 2));
}

typedef struct cutting {
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch[2], slice[2];
    tcc_cut cut;
} cutting;

static void begin_for(cutting *c, tcc_model_fn fn, int64_t multiple, int64_t samples, tcc_cut_for what) {
    static int64_t user;
    user = multiple;
    for (int i = 0; i < N * 3 * H * W; i++) images[i] = (float)i;
    for (int i = 0; i < N * H * W; i++) labels[i] = i;
    *c = (cutting){.batch = {{.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {N, 3, H, W}, .data = images},
                             {.name = "y", .dtype = TCC_I32, .rank = 3, .dims = {N, H, W}, .data = labels}}};
    if (fn == classes) c->batch[1].rank = 1;
    for (int i = 0; fn == tokens && i < 2; i++)
        c->batch[i] =
            (tcc_array){.name = i ? "y" : "x", .dtype = TCC_I32, .rank = 2, .dims = {N, LENGTH}, .data = labels};
    const tcc_model_options o = {.size = sizeof o, .verify_samples = samples};
    assert_int_equal(tcc_context_create(&c->cx), TCC_OK);
    assert_int_equal(tcc_model_create(c->cx, fn, &user, &o, &c->m), TCC_OK);
    tcc_verification v = {.m = c->m, .batch = c->batch, .count = 2};
    assert_ok(tcc__verify_cut(&v, what, c->slice, &c->cut), &c->cx->diag);
}

static void begin(cutting *c, tcc_model_fn fn, int64_t multiple, int64_t samples) {
    begin_for(c, fn, multiple, samples, TCC_CUT_FOR_RESULTS);
}

static void end(cutting *c) {
    for (int i = 0; i < 2; i++)
        if (c->slice[i].data != c->batch[i].data) tcc__free((void *)(uintptr_t)c->slice[i].data);
    tcc_model_destroy(c->m);
    tcc_context_destroy(c->cx);
}

/* Rows and columns of the slice are those of the middle. */
static void check_middle(const cutting *c, int64_t height, int64_t width) {
    const float *x = c->slice[0].data;
    const int32_t *y = c->slice[1].data;
    assert_true(c->cut.extents[0] == height && c->cut.extents[1] == width);
    assert_true(c->slice[0].dims[2] == height && c->slice[0].dims[3] == width);
    assert_true(c->slice[1].dims[1] == height && c->slice[1].dims[2] == width);
    for (int64_t i = 0; i < 2 * 3 * height * width; i++) {
        const int64_t image = i / (height * width), row = i / width % height + (H - height) / 2;
        const int64_t from = (image * H + row) * W + i % width + (W - width) / 2;
        assert_true(x[i] == (float)from);
        if (image < 2) assert_int_equal(y[i], from);
    }
}

static void the_middle_of_two_images_is_left(void **state) {
    (void)state;
    cutting c;
    tcc_strbuf words = {0};
    begin(&c, pixels, 1, 0);
    assert_true(c.cut.samples == 2 && c.cut.all == N);
    check_middle(&c, 128, 128);
    tcc__verify_cut_print(&words, &c.cut);
    assert_string_equal(words.text, "the first 2 of 4 samples of the batch, of the middle 128 x 128 of their images");
    tcc_strbuf_free(&words);
    end(&c);
}

static void a_model_takes_no_smaller_ones(void **state) {
    (void)state;
    cutting c;
    begin(&c, pixels, 256, 0);
    check_middle(&c, 256, 256);
    assert_int_equal(c.cx->diag.status, TCC_OK);
    end(&c);
    begin(&c, classes, 1, 0);
    assert_true(c.cut.samples == 2 && !c.cut.extents[0] && c.slice[0].data == images && c.slice[0].dims[2] == H);
    assert_int_equal(c.cx->diag.status, TCC_OK);
    end(&c);
}

static void samples_that_were_asked_for_are_whole(void **state) {
    (void)state;
    cutting c;
    begin(&c, pixels, 1, 3);
    assert_true(c.cut.samples == 3 && !c.cut.extents[0]);
    end(&c);
}

static void the_beginning_of_two_sequences_is_left(void **state) {
    (void)state;
    for (int64_t multiple = 1, length = 128; multiple <= 256; multiple += 255, length = 256) {
        cutting c;
        tcc_strbuf words = {0};
        begin(&c, tokens, multiple, 0);
        assert_int_equal(c.cx->diag.status, TCC_OK);
        assert_true(c.cut.samples == 2 && c.cut.all == N && c.cut.positions == length && c.cut.all_positions == LENGTH);
        for (int k = 0; k < 2; k++) {
            const int32_t *x = c.slice[k].data;
            assert_true(c.slice[k].dims[0] == 2 && c.slice[k].dims[1] == length);
            for (int64_t i = 0; i < 2 * length; i++) assert_int_equal(x[i], i / length * LENGTH + i % length);
        }
        tcc__verify_cut_print(&words, &c.cut);
        assert_string_equal(
            words.text, multiple == 1 ? "the first 2 of 4 samples of the batch, of the first 128 of 1024 positions"
                                      : "the first 2 of 4 samples of the batch, of the first 256 of 1024 positions");
        tcc_strbuf_free(&words);
        end(&c);
    }
}

/* Kernels are those of more than the interpreter takes. */
static void kernels_have_a_slice_of_their_own(void **state) {
    (void)state;
    cutting c;
    begin_for(&c, tokens, 1, 1, TCC_CUT_FOR_KERNELS);
    assert_true(c.cut.samples == 2 && c.cut.positions == 512); /* 128 for results */
    end(&c);
    begin_for(&c, pixels, 1, 0, TCC_CUT_FOR_KERNELS);
    assert_true(c.cut.samples == 2 && c.cut.extents[0] == 256 && c.cut.extents[1] == 512);
    end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_middle_of_two_images_is_left), cmocka_unit_test(a_model_takes_no_smaller_ones),
        cmocka_unit_test(the_beginning_of_two_sequences_is_left), cmocka_unit_test(kernels_have_a_slice_of_their_own),
        cmocka_unit_test(samples_that_were_asked_for_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
