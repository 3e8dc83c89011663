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
    {"read past the end", "", "", "ld.global.u32 %r5, [%d1+1024];\n st.global.u32 [%d4], %r5;", 1, 32, 0,
     CUDA_ERROR_ILLEGAL_ADDRESS, "0 bytes after the end of allocation"},
    {"write past the end", "", "", "st.global.u32 [%d3+1000], %r2;", 1, 32, 0, CUDA_ERROR_ILLEGAL_ADDRESS,
     "lane 6 of block (0,0,0), thread (6,0,0)"},
    {"read before the start", "", "", "ld.global.u32 %r5, [%d1+-4];\n st.global.u32 [%d4], %r5;", 1, 32, 0,
     CUDA_ERROR_ILLEGAL_ADDRESS, "invalid read of 4 bytes"},
    {"null", "", "", "mov.u64 %d6, 0;\n ld.global.u32 %r5, [%d6];\n st.global.u32 [%d4], %r5;", 1, 32, 0,
     CUDA_ERROR_ILLEGAL_ADDRESS, "not near any allocation"},
    {"straddles the end", "", "",
     "ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%d1+1008];\n ld.global.v2.u32 {%r5,%r6}, [%d1+1016];\n ld.global.v4.u32 "
     "{%r5,%r6,%r7,%r8}, [%d1+1024];",
     1, 1, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "read of 16 bytes"},
    {"misaligned vector", "", "", "ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%d1+8];\n st.global.u32 [%d4], %r5;", 1, 1, 0,
     CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned access of 16 bytes"},
    {"misaligned scalar", "", "", "ld.global.u32 %r5, [%d1+2];\n st.global.u32 [%d4], %r5;", 1, 1, 0,
     CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned access of 4 bytes"},
    {"uninitialized global", "", "", "ld.global.u32 %r5, [%d4];\n st.global.u32 [%d3], %r5;", 1, 32, 0,
     CUDA_ERROR_LAUNCH_FAILED, "uninitialized read of 4 bytes at global"},
    {"uninitialized shared", ".shared .align 4 .b8 s[128];\n", "",
     "mov.u32 %r4, s;\n ld.shared.u32 %r5, [%r4+4];\n st.global.u32 [%d3], %r5;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED,
     "uninitialized read of 4 bytes at shared"},
    {"uninitialized local", "", "",
     ".local .align 4 .b8 l[16];\n mov.u64 %d6, l;\n ld.local.u32 %r5, [%d6+4];\n st.global.u32 [%d3], %r5;", 1, 1, 0,
     CUDA_ERROR_LAUNCH_FAILED, "uninitialized read of 4 bytes at local"},
    {"uninitialized register stored", "", "", "add.s32 %r6, %r5, 1;\n st.global.u32 [%d3], %r6;", 1, 1, 0,
     CUDA_ERROR_LAUNCH_FAILED, "the value stored comes from a register that was never written"},
    {"uninitialized bytes taken", "", "", "prmt.b32 %r6, %r2, %r5, 0x3214;\n st.global.u32 [%d3], %r6;", 1, 1, 0,
     CUDA_ERROR_LAUNCH_FAILED, "the value stored comes from a register that was never written"},
    {"uninitialized bytes left", "", "", "bfi.b32 %r6, %r2, %r5, 8, 16;\n st.global.u32 [%d3], %r6;", 1, 1, 0,
     CUDA_ERROR_LAUNCH_FAILED, "the value stored comes from a register that was never written"},
    {"uninitialized bytes put in", "", "", "bfi.b32 %r6, %r5, %r2, 8, 8;\n st.global.u32 [%d3], %r6;", 1, 1, 0,
     CUDA_ERROR_LAUNCH_FAILED, "the value stored comes from a register that was never written"},
    {"uninitialized bytes taken out", "", "",
     "bfi.b32 %r6, %r2, %r5, 0, 16;\n bfe.u32 %r7, %r6, 12, 8;\n st.global.u32 [%d3], %r7;", 1, 1, 0,
     CUDA_ERROR_LAUNCH_FAILED, "the value stored comes from a register that was never written"},
    {"an undefined sign taken out", "", "",
     "bfi.b32 %r6, %r2, %r5, 0, 16;\n bfe.s32 %r7, %r6, 8, 9;\n st.global.u32 [%d3], %r7;", 1, 1, 0,
     CUDA_ERROR_LAUNCH_FAILED, "the value stored comes from a register that was never written"},
    {"undefined bytes computed with", "", "",
     "bfi.b32 %r6, %r2, %r5, 0, 16;\n add.u32 %r7, %r6, 1;\n bfi.b32 %r8, %r2, %r7, 16, 16;\n st.global.u32 [%d3], "
     "%r8;",
     1, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "the value stored comes from a register that was never written"},
    {"uninitialized address", "", "", "st.global.u32 [%d6], %r2;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED,
     "the address comes from a register"},
    {"uninitialized predicate", "", "", "@%p1 st.global.u32 [%d3], %r2;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED,
     "a predicate that was never written"},
    {"initialized in some lanes only", "", "",
     "setp.lt.u32 %p1, %r2, 7;\n @%p1 mov.u32 %r5, 3;\n st.global.u32 [%d3], %r5;", 1, 32, 0, CUDA_ERROR_LAUNCH_FAILED,
     "thread (7,0,0)"},
    {"shared race: write, then read", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r6, %r4, %r5;\n st.shared.u32 [%r6], %r2;\n xor.b32 %r7, %r5, "
     "128;\n add.u32 %r7, %r7, %r4;\n ld.shared.u32 %r8, [%r7];\n st.global.u32 [%d3], %r8;",
     1, 64, 0, CUDA_ERROR_LAUNCH_FAILED,
     "uninitialized read"}, /* the first warp comes to it before the second has written */
    {"shared race: read, then write", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r6, %r4, %r5;\n st.shared.u32 [%r6], %r2;\n bar.sync 0;\n "
     "xor.b32 %r7, %r5, 128;\n add.u32 %r7, %r7, %r4;\n ld.shared.u32 %r8, [%r7];\n st.shared.u32 [%r6], %r8;",
     1, 64, 0, CUDA_ERROR_LAUNCH_FAILED, "race: "},
    {"shared race: two writers", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n shr.u32 %r5, %r2, 5;\n and.b32 %r6, %r2, 31;\n shl.b32 %r6, %r6, 2;\n add.u32 %r6, %r6, %r4;\n "
     "st.shared.u32 [%r6], %r5;",
     1, 64, 0, CUDA_ERROR_LAUNCH_FAILED, "race: "},
    {"shared race inside a warp", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r6, %r4, %r5;\n st.shared.u32 [%r6], %r2;\n xor.b32 %r7, %r5, "
     "4;\n add.u32 %r7, %r7, %r4;\n ld.shared.u32 %r8, [%r7];\n st.global.u32 [%d3], %r8;",
     1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "race: read of shared"},
    {"global race: two blocks write", "", "", "st.global.u32 [%d3], %r3;", 2, 32, 0, CUDA_ERROR_LAUNCH_FAILED,
     "race: write of global"},
    {"global race: one writes, one reads", "", "",
     "setp.eq.u32 %p1, %r3, 0;\n @%p1 st.global.u32 [%d3], %r2;\n @%p1 bra $end;\n ld.global.u32 %r5, [%d3];\n "
     "st.global.u32 [%d4], %r5;\n$end:",
     2, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "race: read of global"},
    {"global race: atomic and plain", "", "",
     "setp.eq.u32 %p1, %r3, 0;\n @%p1 red.global.add.u32 [%d1], 1;\n @!%p1 st.global.u32 [%d1], %r2;", 2, 1, 0,
     CUDA_ERROR_LAUNCH_FAILED, "race: write of global"},
    {"barrier in a divergent path", "", "", "setp.lt.u32 %p1, %r2, 16;\n @!%p1 bra $end;\n bar.sync 0;\n$end:", 1, 32,
     0, CUDA_ERROR_LAUNCH_FAILED, "barrier divergence: lanes 0x0000ffff"},
    {"predicated barrier", "", "", "setp.lt.u32 %p1, %r2, 16;\n @%p1 bar.sync 0;", 1, 32, 0, CUDA_ERROR_LAUNCH_FAILED,
     "barrier divergence"},
    {"lanes exited before the barrier", "", "", "setp.lt.u32 %p1, %r2, 16;\n @%p1 ret;\n bar.sync 0;", 1, 32, 0,
     CUDA_ERROR_LAUNCH_FAILED, "have exited before this barrier"},
    {"a warp exited before the barrier", "", "", "setp.lt.u32 %p1, %r2, 32;\n @%p1 ret;\n bar.sync 0;", 1, 64, 0,
     CUDA_ERROR_LAUNCH_FAILED, "waits at barrier 0 for ever; 1 of 2 warps have exited"},
    {"two barriers that wait for each other", "", "",
     "setp.lt.u32 %p1, %r2, 32;\n @%p1 bra $a;\n bar.sync 1;\n bra $end;\n$a:\n bar.sync 2;\n$end:", 1, 64, 0,
     CUDA_ERROR_LAUNCH_FAILED, "for ever"},
    {"shared out of bounds", ".shared .align 4 .b8 s[256];\n", "", "mov.u32 %r4, s;\n st.shared.u32 [%r4+256], %r2;", 1,
     1, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "the block has 256 bytes of shared memory"},
    {"local out of bounds", "", "", ".local .align 4 .b8 l[16];\n mov.u64 %d6, l;\n st.local.u32 [%d6+16], %r2;", 1, 1,
     0, CUDA_ERROR_ILLEGAL_ADDRESS, "the thread has 16 bytes of local memory"},
    {"write to constant memory", ".const .align 4 .u32 c = 5;\n", "",
     "mov.u64 %d6, c;\n cvta.const.u64 %d6, %d6;\n st.u32 [%d6], %r2;", 1, 1, 0, CUDA_ERROR_ILLEGAL_ADDRESS,
     "constant memory is read-only"},
    {"trap", "", "", "trap;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "trap"},
    {"endless loop", "", "", "$again:\n add.u32 %r5, %r2, 1;\n bra $again;", 1, 1, 0, CUDA_ERROR_LAUNCH_TIMEOUT,
     "does not end"},
    {"endless loop with a barrier", "", "", "$again:\n bar.sync 0;\n add.u32 %r5, %r2, 1;\n bra $again;", 1, 64, 0,
     CUDA_ERROR_LAUNCH_TIMEOUT, "does not end"},
    {"shuffle with absent lanes", "", "",
     "setp.lt.u32 %p1, %r2, 16;\n @!%p1 bra $end;\n shfl.sync.bfly.b32 %r5, %r2, 1, 31, -1;\n st.global.u32 [%d3], "
     "%r5;\n$end:",
     1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "that are not here"},
    {"matrix instruction in a divergent path", ".shared .align 16 .b8 s[512];\n", "",
     "setp.lt.u32 %p1, %r2, 16;\n mov.u32 %r4, s;\n @%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4];", 1, 32,
     0, CUDA_ERROR_ILLEGAL_INSTRUCTION, "an instruction of the whole warp"},
    {"asynchronous copy read too early", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n cp.async.ca.shared.global [%r4], [%d1], 4;\n cp.async.commit_group;\n ld.shared.u32 %r5, "
     "[%r4];\n cp.async.wait_all;\n st.global.u32 [%d3], %r5;",
     1, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "uninitialized read"},
    {"uniform branch that is not", "", "",
     "setp.lt.u32 %p1, %r2, 16;\n @%p1 bra.uni $end;\n st.global.u32 [%d3], %r2;\n$end:", 1, 32, 0,
     CUDA_ERROR_LAUNCH_FAILED, "bra.uni goes two ways"},
    {"atomic past the end", "", "", "red.global.add.u32 [%d1+1024], 1;", 1, 1, 0, CUDA_ERROR_ILLEGAL_ADDRESS,
     "invalid write of 4 bytes at global"},
    {"misaligned atomic", "", "", "red.global.add.u32 [%d1+2], 1;", 1, 1, 0, CUDA_ERROR_MISALIGNED_ADDRESS,
     "misaligned access of 4 bytes"},
    {"misaligned vector in shared memory", ".shared .align 16 .b8 s[64];\n", "",
     "mov.u32 %r4, s;\n st.shared.v4.u32 [%r4+8], {%r2,%r2,%r2,%r2};", 1, 1, 0, CUDA_ERROR_MISALIGNED_ADDRESS,
     "misaligned access of 16 bytes at shared"},
    {"atomic of an uninitialized word", "", "", "red.global.add.u32 [%d2], 1;", 1, 1, 0, CUDA_ERROR_LAUNCH_FAILED,
     "uninitialized read of 4 bytes at global"},
    {"atomic with an uninitialized operand", "", "", "red.global.add.u32 [%d1], %r5;", 1, 1, 0,
     CUDA_ERROR_LAUNCH_FAILED, "the operand of an atomic comes from a register"},
    {"uninitialized value selected", "", "",
     "setp.lt.u32 %p1, %r2, 64;\n selp.b32 %r5, %r6, %r2, %p1;\n st.global.u32 [%d3], %r5;", 1, 32, 0,
     CUDA_ERROR_LAUNCH_FAILED, "the value stored comes from a register"},
    {"uninitialized value shuffled", "", "",
     "setp.lt.u32 %p1, %r2, 7;\n @%p1 mov.u32 %r5, 3;\n shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1;\n st.global.u32 [%d3], "
     "%r6;",
     1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "thread (6,0,0)"},
    {"uninitialized vote", "", "",
     "setp.lt.u32 %p1, %r2, 7;\n @%p1 setp.lt.u32 %p2, %r2, 3;\n vote.sync.ballot.b32 %r6, %p2, -1;\n st.global.u32 "
     "[%d3], %r6;",
     1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "thread (0,0,0)"},
    {"uninitialized value in a reduction", "", "",
     "setp.lt.u32 %p1, %r2, 31;\n @%p1 mov.u32 %r5, 3;\n redux.sync.add.u32 %r6, %r5, -1;\n st.global.u32 [%d3], %r6;",
     1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "thread (0,0,0)"},
    {"uninitialized fragment of a matrix", "", "",
     "mov.u32 %r4, 0;\n mov.f32 %f1, 0f00000000;\n setp.lt.u32 %p1, %r2, 31;\n @%p1 mov.u32 %r5, 0;\n"
     "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f2,%f3,%f4,%f5}, {%r4,%r4}, {%r5}, {%f1,%f1,%f1,%f1};\n "
     "st.global.f32 [%d3], %f2;",
     1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "thread (0,0,0)"},
    {"row of a matrix never written", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4];", 1, 32, 0, CUDA_ERROR_LAUNCH_FAILED,
     "uninitialized read of 16 bytes at shared"},
    {"misaligned row of a matrix", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4+8];", 1, 32, 0,
     CUDA_ERROR_MISALIGNED_ADDRESS, "ldmatrix of a row at"},
    {"row of a matrix out of bounds", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4+512];", 1, 32, 0,
     CUDA_ERROR_ILLEGAL_ADDRESS, "the block has 512 bytes of shared memory"},
    {"row of a matrix at no address", "", "", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4];", 1, 32, 0,
     CUDA_ERROR_LAUNCH_FAILED, "the address comes from a register"},
    {"shared race: plain, then atomic", ".shared .align 4 .b8 s[4];\n", "",
     "mov.u32 %r4, s;\n setp.eq.u32 %p1, %r2, 0;\n @%p1 st.shared.u32 [%r4], %r2;\n bar.sync 0;\n setp.lt.u32 %p1, "
     "%r2, 32;\n @%p1 red.shared.add.u32 [%r4], 1;\n @!%p1 st.shared.u32 [%r4], %r2;",
     1, 33, 0, CUDA_ERROR_LAUNCH_FAILED, "race: atomic of shared"},
    {"shared race: atomic, then plain", ".shared .align 4 .b8 s[4];\n", "",
     "mov.u32 %r4, s;\n setp.eq.u32 %p1, %r2, 0;\n @%p1 st.shared.u32 [%r4], %r2;\n bar.sync 0;\n setp.lt.u32 %p1, "
     "%r2, 32;\n @!%p1 red.shared.add.u32 [%r4], 1;\n @%p1 st.shared.u32 [%r4], %r2;",
     1, 33, 0, CUDA_ERROR_LAUNCH_FAILED, "race: write of shared"},
    {"global race: one reads, one writes", "", "",
     "setp.eq.u32 %p1, %r3, 1;\n @%p1 st.global.u32 [%d3], %r2;\n @%p1 bra $end;\n ld.global.u32 %r5, [%d3];\n "
     "st.global.u32 [%d4], %r5;\n$end:",
     2, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "race: write of global"},
    {"global race: two blocks write a byte that one of them read", "", "",
     "and.b32 %r4, %r3, 2;\n cvt.u64.u32 %d5, %r4;\n add.s64 %d5, %d5, %d1;\n ld.global.u8 %r5, [%d5];\n st.global.u8 "
     "[%d5], %r5;",
     4, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "race: "},
    {"global race: fence without an atomic", "", "",
     "setp.eq.u32 %p1, %r3, 0;\n @%p1 st.global.u32 [%d3], %r2;\n membar.gl;\n @%p1 bra $end;\n ld.global.u32 %r5, "
     "[%d3];\n st.global.u32 [%d4], %r5;\n$end:",
     2, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "race: read of global"},
    {"warp barrier with absent lanes", "", "", "setp.lt.u32 %p1, %r2, 16;\n @!%p1 bra $end;\n bar.warp.sync -1;\n$end:",
     1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "that are not here"},
    {"vote with absent lanes", "", "",
     "setp.lt.u32 %p1, %r2, 16;\n @!%p1 bra $end;\n vote.sync.any.pred %p2, %p1, -1;\n$end:", 1, 32, 0,
     CUDA_ERROR_LAUNCH_FAILED, "that are not here"},
    {"lane outside of its own mask", "", "", "shfl.sync.bfly.b32 %r5, %r2, 1, 31, 0xffff;\n st.global.u32 [%d3], %r5;",
     1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "not in its own member mask 0x0000ffff"},
    {"barrier that is none", "", "", "bar.sync 16;", 1, 32, 0, CUDA_ERROR_ILLEGAL_INSTRUCTION,
     "barrier 16: there are 16"},
    {"barrier of half a warp", "", "", "bar.sync 1, 48;", 1, 64, 0, CUDA_ERROR_ILLEGAL_INSTRUCTION,
     "barrier 1 for 48 threads of a block of 64"},
    {"barrier of more than the block", "", "", "bar.sync 1, 96;", 1, 64, 0, CUDA_ERROR_ILLEGAL_INSTRUCTION,
     "barrier 1 for 96 threads of a block of 64"},
    {"two sizes at one barrier", "", "",
     "setp.lt.u32 %p1, %r2, 32;\n @%p1 bra $a;\n bar.sync 1, 64;\n bra $end;\n$a:\n bar.sync 1, 96;\n$end:", 1, 96, 0,
     CUDA_ERROR_LAUNCH_FAILED, "64 threads expected, others wait for 96"},
    {"generic address beyond shared memory", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u64 %d6, s;\n cvta.shared.u64 %d6, %d6;\n st.u32 [%d6+256], %r2;", 1, 1, 0, CUDA_ERROR_ILLEGAL_ADDRESS,
     "the block has 256 bytes of shared memory"},
    {"generic address beyond local memory", "", "",
     ".local .align 4 .b8 l[16];\n mov.u64 %d6, l;\n cvta.local.u64 %d6, %d6;\n st.u32 [%d6+16], %r2;", 1, 1, 0,
     CUDA_ERROR_ILLEGAL_ADDRESS, "the thread has 16 bytes of local memory"},
    {"write to a parameter", "", "", "mov.b64 %d6, a;\n cvta.param.u64 %d6, %d6;\n st.u32 [%d6], %r2;", 1, 1, 0,
     CUDA_ERROR_ILLEGAL_ADDRESS, "bytes of parameters, which are read-only"},
    {"read past the parameters", "", "", "mov.b64 %d6, a;\n cvta.param.u64 %d6, %d6;\n ld.u32 %r5, [%d6+64];", 1, 1, 0,
     CUDA_ERROR_ILLEGAL_ADDRESS, "the kernel has 20 bytes of parameters"},
    {"branch beyond its targets", "", "", "$list: .branchtargets $a, $a;\n mov.u32 %r4, 2;\n brx.idx %r4, $list;\n$a:",
     1, 1, 0, CUDA_ERROR_ILLEGAL_INSTRUCTION, "brx.idx with index 2 of 2 targets"},
    {"endless recursion", ".func endless()\n{\n call endless;\n ret;\n}\n", "", "call endless;", 1, 1, 0,
     CUDA_ERROR_LAUNCH_FAILED, "calls nested too deep"},
    {"asynchronous copy from beyond the end", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n cp.async.ca.shared.global [%r4], [%d1+1024], 4;\n cp.async.wait_all;", 1, 1, 0,
     CUDA_ERROR_ILLEGAL_ADDRESS, "invalid read of 4 bytes at global"},
    {"asynchronous copy beyond shared memory", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n cp.async.ca.shared.global [%r4+512], [%d1], 4;\n cp.async.wait_all;", 1, 1, 0,
     CUDA_ERROR_ILLEGAL_ADDRESS, "invalid write of 4 bytes at shared"},
    {"asynchronous copy of what was never written", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n cp.async.ca.shared.global [%r4], [%d2], 4;\n cp.async.wait_all;", 1, 1, 0,
     CUDA_ERROR_LAUNCH_FAILED, "uninitialized read of 4 bytes at global"},
    {"misaligned source of an asynchronous copy", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n cp.async.cg.shared.global [%r4], [%d1+4], 16;\n cp.async.wait_all;", 1, 1, 0,
     CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned access of 16 bytes at global"},
    {"misaligned end of an asynchronous copy", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n cp.async.cg.shared.global [%r4+4], [%d1], 16;\n cp.async.wait_all;", 1, 1, 0,
     CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned access of 16 bytes at shared"},
    {"asynchronous copy of more than it has room for", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n mov.u32 %r5, 8;\n cp.async.ca.shared.global [%r4], [%d1], 4, %r5;\n cp.async.wait_all;", 1, 1,
     0, CUDA_ERROR_ILLEGAL_INSTRUCTION, "cp.async of 4 bytes from a source of 8"},
    {"asynchronous copy overwritten under way", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n cp.async.ca.shared.global [%r4], [%d1], 4;\n st.shared.u32 [%r4], %r2;\n cp.async.wait_all;", 1,
     1, 0, CUDA_ERROR_LAUNCH_FAILED, "was written while this asynchronous copy to it was under way"},
    {"asynchronous copy seen without a barrier", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n setp.eq.u32 %p1, %r2, 0;\n @%p1 cp.async.ca.shared.global [%r4], [%d1], 4;\n "
     "cp.async.wait_all;\n ld.shared.u32 %r5, [%r4];\n st.global.u32 [%d3], %r5;",
     1, 32, 0, CUDA_ERROR_LAUNCH_FAILED, "race: read of shared"},
    {"asynchronous copy of which a later group is awaited", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n cp.async.ca.shared.global [%r4], [%d1], 4;\n cp.async.commit_group;\n "
     "cp.async.ca.shared.global [%r4+4], [%d1+4], 4;\n cp.async.commit_group;\n cp.async.wait_group 1;\n ld.shared.u32 "
     "%r5, [%r4+4];",
     1, 1, 0, CUDA_ERROR_LAUNCH_FAILED, "uninitialized read of 4 bytes at shared"},
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

/* Runs the body on a fresh device, on `a` (initialized) and `b` (not); the status of the launch, or else of waiting for
 * it. */
static CUresult run(const struct fault *f) {
    static char text[8192];
    float data[BYTES / 4];
    int n = BYTES / 4;
    fresh_device();
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
        CUresult r = run(f);
        if (r != f->expected) fail_msg("%s: %d instead of %d; %s", f->name, r, f->expected, ptxsim_last_report());
        if (!strstr(ptxsim_last_report(), f->report))
            fail_msg("%s: '%s' does not say '%s'", f->name, ptxsim_last_report(), f->report);
        if (!strstr(ptxsim_last_report(), "of k, "))
            fail_msg("%s: '%s' does not name the kernel", f->name, ptxsim_last_report());
        assert_int_equal(ptxsim_report_count(), 1);
        CUdeviceptr p;
        assert_int_equal(cuMemAlloc_v2(&p, 4), r); /* the context is lost with it */
    }
}

/* The same patterns done right. */
static const struct fault sound[] = {
    {"barrier between write and read", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r6, %r4, %r5;\n st.shared.u32 [%r6], %r2;\n bar.sync 0;\n "
     "xor.b32 %r7, %r5, 128;\n add.u32 %r7, %r7, %r4;\n ld.shared.u32 %r8, [%r7];\n bar.sync 0;\n st.shared.u32 [%r6], "
     "%r8;\n st.global.u32 [%d3], %r8;",
     1, 64, 0, CUDA_SUCCESS, ""},
    {"warp barrier inside a warp", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r6, %r4, %r5;\n st.shared.u32 [%r6], %r2;\n bar.warp.sync "
     "-1;\n xor.b32 %r7, %r5, 4;\n add.u32 %r7, %r7, %r4;\n ld.shared.u32 %r8, [%r7];\n st.global.u32 [%d3], %r8;",
     1, 32, 0, CUDA_SUCCESS, ""},
    {"named barrier: one warp hands over to another", ".shared .align 4 .b8 s[256];\n", "",
     "mov.u32 %r4, s;\n and.b32 %r5, %r2, 31;\n shl.b32 %r5, %r5, 2;\n add.u32 %r6, %r4, %r5;\n setp.lt.u32 %p1, %r2, "
     "32;\n @!%p1 bra $take;\n st.shared.u32 [%r6], %r2;\n bar.arrive 1, 64;\n bra $end;\n$take:\n bar.sync 1, 64;\n "
     "ld.shared.u32 %r8, [%r6];\n st.global.u32 [%d3], %r8;\n$end:",
     1, 64, 0, CUDA_SUCCESS, ""},
    {"last block sums what others wrote", ".global .u32 count;\n", "",
     "mul.wide.u32 %d6, %r3, 4;\n add.s64 %d6, %d1, %d6;\n st.global.u32 [%d6], %r3;\n membar.gl;\n mov.u64 %d7, "
     "count;\n atom.global.add.u32 %r5, [%d7], 1;\n setp.ne.u32 %p1, %r5, 7;\n @%p1 bra $end;\n membar.gl;\n "
     "ld.global.u32 %r6, [%d1+12];\n st.global.u32 [%d2], %r6;\n$end:",
     8, 1, 0, CUDA_SUCCESS, ""},
    {"neighbours in one word", "", "",
     "cvt.u64.u32 %d6, %r3;\n add.s64 %d6, %d1, %d6;\n cvt.u16.u32 %h1, %r3;\n st.global.u8 [%d6], %h1;", 64, 1, 0,
     CUDA_SUCCESS, ""},
    {"asynchronous copy awaited", ".shared .align 16 .b8 s[512];\n", "",
     "mov.u32 %r4, s;\n shl.b32 %r5, %r2, 2;\n add.u32 %r4, %r4, %r5;\n cp.async.ca.shared.global [%r4], [%d3], 4;\n "
     "cp.async.commit_group;\n cp.async.wait_group 0;\n bar.sync 0;\n xor.b32 %r4, %r4, 128;\n ld.shared.u32 %r5, "
     "[%r4];\n st.global.u32 [%d4], %r5;",
     1, 64, 0, CUDA_SUCCESS, ""},
    {"half of a pair undefined", "", "",
     "mov.u16 %h1, 5;\n mov.b32 %r5, {%h1, %h2};\n mov.b32 {%h3, %h4}, %r5;\n st.global.u16 [%d3], %h3;", 1, 32, 0,
     CUDA_SUCCESS, ""},
    {"the value not selected undefined", "", "",
     "setp.lt.u32 %p1, %r2, 64;\n selp.b32 %r5, %r2, %r6, %p1;\n st.global.u32 [%d3], %r5;", 1, 32, 0, CUDA_SUCCESS,
     ""},
    {"no byte taken of what is undefined", "", "", "prmt.b32 %r5, %r2, %r6, 0x0123;\n st.global.u32 [%d3], %r5;", 1, 32,
     0, CUDA_SUCCESS, ""},
    {"bytes put together in what is undefined", "", "",
     "bfi.b32 %r6, %r2, %r5, 0, 8;\n bfi.b32 %r7, %r5, %r6, 8, 8;\n mov.b32 %r8, %r7;\n bfi.b32 %r6, %r2, %r8, 16, "
     "16;\n "
     "bfi.b32 %r7, %r2, %r6, 8, 8;\n st.global.u32 [%d3], %r7;",
     1, 32, 0, CUDA_SUCCESS, ""},
    {"bytes taken out beside what is undefined", "", "",
     "bfi.b32 %r6, %r2, %r5, 8, 8;\n bfe.u32 %r7, %r6, 8, 8;\n bfe.s32 %r8, %r6, 8, 8;\n st.global.u32 [%d3], %r7;\n "
     "st.global.u32 [%d3], %r8;",
     1, 1, 0, CUDA_SUCCESS, ""},
    {"divergent paths join", "", "",
     "setp.lt.u32 %p1, %r2, 16;\n @%p1 bra $a;\n mov.u32 %r5, 1;\n bra $b;\n$a:\n mov.u32 %r5, 2;\n$b:\n bar.sync 0;\n "
     "st.global.u32 [%d3], %r5;",
     1, 32, 0, CUDA_SUCCESS, ""},
    {"some lanes leave a loop early", "", "",
     "mov.u32 %r5, 0;\n$loop:\n add.u32 %r5, %r5, 1;\n setp.le.u32 %p1, %r5, %r2;\n @%p1 bra $loop;\n bar.sync 0;\n "
     "st.global.u32 [%d3], %r5;",
     1, 64, 0, CUDA_SUCCESS, ""},
};

static void check_sound(const struct fault *f) {
    CUresult r = run(f);
    if (r || ptxsim_report_count()) fail_msg("%s: %d; %s", f->name, r, ptxsim_last_report());
}

static void sound_kernels_are_left_alone(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) check_sound(&sound[i]);
}

