/* SPDX-License-Identifier: MIT
 * PTX as LLVM's NVPTX backend prints it: reductions through shuffles and shared memory, packed halves, local arrays,
 * switches, calls. */
#include "driver.h"

#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include <math.h>

static const char ir[] =
    "target triple = \"nvptx64-nvidia-cuda\"\n"
    "@table = internal addrspace(4) constant [4 x float] [float 1.0, float 2.0, float 4.0, float 8.0], align 16\n"
    "@dynamic = external addrspace(3) global [0 x float], align 16\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()\n"
    "declare void @llvm.nvvm.barrier0()\n"
    "declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)\n"
    "declare float @llvm.nvvm.ex2.approx.ftz.f(float)\n"
    "declare float @llvm.fma.f32(float, float, float)\n"
    "declare float @llvm.maxnum.f32(float, float)\n"
    "declare float @llvm.fabs.f32(float)\n"
    "declare i32 @llvm.ctlz.i32(i32, i1)\n"
    "declare i32 @llvm.ctpop.i32(i32)\n"
    "declare i32 @llvm.fshl.i32(i32, i32, i32)\n"
    /* One warp a row: 2^(x - maximum) / sum over rows of n, n a multiple of 128. */
    "define void @softmax(ptr addrspace(1) noalias align 16 %x, ptr addrspace(1) noalias align 16 %y, i32 %n) {\n"
    "entry:\n  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  %row = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
    "  %t4 = shl i32 %t, 2\n  %base = mul i32 %row, %n\n  br label %l1\n"
    "l1:\n  %i = phi i32 [ %t4, %entry ], [ %i.next, %l1 ]\n  %m = phi float [ 0xFFF0000000000000, %entry ], [ "
    "%m.next, %l1 ]\n"
    "  %at = add i32 %base, %i\n  %at64 = sext i32 %at to i64\n  %p = getelementptr float, ptr addrspace(1) %x, i64 "
    "%at64\n  %v = load <4 x float>, ptr addrspace(1) %p, align 16\n"
    "  %v0 = extractelement <4 x float> %v, i32 0\n  %v1 = extractelement <4 x float> %v, i32 1\n  %v2 = "
    "extractelement <4 x float> %v, i32 2\n  %v3 = extractelement <4 x float> %v, i32 3\n"
    "  %a0 = call float @llvm.maxnum.f32(float %v0, float %v1)\n  %a1 = call float @llvm.maxnum.f32(float %v2, float "
    "%v3)\n  %a2 = call float @llvm.maxnum.f32(float %a0, float %a1)\n"
    "  %m.next = call float @llvm.maxnum.f32(float %m, float %a2)\n  %i.next = add i32 %i, 128\n  %more = icmp slt i32 "
    "%i.next, %n\n  br i1 %more, label %l1, label %r\n"
    "r:\n  %s = phi i32 [ 16, %l1 ], [ %s.next, %r ]\n  %rm = phi float [ %m.next, %l1 ], [ %rm.next, %r ]\n"
    "  %o = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %rm, i32 %s, i32 31)\n  %rm.next = call float "
    "@llvm.maxnum.f32(float %rm, float %o)\n"
    "  %s.next = lshr i32 %s, 1\n  %rmore = icmp ne i32 %s.next, 0\n  br i1 %rmore, label %r, label %l2\n"
    "l2:\n  %j = phi i32 [ %t4, %r ], [ %j.next, %l2 ]\n  %sum = phi float [ 0.0, %r ], [ %sum.next, %l2 ]\n"
    "  %atj = add i32 %base, %j\n  %atj64 = sext i32 %atj to i64\n  %pj = getelementptr float, ptr addrspace(1) %x, "
    "i64 %atj64\n  %w = load float, ptr addrspace(1) %pj, align 4\n"
    "  %pj1 = getelementptr float, ptr addrspace(1) %pj, i64 1\n  %pj2 = getelementptr float, ptr addrspace(1) %pj, "
    "i64 2\n  %pj3 = getelementptr float, ptr addrspace(1) %pj, i64 3\n"
    "  %w1 = load float, ptr addrspace(1) %pj1\n  %w2 = load float, ptr addrspace(1) %pj2\n  %w3 = load float, ptr "
    "addrspace(1) %pj3\n"
    "  %d0 = fsub float %w, %rm.next\n  %d1 = fsub float %w1, %rm.next\n  %d2 = fsub float %w2, %rm.next\n  %d3 = fsub "
    "float %w3, %rm.next\n"
    "  %e0 = call float @llvm.nvvm.ex2.approx.ftz.f(float %d0)\n  %e1 = call float @llvm.nvvm.ex2.approx.ftz.f(float "
    "%d1)\n  %e2 = call float @llvm.nvvm.ex2.approx.ftz.f(float %d2)\n  %e3 = call float "
    "@llvm.nvvm.ex2.approx.ftz.f(float %d3)\n"
    "  %q0 = insertelement <4 x float> undef, float %e0, i32 0\n  %q1 = insertelement <4 x float> %q0, float %e1, i32 "
    "1\n  %q2 = insertelement <4 x float> %q1, float %e2, i32 2\n  %q3 = insertelement <4 x float> %q2, float %e3, i32 "
    "3\n"
    "  %py = getelementptr float, ptr addrspace(1) %y, i64 %atj64\n  store <4 x float> %q3, ptr addrspace(1) %py, "
    "align 16\n"
    "  %f0 = fadd float %e0, %e1\n  %f1 = fadd float %e2, %e3\n  %f2 = fadd float %f0, %f1\n  %sum.next = fadd float "
    "%sum, %f2\n"
    "  %j.next = add i32 %j, 128\n  %jmore = icmp slt i32 %j.next, %n\n  br i1 %jmore, label %l2, label %r2\n"
    "r2:\n  %s2 = phi i32 [ 16, %l2 ], [ %s2.next, %r2 ]\n  %rs = phi float [ %sum.next, %l2 ], [ %rs.next, %r2 ]\n"
    "  %o2 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %rs, i32 %s2, i32 31)\n  %rs.next = fadd float "
    "%rs, %o2\n"
    "  %s2.next = lshr i32 %s2, 1\n  %r2more = icmp ne i32 %s2.next, 0\n  br i1 %r2more, label %r2, label %l3\n"
    "l3:\n  %k = phi i32 [ %t4, %r2 ], [ %k.next, %l3 ]\n  %atk = add i32 %base, %k\n  %atk64 = sext i32 %atk to i64\n "
    " %pk = getelementptr float, ptr addrspace(1) %y, i64 %atk64\n"
    "  %z = load <4 x float>, ptr addrspace(1) %pk, align 16\n  %rsi = insertelement <4 x float> undef, float "
    "%rs.next, i32 0\n  %rsv = shufflevector <4 x float> %rsi, <4 x float> undef, <4 x i32> zeroinitializer\n"
    "  %zd = fdiv <4 x float> %z, %rsv\n  store <4 x float> %zd, ptr addrspace(1) %pk, align 16\n  %k.next = add i32 "
    "%k, 128\n  %kmore = icmp slt i32 %k.next, %n\n  br i1 %kmore, label %l3, label %out\n"
    "out:\n  ret void\n}\n"
    /* Block sum through shared memory; y[block] = sum of x + table entries by a switch. */
    "define internal float @twice(float %v) noinline {\n  %r = fadd float %v, %v\n  ret float %r\n}\n"
    "define void @block_sum(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) {\n"
    "entry:\n  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n  "
    "%d = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()\n"
    "  %bd = mul i32 %b, %d\n  %i = add i32 %bd, %t\n  %in = icmp slt i32 %i, %n\n  br i1 %in, label %read, label "
    "%have\n"
    "read:\n  %i64 = sext i32 %i to i64\n  %p = getelementptr float, ptr addrspace(1) %x, i64 %i64\n  %v = load float, "
    "ptr addrspace(1) %p\n  br label %have\n"
    "have:\n  %u = phi float [ %v, %read ], [ 0.0, %entry ]\n  %q = getelementptr [0 x float], ptr addrspace(3) "
    "@dynamic, i32 0, i32 %t\n  store float %u, ptr addrspace(3) %q\n  %half = lshr i32 %d, 1\n  br label %loop\n"
    "loop:\n  %s = phi i32 [ %half, %have ], [ %s.next, %next ]\n  call void @llvm.nvvm.barrier0()\n  %act = icmp ult "
    "i32 %t, %s\n  br i1 %act, label %add, label %next\n"
    "add:\n  %ts = add i32 %t, %s\n  %q2 = getelementptr [0 x float], ptr addrspace(3) @dynamic, i32 0, i32 %ts\n  %a "
    "= load float, ptr addrspace(3) %q\n  %c = load float, ptr addrspace(3) %q2\n  %ac = fadd float %a, %c\n  store "
    "float %ac, ptr addrspace(3) %q\n  br label %next\n"
    "next:\n  %s.next = lshr i32 %s, 1\n  %more = icmp ne i32 %s.next, 0\n  br i1 %more, label %loop, label %done\n"
    "done:\n  %first = icmp eq i32 %t, 0\n  br i1 %first, label %write, label %out\n"
    "write:\n  %r = load float, ptr addrspace(3) @dynamic\n  %b4 = and i32 %b, 3\n  %tp = getelementptr [4 x float], "
    "ptr addrspace(4) @table, i32 0, i32 %b4\n  %tv = load float, ptr addrspace(4) %tp\n"
    "  %tw = call float @twice(float %tv)\n  %rt = fadd float %r, %tw\n  %b64 = sext i32 %b to i64\n  %py = "
    "getelementptr float, ptr addrspace(1) %y, i64 %b64\n  store float %rt, ptr addrspace(1) %py\n  br label %out\n"
    "out:\n  ret void\n}\n"
    /* y[i] = (half)(x[i] * 2 + 1) and back in pairs, bits of other kinds beside. */
    "define void @halves(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) {\n"
    "  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  %t64 = zext i32 %t to i64\n  %p = getelementptr <2 x half>, "
    "ptr addrspace(1) %x, i64 %t64\n  %v = load <2 x half>, ptr addrspace(1) %p\n"
    "  %m = fmul <2 x half> %v, <half 2.0, half 2.0>\n  %a = fadd <2 x half> %m, <half 1.0, half 1.0>\n  %f = fpext <2 "
    "x half> %a to <2 x float>\n  %f0 = extractelement <2 x float> %f, i32 0\n  %f1 = extractelement <2 x float> %f, "
    "i32 1\n"
    "  %g = fsub float %f1, %f0\n  %h = fptrunc float %g to bfloat\n  %k = fpext bfloat %h to float\n  %py = "
    "getelementptr float, ptr addrspace(1) %y, i64 %t64\n  store float %k, ptr addrspace(1) %py\n  ret void\n}\n"
    /* A local array, a switch, 64-bit arithmetic. */
    "define void @mixed(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %n) {\n"
    "entry:\n  %l = alloca [8 x i32], align 4\n  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  br label %fill\n"
    "fill:\n  %i = phi i32 [ 0, %entry ], [ %i.next, %fill ]\n  %p = getelementptr [8 x i32], ptr %l, i32 0, i32 %i\n  "
    "%v = mul i32 %i, %t\n  store volatile i32 %v, ptr %p\n  %i.next = add i32 %i, 1\n  %c = icmp ult i32 %i.next, 8\n "
    " br i1 %c, label %fill, label %sw\n"
    "sw:\n  %k = urem i32 %t, 7\n  switch i32 %k, label %other [ i32 0, label %s0\n i32 1, label %s1\n i32 2, label "
    "%s2\n i32 3, label %s3\n i32 4, label %s4 ]\n"
    "s0:\n  %r0 = add i32 %t, 100\n  br label %join\ns1:\n  %r1 = mul i32 %t, 3\n  br label %join\ns2:\n  %r2 = call "
    "i32 @llvm.ctlz.i32(i32 %t, i1 false)\n  br label %join\n"
    "s3:\n  %r3 = call i32 @llvm.ctpop.i32(i32 %t)\n  br label %join\ns4:\n  %r4 = call i32 @llvm.fshl.i32(i32 %t, i32 "
    "%t, i32 7)\n  br label %join\n"
    "other:\n  %z = zext i32 %t to i64\n  %z2 = mul i64 %z, 5000000000\n  %z3 = udiv i64 %z2, 1000000007\n  %r5 = "
    "trunc i64 %z3 to i32\n  br label %join\n"
    "join:\n  %r = phi i32 [ %r0, %s0 ], [ %r1, %s1 ], [ %r2, %s2 ], [ %r3, %s3 ], [ %r4, %s4 ], [ %r5, %other ]\n  "
    "%k8 = and i32 %t, 7\n  %pl = getelementptr [8 x i32], ptr %l, i32 0, i32 %k8\n  %lv = load volatile i32, ptr "
    "%pl\n  %sum = add i32 %r, %lv\n"
    "  %t64 = zext i32 %t to i64\n  %py = getelementptr i32, ptr addrspace(1) %y, i64 %t64\n  store i32 %sum, ptr "
    "addrspace(1) %py\n  ret void\n}\n"
    "!nvvm.annotations = !{!0, !1, !2, !3}\n!0 = !{ptr @softmax, !\"kernel\", i32 1}\n!1 = !{ptr @block_sum, "
    "!\"kernel\", i32 1}\n!2 = !{ptr @halves, !\"kernel\", i32 1}\n!3 = !{ptr @mixed, !\"kernel\", i32 1}\n";

