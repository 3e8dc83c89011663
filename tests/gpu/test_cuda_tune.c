/* SPDX-License-Identifier: MIT
 * Tuning on a CUDA device, with a clock that says what the test wants: a candidate that fails to launch, and a device
 * that disappears. */
#include "frontend/tune/tune.h"
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/judged_model.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 16, WIDTH = 24, CLASSES = 5, STEPS = 2 };

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_relu(tcc_linear(tcc_input(t, "x"), "a", WIDTH));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "b", CLASSES), tcc_input(t, "y")));
}

static float x[ROWS * WIDTH];
static int32_t y[ROWS];
static const tcc_array batch[] = {{"x", TCC_F32, 2, {ROWS, WIDTH}, x}, {"y", TCC_I32, 1, {ROWS}, y}};

/* What goes wrong when a candidate that is not a default comes to be timed. */
static struct {
    ptxsim_fault fault;
    int compiled;    /* candidates in a row */
    int races, from; /* rows of more than a default so far; the one that it happens in, 0 being the first */
    bool on, injected;
    int spill_from; /* functions of the kind whose candidates are compiled first; 0: none spills */
} plan;

/* Narrow lanes are fast. */
static int64_t judge(void *user, const char *candidate, int64_t ns) {
    (void)user;
    if (!ns) {
        if (++plan.compiled > 1 && plan.spill_from && !plan.injected) {
            sim.spill(plan.spill_from, 16);
            plan.injected = true;
        }
        return 0;
    }
    plan.races += plan.compiled > 1;
    if (plan.on && plan.races > plan.from && !plan.injected) {
        sim.inject(plan.fault, 1);
        plan.injected = true;
    }
    plan.compiled = 0;
    return strstr(candidate, "lanes=1,") || strstr(candidate, "lanes=1}") ? 500000 : 1000000;
}

static tcc_status create(tcc_context *cx, tcc_mode mode, tcc_model **out) {
    return judged_model_create(cx, net, judge, mode, NULL, NULL, batch, CLASSES, out);
}

static double train(tcc_context *cx, tcc_mode mode, const char *explained) {
    tcc_model *m;
    char *text;
    assert_ok(create(cx, mode, &m), &cx->diag);
    for (int i = 0; i < STEPS; i++) assert_ok(tcc_model_train(m, batch, 2), &cx->diag);
    const double loss = tcc_model_loss(m);
    assert_ok(tcc_model_report(m, "tune", &text), &cx->diag);
    if (explained && !strstr(text, explained)) fail_msg("%s", text);
    tcc_string_free(text);
    tcc_model_destroy(m);
    return loss;
}

static void the_fastest_candidate_runs(void **state) {
    (void)state;
    tcc_context cx;
    plan.on = false;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const double loss = train(&cx, TCC_MODE_DEFAULT, NULL);
    assert_true(fabs(train(&cx, TCC_MODE_MAX_AUTOTUNE, " us now\n") - loss) < 1e-5);
    tcc_context_clear(&cx);
}

static void a_failed_launch_drops_the_candidate(void **state) {
    (void)state;
    tcc_context cx;
    skip_without(sim.inject, STAND_IN_FAILS);
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const double loss = train(&cx, TCC_MODE_DEFAULT, NULL);
    plan.on = true, plan.injected = false, plan.fault = PTXSIM_FAULT_LAUNCH, plan.races = 0;
    assert_true(fabs(train(&cx, TCC_MODE_MAX_AUTOTUNE, "1 fails to run") - loss) < 1e-5);
    assert_true(plan.injected);
    tcc_context_clear(&cx);
}

