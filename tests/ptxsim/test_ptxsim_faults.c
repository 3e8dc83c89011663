/* SPDX-License-Identifier: MIT
 * Planted faults: each check finds the one that it is for, names place and thread, and leaves correct kernels alone. */
#include "driver.h"

enum { BYTES = 1024 };

static const struct fault {
    const char *name, *globals, *attributes, *body;
    unsigned grid, block, shared;
    CUresult expected;
    const char *report;
} faults[] = {
    {"read past the end", "", "", "ld.global.u32 %r5, [%d1+1024];\n st.global.u32 [%d4], %r5;", 1, 32, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "0 bytes after the end of allocation"},
    {"write past the end", "", "", "st.global.u32 [%d3+1000], %r2;", 1, 32, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "lane 6 of block (0,0,0), thread (6,0,0)"},
    {"read before the start", "", "", "ld.global.u32 %r5, [%d1+-4];\n st.global.u32 [%d4], %r5;", 1, 32, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "invalid read of 4 bytes"},
    {"null", "", "", "mov.u64 %d6, 0;\n ld.global.u32 %r5, [%d6];\n st.global.u32 [%d4], %r5;", 1, 32, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "not near any allocation"},
    {"straddles the end", "", "", "ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%d1+1008];\n ld.global.v2.u32 {%r5,%r6}, [%d1+1016];\n ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%d1+1024];", 1, 1, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "read of 16 bytes"},
    {"misaligned vector", "", "", "ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%d1+8];\n st.global.u32 [%d4], %r5;", 1, 1, 0, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned access of 16 bytes"},
    {"misaligned scalar", "", "", "ld.global.u32 %r5, [%d1+2];\n st.global.u32 [%d4], %r5;", 1, 1, 0, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned access of 4 bytes"},
    {"uninitialized global", "", "", "ld.global.u32 %r5, [%d4];\n st.global.u32 [%d3], %r5;", 1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "uninitialized read of 4 bytes at global"},
    {"uninitialized shared", ".shared .align 4 .b8 s[128];\n", "", "mov.u32 %r4, s;\n ld.shared.u32 %r5, [%r4+4];\n st.global.u32 [%d3], %r5;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "uninitialized read of 4 bytes at shared"},
    {"uninitialized local", "", "", ".local .align 4 .b8 l[16];\n mov.u64 %d6, l;\n ld.local.u32 %r5, [%d6+4];\n st.global.u32 [%d3], %r5;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "uninitialized read of 4 bytes at local"},
    {"uninitialized register stored", "", "", "add.s32 %r6, %r5, 1;\n st.global.u32 [%d3], %r6;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "the value stored comes from a register that was never written"},
    {"uninitialized address", "", "", "st.global.u32 [%d6], %r2;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "the address comes from a register"},
    {"uninitialized predicate", "", "", "@%p1 st.global.u32 [%d3], %r2;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "a predicate that was never written"},
    {"initialized in some lanes only", "", "", "setp.lt.u32 %p1, %r2, 7;\n @%p1 mov.u32 %r5, 3;\n st.global.u32 [%d3], %r5;", 1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "thread (7,0,0)"},
    {"shared race: write, then read", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r6, %r4, %r5;\n st.shared.u32 [%r6], %r2;\n xor.b32 %r7, %r5, 128;\n add.u32 %r7, %r7, %r4;\n ld.shared.u32 %r8, [%r7];\n st.global.u32 [%d3], %r8;",
     1, 64, 0, CUDA_ERROR_LAUNCH_FAILED, "uninitialized read"}, /* the first warp comes to it before the second has written */
    {"shared race: read, then write", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r6, %r4, %r5;\n st.shared.u32 [%r6], %r2;\n bar.sync 0;\n xor.b32 %r7, %r5, 128;\n add.u32 %r7, %r7, %r4;\n ld.shared.u32 %r8, [%r7];\n st.shared.u32 [%r6], %r8;",
     1, 64, 0, CUDA_ERROR_LAUNCH_FAILED, "race: "},
    {"shared race: two writers", ".shared .align 4 .b8 s[256];\n", "", "mov.u32 %r4, s;\n shr.u32 %r5, %r2, 5;\n and.b32 %r6, %r2, 31;\n shl.b32 %r6, %r6, 2;\n add.u32 %r6, %r6, %r4;\n st.shared.u32 [%r6], %r5;",
     1, 64, 0, CUDA_ERROR_LAUNCH_FAILED, "race: "},
    {"shared race inside a warp", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r6, %r4, %r5;\n st.shared.u32 [%r6], %r2;\n xor.b32 %r7, %r5, 4;\n add.u32 %r7, %r7, %r4;\n ld.shared.u32 %r8, [%r7];\n st.global.u32 [%d3], %r8;",
     1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "race: read of shared"},
    {"global race: two blocks write", "", "", "st.global.u32 [%d3], %r3;", 2, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "race: write of global"},
    {"global race: one writes, one reads", "", "",
     "setp.eq.u32 %p1, %r3, 0;\n @%p1 st.global.u32 [%d3], %r2;\n @%p1 bra $end;\n ld.global.u32 %r5, [%d3];\n st.global.u32 [%d4], %r5;\n$end:", 2, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "race: read of global"},
    {"global race: atomic and plain", "", "", "setp.eq.u32 %p1, %r3, 0;\n @%p1 red.global.add.u32 [%d1], 1;\n @!%p1 st.global.u32 [%d1], %r2;", 2, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "race: write of global"},
    {"barrier in a divergent path", "", "", "setp.lt.u32 %p1, %r2, 16;\n @!%p1 bra $end;\n bar.sync 0;\n$end:", 1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "barrier divergence: lanes 0x0000ffff"},
    {"predicated barrier", "", "", "setp.lt.u32 %p1, %r2, 16;\n @%p1 bar.sync 0;", 1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "barrier divergence"},
    {"lanes exited before the barrier", "", "", "setp.lt.u32 %p1, %r2, 16;\n @%p1 ret;\n bar.sync 0;", 1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "have exited before this barrier"},
    {"a warp exited before the barrier", "", "", "setp.lt.u32 %p1, %r2, 32;\n @%p1 ret;\n bar.sync 0;", 1, 64, 0, CUDA_ERROR_LAUNCH_FAILED, "waits at barrier 0 for ever; 1 of 2 warps have exited"},
    {"two barriers that wait for each other", "", "", "setp.lt.u32 %p1, %r2, 32;\n @%p1 bra $a;\n bar.sync 1;\n bra $end;\n$a:\n bar.sync 2;\n$end:", 1, 64, 0, CUDA_ERROR_LAUNCH_FAILED, "for ever"},
    {"shared out of bounds", ".shared .align 4 .b8 s[256];\n", "", "mov.u32 %r4, s;\n st.shared.u32 [%r4+256], %r2;", 1, 1, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "the block has 256 bytes of shared memory"},
    {"local out of bounds", "", "", ".local .align 4 .b8 l[16];\n mov.u64 %d6, l;\n st.local.u32 [%d6+16], %r2;", 1, 1, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "the thread has 16 bytes of local memory"},
    {"write to constant memory", ".const .align 4 .u32 c = 5;\n", "", "mov.u64 %d6, c;\n cvta.const.u64 %d6, %d6;\n st.u32 [%d6], %r2;", 1, 1, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "constant memory is read-only"},
    {"trap", "", "", "trap;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "trap"},
    {"endless loop", "", "", "$again:\n add.u32 %r5, %r2, 1;\n bra $again;", 1, 1, 0, CUDA_ERROR_LAUNCH_TIMEOUT, "does not end"},
    {"shuffle with absent lanes", "", "", "setp.lt.u32 %p1, %r2, 16;\n @!%p1 bra $end;\n shfl.sync.bfly.b32 %r5, %r2, 1, 31, -1;\n st.global.u32 [%d3], %r5;\n$end:", 1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "that are not here"},
    {"matrix instruction in a divergent path", ".shared .align 16 .b8 s[512];\n", "", "setp.lt.u32 %p1, %r2, 16;\n mov.u32 %r4, s;\n @%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4];", 1, 32, 0, CUDA_ERROR_ILLEGAL_INSTRUCTION, "an instruction of the whole warp"},
    {"asynchronous copy read too early", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n cp.async.ca.shared.global [%r4], [%d1], 4;\n cp.async.commit_group;\n ld.shared.u32 %r5, [%r4];\n cp.async.wait_all;\n st.global.u32 [%d3], %r5;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "uninitialized read"},
    {"uniform branch that is not", "", "", "setp.lt.u32 %p1, %r2, 16;\n @%p1 bra.uni $end;\n st.global.u32 [%d3], %r2;\n$end:", 1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "bra.uni goes two ways"},
};

static char *expand(char *out, size_t size, const struct fault *f) {
    snprintf(out, size, "%s%s", PTX_HEAD, f->globals);
    size_t n = strlen(out);
    const char *template = KERNEL_("k", "@A", "@B");
    for (const char *s = template; *s && n + 1 < size; s++) {
        const char *insert = s[0] == '@' && s[1] == 'A' ? f->attributes : s[0] == '@' && s[1] == 'B' ? f->body : NULL;
        if (insert) n += (size_t)snprintf(out + n, size - n, "%s", insert), s++;
        else out[n++] = *s;
    }
    out[n] = 0;
    return out;
}

/* Runs the body on `a` (initialized) and `b` (not); the status of the launch, or else of waiting for it. */
static CUresult run(const struct fault *f) {
    static char text[8192];
    float data[BYTES / 4];
    int n = BYTES / 4;
    for (int i = 0; i < n; i++) data[i] = (float)i;
    CUfunction k = function_of(load(expand(text, sizeof text, f)), "k");
    CUdeviceptr a = device_copy(data, sizeof data), b = device_alloc(BYTES);
    CUresult r = LAUNCH(k, f->grid, f->block, f->shared, &a, &b, &n);
    return r ? r : cuCtxSynchronize();
}

static void planted_faults_are_found(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct fault *f = &faults[i];
        fresh_device();
        CUresult r = run(f);
        if (r != f->expected) fail_msg("%s: %d instead of %d; %s", f->name, r, f->expected, ptxsim_last_report());
        if (!strstr(ptxsim_last_report(), f->report)) fail_msg("%s: '%s' does not say '%s'", f->name, ptxsim_last_report(), f->report);
        if (!strstr(ptxsim_last_report(), "of k, ")) fail_msg("%s: '%s' does not name the kernel", f->name, ptxsim_last_report());
        assert_int_equal(ptxsim_report_count(), 1);
        CUdeviceptr p;
        assert_int_equal(cuMemAlloc_v2(&p, 4), r); /* the context is lost with it */
    }
}

/* The same patterns done right. */
static const struct fault sound[] = {
    {"barrier between write and read", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r6, %r4, %r5;\n st.shared.u32 [%r6], %r2;\n bar.sync 0;\n xor.b32 %r7, %r5, 128;\n add.u32 %r7, %r7, %r4;\n ld.shared.u32 %r8, [%r7];\n bar.sync 0;\n st.shared.u32 [%r6], %r8;\n st.global.u32 [%d3], %r8;",
     1, 64, 0, CUDA_SUCCESS, ""},
    {"warp barrier inside a warp", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r6, %r4, %r5;\n st.shared.u32 [%r6], %r2;\n bar.warp.sync -1;\n xor.b32 %r7, %r5, 4;\n add.u32 %r7, %r7, %r4;\n ld.shared.u32 %r8, [%r7];\n st.global.u32 [%d3], %r8;",
     1, 32, 0, CUDA_SUCCESS, ""},
    {"named barrier: one warp hands over to another", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n and.b32 %r5, %r2, 31;\n shl.b32 %r5, %r5, 2;\n add.u32 %r6, %r4, %r5;\n setp.lt.u32 %p1, %r2, 32;\n @!%p1 bra $take;\n st.shared.u32 [%r6], %r2;\n bar.arrive 1, 64;\n bra $end;\n$take:\n bar.sync 1, 64;\n ld.shared.u32 %r8, [%r6];\n st.global.u32 [%d3], %r8;\n$end:",
     1, 64, 0, CUDA_SUCCESS, ""},
    {"last block sums what others wrote", ".global .u32 count;\n", "",
     "mul.wide.u32 %d6, %r3, 4;\n add.s64 %d6, %d1, %d6;\n st.global.u32 [%d6], %r3;\n membar.gl;\n mov.u64 %d7, count;\n atom.global.add.u32 %r5, [%d7], 1;\n setp.ne.u32 %p1, %r5, 7;\n @%p1 bra $end;\n membar.gl;\n ld.global.u32 %r6, [%d1+12];\n st.global.u32 [%d2], %r6;\n$end:",
     8, 1, 0, CUDA_SUCCESS, ""},
    {"neighbours in one word", "", "", "cvt.u64.u32 %d6, %r3;\n add.s64 %d6, %d1, %d6;\n cvt.u16.u32 %h1, %r3;\n st.global.u8 [%d6], %h1;", 64, 1, 0, CUDA_SUCCESS, ""},
    {"asynchronous copy awaited", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r4, %r4, %r5;\n cp.async.ca.shared.global [%r4], [%d3], 4;\n cp.async.commit_group;\n cp.async.wait_group 0;\n bar.sync 0;\n xor.b32 %r4, %r4, 128;\n ld.shared.u32 %r5, [%r4];\n st.global.u32 [%d4], %r5;", 1, 64, 0, CUDA_SUCCESS, ""},
    {"half of a pair undefined", "", "", "mov.u16 %h1, 5;\n mov.b32 %r5, {%h1, %h2};\n mov.b32 {%h3, %h4}, %r5;\n st.global.u16 [%d3], %h3;", 1, 32, 0, CUDA_SUCCESS, ""},
    {"the value not selected undefined", "", "", "setp.lt.u32 %p1, %r2, 64;\n selp.b32 %r5, %r2, %r6, %p1;\n st.global.u32 [%d3], %r5;", 1, 32, 0, CUDA_SUCCESS, ""},
    {"divergent paths join", "", "", "setp.lt.u32 %p1, %r2, 16;\n @%p1 bra $a;\n mov.u32 %r5, 1;\n bra $b;\n$a:\n mov.u32 %r5, 2;\n$b:\n bar.sync 0;\n st.global.u32 [%d3], %r5;", 1, 32, 0, CUDA_SUCCESS, ""},
    {"some lanes leave a loop early", "", "",
     "mov.u32 %r5, 0;\n$loop:\n add.u32 %r5, %r5, 1;\n setp.le.u32 %p1, %r5, %r2;\n @%p1 bra $loop;\n bar.sync 0;\n st.global.u32 [%d3], %r5;", 1, 64, 0, CUDA_SUCCESS, ""},
};

static void sound_kernels_are_left_alone(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        fresh_device();
        CUresult r = run(&sound[i]);
        if (r || ptxsim_report_count()) fail_msg("%s: %d; %s", sound[i].name, r, ptxsim_last_report());
    }
}

static void checks_can_be_left_out(void **state) {
    (void)state;
    setenv("PTXSIM_CHECKS", "-uninit,-race", 1);
    fresh_device();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (strcmp(faults[i].name, "uninitialized global") == 0 || strcmp(faults[i].name, "global race: two blocks write") == 0) assert_cuda(run(&faults[i]));
    setenv("PTXSIM_CHECKS", "warn", 1);
    fresh_device();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (strcmp(faults[i].name, "uninitialized global") == 0) assert_cuda(run(&faults[i]));
    assert_int_equal(ptxsim_report_count(), 32);
    unsetenv("PTXSIM_CHECKS");
}

static void use_after_free_is_found(void **state) {
    (void)state;
    fresh_device();
    CUfunction k = function_of(load(PTX_HEAD KERNEL("k", "ld.global.u32 %r5, [%d3];\n st.global.u32 [%d4], %r5;")), "k");
    uint32_t data[32] = {0};
    int n = 0;
    CUdeviceptr a = device_copy(data, sizeof data), b = device_alloc(sizeof data);
    assert_cuda(LAUNCH(k, 1, 32, 0, &a, &b, &n));
    assert_cuda(cuMemFree_v2(a)); /* waits for the launch, which is fine */
    assert_cuda(LAUNCH(k, 1, 32, 0, &a, &b, &n));
    assert_cuda_is(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_report("0 bytes into freed allocation");
    fresh_device();
    a = device_copy(data, sizeof data);
    assert_cuda(cuMemFree_v2(a));
    assert_cuda_is(cuMemFree_v2(a), CUDA_ERROR_INVALID_VALUE);
    assert_report("which is no allocation");
    assert_cuda_is(cuMemcpyHtoD_v2(a, data, 4), CUDA_ERROR_INVALID_VALUE);
}

static void launch_limits_are_checked(void **state) {
    (void)state;
    fresh_device();
    int n = 0, value;
    CUdeviceptr a = device_alloc(4096);
    CUmodule m = load(PTX_HEAD ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 fixed[1024];\n" KERNEL_("bound", ".maxntid 128, 1, 1", "") KERNEL_("exact", ".reqntid 64, 1, 1", "")
                              KERNEL("shared", "mov.u32 %r4, dynamic;\n mov.u32 %r5, fixed;\n st.shared.u32 [%r4], %r2;\n st.shared.u32 [%r5], %r2;"));
    CUfunction bound = function_of(m, "bound"), exact = function_of(m, "exact"), shared = function_of(m, "shared");
    assert_cuda_is(LAUNCH(bound, 1, 129, 0, &a, &a, &n), CUDA_ERROR_INVALID_VALUE);
    assert_report(".maxntid says 128");
    assert_cuda_is(LAUNCH(exact, 1, 32, 0, &a, &a, &n), CUDA_ERROR_INVALID_VALUE);
    assert_report(".reqntid says (64,1,1)");
    assert_cuda(LAUNCH(exact, 1, 64, 0, &a, &a, &n));
    assert_cuda_is(LAUNCH(shared, 1, 1025, 0, &a, &a, &n), CUDA_ERROR_INVALID_VALUE);
    assert_cuda_is(LAUNCH(shared, 0, 32, 0, &a, &a, &n), CUDA_ERROR_INVALID_VALUE);
    assert_cuda_is(LAUNCH(shared, 1, 1, 48 * 1024, &a, &a, &n), CUDA_ERROR_INVALID_VALUE);
    assert_report("dynamic shared memory");
    assert_cuda(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, shared));
    assert_int_equal(value, 1024);
    assert_cuda(cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200 * 1024));
    assert_cuda(LAUNCH(shared, 1, 1, 200 * 1024, &a, &a, &n));
    assert_cuda_is(cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 228 * 1024), CUDA_ERROR_INVALID_VALUE);
    assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, shared, 256, 100 * 1024));
    assert_int_equal(value, 2);
    assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, exact, 64, 0));
    assert_int_equal(value, 32);
    assert_cuda(cuCtxSynchronize());
    assert_cuda_is(cuModuleGetFunction(&bound, m, "nothing"), CUDA_ERROR_NOT_FOUND);
}

static void bad_text_is_refused_with_its_line(void **state) {
    (void)state;
    static const struct { const char *text, *message; CUresult expected; } bad[] = {
        {PTX_HEAD KERNEL("k", "frobnicate.u32 %r4, %r5;"), "line 21: error: instruction 'frobnicate.u32' is not known here", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "add.u32 %r4, %r5;"), "has 2 operands, not 3", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "add.u32 %r4, %d1, 1;"), "register of 64 bits where .u32 is needed", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "add.u32 %x4, %r1, 1;"), "register '%x4' is not declared", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "add.foo.u32 %r4, %r1, 1;"), "'.foo' is not known here", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "bra $nowhere;"), "label '$nowhere' is not defined", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "add.f32 %f1, %f2, 1;"), "an integer where a .f32 is needed", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "div.f32 %f1, %f2, %f3;"), "needs .approx, .full or a rounding", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "cvt.f32.s32 %f1, %r2;"), "needs a rounding", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD KERNEL("k", "st.global.u32 [%d1] %r2;"), "',' expected", CUDA_ERROR_INVALID_PTX},
        {PTX_HEAD ".visible .entry k() {\n ret;\n", "has no end", CUDA_ERROR_INVALID_PTX},
        {".version 7.8\n.target sm_100\n.address_size 64\n", "code for sm_100 cannot run on this device", CUDA_ERROR_INVALID_PTX},
        {".version 7.8\n.target sm_75\n.address_size 64\n" KERNEL("k", "cp.async.commit_group;"), "needs sm_80", CUDA_ERROR_INVALID_PTX},
        {".version 9.9\n.target sm_90\n.address_size 64\n", "newer than this driver", CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
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
        if (r != bad[i].expected || !strstr(log, bad[i].message)) fail_msg("%s: %d, '%s' instead of %d, '%s'", bad[i].text, r, log, bad[i].expected, bad[i].message);
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

int main(void) {
    setenv("PTXSIM_THREADS", "1", 1); /* so that which of two racing blocks is told of is always the same */
    setenv("PTXSIM_LIMIT", "3000000", 1);
    setenv("PTXSIM_MEMORY_MIB", "256", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_faults_are_found), cmocka_unit_test(sound_kernels_are_left_alone), cmocka_unit_test(checks_can_be_left_out),
        cmocka_unit_test(use_after_free_is_found), cmocka_unit_test(launch_limits_are_checked), cmocka_unit_test(bad_text_is_refused_with_its_line),
        cmocka_unit_test(faults_are_injected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
