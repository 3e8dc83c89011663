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

/* -- What is left of a step that is left out -- */

enum { ROWS = 12, MOST_BYTES = 1 << 14 };

/* Batch statistics, a buffer of the user's, and random draws. */
static void keeps_much(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor count = tcc_state(t, "count", ((tcc_init){.kind = TCC_INIT_ZEROS}), 0, NULL);
    if (tcc_is_training(t)) tcc_update(count, tcc_add_scalar(count, 1));
    tcc_tensor h = tcc_batch_norm(tcc_linear(tcc_input(t, "x"), "in", WIDTH), "norm");
    h = tcc_mul(tcc_linear(tcc_dropout(h, 0.25), "out", 1), tcc_input(t, "factor"));
    tcc_loss(t, tcc_mean(tcc_cast(h, TCC_F32), TCC_ALL));
}

/* Whether a state is one of the scaler's, which a step that overflows moves. */
static bool is_of_scaler(const char *name) { return strstr(name, "@scale") || strstr(name, "@skipped"); }

/* All bytes that a model keeps: parameters, buffers, and the optimizer's states with averages and counters. */
static int keep(tcc_context *cx, tcc_model *m, bool scaler, char *out) {
    tcc_array a;
    int bytes = 0;
    OK(cx, tcc_model_synchronize(m));
    for (int store = 0; store < 2; store++)
        for (int i = 0; store ? tcc_model_optimizer_state(m, i, &a) : tcc_model_param(m, i, &a); i++) {
            int64_t count = a.dtype == TCC_I64 || a.dtype == TCC_F64 ? 8 : 4;
            for (int d = 0; d < a.rank; d++) count *= a.dims[d];
            if (!scaler && is_of_scaler(a.name)) continue;
            assert_true(bytes + count < MOST_BYTES);
            memcpy(out + bytes, a.data, (size_t)count);
            bytes += (int)count;
        }
    return bytes;
}

/* `factor`: of row 7, which is in the second of three micro-batches. */
static tcc_status train_kept(tcc_model *m, float factor) {
    float x[ROWS * 2], factors[ROWS];
    for (int i = 0; i < ROWS * 2; i++) x[i] = (float)sin(i) + 1;
    for (int i = 0; i < ROWS; i++) factors[i] = i == 7 ? factor : 1;
    const tcc_array batch[] = {{"x", TCC_F32, 2, {ROWS, 2}, x}, {"factor", TCC_F32, 2, {ROWS, 1}, factors}};
    return tcc_model_train(m, batch, 2);
}

static void expect_nothing_changed(tcc_context *cx, tcc_model *m, float factor, tcc_status expected, bool scaler) {
    static char before[MOST_BYTES], after[MOST_BYTES];
    const int bytes = keep(cx, m, scaler, before);
    const int64_t step = tcc_model_step(m);
    assert_int_equal(train_kept(m, factor), expected);
    tcc_context_clear_error(cx);
    assert_int_equal(tcc_model_step(m), expected == TCC_OK ? step + 1 : step);
    assert_int_equal(keep(cx, m, scaler, after), bytes);
    assert_memory_equal(before, after, (size_t)bytes);
}

void check_left_out(const char *device, tcc_mixed_precision precision, int parts, bool detects) {
    tcc_optimizer_options adam;
    tcc_context *cx;
    tcc_model *m;
    static char first[MOST_BYTES], last[MOST_BYTES];
    tcc_optimizer_init(&adam, TCC_ADAMW);
    adam.weight_decay = 0.1, adam.clip_grad_norm = 1, adam.ema_decay = 0.9;
    const bool scaled = precision == TCC_MIXED_FP16;
    const tcc_model_options o = {.size = sizeof o,
                                 .device = device,
                                 .mixed_precision = precision,
                                 .optimizer = &adam,
                                 .loss_scale = scaled ? 16 : 0,
                                 .statistics = true,
                                 .keep_gradients = true,
                                 .detect_anomaly = detects,
                                 .batch_accumulate = parts};
    OK(NULL, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, keeps_much, NULL, &o, &m));
    for (int i = 0; i < 2; i++) OK(cx, train_kept(m, 1));
    const int bytes = keep(cx, m, true, first);
    if (detects) {
        expect_nothing_changed(cx, m, NAN, TCC_EINVAL, true);
        expect_nothing_changed(cx, m, INFINITY, TCC_EINVAL, true);
    }
    if (scaled) expect_nothing_changed(cx, m, 60000, TCC_OK, false); /* a gradient overflows, the loss does not */
    OK(cx, train_kept(m, 1));
    assert_int_equal(keep(cx, m, true, last), bytes);
    assert_memory_not_equal(first, last, (size_t)bytes);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}
