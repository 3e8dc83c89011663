/* SPDX-License-Identifier: MIT
 * Statistics of a training step against the same numbers computed from parameters, gradients and values that the model
 * gives out. */
#include "harness/check.h"
#include "harness/optimizer.h"

#include <traincc/traincc.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 6, INPUTS = 5, WIDTH = 7, STEPS = 3, PARAMETERS = 4, MODULES = 2, MOST = SAMPLES * WIDTH };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor in = tcc_linear(tcc_input(t, "x"), "block.in", WIDTH), out = tcc_linear(tcc_relu(in), "out", 1);
    tcc_output(t, "block.in", in);
    tcc_output(t, "out", out);
    tcc_loss(t, tcc_mean(tcc_mul(out, out), TCC_ALL));
}

static tcc_status train(tcc_model *m, int step) {
    float x[SAMPLES * INPUTS];
    for (int i = 0; i < SAMPLES * INPUTS; i++) x[i] = (float)sin(i + step * 3) + 1;
    for (int i = 0; i < SAMPLES; i++) x[i * INPUTS] = 0; /* so that gradients have zeros */
    return tcc_model_train(m, &(tcc_array){"x", TCC_F32, 2, {SAMPLES, INPUTS}, x}, 1);
}

/* -- The same numbers, by the host -- */

typedef struct values {
    int count;
    double x[MOST];
} values;

static values read_array(const tcc_array *a) {
    values v = {.count = 1};
    for (int i = 0; i < a->rank; i++) v.count *= (int)a->dims[i];
    assert_true(v.count <= MOST && (a->dtype == TCC_F32 || a->dtype == TCC_BF16));
    for (int i = 0; i < v.count; i++) {
        uint32_t bits;
        float x;
        if (a->dtype == TCC_F32) memcpy(&x, (const float *)a->data + i, sizeof x);
        else bits = (uint32_t)((const uint16_t *)a->data)[i] << 16, memcpy(&x, &bits, sizeof x);
        v.x[i] = x;
    }
    return v;
}

static double norm(const values *v) {
    double sum = 0;
    for (int i = 0; i < v->count; i++) sum += v->x[i] * v->x[i];
    return sqrt(sum);
}

static double largest(const values *v) {
    double most = 0;
    for (int i = 0; i < v->count; i++) most = fmax(most, fabs(v->x[i]));
    return most;
}

static void near(const char *name, const char *what, double got, double want) {
    if (!(fabs(got - want) <= 1e-5 * fabs(want) + 1e-6)) fail_msg("%s of %s is %.9g, not %.9g", what, name, got, want);
}

static void check_parameter(tcc_model *m, tcc_context *cx, const tcc_statistic *s, const values *before) {
    tcc_array array;
    OK(cx, tcc_model_gradient(m, s->name, &array));
    const values gradient = read_array(&array);
    double zeros = 0;
    for (int i = 0; i < gradient.count; i++) zeros += gradient.x[i] == 0;
    assert_true(tcc_model_find_param(m, s->name, &array));
    values change = read_array(&array);
    for (int i = 0; i < change.count; i++) change.x[i] -= before->x[i];
    near(s->name, "gradient_norm", s->gradient_norm, norm(&gradient));
    near(s->name, "gradient_largest", s->gradient_largest, largest(&gradient));
    near(s->name, "gradient_zeros", s->gradient_zeros, zeros / gradient.count);
    near(s->name, "weight_norm", s->weight_norm, norm(before));
    near(s->name, "update_norm", s->update_norm, norm(&change));
}

static void check_module(tcc_model *m, tcc_context *cx, const tcc_statistic *s) {
    tcc_array array;
    OK(cx, tcc_model_output(m, s->name, &array));
    const values v = read_array(&array);
    double mean = 0, squares = 0;
    for (int i = 0; i < v.count; i++) mean += v.x[i] / v.count;
    for (int i = 0; i < v.count; i++) squares += (v.x[i] - mean) * (v.x[i] - mean);
    near(s->name, "mean", s->mean, mean);
    near(s->name, "std", s->std, sqrt(squares / v.count));
    near(s->name, "largest", s->largest, largest(&v));
}

