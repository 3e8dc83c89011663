/* SPDX-License-Identifier: MIT
 * Ranges for NVIDIA's profilers: with TCC_NVTX=1 each step, and in it each program, and else none. */
#include "harness/check.h"
#include "harness/optimizer.h"
#include "traincc/traincc.h"

#include <dlfcn.h>
#include <stdlib.h>

static void net(tcc_trace *t, void *user) {
    (void)user;
    const tcc_tensor x = tcc_input(t, "x");
    tcc_loss(t, tcc_mean(tcc_mul(tcc_linear(x, "a", 3), x), TCC_ALL));
}

static float values[12];
static const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {4, 3}, .data = values};

static tcc_status create(tcc_context *cx, int parts, tcc_model **m) {
    const tcc_model_options o = {.size = sizeof o, .batch_accumulate = parts};
    return tcc_model_create(cx, net, NULL, &o, m);
}

/* What the stand-in has seen since the last call; "" where it is not loaded. */
static const char *seen(void) {
    static char names[4096];
    void *handle = dlopen("libnvToolsExt.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!handle) return "";
    char *all = dlsym(handle, "nvtxsim_names");
    const int *depth = dlsym(handle, "nvtxsim_depth");
    assert_int_equal(*depth, 0); /* all that was opened is closed */
    strcpy(names, all);
    *all = '\0';
    dlclose(handle);
    return names;
}

static void ranges(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *m;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    unsetenv("TCC_NVTX");
    assert_int_equal(create(cx, 1, &m), TCC_OK);
    assert_int_equal(tcc_model_train(m, &batch, 1), TCC_OK);
    assert_string_equal(seen(), "");
    tcc_model_destroy(m);

    setenv("TCC_NVTX", "1", 1);
    assert_int_equal(create(cx, 1, &m), TCC_OK);
    assert_int_equal(tcc_model_train(m, &batch, 1), TCC_OK);
    assert_int_equal(tcc_model_evaluate(m, &batch, 1), TCC_OK);
    assert_int_equal(tcc_model_train(m, &batch, 1), TCC_OK);
    assert_string_equal(seen(), "(train step 0(train))(evaluate(evaluate))(train step 1(train))");
    tcc_array wrong = batch;
    wrong.data = NULL;
    assert_int_equal(tcc_model_train(m, &wrong, 1), TCC_EINVAL);
    assert_string_equal(seen(), "(train step 2)"); /* closed although it failed */
    tcc_model_destroy(m);

    assert_int_equal(create(cx, 2, &m), TCC_OK);
    assert_int_equal(tcc_model_train(m, &batch, 1), TCC_OK);
    assert_string_equal(seen(), "(train step 0(train)(train)(update))");
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
