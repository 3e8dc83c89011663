/* SPDX-License-Identifier: MIT
 * Averages of the parameters: their values after each step, in every mode and precision; that they take no kernel of
 * their own; evaluation with them; and what is refused. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FEATURES = 5, HIDDEN = 7, CLASSES = 3, ROWS = 9, STEPS = 8, ELEMENTS = HIDDEN * FEATURES };

static float x[ROWS * FEATURES];
static int32_t y[ROWS];
static const tcc_array batch[2] = {{"x", TCC_F32, 2, {ROWS, FEATURES}, x}, {"y", TCC_I32, 1, {ROWS}, y}};

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_relu(tcc_batch_norm(tcc_linear(tcc_input(t, "x"), "in", HIDDEN), "bn"));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "out", CLASSES), tcc_input(t, "y")));
}

static int make_batch(void **state) {
    (void)state;
    for (int i = 0; i < ROWS * FEATURES; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < ROWS; i++) y[i] = i % CLASSES;
    return 0;
}

static tcc_model *make(tcc_context *cx, const tcc_optimizer_options *optimizer, tcc_mode mode,
                       tcc_mixed_precision precision) {
    const tcc_model_options o = {
        .size = sizeof o, .seed = 3, .mode = mode, .mixed_precision = precision, .optimizer = optimizer};
    tcc_model *m;
    OK(cx, tcc_model_create(cx, net, NULL, &o, &m));
    return m;
}

static const float *find_state(tcc_model *m, const char *name) {
    tcc_array a;
    for (int i = 0; tcc_model_optimizer_state(m, i, &a); i++)
        if (!strcmp(a.name, name)) return a.data;
    fail_msg("there is no state \"%s\"", name);
    return NULL;
}

static const float *find_param(tcc_model *m, const char *name) {
    tcc_array a;
    assert_true(tcc_model_find_param(m, name, &a));
    return a.data;
}

/* After each step as computed here, in double, from the parameters. In fp16 the first scale overflows, so that steps
 * are skipped. */
