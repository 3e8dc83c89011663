/* SPDX-License-Identifier: MIT
 * Verification takes healthy networks, however sensitive they are to rounding: what f32 cannot tell is no fault. It
 * says how it gets on and what it has compared, and cuts a batch that is too large. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 8, CHANNELS = 3, SIZE = 8, CLASSES = 4, FEATURES = CHANNELS * SIZE * SIZE };

/* -- Networks -- */

/* The bias does nothing: its true gradient is 0, and what comes out is rounding alone. */
static tcc_tensor bias_before_norm(tcc_tensor x) {
    for (int i = 0; i < 3; i++) {
        const char *names[] = {"conv1", "conv2", "conv3"}, *norms[] = {"norm1", "norm2", "norm3"};
        x = tcc_relu(tcc_batch_norm(tcc_conv_layer(x, names[i], 8, 3, .padding = 1), norms[i]));
    }
    return tcc_flatten(x, 1);
}

/* Scores of some hundreds: a probability is 1 or 0, or turns over with the last digit of a score. */
static tcc_tensor saturated_attention(tcc_tensor x) {
    x = tcc_reshape(x, TCC_DIMS(ROWS, 1, FEATURES / 16, 16));
    const tcc_init wide = {.kind = TCC_INIT_NORMAL, .b = 3};
    tcc_tensor q = tcc_linear(x, "q", 16, .weight_init = &wide), k = tcc_linear(x, "k", 16, .weight_init = &wide);
    return tcc_flatten(tcc_attention(q, k, tcc_linear(x, "v", 16)), 1);
}

/* Variances of 0: the norms divide rounding by the root of eps. */
static tcc_tensor constant_channels(tcc_tensor x) {
    tcc_tensor same = tcc_add_scalar(tcc_scale(tcc_slice(x, 1, 0, 1), 0), 7.3);
    tcc_tensor all = tcc_concat(((tcc_tensor[]){same, x}), 2, 1);
    x = tcc_relu(tcc_batch_norm(tcc_conv_layer(tcc_batch_norm(all, "norm1"), "conv", 6, 3), "norm2"));
    return tcc_flatten(x, 1);
}

/* Ties in every window. */
static tcc_tensor pooled_steps(tcc_tensor x) {
    x = tcc_max_pool(tcc_relu(tcc_conv_layer(tcc_round(x), "conv1", 8, 3, .padding = 1)), 2);
    return tcc_flatten(tcc_max_pool(tcc_conv_layer(x, "conv2", 8, 3, .padding = 1), 2), 1);
}

static void net(tcc_trace *t, void *user) {
    tcc_tensor (*body)(tcc_tensor) = *(tcc_tensor(**)(tcc_tensor))user;
    tcc_tensor logits = tcc_linear(body(tcc_input(t, "x")), "out", CLASSES);
    tcc_loss(t, tcc_cross_entropy(logits, tcc_input(t, "y")));
}

/* -- Runs -- */

typedef struct log_lines {
    int lines;
    char all[8192];
} log_lines;

static void keep_line(void *user, const char *text) {
    log_lines *l = user;
    const size_t length = strlen(l->all);
    snprintf(l->all + length, sizeof l->all - length, "%s\n", text);
    l->lines++;
}

typedef struct setup {
    tcc_tensor (*body)(tcc_tensor);
    tcc_mode mode;
    uint64_t seed;
    int rows;
    int64_t samples;
    double loss_scale; /* fp16; 0: float32 */
    int micro_batches; /* 0: none */
} setup;

