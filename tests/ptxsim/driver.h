/* SPDX-License-Identifier: MIT
 * What the simulator's own tests share: a fresh device, modules from text, launches in one line. */
#ifndef PTXSIM_DRIVER_H
#define PTXSIM_DRIVER_H

#include "cuda_api.h"
#include "ptxsim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_cuda(call)                                                \
    do {                                                                 \
        CUresult r_ = (call);                                            \
        const char *n_ = NULL;                                           \
        cuGetErrorName(r_, &n_);                                         \
        if (r_) fail_msg("%s: %s; %s", #call, n_, ptxsim_last_report()); \
    } while (0)
#define assert_cuda_is(call, expected)                                                                          \
    do {                                                                                                        \
        CUresult r_ = (call);                                                                                   \
        if (r_ != (expected)) fail_msg("%s: %d instead of %s; %s", #call, r_, #expected, ptxsim_last_report()); \
    } while (0)
#define assert_report(part)                                                        \
    do {                                                                           \
        if (!strstr(ptxsim_last_report(), part))                                   \
            fail_msg("report '%s' does not say '%s'", ptxsim_last_report(), part); \
    } while (0)

#define PTX_HEAD ".version 7.8\n.target sm_90\n.address_size 64\n"

/* A device as after a fresh start, with a context; settings come from the environment. */
static inline void fresh_device(void) {
    CUcontext c;
    ptxsim_restart();
    setenv("PTXSIM_LOG", "none", 0);
    assert_cuda(cuInit(0));
    assert_cuda(cuDevicePrimaryCtxRetain(&c, 0));
    assert_cuda(cuCtxSetCurrent(c));
}

static inline CUmodule load(const char *ptx) {
    char log[512] = "";
    CUmodule m = NULL;
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    CUresult r = cuModuleLoadDataEx(&m, ptx, 2, options, values);
    if (r) fail_msg("module: %d: %s", r, log);
    return m;
}

static inline CUfunction function_of(CUmodule m, const char *name) {
    CUfunction f = NULL;
    assert_cuda(cuModuleGetFunction(&f, m, name));
    return f;
}

static inline CUdeviceptr device_alloc(size_t bytes) {
    CUdeviceptr p = 0;
    assert_cuda(cuMemAlloc_v2(&p, bytes));
    return p;
}

static inline CUdeviceptr device_copy(const void *data, size_t bytes) {
    CUdeviceptr p = device_alloc(bytes);
    assert_cuda(cuMemcpyHtoD_v2(p, data, bytes));
    return p;
}

/* A kernel with registers of each kind; parameters a and b (buffers), n. `%d1`, `%d2` hold a and b, `%r1` n, `%r2` the
 * thread, `%r3` the block, `%d3` a + 4 * thread, `%d4` b + 4 * thread. */
#define KERNEL_(name, attributes, body)                                                                                \
    ".visible .entry " name "(.param .u64 a, .param .u64 b, .param .u32 n) " attributes " {\n"                         \
    "  .reg .pred %p<20>;\n  .reg .b16 %h<20>;\n  .reg .b32 %r<60>;\n  .reg .f32 %f<60>;\n  .reg .b64 %d<20>;\n  "     \
    ".reg .f64 %q<10>;\n"                                                                                              \
    "  ld.param.u64 %d1, [a];\n  ld.param.u64 %d2, [b];\n  ld.param.u32 %r1, [n];\n  cvta.to.global.u64 %d1, %d1;\n  " \
    "cvta.to.global.u64 %d2, %d2;\n"                                                                                   \
    "  mov.u32 %r2, %tid.x;\n  mov.u32 %r3, %ctaid.x;\n  mul.wide.u32 %d5, %r2, 4;\n  add.s64 %d3, %d1, %d5;\n  "      \
    "add.s64 %d4, %d2, %d5;\n" body "\n  ret;\n}\n"
#define KERNEL(name, body) KERNEL_(name, "", body)

#define LAUNCH(f, grid, block, shared, ...) \
    cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, NULL, (void *[]){__VA_ARGS__}, NULL)

#endif
