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

#define assert_cuda(call)                                                                          \
    do {                                                                                           \
        CUresult r_ = (call);                                                                      \
        const char *n_ = NULL;                                                                     \
        cuGetErrorName(r_, &n_);                                                                  \
        if (r_) fail_msg("%s: %s; %s", #call, n_, ptxsim_last_report());  \
    } while (0)
#define assert_cuda_is(call, expected)                                                             \
    do {                                                                                           \
        CUresult r_ = (call);                                                                      \
        if (r_ != (expected)) fail_msg("%s: %d instead of %s; %s", #call, r_, #expected, ptxsim_last_report()); \
    } while (0)
#define assert_report(part)                                                                        \
    do {                                                                                           \
        if (!strstr(ptxsim_last_report(), part)) fail_msg("report '%s' does not say '%s'", ptxsim_last_report(), part); \
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

#define LAUNCH(f, grid, block, shared, ...)                                                        \
    cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, NULL, (void *[]){__VA_ARGS__}, NULL)

#endif
