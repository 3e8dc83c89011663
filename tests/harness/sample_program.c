/* SPDX-License-Identifier: MIT
 * The sample program. */
#include "sample_program.h"
#include "ir_object.h"

#include "ir/support/alloc.h"

#include <stdlib.h>
#include <string.h>

#define SIGNATURE "(ptr %buffers, ptr %params, i64 %begin, i64 %end, ptr %scratch)"
#define LOOP_HEAD                                \
    "  %empty = icmp sge i64 %begin, %end\n"     \
    "  br i1 %empty, label %exit, label %loop\n" \
    "loop:\n"                                    \
    "  %i = phi i64 [ %begin, %entry ], [ %i1, %loop ]\n"
#define LOOP_TAIL                               \
    "  %i1 = add i64 %i, 1\n"                   \
    "  %more = icmp slt i64 %i1, %end\n"        \
    "  br i1 %more, label %loop, label %exit\n" \
    "exit:\n  ret void\n}\n"

/* scale: buffers[1][i] = buffers[0][i] * params[0] + i, through the scratch. mix: buffers[2][i] = buffers[0][i] xor
 * buffers[1][n-1-i]. */
static const char kernels_ir[] = "define void @scale" SIGNATURE " {\n"
                                 "entry:\n"
                                 "  %from = load ptr, ptr %buffers\n"
                                 "  %slot = getelementptr ptr, ptr %buffers, i64 1\n"
                                 "  %to = load ptr, ptr %slot\n"
                                 "  %factor = load i64, ptr %params\n" LOOP_HEAD
                                 "  %p = getelementptr i64, ptr %from, i64 %i\n"
                                 "  %q = getelementptr i64, ptr %to, i64 %i\n"
                                 "  %x = load i64, ptr %p\n"
                                 "  %y = mul i64 %x, %factor\n"
                                 "  %z = add i64 %y, %i\n"
                                 "  store volatile i64 %z, ptr %scratch\n"
                                 "  %w = load volatile i64, ptr %scratch\n"
                                 "  store i64 %w, ptr %q\n" LOOP_TAIL "define void @mix" SIGNATURE " {\n"
                                 "entry:\n"
                                 "  %a = load ptr, ptr %buffers\n"
                                 "  %slot1 = getelementptr ptr, ptr %buffers, i64 1\n"
                                 "  %b = load ptr, ptr %slot1\n"
                                 "  %slot2 = getelementptr ptr, ptr %buffers, i64 2\n"
                                 "  %to = load ptr, ptr %slot2\n"
                                 "  %n = load i64, ptr %params\n"
                                 "  %last = sub i64 %n, 1\n" LOOP_HEAD "  %j = sub i64 %last, %i\n"
                                 "  %pa = getelementptr i64, ptr %a, i64 %i\n"
                                 "  %pb = getelementptr i64, ptr %b, i64 %j\n"
                                 "  %q = getelementptr i64, ptr %to, i64 %i\n"
                                 "  %x = load i64, ptr %pa\n"
                                 "  %y = load i64, ptr %pb\n"
                                 "  %z = xor i64 %x, %y\n"
                                 "  store i64 %z, ptr %q\n" LOOP_TAIL;

/* The same for a CUDA device, a thread an item: the item is %d5, the next of the same thread %d6 further on. */
enum { CUDA_THREADS = 128, CUDA_SHARED_BYTES = CUDA_THREADS * 8 };
#define CUDA_REGISTERS "  .reg .pred %p<4>;\n  .reg .b32 %r<8>;\n  .reg .b64 %d<32>;\n"
#define CUDA_ITEM                                                                        \
    "  mov.u32 %r1, %tid.x;\n  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %nctaid.x;\n"      \
    "  mul.wide.u32 %d5, %r2, 128;\n  cvt.u64.u32 %d7, %r1;\n  add.s64 %d5, %d5, %d7;\n" \
    "  mul.wide.u32 %d6, %r3, 128;\n"
#define CUDA_SCALE /* %d1 from, %d2 to, %d3 factor */                                  \
    "  shl.b64 %d8, %d5, 3;\n  add.s64 %d9, %d1, %d8;\n  ld.global.u64 %d10, [%d9];\n" \
    "  mul.lo.s64 %d10, %d10, %d3;\n  add.s64 %d10, %d10, %d5;\n"                      \
    "  shl.b32 %r4, %r1, 3;\n  mov.u32 %r5, scratch;\n  add.s32 %r5, %r5, %r4;\n"      \
    "  st.shared.u64 [%r5], %d10;\n  ld.shared.u64 %d11, [%r5];\n"                     \
    "  add.s64 %d12, %d2, %d8;\n  st.global.u64 [%d12], %d11;\n"
