/* SPDX-License-Identifier: MIT
 * A few programs on a device of each generation, compiled for what its driver says of it: limits differ, so plans do.
 */
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/gpu_program.h"

#include <stdio.h>
#include <stdlib.h>

enum { LONG_ROWS, ROW = 2 * 4 * 20000 }; /* the row and its exponentials: in shared memory, or read again */
static const struct {
    const char *what, *text;
    double tolerance;
} programs[] = {
    {"long rows",
     "graph @rows {\n  %0 = input {name=\"x\"} : f32[4,20000]\n  %1 = softmax(%0) {axis=1} : f32[4,20000]\n"
     "  output \"o\" %1\n}\n",
     1e-4},
    {"column sums beside rows",
     "graph @sums {\n  %0 = input {name=\"x\"} : f32[70,1025]\n"
     "  %1 = rms_norm(%0) {eps=0x1p-10, axis=1} : f32[70,1025]\n  %2 = reduce_sum(%1) {axes=[0]} : f32[1025]\n"
     "  output \"o\" %1\n  output \"s\" %2\n}\n",
     1e-4},
    {"a product that is split",
     "graph @dot {\n  %0 = input {name=\"a\"} : f32[70,1030]\n  %1 = input {name=\"b\"} : f32[1030,36]\n"
     "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f32[70,36]\n"
     "  output \"o\" %2\n}\n",
     1e-4},
    {"f64",
     "graph @dot {\n  %0 = input {name=\"a\"} : f64[40,100]\n  %1 = input {name=\"b\"} : f64[100,36]\n"
     "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f64[40,36]\n"
     "  output \"o\" %2\n}\n",
     1e-4},
    {"tensor cores",
     "graph @dot {\n  %0 = input {name=\"a\"} : f16[64,128]\n  %1 = input {name=\"b\"} : f16[128,64]\n"
     "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f16[64,64]\n"
     "  output \"o\" %2\n}\n",
     1e-3},
    {"attention",
     "graph @sdpa {\n  %0 = input {name=\"q\"} : f32[1,1,70,128]\n  %1 = input {name=\"k\"} : f32[1,1,70,128]\n"
     "  %2 = input {name=\"v\"} : f32[1,1,70,128]\n"
     "  %3 = sdpa(%0, %1, %2) {causal=true} : f32[1,1,70,128]\n  output \"o\" %3\n}\n",
     1e-4},
};

static void run(void **state) {
    const int sm = *(const int *)*state;
    tcc_context cx;
    tcc_device *device;
    assert_true(gpu_become(sm));
    assert_ok(tcc_context_init(&cx), &cx.diag);
    assert_ok(tcc_device_cuda_create(&cx, 0, &device), &cx.diag);
    const tcc_hardware hw = device->hw;
    assert_int_equal(hw.sm, sm);
    tcc_device_destroy(device);
    tcc_context_clear(&cx);
    assert_true(gpu_become(sm)); /* the device has ended the context */
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        printf("sm_%d: %s\n", sm, programs[i].what);
        if (sim.reset_stats) sim.reset_stats(); /* it counts only with warps in lockstep */
        check_gpu_text(programs[i].text,
                       &(compiled_options){.simplify = true, .hardware = &hw, .tolerance = programs[i].tolerance});
        ptxsim_stats stats;
        if (!sim.get_stats) continue;
        assert_int_equal(sim.get_stats(NULL, &stats), 0);
        if (i == LONG_ROWS) assert_int_equal(stats.shared_bytes > ROW, hw.shared_optin_bytes > ROW + 4096);
    }
}

int main(void) {
    setenv("PTXSIM_SM_COUNT", "2", 1); /* so that few rows are enough for it */
    if (!gpu_available()) return 77;
    if (!sim.restart) {
        printf("skipped: a machine's own device is what it is\n");
        return 77;
    }
    static int sms[] = {75, 80, 86, 89, 100, 120};
    struct CMUnitTest tests[sizeof sms / sizeof *sms];
    for (size_t i = 0; i < sizeof sms / sizeof *sms; i++)
        tests[i] = (struct CMUnitTest){.name = "programs", .test_func = run, .initial_state = &sms[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