/* Memory that the default has as well is there on purpose, or as bad. */
static void a_candidate_that_spills_is_not_timed(void **state) {
    (void)state;
    tcc_context cx;
    skip_without(sim.spill, STAND_IN_FAILS);
    assert_ok(tcc_context_init(&cx), &cx.diag);
    const double loss = train(&cx, TCC_MODE_DEFAULT, NULL);
    plan.on = plan.injected = false;
    plan.spill_from = 4; /* the default has at most three functions */
    assert_true(fabs(train(&cx, TCC_MODE_MAX_AUTOTUNE, " spills registers") - loss) < 1e-5);
    assert_true(plan.injected);
    plan.injected = false;
    plan.spill_from = 1;
    tcc_model *m;
    char *text;
    assert_ok(create(&cx, TCC_MODE_MAX_AUTOTUNE, &m), &cx.diag);
    assert_ok(tcc_model_train(m, batch, 2), &cx.diag);
    assert_ok(tcc_model_report(m, "tune", &text), &cx.diag);
    assert_true(plan.injected);
    if (strstr(text, "spills") || !strstr(text, "us now")) fail_msg("%s", text);
    tcc_string_free(text);
    tcc_model_destroy(m);
    plan.spill_from = 0;
    tcc_context_clear(&cx);
}

static void a_lost_device_is_an_error(void **state) {
    (void)state;
    tcc_context cx;
    tcc_model *m;
    skip_without(sim.inject, STAND_IN_FAILS);
    assert_ok(tcc_context_init(&cx), &cx.diag);
    plan.on = true, plan.injected = false, plan.fault = PTXSIM_FAULT_LOST, plan.races = 0;
    assert_ok(create(&cx, TCC_MODE_MAX_AUTOTUNE, &m), &cx.diag);
    assert_int_equal(tcc_model_train(m, batch, 2), TCC_EDEVICE);
    assert_true(plan.injected);
    if (!strstr(tcc_diag_text(&cx.diag), "CUDA_ERROR_DEVICE_UNAVAILABLE")) fail_msg("%s", tcc_diag_text(&cx.diag));
    tcc_model_destroy(m);
    tcc_context_clear(&cx);
    check_nothing_alive();
    sim.restart();
}

/* What was measured before the device was lost is kept, and not measured again. */
static void a_lost_device_takes_nothing_along(void **state) {
    (void)state;
    enum { ROUNDS = 3 }; /* of a kind at most */
    tcc_context cx;
    tcc_model *m;
    char *text;
    skip_without(sim.inject, STAND_IN_FAILS);
    setenv("TCC_CACHE_DISABLE", "0", 1);
    char folder[] = "lost-XXXXXX";
    assert_non_null(mkdtemp(folder));
    setenv("TCC_CACHE_DIR", folder, 1);
    assert_ok(tcc_context_init(&cx), &cx.diag);
    plan.on = true, plan.injected = false, plan.fault = PTXSIM_FAULT_LOST;
    plan.races = 0, plan.from = ROUNDS;
    assert_ok(create(&cx, TCC_MODE_MAX_AUTOTUNE, &m), &cx.diag);
    assert_int_equal(tcc_model_train(m, batch, 2), TCC_EDEVICE);
    assert_true(plan.injected);
    tcc_model_destroy(m);
    tcc_diag_clear(&cx.diag);
    sim.restart();
    plan.on = false, plan.from = 0;
    assert_ok(create(&cx, TCC_MODE_MAX_AUTOTUNE, &m), &cx.diag);
    assert_ok(tcc_model_train(m, batch, 2), &cx.diag);
    assert_ok(tcc_model_report(m, "tune", &text), &cx.diag);
    if (!strstr(text, "from the cache") || !strstr(text, ", measured")) fail_msg("%s", text);
    tcc_string_free(text);
    tcc_model_destroy(m);
    tcc_context_clear(&cx);
    setenv("TCC_CACHE_DISABLE", "1", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDA_TEST(the_fastest_candidate_runs),           CUDA_TEST(a_failed_launch_drops_the_candidate),
        CUDA_TEST(a_candidate_that_spills_is_not_timed), CUDA_TEST(a_lost_device_is_an_error),
        CUDA_TEST(a_lost_device_takes_nothing_along),
    };
    setenv("TCC_CACHE_DISABLE", "1", 1);
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
