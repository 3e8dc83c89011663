/* SPDX-License-Identifier: MIT
 * The driver's calls: what they refuse and why, faults that are asked for, what is told at exit, and those that kernels
 * do not need. */
#include "driver.h"

#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1024 };

static void launch_limits_are_checked(void **state) {
    (void)state;
    fresh_device();
    int n = 0, value;
    CUdeviceptr a = device_alloc(4096);
    CUmodule m = load(
        PTX_HEAD ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 fixed[1024];\n" KERNEL_(
            "bound", ".maxntid 128, 1, 1", "") KERNEL_("exact", ".reqntid 64, 1, 1", "")
            KERNEL(
                "shared",
                "mov.u32 %r4, dynamic;\n mov.u32 %r5, fixed;\n st.shared.u32 [%r4], %r2;\n st.shared.u32 [%r5], %r2;"));
    CUfunction bound = function_of(m, "bound"), exact = function_of(m, "exact"), shared = function_of(m, "shared");
    assert_cuda_is(LAUNCH(bound, 1, 129, 0, &a, &a, &n), CUDA_ERROR_INVALID_VALUE);
    assert_report(".maxntid says 128");
    assert_cuda_is(LAUNCH(exact, 1, 32, 0, &a, &a, &n), CUDA_ERROR_INVALID_VALUE);
    assert_report(".reqntid says (64,1,1)");
    assert_cuda(LAUNCH(exact, 1, 64, 0, &a, &a, &n));
    assert_cuda_is(LAUNCH(shared, 1, 1025, 0, &a, &a, &n), CUDA_ERROR_INVALID_VALUE);
    assert_cuda_is(LAUNCH(shared, 0, 32, 0, &a, &a, &n), CUDA_ERROR_INVALID_VALUE);
    static const unsigned beyond[][6] = {{1, 65536, 1, 1, 1, 1}, {1, 1, 65536, 1, 1, 1}, {0x80000000, 1, 1, 1, 1, 1},
                                         {1, 1, 1, 1, 1, 65},    {1, 1, 1, 32, 33, 1},   {1, 1, 1, 0, 1, 1}};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        const unsigned *b = beyond[i];
        assert_cuda_is(
            cuLaunchKernel(shared, b[0], b[1], b[2], b[3], b[4], b[5], 0, NULL, (void *[]){&a, &a, &n}, NULL),
            CUDA_ERROR_INVALID_VALUE);
        assert_report("is beyond what the device can have");
    }
    assert_cuda_is(cuLaunchKernel(shared, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&a, NULL, &n}, NULL),
                   CUDA_ERROR_INVALID_VALUE);
    assert_cuda_is(cuLaunchKernel(shared, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_cuda_is(LAUNCH(shared, 1, 1, 48 * 1024, &a, &a, &n), CUDA_ERROR_INVALID_VALUE);
    assert_report("dynamic shared memory");
    assert_cuda(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, shared));
    assert_int_equal(value, 1024);
    assert_cuda(cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200 * 1024));
    assert_cuda(LAUNCH(shared, 1, 1, 200 * 1024, &a, &a, &n));
    assert_cuda_is(cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 228 * 1024),
                   CUDA_ERROR_INVALID_VALUE);
    assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, shared, 256, 100 * 1024));
    assert_int_equal(value, 2);
    assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, exact, 64, 0));
    assert_int_equal(value, 32);
    assert_cuda(cuCtxSynchronize());
    assert_cuda_is(cuModuleGetFunction(&bound, m, "nothing"), CUDA_ERROR_NOT_FOUND);
}

/* 100 values that live at once. */
static CUfunction wide_kernel(const char *directives) {
    char text[16384];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "%s.visible .entry wide(.param .u64 a) %s {\n .reg .b32 %%r<200>;\n .reg .b64 "
                                "%%d<4>;\n ld.param.u64 %%d1, [a];\n",
                                PTX_HEAD, directives);
    for (int i = 1; i <= 100; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " ld.global.u32 %%r%d, [%%d1+%d];\n", i, 4 * i);
    for (int i = 2; i <= 100; i++) n += (size_t)snprintf(text + n, sizeof text - n, " add.u32 %%r1, %%r1, %%r%d;\n", i);
    snprintf(text + n, sizeof text - n, " st.global.u32 [%%d1], %%r1;\n ret;\n}\n");
    return function_of(load(text), "wide");
}