static const struct fault *fault_named(const char *name) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (!strcmp(faults[i].name, name)) return &faults[i];
    fail_msg("no fault is named '%s'", name);
    return NULL;
}

/* What a check finds passes without it, and is only told of with "warn". */
static void checks_can_be_left_out(void **state) {
    (void)state;
    static const struct {
        const char *check, *fault;
        int warnings;
    } ways[] = {
        {"-uninit", "uninitialized global", 32},
        {"-race", "global race: two blocks write", 32},
        {"-align", "misaligned scalar", -1},
        {"-barrier", "shuffle with absent lanes", 1},
        {"-uninit", "uninitialized register stored", 1},
        {"-race", "shared race: two writers", 32},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const struct fault *f = fault_named(ways[i].fault);
        setenv("PTXSIM_CHECKS", ways[i].check, 1);
        CUresult r = run(f);
        if (r || ptxsim_report_count()) fail_msg("%s, %s: %d; %s", ways[i].check, f->name, r, ptxsim_last_report());
        if (ways[i].warnings < 0) continue; /* hardware notices */
        setenv("PTXSIM_CHECKS", "warn", 1);
        r = run(f);
        if (r || ptxsim_report_count() != ways[i].warnings)
            fail_msg("%s as a warning: %d, %d reports", f->name, r, ptxsim_report_count());
    }
    unsetenv("PTXSIM_CHECKS");
}