/* The module's PTX for sm_90, optimized as code generation does; free() it. NULL: this LLVM has no NVPTX. */
static char *assemble(LLVMCodeGenOptLevel level) {
    LLVMTargetRef target;
    char *error = NULL, *text = NULL;
    LLVMInitializeNVPTXTargetInfo(), LLVMInitializeNVPTXTarget(), LLVMInitializeNVPTXTargetMC(),
        LLVMInitializeNVPTXAsmPrinter();
    if (LLVMGetTargetFromTriple("nvptx64-nvidia-cuda", &target, &error)) return LLVMDisposeMessage(error), NULL;
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module;
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(ir, sizeof ir - 1, "ir"), out;
    if (LLVMParseIRInContext(context, buffer, &module, &error)) fail_msg("%s", error);
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(target, "nvptx64-nvidia-cuda", "sm_90", "+ptx78", level,
                                                           LLVMRelocDefault, LLVMCodeModelDefault);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeTargetData(layout);
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMAssemblyFile, &error, &out)) fail_msg("%s", error);
    text = calloc(1, LLVMGetBufferSize(out) + 1);
    memcpy(text, LLVMGetBufferStart(out), LLVMGetBufferSize(out));
    LLVMDisposeMemoryBuffer(out);
    LLVMDisposeTargetMachine(machine);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    return text;
}