/* They need registers, of which a block of 1024 threads cannot have so many, unless it says that it is one. */
static void registers_limit_launches(void **state) {
    (void)state;
    uint32_t data[BYTES / 4] = {0};
    int registers, threads;
    fresh_device();
    CUfunction k = wide_kernel(""), bound = wide_kernel(".maxntid 1024, 1, 1"),
               twice = wide_kernel(".maxntid 512, 1, 1 .minnctapersm 2");
    CUdeviceptr a = device_copy(data, sizeof data);
    assert_cuda(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, k));
    assert_in_range(registers, 101, 128);
    assert_cuda(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k));
    assert_in_range(threads, 512, 640);
    assert_cuda_is(LAUNCH(k, 1, 1024, 0, &a), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    assert_report("registers each are more than a block can have");
    assert_cuda(LAUNCH(k, 1, 1, 0, &a));
    assert_cuda(cuCtxSynchronize());
    assert_cuda(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, bound));
    assert_int_equal(registers, 64);
    assert_cuda(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bound));
    assert_int_equal(threads, 1024);
    assert_cuda(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, twice));
    assert_int_equal(registers, 64);
}

/* Copies and sets are checked as kernels are; what is unloaded is gone. */
static void calls_are_checked(void **state) {
    (void)state;
    char host[64] = {0};
    fresh_device();
    CUmodule m = load(PTX_HEAD KERNEL("k", ""));
    CUfunction k = function_of(m, "k");
    CUdeviceptr a = device_alloc(64), b = device_alloc(64);
    int n = 0;
    assert_cuda_is(cuMemcpyHtoD_v2(a + 32, host, 64), CUDA_ERROR_INVALID_VALUE);
    assert_report("copy to of 64 bytes");
    assert_cuda_is(cuMemcpyDtoH_v2(host, a + 64, 1), CUDA_ERROR_INVALID_VALUE);
    assert_report("0 bytes after the end of allocation");
    assert_cuda_is(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)host, host, 8), CUDA_ERROR_INVALID_VALUE);
    assert_report("which is no memory of the device");
    assert_cuda_is(cuMemcpyDtoD_v2(a, (CUdeviceptr)(uintptr_t)host, 8), CUDA_ERROR_INVALID_VALUE);
    assert_report("which is no memory of the device");
    assert_cuda_is(cuMemsetD32_v2(a, 0, 17), CUDA_ERROR_INVALID_VALUE);
    assert_report("memset of 68 bytes");
    assert_cuda_is(cuMemsetD32_v2(a + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
    assert_report("misaligned memset");
    assert_cuda_is(cuMemAlloc_v2(&b, 0), CUDA_ERROR_INVALID_VALUE);
    assert_cuda(cuModuleUnload(m));
    assert_cuda_is(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
    assert_cuda_is(LAUNCH(k, 1, 1, 0, &a, &a, &n), CUDA_ERROR_INVALID_HANDLE);
    int value;
    const char *text;
    assert_cuda_is(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, k), CUDA_ERROR_INVALID_HANDLE);
    assert_cuda(cuGetErrorString(CUDA_ERROR_INVALID_HANDLE, &text));
    assert_string_equal(text, "invalid resource handle");
    assert_cuda_is(cuGetErrorString(12345, &text), CUDA_ERROR_INVALID_VALUE);
}

/* What a process leaves alive is told of when it ends. */
static void leaks_are_reported_at_exit(void **state) {
    (void)state;
    char path[] = "leaks-XXXXXX", text[2048] = "";
    int file = mkstemp(path), status;
    assert_true(file >= 0);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        void *host;
        CUstream s;
        CUevent e;
        setenv("PTXSIM_LOG", path, 1);
        fresh_device();
        load(PTX_HEAD KERNEL("k", ""));
        CUdeviceptr kept = device_alloc(100), given_back = device_alloc(200);
        if (!kept || cuMemFree_v2(given_back) || cuMemHostAlloc(&host, 300, 0) || cuStreamCreate(&s, 0) ||
            cuEventCreate(&e, 0))
            abort();
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(read(file, text, sizeof text - 1) > 0);
    close(file);
    unlink(path);
    static const char *const expected[] = {
        "ptxsim: leak: device allocation #1 of 100 bytes\n", "ptxsim: leak: pinned host allocation #3 of 300 bytes\n",
        "ptxsim: leak: 1 modules, 0 links, 1 streams, 1 events, 0 graphs, 0 graph instances are alive at exit\n"};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (!strstr(text, expected[i])) fail_msg("'%s' does not say '%s'", text, expected[i]);
    assert_null(strstr(text, "200 bytes"));
}

static void bad_text_is_refused_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
        CUresult expected;
    } bad[] = {
        {PTX_HEAD KERNEL("k", "frobnicate.u32 %r4, %r5;"),
         "line 21: error: instruction 'frobnicate.u32' is not known here", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "add.u32 %r4, %r5;"), "has 2 operands, not 3", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "add.u32 %r4, %d1, 1;"), "register of 64 bits where .u32 is needed",
         CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "add.u32 %x4, %r1, 1;"), "register '%x4' is not declared", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "add.foo.u32 %r4, %r1, 1;"), "'.foo' is not known here", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "bra $nowhere;"), "label '$nowhere' is not defined", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "add.f32 %f1, %f2, 1;"), "an integer where a .f32 is needed", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "div.f32 %f1, %f2, %f3;"), "needs .approx, .full or a rounding", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "cvt.f32.s32 %f1, %r2;"), "needs a rounding", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "st.global.u32 [%d1] %r2;"), "',' expected", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD ".visible .entry k() {\n ret;\n", "has no end", CUDA_ERROR_INVALID_PTX},
        {".version 7.8\n.target sm_100\n.address_size 64\n", "code for sm_100 cannot run on this device",
         CUDA_ERROR_INVALID_PTX},
        {".version 7.8\n.target sm_75\n.address_size 64\n" KERNEL("k", "cp.async.commit_group;"), "needs sm_80",
         CUDA_ERROR_INVALID_PTX},
        {".version 9.9\n.target sm_90\n.address_size 64\n", "newer than this driver",
         CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
        {"hello", "expected before 'hello'", CUDA_ERROR_INVALID_PTX},
        {"", "this is no PTX", CUDA_ERROR_INVALID_IMAGE},
        {"\177ELF", "", CUDA_ERROR_NO_BINARY_FOR_GPU},
    };
    fresh_device();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char log[300] = "x";
        CUmodule m;
        int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {log, (void *)(uintptr_t)sizeof log};
        CUresult r = cuModuleLoadDataEx(&m, bad[i].text, 2, options, values);
        if (r != bad[i].expected || !strstr(log, bad[i].message))
            fail_msg("%s: %d, '%s' instead of %d, '%s'", bad[i].text, r, log, bad[i].expected, bad[i].message);
    }
}