static void check_values(const tcc_optimizer_options *optimizer, tcc_mode mode, tcc_mixed_precision precision) {
    tcc_context *cx;
    OK(NULL, tcc_context_create(&cx));
    tcc_model *m = make(cx, optimizer, mode, precision);
    double average[ELEMENTS] = {0}, scale;
    int64_t skipped = 0, updates = 0;
    for (int step = 1; step <= STEPS; step++) {
        OK(cx, tcc_model_train(m, batch, 2));
        if (precision == TCC_MIXED_FP16) OK(cx, tcc_model_loss_scale(m, &scale, &skipped));
        const bool updated = step - skipped > updates;
        const double n = (double)updates, bound = (1 + n) / (10 + n),
                     decay = optimizer->ema_warmup ? fmin(optimizer->ema_decay, bound) : optimizer->ema_decay;
        const float *p = find_param(m, "in.weight"), *got = find_state(m, "in.weight.ema");
        for (int i = 0; i < ELEMENTS; i++) {
            if (updated) average[i] = updates ? decay * average[i] + (1 - decay) * p[i] : p[i];
            if (!(fabs(got[i] - average[i]) <= 1e-6))
                fail_msg("mode %d, step %d: %.9g, expected %.9g", (int)mode, step, got[i], average[i]);
        }
        updates += updated;
    }
    assert_true(updates > 0);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static const tcc_optimizer_options sgd = OPTIMIZER(TCC_SGD, 0.1, .momentum = 0.9, .ema_decay = 0.75),
                                   adamw = OPTIMIZER(TCC_ADAMW, 0.01, .weight_decay = 0.1, .clip_grad_norm = 1,
                                                     .ema_decay = 0.6, .ema_warmup = true);

static void follows_the_parameters(void **state) {
    (void)state;
    for (int mode = TCC_MODE_DEFAULT; mode <= TCC_MODE_REDUCE_OVERHEAD; mode++)
        for (int precision = TCC_MIXED_NONE; precision <= TCC_MIXED_FP16; precision++) {
            check_values(&sgd, (tcc_mode)mode, (tcc_mixed_precision)precision);
            check_values(&adamw, (tcc_mode)mode, (tcc_mixed_precision)precision);
        }
}

/* Running statistics have averages as weights have, with a decay that grows; evaluation has them. Also where a step
 * takes its batch in two parts. */
static void follows_buffers(tcc_mode mode, int64_t parts) {
    static const char *const names[] = {"in.weight", "bn.running_mean", "bn.running_var"};
    const tcc_optimizer_options how = OPTIMIZER(TCC_SGD, 0.1, .momentum = 0.9, .ema_decay = 0.9, .ema_buffers = true,
                                                .ema_ramp = 0.3);
    const tcc_model_options o = {
        .size = sizeof o, .seed = 3, .mode = mode, .batch_accumulate = parts, .optimizer = &how};
    double average[3][ELEMENTS] = {0};
    char name[64];
    tcc_context *cx;
    tcc_model *m;
    OK(NULL, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, &o, &m));
    for (int step = 1; step <= STEPS; step++) {
        OK(cx, tcc_model_train(m, batch, 2));
        const double decay = step == 1 ? 0 : 0.9 * (1 - exp(-0.3 * step));
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "%s.ema", names[k]);
            const float *p = find_param(m, names[k]), *got = find_state(m, name);
            for (int i = 0; i < (k ? HIDDEN : ELEMENTS); i++) {
                average[k][i] = decay * average[k][i] + (1 - decay) * p[i];
                if (!(fabs(got[i] - average[k][i]) <= 1e-6))
                    fail_msg("%s, mode %d, %d parts, step %d: %.9g, expected %.9g", name, (int)mode, (int)parts, step,
                             got[i], average[k][i]);
            }
        }
    }
    OK(cx, tcc_model_use_ema(m, true));
    assert_true(fabs(find_param(m, "bn.running_var")[0] - average[2][0]) <= 1e-6);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void follows_running_statistics(void **state) {
    (void)state;
    follows_buffers(TCC_MODE_DEFAULT, 1);
    follows_buffers(TCC_MODE_DEFAULT, 2);
    follows_buffers(TCC_MODE_REDUCE_OVERHEAD, 1);
}

static int count_steps(const tcc_optimizer_options *from, double decay) {
    tcc_context *cx;
    tcc_program_info info;
    tcc_optimizer_options o = *from;
    OK(NULL, tcc_context_create(&cx));
    o.ema_decay = decay;
    o.ema_warmup = false;
    tcc_model *m = make(cx, &o, TCC_MODE_DEFAULT, TCC_MIXED_NONE);
    OK(cx, tcc_model_compile(m, true, batch, 2));
    OK(cx, tcc_model_info(m, &info));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return info.steps;
}

/* SGD alone counts no updates: that is one scalar more. What fuse does elsewhere may differ by a step. */
static void takes_no_pass_over_the_parameters(void **state) {
    (void)state;
    assert_true(count_steps(&adamw, 0.9) <= count_steps(&adamw, 0));
    assert_true(count_steps(&sgd, 0.9) <= count_steps(&sgd, 0) + 1);
}

