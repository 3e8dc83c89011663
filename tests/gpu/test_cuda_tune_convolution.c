/* SPDX-License-Identifier: MIT
 * Tuning among cuDNN's engines, with a clock that says what the test wants: the engines that may be taken are
 * candidates, the fastest is used, and a lock file holds it by its index and knobs. */
#include "frontend/compile_tune.h"
#include "harness/check.h"
#include "harness/cudnn_device.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 2, CHANNELS = 16, SIZE = 6, CLASSES = 5, STEPS = 2 };

static float x[BATCH * CHANNELS * SIZE * SIZE];
static int32_t y[BATCH];
static const tcc_array batch[] = {{"x", TCC_F32, 4, {BATCH, CHANNELS, SIZE, SIZE}, x}, {"y", TCC_I32, 1, {BATCH}, y}};
static const char lock[] = "tune_convolution.lock";

/* Convolutions with gradients of both kinds. */
static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_conv_layer(tcc_input(t, "x"), "a", CHANNELS, 3, .padding = 1, .no_bias = true);
    h = tcc_conv_layer(h, "b", CHANNELS, 3, .padding = 1, .no_bias = true);
    tcc_loss(t, tcc_cross_entropy(tcc_linear(tcc_flatten(h, 1), "out", CLASSES), tcc_input(t, "y")));
}

/* The engine without a workspace is the fastest; our own kernels are not asked, as the stand-in is slow. */
static int64_t judge(void *user, const char *candidate, int64_t ns) {
    char plain[32];
    (void)user;
    snprintf(plain, sizeof plain, "algorithm=%d,", CUDNNSIM_PLAIN + 1);
    if (strncmp(candidate, "\"cudnn", 6) != 0) return ns ? 1000000 : -1;
    if (!ns) return 0;
    return strstr(candidate, plain) ? 300000 : 600000;
}

static tcc_status create(tcc_context *cx, tcc_mode mode, const char *written, const char *held, tcc_model **out) {
    const tcc_model_options options = {.size = sizeof options,
                                       .device = "cuda",
                                       .mode = mode,
                                       .seed = 1,
                                       .autotune_budget_s = 60,
                                       .lock = written,
                                       .locked = held};
    for (int i = 0; i < BATCH * CHANNELS * SIZE * SIZE; i++) x[i] = (float)(i % 41 - 20) / 16;
    for (int i = 0; i < BATCH; i++) y[i] = i % CLASSES;
    const tcc_status status = tcc_model_create(cx, net, NULL, &options, out);
    if (status == TCC_OK && (*out)->making->tuning) (*out)->making->tuning->judge = judge;
    return status;
}

static double train(tcc_context *cx, tcc_mode mode, const char *written, const char *held) {
    tcc_model *m;
    assert_ok(create(cx, mode, written, held, &m), &cx->diag);
    for (int i = 0; i < STEPS; i++) assert_ok(tcc_model_train(m, batch, 2), &cx->diag);
    const double loss = tcc_model_loss(m);
    tcc_model_destroy(m);
    return loss;
}

static int runs_by(int engine) {
    cudnnsim_counts counts;
    dnn.get_counts(&counts);
    return counts.runs[engine];
}

static void the_fastest_engine_is_held(void **state) {
    (void)state;
    tcc_context cx;
    tcc_model *m;
    char text[8192] = {0};
    if (!dnn.refuse) skip();
    assert_ok(tcc_context_init(&cx), &cx.diag);
    setenv("TCC_LIBRARIES", "cudnn", 1);
    const double loss = train(&cx, TCC_MODE_DEFAULT, NULL, NULL);
    assert_int_equal(runs_by(CUDNNSIM_PLAIN), 0);
    assert_true(fabs(train(&cx, TCC_MODE_MAX_AUTOTUNE, lock, NULL) - loss) < 1e-4);
    FILE *f = fopen(lock, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    const char *chosen = strstr(text, "algorithm=6,");
    if (!chosen || !strstr(chosen, "by_option=")) fail_msg("%s", text);

    dnn.restart();
    assert_true(fabs(train(&cx, TCC_MODE_MAX_AUTOTUNE, NULL, lock) - loss) < 1e-4);
    assert_true(runs_by(CUDNNSIM_PLAIN) >= STEPS);

    dnn.refuse(1u << CUDNNSIM_PLAIN); /* a library that has it no more */
    assert_ok(create(&cx, TCC_MODE_MAX_AUTOTUNE, NULL, lock, &m), &cx.diag);
    assert_error(tcc_model_train(m, batch, 2), TCC_EINVAL, &cx.diag, "the library does not offer the algorithm");
    tcc_model_destroy(m);
    unsetenv("TCC_LIBRARIES");
    tcc_context_clear(&cx);
    unlink(lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDNN_TEST(the_fastest_engine_is_held)};
    _Static_assert(CUDNNSIM_PLAIN + 1 == 6, "as the lock file has it");
    setenv("TCC_CACHE_DISABLE", "1", 1);
    return cmocka_run_group_tests(tests, cudnn_set_up, NULL);
}
