/* SPDX-License-Identifier: MIT
 * Models that share their parameters, and gradients by inputs, on a CUDA device: launched and replayed as graphs. */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/input_gradients.h"
#include "harness/shared_cases.h"

static void as_pytorch(void **state) {
    (void)state;
    check_shared_golden("cuda", TCC_MODE_REDUCE_OVERHEAD, 1);
}

static void as_copied_by_hand(void **state) {
    (void)state;
    static const shared_case cases[] = {{TCC_MODE_REDUCE_OVERHEAD, {TCC_MIXED_BF16, TCC_MIXED_BF16}, 0},
                                        {TCC_MODE_REDUCE_OVERHEAD, {TCC_MIXED_FP16, TCC_MIXED_NONE}, 2},
                                        {TCC_MODE_DEFAULT, {TCC_MIXED_NONE, TCC_MIXED_BF16}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_shared_as_copied("cuda", &cases[i]);
}

static void gradients_by_inputs(void **state) {
    (void)state;
    check_input_gradients("cuda", TCC_MODE_REDUCE_OVERHEAD);
}

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_loss(t, tcc_mean(tcc_linear(tcc_input(t, "x"), "fc", 2), TCC_ALL));
}

static void another_device(void **state) {
    (void)state;
    tcc_context *cx;
    tcc_model *a, *b;
    tcc_model_options o = {.size = sizeof o, .device = "auto"};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    assert_int_equal(tcc_model_create(cx, net, NULL, &o, &a), TCC_OK);
    o.share = a;
    o.name = "b";
    assert_int_equal(tcc_model_create(cx, net, NULL, &o, &b), TCC_OK);
    assert_string_equal(tcc_model_device(b), "cuda:0");
    tcc_model_destroy(b);
    o.device = "cpu";
    assert_int_equal(tcc_model_create(cx, net, NULL, &o, &b), TCC_EINVAL);
    if (!strstr(tcc_context_error(cx), "the parameters are on the device cuda:0, and device \"cpu\" is another"))
        fail_msg("%s", tcc_context_error(cx));
    tcc_model_destroy(a);
    tcc_context_destroy(cx);
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TEST(as_pytorch), CUDA_TEST(as_copied_by_hand),
                                       CUDA_TEST(gradients_by_inputs), CUDA_TEST(another_device)};
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