static void faults_are_injected(void **state) {
    (void)state;
    fresh_device();
    int n = 0;
    CUdeviceptr a = device_alloc(64), p;
    static const char text[] = PTX_HEAD KERNEL("k", "st.global.u32 [%d3], %r2;");
    CUmodule m;
    void *host;
    ptxsim_inject(PTXSIM_FAULT_ALLOC, 2);
    assert_cuda(cuMemAlloc_v2(&p, 64));
    assert_cuda_is(cuMemAlloc_v2(&p, 64), CUDA_ERROR_OUT_OF_MEMORY);
    assert_cuda(cuMemAlloc_v2(&p, 64));
    ptxsim_inject(PTXSIM_FAULT_HOST, 1);
    assert_cuda_is(cuMemHostAlloc(&host, 64, 0), CUDA_ERROR_OUT_OF_MEMORY);
    ptxsim_inject(PTXSIM_FAULT_MODULE, 1);
    assert_cuda_is(cuModuleLoadData(&m, text), CUDA_ERROR_OUT_OF_MEMORY);
    CUfunction k = function_of(load(text), "k");
    ptxsim_inject(PTXSIM_FAULT_LAUNCH, 1);
    assert_cuda_is(LAUNCH(k, 1, 16, 0, &a, &a, &n), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    assert_cuda(LAUNCH(k, 1, 16, 0, &a, &a, &n));
    assert_cuda(cuCtxSynchronize());
    ptxsim_inject(PTXSIM_FAULT_LOST, 1);
    assert_cuda(LAUNCH(k, 1, 16, 0, &a, &a, &n));
    assert_cuda_is(cuCtxSynchronize(), CUDA_ERROR_DEVICE_UNAVAILABLE);
    assert_cuda_is(cuMemAlloc_v2(&p, 64), CUDA_ERROR_DEVICE_UNAVAILABLE);
    ptxsim_live live;
    ptxsim_get_live(&live);
    assert_int_equal(live.device_allocations, 3);
    assert_cuda_is(cuMemFree_v2(a), CUDA_ERROR_DEVICE_UNAVAILABLE); /* freed all the same */
    ptxsim_get_live(&live);
    assert_int_equal(live.device_allocations, 2);
    assert_cuda_is(cuMemAlloc_v2(&p, (size_t)1 << 40), CUDA_ERROR_DEVICE_UNAVAILABLE);
    setenv("PTXSIM_FAULT", "alloc:1", 1);
    fresh_device();
    assert_cuda_is(cuMemAlloc_v2(&p, 64), CUDA_ERROR_OUT_OF_MEMORY);
    unsetenv("PTXSIM_FAULT");
    assert_cuda_is(cuMemAlloc_v2(&p, (size_t)5 << 30), CUDA_ERROR_OUT_OF_MEMORY);
    setenv("PTXSIM_DEVICES", "0", 1);
    ptxsim_restart();
    assert_int_equal(cuInit(0), CUDA_ERROR_NO_DEVICE);
    unsetenv("PTXSIM_DEVICES");
}

/* --- the rest of the driver */

static void contexts(void **state) {
    (void)state;
    CUcontext first, second, current;
    unsigned flags;
    int device, active;
    size_t bytes;
    setenv("PTXSIM_DEVICES", "2", 1);
    ptxsim_restart();
    assert_cuda(cuInit(0));
    assert_cuda(cuDeviceGet(&device, 1));
    assert_int_equal(device, 1);
    assert_cuda_is(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
    assert_cuda(cuDeviceTotalMem_v2(&bytes, 1));
    assert_int_equal(bytes, 256 << 20);
    assert_cuda_is(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    assert_cuda(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_false(active);
    assert_cuda(cuDevicePrimaryCtxRetain(&first, 1));
    assert_cuda(cuDevicePrimaryCtxRetain(&second, 1));
    assert_ptr_equal(first, second);
    assert_cuda(cuDevicePrimaryCtxGetState(1, &flags, &active));
    assert_true(active);
    assert_cuda(cuCtxPushCurrent_v2(first));
    assert_cuda(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    assert_cuda(cuCtxCreate_v2(&second, 0, 0));
    assert_cuda(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, second);
    assert_cuda_is(cuCtxDestroy_v2(first), CUDA_ERROR_INVALID_CONTEXT); /* the device's own */
    assert_cuda(cuCtxDestroy_v2(second));
    assert_cuda_is(cuCtxPushCurrent_v2(second), CUDA_ERROR_INVALID_CONTEXT);
    assert_cuda(cuCtxPopCurrent_v2(&current));
    assert_ptr_equal(current, first);
    assert_cuda_is(cuCtxPopCurrent_v2(&current), CUDA_ERROR_INVALID_CONTEXT);
    /* The second release ends it. */
    assert_cuda(cuDevicePrimaryCtxRelease_v2(1));
    assert_cuda(cuCtxPushCurrent_v2(first));
    assert_cuda(cuDevicePrimaryCtxRelease_v2(1));
    assert_cuda_is(cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
    assert_cuda_is(cuCtxGetDevice(&device), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    unsetenv("PTXSIM_DEVICES");
}

/* A sticky error goes with its context. */
static void a_new_context_works_again(void **state) {
    (void)state;
    CUcontext c;
    int n = 0;
    fresh_device();
    CUdeviceptr a = device_alloc(64);
    assert_cuda(LAUNCH(function_of(load(PTX_HEAD KERNEL("k", "trap;")), "k"), 1, 1, 0, &a, &a, &n));
    assert_cuda_is(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    assert_cuda_is(cuMemsetD8_v2(a, 0, 1), CUDA_ERROR_LAUNCH_FAILED);
    assert_cuda(cuDevicePrimaryCtxReset_v2(0));
    assert_cuda(cuDevicePrimaryCtxRetain(&c, 0));
    assert_cuda(cuCtxSetCurrent(c));
    assert_cuda(cuMemsetD8_v2(a, 0, 1));
    assert_cuda(cuCtxSynchronize());
}

static void sets_of_every_width(void **state) {
    (void)state;
    static const uint32_t values[] = {0xab, 0xabcd, 0xabcdef01};
    unsigned char got[64];
    CUstream s;
    fresh_device();
    assert_cuda(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int width = 1, w = 0; width <= 4; width *= 2, w++)
        for (int async = 0; async < 2; async++) {
            CUdeviceptr a = device_alloc(sizeof got);
            size_t count = sizeof got / (size_t)width;
            assert_cuda(cuMemsetD8_v2(a, 0, sizeof got));
            assert_cuda(cuCtxSynchronize());
            if (width == 1)
                assert_cuda(async ? cuMemsetD8Async(a + 4, (unsigned char)values[w], count - 4, s)
                                  : cuMemsetD8_v2(a + 4, (unsigned char)values[w], count - 4));
            else if (width == 2)
                assert_cuda(async ? cuMemsetD16Async(a + 4, (unsigned short)values[w], count - 2, s)
                                  : cuMemsetD16_v2(a + 4, (unsigned short)values[w], count - 2));
            else
                assert_cuda(async ? cuMemsetD32Async(a + 4, values[w], count - 1, s)
                                  : cuMemsetD32_v2(a + 4, values[w], count - 1));
            assert_cuda(cuStreamSynchronize(s));
            assert_cuda(cuMemcpyDtoH_v2(got, a, sizeof got));
            for (size_t i = 0; i < sizeof got; i++)
                assert_int_equal(got[i], i < 4 ? 0 : values[w] >> 8 * (i % (size_t)width) & 0xff);
            assert_cuda(cuMemFree_v2(a));
        }
}

static void copies_between_all_memories(void **state) {
    (void)state;
    enum { N = 64 };
    unsigned char *pinned, pageable[N], got[N];
    CUstream s;
    CUdeviceptr a, b;
    fresh_device();
    assert_cuda(cuMemAllocHost_v2((void **)&pinned, N));
    assert_cuda(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -1));
    a = device_alloc(N), b = device_alloc(N);
    for (int i = 0; i < N; i++) pinned[i] = (unsigned char)i, pageable[i] = (unsigned char)(3 * i);
    assert_cuda(cuMemcpyHtoDAsync_v2(a, pinned, N, s));
    assert_cuda(cuMemcpyDtoDAsync_v2(b, a, N, s));
    assert_cuda(cuMemcpyDtoHAsync_v2(got, b, N, s));
    assert_memory_equal(got, pinned, N);
    assert_cuda(cuMemcpyAsync(a, (CUdeviceptr)(uintptr_t)pageable, N, s)); /* which way: by the addresses */
    assert_cuda(cuMemcpyAsync((CUdeviceptr)(uintptr_t)pinned, a, N, s));
    assert_cuda(cuStreamSynchronize(s));
    assert_memory_equal(pinned, pageable, N);
    assert_cuda(cuMemFreeHost(pinned));
    assert_cuda_is(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
}

/* Variables of a module begin as their text says, and are reached by name. */
static void globals_of_a_module(void **state) {
    (void)state;
    CUdeviceptr at;
    size_t bytes;
    uint32_t got[4] = {0};
    int n = 0;
    fresh_device();
    CUmodule m = load(PTX_HEAD
                      ".visible .global .align 4 .u32 counts[4] = {1, 2, 3};\n.const .align 4 .u32 c = 40;\n" KERNEL(
                          "k", "mov.u64 %d6, counts;\n ld.global.u32 %r5, [%d6+8];\n mov.u64 %d7, c;\n ld.const.u32 "
                               "%r6, [%d7];\n add.u32 %r5, %r5, %r6;\n st.global.u32 [%d6+12], %r5;"));
    assert_cuda(cuModuleGetGlobal_v2(&at, &bytes, m, "counts"));
    assert_int_equal(bytes, 16);
    assert_cuda(LAUNCH(function_of(m, "k"), 1, 1, 0, &at, &at, &n));
    assert_cuda(cuMemcpyDtoH_v2(got, at, bytes));
    assert_true(got[0] == 1 && got[1] == 2 && got[2] == 3 && got[3] == 43);
    assert_cuda_is(cuModuleGetGlobal_v2(&at, &bytes, m, "nothing"), CUDA_ERROR_NOT_FOUND);
}

static void count_up(void *user) { ++*(int *)user; }

static void streams_and_host_functions(void **state) {
    (void)state;
    CUstream s;
    unsigned flags;
    int least, greatest, priority, called = 0;
    fresh_device();
    assert_cuda(cuCtxGetStreamPriorityRange(&least, &greatest));
    assert_cuda(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING,
                                           greatest - 10)); /* what is beyond the range is drawn in */
    assert_cuda(cuStreamGetPriority(s, &priority));
    assert_int_equal(priority, greatest);
    assert_cuda(cuStreamGetFlags(s, &flags));
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    assert_cuda(cuLaunchHostFunc(s, count_up, &called));
    assert_int_equal(called, 0);
    assert_cuda(cuStreamSynchronize(s));
    assert_int_equal(called, 1);
}

static void profiles(void **state) {
    (void)state;
    static const struct {
        const char *sm;
        int blocks, multiprocessors, shared_kib;
    } devices[] = {{"75", 4, 40, 64},   {"80", 8, 108, 163},  {"86", 6, 82, 99},  {"89", 6, 58, 99},
                   {"90", 8, 132, 227}, {"100", 8, 148, 227}, {"120", 6, 170, 99}};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        int blocks, grid, block;
        setenv("PTXSIM_SM", devices[i].sm, 1);
        fresh_device();
        CUfunction k = function_of(load(".version 7.8\n.target sm_75\n.address_size 64\n" KERNEL("k", "")), "k");
        assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 256, 0));
        if (blocks != devices[i].blocks)
            fail_msg("sm_%s: %d blocks of 256 threads instead of %d", devices[i].sm, blocks, devices[i].blocks);
        assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, k, 1024, 0, 0));
        assert_int_equal(blocks, devices[i].blocks / 4);
        assert_cuda(cuOccupancyMaxPotentialBlockSize(&grid, &block, k, NULL, 0, 256));
        assert_int_equal(block, 256);
        assert_int_equal(grid, devices[i].multiprocessors * devices[i].blocks);
        const int bytes = devices[i].shared_kib * 1024;
        int optin, all;
        assert_cuda(cuDeviceGetAttribute(&optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
        assert_cuda(cuDeviceGetAttribute(&all, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 0));
        assert_int_equal(optin, bytes);
        assert_int_equal(all, bytes + (i ? 1024 : 0)); /* Turing's driver keeps none of it */
        assert_cuda(cuFuncSetAttribute(k, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
        assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 256, (size_t)bytes));
        assert_int_equal(blocks, 1);
        assert_int_equal(cuFuncSetAttribute(k, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes + 1),
                         CUDA_ERROR_INVALID_VALUE);
    }
    unsetenv("PTXSIM_SM");
}

int main(void) {
    setenv("PTXSIM_MEMORY_MIB", "256", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launch_limits_are_checked),
        cmocka_unit_test(registers_limit_launches),
        cmocka_unit_test(calls_are_checked),
        cmocka_unit_test(leaks_are_reported_at_exit),
        cmocka_unit_test(bad_text_is_refused_with_its_line),
        cmocka_unit_test(faults_are_injected),
        cmocka_unit_test(contexts),
        cmocka_unit_test(a_new_context_works_again),
        cmocka_unit_test(sets_of_every_width),
        cmocka_unit_test(copies_between_all_memories),
        cmocka_unit_test(globals_of_a_module),
        cmocka_unit_test(streams_and_host_functions),
        cmocka_unit_test(profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
