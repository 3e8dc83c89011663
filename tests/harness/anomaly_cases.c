/* SPDX-License-Identifier: MIT
 * Two small models: one divides by what the batch says, and one has a gradient that does. */
#include "harness/anomaly_cases.h"
#include "harness/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 4, WIDTH = 8, TAME = 3 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static int line; /* of the op that is not finite */

static void forward(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_linear(tcc_relu(tcc_linear(tcc_input(t, "x"), "in", WIDTH)), "out", 1);
    line = __LINE__ + 1;
    h = tcc_div(h, tcc_input(t, "y"));
    tcc_loss(t, tcc_mean(tcc_mul(h, h), TCC_ALL));
}

/* The root of 0 is 0, and its slope infinite. */
static void backward(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_mul(tcc_linear(tcc_input(t, "x"), "in", WIDTH), tcc_input(t, "y"));
    line = __LINE__ + 1;
    h = tcc_sqrt(tcc_mul(h, h));
    tcc_loss(t, tcc_mean(h, TCC_ALL));
}

typedef struct subject {
    tcc_context *cx;
    tcc_model *m;
    double losses[TAME];
} subject;

static tcc_status train(subject *s, float y) {
    float x[SAMPLES * 2], divisors[SAMPLES];
    for (int i = 0; i < SAMPLES * 2; i++) x[i] = (float)(i + 1) / SAMPLES;
    for (int i = 0; i < SAMPLES; i++) divisors[i] = i == SAMPLES - 1 ? y : 2;
    const tcc_array batch[] = {{"x", TCC_F32, 2, {SAMPLES, 2}, x}, {"y", TCC_F32, 2, {SAMPLES, 1}, divisors}};
    return tcc_model_train(s->m, batch, 2);
}

static void create(subject *s, tcc_model_fn fn, const tcc_model_options *given, bool detects) {
    tcc_model_options o = *given;
    o.detect_anomaly = detects;
    OK(s->cx, tcc_model_create(s->cx, fn, NULL, &o, &s->m));
    for (int i = 0; i < TAME; i++) {
        OK(s->cx, train(s, 1));
        OK(s->cx, tcc_model_step_loss(s->m, i, &s->losses[i]));
    }
}

/* The bytes of a parameter's value. */
static float *copy_of_weight(subject *s) {
    tcc_array p;
    OK(s->cx, tcc_model_synchronize(s->m));
    assert_true(tcc_model_param(s->m, 0, &p));
    float *copy = malloc(sizeof *copy * 2 * WIDTH);
    assert_non_null(copy);
    memcpy(copy, p.data, sizeof *copy * 2 * WIDTH);
    return copy;
}

static void expect_anomaly(subject *s, const char *way) {
    float *before = copy_of_weight(s);
    char place[64];
    assert_int_equal(train(s, 0), TCC_EINVAL);
    snprintf(place, sizeof place, "anomaly_cases.c:%d: %s: ", line, way);
    const char *error = tcc_context_error(s->cx);
    if (!strstr(error, "step 3: ") || !strstr(error, "infinite or NaN") || !strstr(error, place))
        fail_msg("\"%s\" does not name %s", error, place);
    assert_int_equal(tcc_model_step(s->m), TAME);
    float *after = copy_of_weight(s);
    assert_memory_equal(before, after, sizeof *before * 2 * WIDTH);
    free(before);
    free(after);
}

static void check(tcc_model_fn fn, const tcc_model_options *o, const char *way, bool found) {
    subject off = {0}, on = {0};
    tcc_array flag;
    OK(off.cx, tcc_context_create(&off.cx));
    OK(on.cx, tcc_context_create(&on.cx));
    create(&off, fn, o, false);
    create(&on, fn, o, true);
    for (int i = 0; i < TAME; i++) assert_true(fabs(off.losses[i] - on.losses[i]) <= 1e-5 * fabs(off.losses[i]));
    assert_int_equal(tcc_model_output(off.m, "@anomaly", &flag), TCC_ENOTFOUND);
    OK(on.cx, tcc_model_output(on.m, "@anomaly", &flag));
    if (found) expect_anomaly(&on, way);
    else OK(on.cx, train(&on, 0));
    OK(on.cx, train(&on, 1));
    assert_int_equal(tcc_model_step(on.m), TAME + (found ? 1 : 2));
    tcc_model_destroy(off.m);
    tcc_model_destroy(on.m);
    tcc_context_destroy(off.cx);
    tcc_context_destroy(on.cx);
}

void check_anomaly(const char *device, tcc_mode mode, tcc_mixed_precision precision, int parts) {
    tcc_optimizer_options adam;
    tcc_optimizer_init(&adam, TCC_ADAM);
    const tcc_model_options o = {.size = sizeof o,
                                 .device = device,
                                 .mode = mode,
                                 .mixed_precision = precision,
                                 .optimizer = &adam,
                                 .loss_scale = precision == TCC_MIXED_FP16 ? 16 : 0,
                                 .autotune_budget_s = 0.1,
                                 .batch_accumulate = parts};
    check(forward, &o, "forward", true);
    check(backward, &o, "backward", precision != TCC_MIXED_FP16);
}
