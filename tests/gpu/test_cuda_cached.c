/* SPDX-License-Identifier: MIT
 * Ahead of time: programs that were compiled for an architecture, without its device, are found on the device. */
#include "harness/check.h"
#include "harness/cuda_device.h"

#include <traincc/traincc.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 8, WIDTH = 16, CLASSES = 4 };

static float x[ROWS * WIDTH];
static int32_t y[ROWS];

static void mlp(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor h = tcc_relu(tcc_linear(tcc_input(t, "x"), "fc1", 32));
    tcc_loss(t, tcc_cross_entropy(tcc_linear(h, "fc2", CLASSES), tcc_input(t, "y")));
}

/* Whether its training program came from the cache; *loss is of its first step, where it has a device. */
static bool compile(const char *device, const char *arch, double *loss) {
    const tcc_array batch[2] = {{.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {ROWS, WIDTH}, .data = x},
                                {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {ROWS}, .data = y}};
    const tcc_model_options options = {.size = sizeof options, .seed = 1, .device = device, .arch = arch};
    tcc_context *cx;
    tcc_model *m;
    tcc_program_info info;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_ok(tcc_model_create(cx, mlp, NULL, &options, &m), &cx->diag);
    assert_ok(tcc_model_compile(m, true, batch, 2), &cx->diag);
    assert_ok(tcc_model_info(m, &info), &cx->diag);
    if (info.cache_trouble) fail_msg("%s", info.cache_trouble);
    if (loss) {
        assert_ok(tcc_model_train(m, batch, 2), &cx->diag);
        *loss = tcc_model_loss(m);
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return info.cached_programs == 1;
}

static void filled_without_a_device(void **state) {
    (void)state;
    double first, second;
    if (!sim.inject) skip(); /* its description is that of the architecture */
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i % 7) / 7;
    for (int i = 0; i < ROWS; i++) y[i] = i % CLASSES;
    setenv("TCC_LIBRARIES", "none", 1); /* nobody knows ahead of time which libraries there will be */
    assert_false(compile(NULL, "sm_80", NULL));
    assert_false(compile(NULL, "sm_90", NULL));
    assert_true(compile("cuda", NULL, &first));
    setenv("TCC_CACHE_DISABLE", "1", 1);
    assert_false(compile("cuda", NULL, &second));
    assert_true(first == second);
    setenv("TCC_CACHE_DISABLE", "0", 1);
    unsetenv("TCC_LIBRARIES"); /* now the device's libraries count */
    assert_false(compile("cuda", NULL, &first));
    assert_true(compile("cuda", NULL, &first));
}

static int fresh_cache(void **state) {
    unsetenv("TCC_VERIFY_PASSES"); /* where passes are verified nothing is cached */
    setenv("TCC_CACHE_DISABLE", "0", 1);
    setenv("TCC_CACHE_DIR", "ahead-of-time", 1);
    remove("ahead-of-time/cache.sqlite");
    return cuda_fresh(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(filled_without_a_device, fresh_cache, cuda_finish)};
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
