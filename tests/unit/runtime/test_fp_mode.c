/* SPDX-License-Identifier: MIT
 * The caller's floating-point mode: results do not depend on it, and it is the same after a call. */
#include "harness/check.h"
#include "traincc/traincc.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, COLUMNS = 32, HIDDEN = 100 };
static float x[ROWS * COLUMNS];

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_tanh(tcc_linear(tcc_input(t, "x"), "a", HIDDEN));
    tcc_tensor tiny = tcc_scale(h, 1e-30), tinier = tcc_scale(tiny, 1e-10); /* subnormal: 0 where those are flushed */
    tcc_output(t, "tiny", tcc_sum(tcc_scale(tcc_scale(tinier, 1e20), 1e20), TCC_ALL));
    tcc_loss(t, tcc_mean(tcc_square(tcc_linear(h, "b", 1)), TCC_ALL));
}

#if defined __x86_64__
static void flush_to_zero(bool on) {
    const unsigned bits = 0x8040, mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(on ? mode | bits : mode & ~bits);
}
static bool flushes(void) { return (__builtin_ia32_stmxcsr() & 0x8040) == 0x8040; }
#else
static void flush_to_zero(bool on) { (void)on; }
static bool flushes(void) { return true; }
#endif

typedef struct result {
    double loss, lr;
    float tiny, weights[HIDDEN * COLUMNS];
} result;

/* All from the creation of the model on, or its steps alone, in another mode. */
static void train(bool all, int rounding, bool flush, result *out) {
    const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {ROWS, COLUMNS}, .data = x};
    tcc_schedule schedule;
    tcc_context *cx;
    tcc_model *m;
    tcc_array a;
    tcc_schedule_init(&schedule, TCC_SCHEDULE_COSINE);
    schedule.lr = 0.3, schedule.steps = 7;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (all) fesetround(rounding), flush_to_zero(flush);
    assert_int_equal(tcc_model_create(cx, net, NULL, NULL, &m), TCC_OK);
    assert_int_equal(tcc_model_compile(m, true, &batch, 1), TCC_OK);
    fesetround(rounding), flush_to_zero(flush);
    for (int k = 0; k < 3; k++) {
        out->lr = tcc_schedule_lr(&schedule, k);
        assert_int_equal(tcc_model_set_lr(m, out->lr), TCC_OK);
        assert_int_equal(tcc_model_train(m, &batch, 1), TCC_OK);
        assert_int_equal(fegetround(), rounding);
        if (flush) assert_true(flushes());
    }
    assert_int_equal(tcc_model_evaluate(m, &batch, 1), TCC_OK);
    fesetround(FE_TONEAREST), flush_to_zero(false);
    out->loss = tcc_model_loss(m);
    assert_int_equal(tcc_model_output(m, "tiny", &a), TCC_OK);
    out->tiny = *(const float *)a.data;
    assert_true(tcc_model_find_param(m, "a.weight", &a));
    memcpy(out->weights, a.data, sizeof out->weights);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void results_do_not_depend_on_it(void **state) {
    (void)state;
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
    result plain = {0}, other = {0};
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)sin(i);
    setenv("TCC_NUM_THREADS", "2", 1);
    train(false, FE_TONEAREST, false, &plain);
    assert_true(isfinite(plain.loss) && plain.tiny != 0);
    for (int i = 0; i < 4; i++)
        for (int all = 0; all < 2; all++) {
            train(all, modes[i], i != 0, &other);
            assert_memory_equal(&plain, &other, sizeof plain);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_do_not_depend_on_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