/* A report names the kernel, the line of its PTX, the thread and the address. */
static void reports_say_where(void **state) {
    (void)state;
    static const char text[] = PTX_HEAD KERNEL("place", "setp.ne.u32 %p1, %r3, 1;\n @%p1 ret;\n setp.ne.u32 %p1, %r2, "
                                                        "37;\n @%p1 ret;\n st.global.u32 [%d1+1536], %r2;");
    char expected[512];
    int line = 1, n = 0;
    for (const char *c = text, *at = strstr(text, "st.global"); c < at; c++) line += *c == '\n';
    fresh_device();
    CUfunction k = function_of(load(text), "place");
    CUdeviceptr a = device_alloc(BYTES);
    assert_cuda(LAUNCH(k, 3, 64, 0, &a, &a, &n));
    assert_cuda_is(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    snprintf(expected, sizeof expected,
             "invalid write of 4 bytes at global 0x%llx: 512 bytes after the end of allocation #1 of 1024 bytes\n    "
             "at line %d of place, lane 5 of block (1,0,0), thread (37,0,0)",
             (unsigned long long)a + 1536, line);
    assert_string_equal(ptxsim_last_report(), expected);
}

/* Blocks that run on several host threads race as seen by each other. */
static void races_are_found_on_many_threads(void **state) {
    (void)state;
    static const char *const names[] = {"global race: two blocks write", "global race: one writes, one reads",
                                        "global race: one reads, one writes", "global race: atomic and plain"};
    setenv("PTXSIM_THREADS", "4", 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int round = 0; round < 5; round++) {
            struct fault f = *fault_named(names[i]);
            f.grid = 256;
            CUresult r = run(&f);
            if (r != CUDA_ERROR_LAUNCH_FAILED || !strstr(ptxsim_last_report(), "race: "))
                fail_msg("%s: %d; %s", f.name, r, ptxsim_last_report());
            assert_int_equal(ptxsim_report_count(), 1);
        }
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++)
        if (sound[i].grid > 1) check_sound(&sound[i]);
    setenv("PTXSIM_THREADS", "1", 1);
}

static void use_after_free_is_found(void **state) {
    (void)state;
    fresh_device();
    CUfunction k = function_of(load(PTX_HEAD KERNEL("k", "ld.global.u32 %r5, [%d3];\n st.global.u32 [%d4], %r5;")),
                               "k");
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

int main(void) {
    setenv("PTXSIM_THREADS", "1", 1); /* so that which of two racing blocks is told of is always the same */
    setenv("PTXSIM_LIMIT", "3000000", 1);
    setenv("PTXSIM_MEMORY_MIB", "256", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_faults_are_found),        cmocka_unit_test(sound_kernels_are_left_alone),
        cmocka_unit_test(checks_can_be_left_out),          cmocka_unit_test(reports_say_where),
        cmocka_unit_test(races_are_found_on_many_threads), cmocka_unit_test(use_after_free_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