static const char kernels_ptx[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n.extern .shared .align 16 .b8 scratch[];\n"
    ".visible .entry scale(.param .u64 from, .param .u64 to, .param .u64 factor, .param .u64 items) {\n" CUDA_REGISTERS
    "  ld.param.u64 %d1, [from];\n  ld.param.u64 %d2, [to];\n  ld.param.u64 %d3, [factor];\n  ld.param.u64 %d4, "
    "[items];\n"
    "  cvta.to.global.u64 %d1, %d1;\n  cvta.to.global.u64 %d2, %d2;\n" CUDA_ITEM
    "LOOP:\n  setp.ge.s64 %p1, %d5, %d4;\n  @%p1 bra END;\n" CUDA_SCALE
    "  add.s64 %d5, %d5, %d6;\n  bra LOOP;\nEND:\n  ret;\n}\n"
    ".visible .entry scale_table(.param .u64 table, .param .u64 n) {\n" CUDA_REGISTERS
    "  ld.param.u64 %d20, [table];\n  cvta.to.global.u64 %d20, %d20;\n  mov.u32 %r6, %ctaid.x;\n  cvt.u64.u32 %d21, "
    "%r6;\n"
    "FIND:\n  ld.global.u64 %d22, [%d20+40];\n  setp.gt.s64 %p2, %d22, %d21;\n  @%p2 bra FOUND;\n  add.s64 %d20, %d20, "
    "40;\n  bra FIND;\n"
    "FOUND:\n  ld.global.u64 %d23, [%d20];\n  ld.global.u64 %d4, [%d20+8];\n  ld.global.u64 %d1, [%d20+16];\n"
    "  ld.global.u64 %d2, [%d20+24];\n  ld.global.u64 %d3, [%d20+32];\n" CUDA_ITEM
    "  shl.b64 %d23, %d23, 7;\n  sub.s64 %d5, %d5, %d23;\n  setp.ge.s64 %p1, %d5, %d4;\n  @%p1 bra END;\n" CUDA_SCALE
    "END:\n  ret;\n}\n"
    ".visible .entry mix(.param .u64 a, .param .u64 b, .param .u64 to, .param .u64 n, .param .u64 items) "
    "{\n" CUDA_REGISTERS "  ld.param.u64 %d1, [a];\n  ld.param.u64 %d2, [b];\n  ld.param.u64 %d3, [to];\n  "
    "ld.param.u64 %d13, [n];\n  ld.param.u64 %d4, [items];\n"
    "  cvta.to.global.u64 %d1, %d1;\n  cvta.to.global.u64 %d2, %d2;\n  cvta.to.global.u64 %d3, %d3;\n" CUDA_ITEM
    "LOOP:\n  setp.ge.s64 %p1, %d5, %d4;\n  @%p1 bra END;\n"
    "  shl.b64 %d8, %d5, 3;\n  add.s64 %d9, %d1, %d8;\n  ld.global.u64 %d10, [%d9];\n"
    "  sub.s64 %d11, %d13, %d5;\n  add.s64 %d11, %d11, -1;\n  shl.b64 %d11, %d11, 3;\n  add.s64 %d11, %d2, %d11;\n  "
    "ld.global.u64 %d12, [%d11];\n"
    "  xor.b64 %d10, %d10, %d12;\n  add.s64 %d9, %d3, %d8;\n  st.global.u64 [%d9], %d10;\n"
    "  add.s64 %d5, %d5, %d6;\n  bra LOOP;\nEND:\n  ret;\n}\n";

enum { PARTS = 7 };
static const int64_t part_items[PARTS] = {1, 99, 2000, 0, 900, 1900, 100};

/* The program: the arena holds u (SAMPLE_N) and v (SAMPLE_N).
 *   0  scale  PARTS instances of uneven size: u[part] = x[part] * (part + 2) + i
 *   1  copy   v = u
 *   2  mix    w[i] = v[i] xor u[SAMPLE_N-1-i]              (the constants' first element scales:)
 *   3  scale  one instance: y = w * 3 + i, reading the factor from params
 *   4  scale  y[0..4) = constants * 1 + i */
static tcc_program *make_program(tcc_target target, const void *code, int64_t code_bytes) {
    tcc_program *p = tcc__calloc(1, sizeof *p);
    if (!p) abort();
    tcc_arena *m = &p->memory;
    p->name = tcc_arena_strdup(m, "test");
    p->target = target;
    p->cpu = tcc_arena_strdup(m, target == TCC_TARGET_HOST ? "x86-64" : "sm_75");
    p->arena_bytes = 2 * SAMPLE_BYTES;
    static const int64_t constants[4] = {11, 22, 33, 44};
    p->constants = tcc_arena_copy(m, constants, sizeof constants);
    p->constants_bytes = sizeof constants;

    p->n_bindings = SAMPLE_BINDINGS;
    p->bindings = TCC_ARENA_ARRAY(m, tcc_binding, SAMPLE_BINDINGS);
    static const char *const names[] = {"x", "w", "y"};
    for (int i = 0; i < SAMPLE_BINDINGS; i++)
        p->bindings[i] = (tcc_binding){.name = names[i],
                                       .role = i ? TCC_ROLE_OUTPUT : TCC_ROLE_BATCH,
                                       .type = {.dtype = TCC_I64, .rank = 1, .dims = {SAMPLE_N}}};

    p->n_modules = 1;
    p->modules = TCC_ARENA_NEW(m, tcc_module);
    p->modules[0] = (tcc_module){tcc_arena_copy(m, code, (size_t)code_bytes), code_bytes};
    p->n_kernels = 2;
    p->kernels = TCC_ARENA_ARRAY(m, tcc_kernel, 2);
    p->kernels[0] =
        (tcc_kernel){.symbol = "scale", .n_buffers = 2, .n_params = 1, .scratch_bytes = 64, .schedule = "pointwise"};
    p->kernels[1] = (tcc_kernel){.symbol = "mix", .n_buffers = 3, .n_params = 1, .schedule = "pointwise"};

    for (int i = 0; i < 2 && target == TCC_TARGET_CUDA; i++) {
        p->kernels[i].threads = p->kernels[i].items_a_block = CUDA_THREADS;
        p->kernels[i].table = !i;
        p->kernels[i].scratch_bytes = i ? 0 : CUDA_SHARED_BYTES;
    }

    const tcc_buffer u = {.space = TCC_SPACE_ARENA, .size_bytes = SAMPLE_BYTES};
    const tcc_buffer v = {.space = TCC_SPACE_ARENA, .offset_bytes = SAMPLE_BYTES, .size_bytes = SAMPLE_BYTES};
    tcc_buffer bound[SAMPLE_BINDINGS];
    for (int i = 0; i < SAMPLE_BINDINGS; i++)
        bound[i] = (tcc_buffer){.space = TCC_SPACE_BINDING, .binding = i, .size_bytes = SAMPLE_BYTES};

    p->n_steps = 5;
    p->steps = TCC_ARENA_ARRAY(m, tcc_step, 5);
    tcc_instance *parts = TCC_ARENA_ARRAY(m, tcc_instance, PARTS);
    int64_t at = 0;
    for (int i = 0; i < PARTS; i++) {
        tcc_buffer *b = TCC_ARENA_ARRAY(m, tcc_buffer, 2);
        b[0] = bound[SAMPLE_X];
        b[1] = u;
        for (int k = 0; k < 2; k++) b[k].offset_bytes += at * 8, b[k].size_bytes = part_items[i] * 8;
        at += part_items[i];
        int64_t factor = i + 2;
        parts[i] = (tcc_instance){b, tcc_arena_copy(m, &factor, 8), part_items[i]};
    }
    p->steps[0] = (tcc_step){.kernel = 0,
                             .n_instances = PARTS,
                             .instances = parts,
                             .grain = 100,
                             .label = "scale parts",
                             .lines = "test.c:1,2",
                             .bytes = 2 * SAMPLE_BYTES};
    p->steps[1] = (tcc_step){.kind = TCC_STEP_COPY, .from = u, .to = v, .label = "copy", .lines = ""};
    tcc_buffer mix_buffers[3] = {v, u, bound[SAMPLE_W]};
    int64_t n = SAMPLE_N, three = 3, one = 1;
    tcc_instance mix = {tcc_arena_copy(m, mix_buffers, sizeof mix_buffers), tcc_arena_copy(m, &n, 8), SAMPLE_N};
    p->steps[2] =
        (tcc_step){.kernel = 1, .n_instances = 1, .instances = tcc_arena_copy(m, &mix, sizeof mix), .grain = 1};
    tcc_buffer scale_buffers[2] = {bound[SAMPLE_W], bound[SAMPLE_Y]};
    tcc_instance scale = {tcc_arena_copy(m, scale_buffers, sizeof scale_buffers), tcc_arena_copy(m, &three, 8),
                          SAMPLE_N};
    p->steps[3] =
        (tcc_step){.kernel = 0, .n_instances = 1, .instances = tcc_arena_copy(m, &scale, sizeof scale), .grain = 5000};
    tcc_buffer const_buffers[2] = {{.space = TCC_SPACE_CONST, .size_bytes = 32}, bound[SAMPLE_Y]};
    const_buffers[1].size_bytes = 32;
    tcc_instance last = {tcc_arena_copy(m, const_buffers, sizeof const_buffers), tcc_arena_copy(m, &one, 8), 4};
    p->steps[4] =
        (tcc_step){.kernel = 0, .n_instances = 1, .instances = tcc_arena_copy(m, &last, sizeof last), .grain = 1};
    return p;
}

tcc_program *sample_program(void) {
    int64_t object_bytes;
    void *object = test_ir_object(kernels_ir, NULL, &object_bytes);
    tcc_program *p = make_program(TCC_TARGET_HOST, object, object_bytes);
    free(object);
    return p;
}

tcc_program *sample_program_cuda(void) { return make_program(TCC_TARGET_CUDA, kernels_ptx, sizeof kernels_ptx); }

void sample_expected(const int64_t *x, int64_t *expected) {
    int64_t *u = malloc(SAMPLE_BYTES);
    if (!u) abort();
    for (int part = 0, at = 0; part < PARTS; part++)
        for (int i = 0; i < part_items[part]; i++, at++) u[at] = x[at] * (part + 2) + i;
    for (int i = 0; i < SAMPLE_N; i++) expected[i] = (u[i] ^ u[SAMPLE_N - 1 - i]) * 3 + i;
    for (int i = 0; i < 4; i++) expected[i] = 11 * (i + 1) + i;
    free(u);
}
