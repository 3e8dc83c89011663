/* SPDX-License-Identifier: MIT
 * Which op overflows in fp16: forward, in backward alone, in a part of the batch that is not looked at. */
#include "harness/check.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

enum { SAMPLES = 4, WIDTH = 8 };

static int line; /* of the op that overflows */

/* The third op: the product and the bias are finite. */
static void squares(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_linear(tcc_input(t, "x"), "fc", WIDTH);
    line = __LINE__ + 1;
    h = tcc_mul(h, h);
    tcc_loss(t, tcc_mean(h, TCC_ALL));
}

static void two_layers(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_linear(tcc_input(t, "x"), "in", WIDTH);
    line = __LINE__ + 1;
    h = tcc_linear(h, "out", WIDTH);
    tcc_loss(t, tcc_mean(h, TCC_ALL));
}

/* a / b is 1, but what a gradient of it is divided by may be small. */
static void quotients(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_input(t, "x"), a = tcc_linear(x, "a", WIDTH), b = tcc_linear(x, "b", WIDTH);
    line = __LINE__ + 1;
    a = tcc_div(a, b);
    tcc_loss(t, tcc_mean(a, TCC_ALL));
}

/* What is said of a batch whose samples are `x`, where weights are 1 and biases 0. The caller frees it. */
static char *overflow_of(tcc_model_fn fn, const float *x, int64_t samples_at_most) {
    const tcc_array batch = {"x", TCC_F32, 2, {SAMPLES, 1}, (void *)x};
    const tcc_model_options o = {.size = sizeof o,
                                 .device = "cpu",
                                 .mixed_precision = TCC_MIXED_FP16,
                                 .loss_scale = 1,
                                 .verify_samples = samples_at_most};
    tcc_context *cx;
    tcc_model *m;
    tcc_array p;
    char *text, *copy;
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, fn, NULL, &o, &m));
    OK(cx, tcc_model_compile(m, true, &batch, 1));
    for (int i = 0; tcc_model_param(m, i, &p); i++)
        for (int64_t e = 0; e < p.dims[0] * (p.rank == 2 ? p.dims[1] : 1); e++)
            ((float *)p.data)[e] = p.rank == 2 ? 1 : 0;
    OK(cx, tcc_model_find_overflow(m, &batch, 1, &text));
    assert_int_equal(tcc_model_step(m), 0);
    copy = strdup(text);
    tcc_string_free(text);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return copy;
}

static void expect(tcc_model_fn fn, const float *x, int64_t samples_at_most, const char *end) {
    char *text = overflow_of(fn, x, samples_at_most), place[64] = "";
    if (*end == ':') snprintf(place, sizeof place, "test_overflow.c:%d", line);
    const char *at = strstr(text, place);
    if (!at || strcmp(at + strlen(place), end) != 0) fail_msg("\"%s\" does not end in \"%s%s\"", text, place, end);
    free(text);
}

static void forward(void **state) {
    (void)state;
    const float x[SAMPLES] = {1, 2, 300, 4};
    expect(squares, x, 0, ": forward: mul gives inf in f16[4,8], element 16, from operands of at most 300");
    const float y[SAMPLES] = {1, -20000, 3, 4};
    expect(two_layers, y, 0,
           ": forward: dot with \"out.weight\" gives -inf in f16[4,8], element 8, from operands of at most 2e+04");
}

static void backward(void **state) {
    (void)state;
    const float x[SAMPLES] = {1, 1, 1, 3e-7F};
    char *text = overflow_of(quotients, x, 0), place[96];
    snprintf(place, sizeof place, "test_overflow.c:%d: backward: ", line);
    if (!strstr(text, place) || !strstr(text, "inf in f16[4,8]")) fail_msg("%s", text);
    free(text);
}

static void nothing_and_slices(void **state) {
    (void)state;
    const float tame[SAMPLES] = {1, 2, 3, 4}, last[SAMPLES] = {1, 2, 3, 400}, first[SAMPLES] = {400, 2, 3, 4},
                none[SAMPLES] = {1, NAN, 3, 4};
    expect(squares, tame, 0, "no op of the step overflows");
    expect(squares, last, 2,
           "no op of the step overflows; this is of the first 2 of 4 samples of the batch, the others may overflow");
    expect(squares, first, 2,
           ": forward: mul gives inf in f16[2,8], element 0, from operands of at most 400; this is of the first 2 of 4 "
           "samples of the batch");
    char *text = overflow_of(squares, none, 0);
    if (!strstr(text, "\"x\" is not finite itself: element 1 of f32[4,1] is NaN")) fail_msg("%s", text);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forward), cmocka_unit_test(backward),
                                       cmocka_unit_test(nothing_and_slices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