static void make_batch(uint64_t seed, int rows, float *x, int32_t *y) {
    uint32_t state = (uint32_t)seed * 2654435761u + 1;
    for (int i = 0; i < rows * FEATURES; i++)
        x[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
    for (int i = 0; i < rows; i++) y[i] = (int32_t)((state = state * 1664525u + 1013904223u) >> 16) % CLASSES;
}

/* Fails the test where verification fails. *report, from tcc_model_report, is the caller's; NULL: not wanted. */
static void verify(const setup *s, log_lines *log, char **report) {
    static float x[ROWS * FEATURES];
    int32_t y[ROWS];
    make_batch(s->seed, s->rows, x, y);
    const tcc_array batch[] = {
        {.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {s->rows, CHANNELS, SIZE, SIZE}, .data = x},
        {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {s->rows}, .data = y}};
    tcc_model_options options = {.size = sizeof options,
                                 .mode = s->mode,
                                 .seed = s->seed,
                                 .progress = log ? keep_line : NULL,
                                 .progress_user = log,
                                 .verify_samples = s->samples,
                                 .batch_accumulate = s->micro_batches,
                                 .mixed_precision = s->loss_scale ? TCC_MIXED_FP16 : TCC_MIXED_NONE,
                                 .loss_scale = s->loss_scale,
                                 .optimizer = OPTIMIZER_OF(TCC_ADAMW, 1e-3, .momentum = 0)};
    tcc_context *cx;
    tcc_model *m;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_int_equal(tcc_model_create(cx, net, (void *)&s->body, &options, &m), TCC_OK);
    char *none;
    assert_int_equal(tcc_model_report(m, "verify", &none), TCC_EINVAL);
    if (tcc_model_verify(m, batch, 2, 0, NULL) != TCC_OK) fail_msg("seed %d: %s", (int)s->seed, tcc_context_error(cx));
    if (report) assert_int_equal(tcc_model_report(m, "verify", report), TCC_OK);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void is_accepted(tcc_tensor (*body)(tcc_tensor)) {
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (int mode = 0; mode < 2; mode++)
            verify(&(setup){body, mode ? TCC_MODE_EAGER : TCC_MODE_DEFAULT, seed, ROWS, 0, 0, 0}, NULL, NULL);
}

/* -- Cases -- */

static void a_bias_that_a_norm_takes_away(void **state) {
    (void)state;
    is_accepted(bias_before_norm);
}

static void attention_that_is_saturated(void **state) {
    (void)state;
    is_accepted(saturated_attention);
}

static void channels_that_are_constant(void **state) {
    (void)state;
    is_accepted(constant_channels);
}

static void windows_of_ties(void **state) {
    (void)state;
    is_accepted(pooled_steps);
}

static void says_how_it_gets_on(void **state) {
    (void)state;
    log_lines log = {0};
    char *report;
    verify(&(setup){bias_before_norm, TCC_MODE_DEFAULT, 1, ROWS, 0, 0, 0}, &log, &report);
    assert_true(log.lines >= 3);
    assert_non_null(strstr(log.all, "running the step\n"));
    assert_non_null(strstr(log.all, " kernels with the interpreter\n"));
    assert_null(strstr(log.all, " samples of the batch"));
    assert_non_null(strstr(report, " kernels, each on the values that it gets: at most 0."));
    assert_non_null(strstr(report, "loss, gradients and buffers: at most 0."));
    assert_null(strstr(report, " samples of the batch"));
    tcc_string_free(report);
}

/* In fp16 the gradient of the loss is its scale; so large a one overflows at once. A skipped step is legal. */
static void says_that_a_step_is_skipped(void **state) {
    (void)state;
    log_lines log = {0};
    char *report;
    for (int skipped = 0; skipped < 2; skipped++) {
        log.all[0] = '\0';
        verify(&(setup){bias_before_norm, TCC_MODE_DEFAULT, 1, ROWS, 0, skipped ? 0x1p30 : 0x1p4, 0}, &log, &report);
        assert_int_equal(strstr(log.all, "the step is skipped: a gradient overflows with a loss scale of") != NULL,
                         skipped);
        assert_int_equal(strstr(report, "the step is skipped, as it must be") != NULL, skipped);
        tcc_string_free(report);
    }
}

/* With that scale all gradients of a bias are whole numbers, and their sum is one that f16 does not hold. */
static void whole_numbers_that_f16_rounds(void **state) {
    (void)state;
    verify(&(setup){bias_before_norm, TCC_MODE_DEFAULT, 1, ROWS, 0, 65536, 0}, NULL, NULL);
}

/* Sums of weights around 1, by the scale: their products lie around the largest number of f16. */
static void border_net(tcc_trace *t, void *user) {
    (void)user;
    enum { WIDTH = 16 };
    tcc_tensor h = tcc_linear(tcc_flatten(tcc_input(t, "x"), 1), "a", WIDTH);
    tcc_full_precision(t);
    h = tcc_linear(tcc_cast(h, TCC_F32), "b", WIDTH,
                   .weight_init = &(tcc_init){.kind = TCC_INIT_UNIFORM, .a = -1, .b = 1});
    tcc_full_precision_end(t);
    tcc_tensor y = tcc_cast(tcc_input(t, "y"), TCC_F32);
    tcc_loss(t, tcc_add(tcc_sum(h, TCC_ALL), tcc_scale(tcc_sum(y, TCC_ALL), 0)));
}

static void values_at_the_border_of_f16(void **state) {
    (void)state;
    float x[ROWS * FEATURES];
    int32_t y[ROWS];
    for (uint64_t seed = 1; seed <= 6; seed++) {
        make_batch(seed, ROWS, x, y);
        const tcc_array batch[] = {
            {.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {ROWS, CHANNELS, SIZE, SIZE}, .data = x},
            {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {ROWS}, .data = y}};
        const tcc_model_options options = {
            .size = sizeof options, .seed = seed, .mixed_precision = TCC_MIXED_FP16, .loss_scale = 65536};
        tcc_context *cx;
        tcc_model *m;
        assert_int_equal(tcc_context_create(&cx), TCC_OK);
        assert_int_equal(tcc_model_create(cx, border_net, NULL, &options, &m), TCC_OK);
        if (tcc_model_verify(m, batch, 2, 0, NULL) != TCC_OK) fail_msg("seed %d: %s", (int)seed, tcc_context_error(cx));
        tcc_model_destroy(m);
        tcc_context_destroy(cx);
    }
}

static void compares_micro_batches(void **state) {
    (void)state;
    const char *words = "in one piece, and in micro-batches: ";
    for (int n = 0; n <= 3; n++) { /* three leave a rest */
        char *report;
        verify(&(setup){bias_before_norm, TCC_MODE_DEFAULT, 1, ROWS, 0, 0, n}, NULL, &report);
        assert_int_equal(strstr(report, words) != NULL, n >= 2);
        tcc_string_free(report);
    }
}

static void cuts_a_batch_and_says_so(void **state) {
    (void)state;
    log_lines log = {0};
    char *report;
    verify(&(setup){bias_before_norm, TCC_MODE_DEFAULT, 1, ROWS, 3, 0, 0}, &log, &report);
    assert_non_null(strstr(log.all, "the first 3 of 8 samples of the batch\n"));
    assert_non_null(strstr(report, "the first 3 of 8 samples of the batch\n"));
    tcc_string_free(report);
    /* This model's shapes are made for the whole batch. */
    log = (log_lines){0};
    verify(&(setup){saturated_attention, TCC_MODE_DEFAULT, 1, ROWS, 3, 0, 0}, &log, &report);
    assert_null(strstr(log.all, " samples of the batch"));
    assert_null(strstr(report, " samples of the batch"));
    tcc_string_free(report);
}

/* Where a value is NaN before the step, everything behind it agrees with the interpreter. */
static void says_that_nothing_can_be_judged(void **state) {
    (void)state;
    tcc_tensor (*body)(tcc_tensor) = bias_before_norm;
    static float x[ROWS * FEATURES];
    int32_t y[ROWS];
    for (int of_batch = 0; of_batch < 2; of_batch++) {
        make_batch(1, ROWS, x, y);
        if (of_batch) x[5] = NAN;
        const tcc_array batch[] = {
            {.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {ROWS, CHANNELS, SIZE, SIZE}, .data = x},
            {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {ROWS}, .data = y}};
        tcc_context *cx;
        tcc_model *m;
        tcc_array p;
        assert_int_equal(tcc_context_create(&cx), TCC_OK);
        assert_int_equal(tcc_model_create(cx, net, (void *)&body, NULL, &m), TCC_OK);
        assert_int_equal(tcc_model_compile(m, true, batch, 2), TCC_OK);
        assert_true(tcc_model_find_param(m, "conv2.bias", &p));
        ((float *)p.data)[3] = of_batch ? 0 : INFINITY;
        assert_int_equal(tcc_model_set_param(m, &p), TCC_OK);
        assert_int_equal(tcc_model_verify(m, batch, 2, 0, NULL), TCC_EINVAL);
        const char *says = of_batch ? "nothing can be judged: batch array \"x\" is nan before the step, in element 5 of"
                                    : "nothing can be judged: parameter \"conv2.bias\" is inf before the step, in "
                                      "element 3 of f32[8]";
        if (!strstr(tcc_context_error(cx), says)) fail_msg("%s", tcc_context_error(cx));
        tcc_model_destroy(m);
        tcc_context_destroy(cx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_bias_that_a_norm_takes_away),
                                       cmocka_unit_test(attention_that_is_saturated),
                                       cmocka_unit_test(channels_that_are_constant),
                                       cmocka_unit_test(windows_of_ties),
                                       cmocka_unit_test(says_how_it_gets_on),
                                       cmocka_unit_test(says_that_a_step_is_skipped),
                                       cmocka_unit_test(whole_numbers_that_f16_rounds),
                                       cmocka_unit_test(values_at_the_border_of_f16),
                                       cmocka_unit_test(compares_micro_batches),
                                       cmocka_unit_test(cuts_a_batch_and_says_so),
                                       cmocka_unit_test(says_that_nothing_can_be_judged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
