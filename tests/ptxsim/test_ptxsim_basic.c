/* SPDX-License-Identifier: MIT
 * The shortest way through: a kernel written by hand, from text to results. */
#include "driver.h"

static const char axpy[] = PTX_HEAD
    ".visible .entry axpy(.param .u64 axpy_x, .param .u64 axpy_y, .param .f32 axpy_a, .param .u32 axpy_n) {\n"
    "  .reg .pred %p<2>;\n  .reg .f32 %f<5>;\n  .reg .b32 %r<6>;\n  .reg .b64 %rd<8>;\n"
    "  ld.param.u64 %rd1, [axpy_x];\n  ld.param.u64 %rd2, [axpy_y];\n  ld.param.f32 %f1, [axpy_a];\n  ld.param.u32 "
    "%r1, [axpy_n];\n"
    "  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %ntid.x;\n  mov.u32 %r4, %tid.x;\n  mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.s32 %p1, %r5, %r1;\n  @%p1 bra $done;\n"
    "  cvta.to.global.u64 %rd3, %rd1;\n  cvta.to.global.u64 %rd4, %rd2;\n  mul.wide.s32 %rd5, %r5, 4;\n"
    "  add.s64 %rd6, %rd3, %rd5;\n  add.s64 %rd7, %rd4, %rd5;\n  ld.global.nc.f32 %f2, [%rd6];\n  ld.global.f32 %f3, "
    "[%rd7];\n"
    "  fma.rn.f32 %f4, %f2, %f1, %f3;\n  st.global.f32 [%rd7], %f4;\n$done:\n  ret;\n}\n";

static void axpy_runs(void **state) {
    (void)state;
    enum { N = 1000 };
    float x[N], y[N], a = 3;
    int n = N;
    fresh_device();
    for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 1;
    CUfunction f = function_of(load(axpy), "axpy");
    CUdeviceptr dx = device_copy(x, sizeof x), dy = device_copy(y, sizeof y);
    assert_cuda(LAUNCH(f, 4, 256, 0, &dx, &dy, &a, &n));
    assert_cuda(cuMemcpyDtoH_v2(y, dy, sizeof y));
    for (int i = 0; i < N; i++) assert_float_equal(y[i], 1 + 3 * (float)i, 0);
    ptxsim_stats s;
    assert_int_equal(ptxsim_get_stats("axpy", &s), 0);
    assert_int_equal(s.launches, 1);
    assert_int_equal(s.global_read_bytes, 8 * N);
    assert_int_equal(s.global_read_unique_bytes, 8 * N);
    assert_int_equal(s.global_write_bytes, 4 * N);
    assert_int_equal(s.global_write_unique_bytes, 4 * N);
    assert_int_equal(s.global_loads[2], 2 * N);
    assert_int_equal(ptxsim_report_count(), 0);
    assert_cuda(cuMemFree_v2(dx));
    assert_cuda(cuMemFree_v2(dy));
}

int main(void) {
    setenv("PTXSIM_MEMORY_MIB", "256", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(axpy_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