static void run_all(LLVMCodeGenOptLevel level) {
    enum { ROWS = 64, N = 512 };
    char *text = assemble(level);
    if (!text) skip();
    fresh_device();
    CUmodule m = load(text);
    free(text);
    static float x[ROWS * N], y[ROWS * N];
    static uint32_t words[256];
    for (int i = 0; i < ROWS * N; i++) x[i] = (float)((i * 37) % 101) / 25;
    CUdeviceptr dx = device_copy(x, sizeof x), dy = device_alloc(sizeof y);
    int n = N;
    assert_cuda(LAUNCH(function_of(m, "softmax"), ROWS, 32, 0, &dx, &dy, &n));
    assert_cuda(cuMemcpyDtoH_v2(y, dy, sizeof y));
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int i = 0; i < N; i++) sum += exp2(x[r * N + i] - 4);
        for (int i = 0; i < N; i++) assert_float_equal(y[r * N + i], exp2(x[r * N + i] - 4) / sum, 1e-6);
    }
    ptxsim_stats s;
    assert_int_equal(ptxsim_get_stats("softmax", &s), 0);
    assert_int_equal(s.global_read_unique_bytes, 2 * sizeof x); /* the input, and the result that was written before */
    assert_int_equal(s.global_write_unique_bytes, sizeof y);
    assert_int_equal(s.global_write_bytes, 2 * sizeof y);
    assert_int_equal(s.global_stores[4], 2 * sizeof y / 16);

    n = 1000;
    assert_cuda(LAUNCH(function_of(m, "block_sum"), 5, 256, 1024, &dx, &dy, &n));
    assert_cuda(cuMemcpyDtoH_v2(y, dy, 5 * 4));
    for (int b = 0; b < 5; b++) {
        double sum = 2 * (1 << (b & 3));
        for (int i = b * 256; i < (b + 1) * 256 && i < n; i++) sum += x[i];
        assert_float_equal(y[b], sum, 1e-3);
    }
    assert_int_equal(ptxsim_get_stats("block_sum", &s), 0);
    assert_int_equal(s.shared_conflicts, 0);
    assert_int_equal(s.shared_bytes, 1024);

    for (int i = 0; i < 256; i++)
        words[i] = (0x3c00u + (uint32_t)i) | (0x4000u + (uint32_t)i) << 16; /* 1 + i/1024, 2 + i/512 */
    CUdeviceptr dw = device_copy(words, sizeof words);
    assert_cuda(LAUNCH(function_of(m, "halves"), 1, 256, 0, &dw, &dy, &n));
    assert_cuda(cuMemcpyDtoH_v2(y, dy, 256 * 4));
    for (int i = 0; i < 256; i++) assert_float_equal(y[i], 2 * (1 + i / 1024.0), 0.01);

    assert_cuda(LAUNCH(function_of(m, "mixed"), 1, 256, 0, &dw, &dy, &n));
    assert_cuda(cuMemcpyDtoH_v2(words, dy, sizeof words));
    for (uint32_t t = 0; t < 256; t++) {
        uint32_t k = t % 7, r = k == 0   ? t + 100
                                : k == 1 ? t * 3
                                : k == 2 ? (t ? (uint32_t)__builtin_clz(t) : 32)
                                : k == 3 ? (uint32_t)__builtin_popcount(t)
                                : k == 4 ? t << 7
                                         : (uint32_t)((uint64_t)t * 5000000000u / 1000000007u);
        assert_int_equal(words[t], r + (t & 7) * t);
    }
    assert_int_equal(ptxsim_get_stats("mixed", &s), 0);
    assert_int_equal(s.local_bytes, 32);
    assert_int_equal(ptxsim_report_count(), 0);
}

static void optimized(void **state) {
    (void)state;
    run_all(LLVMCodeGenLevelDefault);
}

static void not_optimized(void **state) {
    (void)state;
    run_all(LLVMCodeGenLevelNone);
}

int main(void) {
    setenv("PTXSIM_MEMORY_MIB", "256", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(optimized), cmocka_unit_test(not_optimized)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