/* -- Models with and without -- */

static tcc_model *create(tcc_context *cx, const tcc_model_options *given, bool statistics) {
    tcc_model_options o = *given;
    tcc_model *m;
    o.statistics = statistics;
    OK(cx, tcc_model_create(cx, net, NULL, &o, &m));
    return m;
}

static void check_step(tcc_model *m, tcc_context *cx, int step) {
    static values before[PARAMETERS];
    tcc_statistic s;
    tcc_array array;
    int parameters = 0, modules = 0;
    for (int i = 0; step && tcc_model_param(m, i, &array); i++) before[i] = read_array(&array);
    OK(cx, train(m, step));
    for (int i = 0; i < PARAMETERS + MODULES; i++) {
        OK(cx, tcc_model_statistic(m, i, &s));
        if (s.of_module) modules++;
        else parameters++;
        if (s.of_module) check_module(m, cx, &s);
        else if (step) check_parameter(m, cx, &s, &before[parameters - 1]);
    }
    assert_int_equal(parameters, PARAMETERS);
    assert_int_equal(modules, MODULES);
    assert_int_equal(tcc_model_statistic(m, PARAMETERS + MODULES, &s), TCC_ENOTFOUND);
    assert_int_equal(tcc_model_statistic(m, -1, &s), TCC_ENOTFOUND);
}

static void check(tcc_mode mode, tcc_mixed_precision precision, int parts, const tcc_optimizer_options *optimizer) {
    tcc_context *cx;
    tcc_statistic s;
    OK(NULL, tcc_context_create(&cx));
    const tcc_model_options o = {.size = sizeof o,
                                 .seed = 3,
                                 .mode = mode,
                                 .mixed_precision = precision,
                                 .optimizer = optimizer,
                                 .keep_gradients = true,
                                 .autotune_budget_s = 0.1,
                                 .loss_scale = precision == TCC_MIXED_FP16 ? 16 : 0,
                                 .batch_accumulate = parts};
    tcc_model *on = create(cx, &o, true), *off = create(cx, &o, false);
    assert_int_equal(tcc_model_statistic(on, 0, &s), TCC_ENOTFOUND); /* nothing ran */
    for (int step = 0; step < STEPS; step++) {
        check_step(on, cx, step);
        OK(cx, train(off, step));
        const double a = tcc_model_loss(on), b = tcc_model_loss(off);
        if (!(fabs(a - b) <= (precision ? 1e-2 : 1e-6) * fabs(b))) fail_msg("step %d: loss %.9g and %.9g", step, a, b);
    }
    assert_int_equal(tcc_model_statistic(off, 0, &s), TCC_EINVAL);
    tcc_model_destroy(on);
    tcc_model_destroy(off);
    tcc_context_destroy(cx);
}

static const tcc_optimizer_options adamw = OPTIMIZER(TCC_ADAMW, 0.01, .weight_decay = 0.1, .ema_decay = 0.9),
                                   clipped = OPTIMIZER(TCC_SGD, 0.1, .momentum = 0.9, .clip_grad_norm = 0.01);

static void modes(void **state) {
    (void)state;
    for (int mode = TCC_MODE_DEFAULT; mode <= TCC_MODE_MAX_AUTOTUNE; mode++)
        check((tcc_mode)mode, TCC_MIXED_NONE, 1, &adamw);
    check(TCC_MODE_DEFAULT, TCC_MIXED_NONE, 1, &clipped);
}

static void precisions(void **state) {
    (void)state;
    check(TCC_MODE_DEFAULT, TCC_MIXED_BF16, 1, &adamw);
    check(TCC_MODE_DEFAULT, TCC_MIXED_BF16, 1, &clipped);
}

static void micro_batches(void **state) {
    (void)state;
    check(TCC_MODE_DEFAULT, TCC_MIXED_NONE, 2, &adamw);
    check(TCC_MODE_DEFAULT, TCC_MIXED_NONE, 2, &clipped);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(modes), cmocka_unit_test(precisions),
                                       cmocka_unit_test(micro_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
