/* SPDX-License-Identifier: MIT
 * Ahead of time: programs that were compiled for an architecture, without its device, are found on the device. And the
 * machine code that a driver makes of them, which costs more than all else where it is not kept. */
#include "harness/check.h"
#include "harness/cuda_device.h"

#include <traincc/traincc.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    skip_without(sim.inject, "a machine's own device is described by itself, not by its architecture alone");
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

/* What the driver was asked so far. */
static uint64_t (*get_calls)(const char *name);
static void find_get_calls(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    find_function(driver, "ptxsim_get_calls", &get_calls);
    if (driver) dlclose(driver);
}

/* Programs whose machine code the driver was asked for, and modules that were loaded, since the last call; 0 where
 * nobody counts. */
static void since(uint64_t *compiled, uint64_t *loaded) {
    static uint64_t compiled_before, loaded_before;
    *compiled = *loaded = 0;
    if (!get_calls) return;
    const uint64_t c = get_calls("cuLinkComplete"), l = get_calls("cuModuleLoadDataEx");
    *compiled = c - compiled_before, *loaded = l - loaded_before;
    compiled_before = c, loaded_before = l;
}

static void machine_code_is_kept(void **state) {
    (void)state;
    double first, second;
    uint64_t compiled, loaded, modules;
    find_get_calls();
    since(&compiled, &loaded);
    assert_false(compile("cuda", NULL, &first));
    since(&modules, &loaded);
    assert_true(modules > 0 || !get_calls);
    assert_int_equal(loaded, modules);
    assert_true(compile("cuda", NULL, &second));
    since(&compiled, &loaded);
    assert_int_equal(compiled, 0);
    assert_int_equal(loaded, modules);
    assert_true(first == second);
    if (sim.restart) {
        setenv("PTXSIM_DRIVER", "12090", 1); /* the driver is a newer one: what the old one made is not its work */
        sim.restart();
        assert_false(compile("cuda", NULL, &second)); /* the libraries, too, count that version */
        since(&compiled, &loaded);
        assert_int_equal(compiled, modules);
        assert_true(first == second);
        unsetenv("PTXSIM_DRIVER");
        sim.restart();
    }
    setenv("TCC_CACHE_DISABLE", "1", 1); /* nobody would keep it */
    assert_false(compile("cuda", NULL, &second));
    since(&compiled, &loaded);
    assert_int_equal(compiled, 0);
    assert_int_equal(loaded, modules);
    assert_true(first == second);
}

/* Every call of the way to kept machine code fails in turn: a run is refused or right, and nothing stays behind. */
static void every_call_may_fail(void **state) {
    (void)state;
    const tcc_array batch[2] = {{.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {ROWS, WIDTH}, .data = x},
                                {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {ROWS}, .data = y}};
    const tcc_model_options options = {.size = sizeof options, .seed = 1, .device = "cuda"};
    skip_without(sim.inject, STAND_IN_FAILS);
    int refused = 0;
    for (int nth = 1; nth <= 60; nth++) {
        tcc_context *cx;
        tcc_model *m;
        remove("ahead-of-time/cache.sqlite");
        assert_int_equal(tcc_context_create(&cx), TCC_OK);
        assert_ok(tcc_model_create(cx, mlp, NULL, &options, &m), &cx->diag);
        sim.inject(PTXSIM_FAULT_CALL, nth);
        const tcc_status status = tcc_model_compile(m, true, batch, 2);
        sim.inject(PTXSIM_FAULT_CALL, 0);
        if (status != TCC_OK) {
            assert_true(status == TCC_EDEVICE || status == TCC_ENOMEM);
            assert_true(*tcc_context_error(cx));
            refused++;
        }
        tcc_model_destroy(m);
        tcc_context_destroy(cx);
        check_nothing_alive();
    }
    assert_true(refused > 10);
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
        cmocka_unit_test_setup_teardown(filled_without_a_device, fresh_cache, cuda_finish),
        cmocka_unit_test_setup_teardown(machine_code_is_kept, fresh_cache, cuda_finish),
        cmocka_unit_test_setup_teardown(every_call_may_fail, fresh_cache, cuda_finish)};
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