/* Evaluation is that of a model which has these weights, and training goes on as if nothing had been. */
static void evaluates_with_averages(void **state) {
    (void)state;
    tcc_context *cx;
    OK(NULL, tcc_context_create(&cx));
    tcc_model *m = make(cx, &adamw, TCC_MODE_DEFAULT, TCC_MIXED_BF16), *plain = make(cx, &adamw, 0, TCC_MIXED_BF16);
    tcc_model *other = make(cx, &adamw, TCC_MODE_DEFAULT, TCC_MIXED_BF16);
    tcc_array a;
    char name[64];
    OK(cx, tcc_model_compile(m, true, batch, 2));
    OK(cx, tcc_model_use_ema(m, true)); /* before the first update they are the parameters */
    OK(cx, tcc_model_evaluate(m, batch, 2));
    const double begin = tcc_model_loss(m);
    OK(cx, tcc_model_use_ema(m, false));
    OK(cx, tcc_model_evaluate(m, batch, 2));
    assert_true(tcc_model_loss(m) == begin);
    for (int step = 0; step < STEPS; step++) {
        OK(cx, tcc_model_train(m, batch, 2));
        OK(cx, tcc_model_train(plain, batch, 2));
        if (step == 3) {
            OK(cx, tcc_model_use_ema(m, true));
            OK(cx, tcc_model_use_ema(m, true));
            assert_int_equal(tcc_model_train(m, batch, 2), TCC_EINVAL);
            assert_non_null(strstr(tcc_context_error(cx), "the parameters are their averages now"));
            tcc_context_clear_error(cx);
            OK(cx, tcc_model_evaluate(m, batch, 2));
            OK(cx, tcc_model_evaluate(other, batch, 2));
            for (int i = 0; tcc_model_param(plain, i, &a); i++) {
                snprintf(name, sizeof name, "%s.ema", a.name);
                if (tcc_model_param_is_trained(plain, i)) a.data = (void *)find_state(plain, name);
                OK(cx, tcc_model_set_param(other, &a));
            }
            OK(cx, tcc_model_evaluate(other, batch, 2));
            assert_true(tcc_model_loss(m) == tcc_model_loss(other));
            OK(cx, tcc_model_use_ema(m, false));
        }
    }
    assert_memory_equal(find_param(m, "in.weight"), find_param(plain, "in.weight"), ELEMENTS * sizeof(float));
    assert_memory_equal(find_state(m, "in.weight.ema"), find_state(plain, "in.weight.ema"), ELEMENTS * sizeof(float));
    tcc_model_destroy(m);
    tcc_model_destroy(plain);
    tcc_model_destroy(other);
    tcc_context_destroy(cx);
}

static void check_refused(const tcc_optimizer_options *o, tcc_status expected, const char *message) {
    tcc_context *cx;
    tcc_model *m;
    OK(NULL, tcc_context_create(&cx));
    const tcc_model_options options = {.size = sizeof options, .optimizer = o};
    tcc_status status = tcc_model_create(cx, net, NULL, &options, &m);
    if (status == TCC_OK) status = tcc_model_use_ema(m, true);
    assert_int_equal(status, expected);
    if (!strstr(tcc_context_error(cx), message)) fail_msg("\"%s\" does not say \"%s\"", tcc_context_error(cx), message);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void refuses(void **state) {
    (void)state;
    check_refused(OPTIMIZER_OF(TCC_SGD, 0.1, .ema_decay = 1), TCC_EINVAL, "ema_decay 1 must be at least 0 and less");
    check_refused(OPTIMIZER_OF(TCC_SGD, 0.1, .ema_decay = NAN), TCC_EINVAL, "ema_decay nan must be at least 0");
    check_refused(OPTIMIZER_OF(TCC_SGD, 0.1, .ema_warmup = true), TCC_EINVAL, "ema_warmup needs an ema_decay above 0");
    check_refused(OPTIMIZER_OF(TCC_SGD, 0.1, .ema_buffers = true), TCC_EINVAL, "ema_buffers needs an ema_decay above");
    check_refused(OPTIMIZER_OF(TCC_SGD, 0.1, .ema_ramp = 0.1), TCC_EINVAL, "ema_ramp 0.1 needs an ema_decay above 0");
    check_refused(OPTIMIZER_OF(TCC_SGD, 0.1, .ema_decay = 0.9, .ema_warmup = true, .ema_ramp = 0.1), TCC_EINVAL,
                  "ema_ramp 0.1 needs ema_warmup to be false");
    check_refused(OPTIMIZER_OF(TCC_SGD, 0.1, .momentum = 0), TCC_ENOTFOUND, "parameters are not averaged");
    check_refused(&sgd, TCC_ENOTFOUND, "there are no averages yet");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_parameters),
        cmocka_unit_test(follows_running_statistics),
        cmocka_unit_test(takes_no_pass_over_the_parameters),
        cmocka_unit_test(evaluates_with_averages),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, make_batch, NULL);
}
