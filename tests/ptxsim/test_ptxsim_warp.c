/* SPDX-License-Identifier: MIT
 * Instructions of whole warps: shuffles, votes, matches, reductions, matrices, asynchronous copies, atomics; conflicts
 * counted. */
#include "driver.h"

#include <math.h>

static uint32_t out[4096];

/* Runs one block of 32 threads; `words` bytes of input in a, results to `out`. */
static void run(const char *globals, const char *body, const void *input, size_t bytes, size_t result_bytes) {
    static char text[16384];
    int n = 0;
    fresh_device();
    size_t at = (size_t)snprintf(text, sizeof text, "%s%s", PTX_HEAD, globals);
    const char *template = KERNEL("k", "@");
    for (const char *s = template; *s; s++)
        if (*s == '@') at += (size_t)snprintf(text + at, sizeof text - at, "%s", body);
        else text[at++] = *s;
    text[at] = 0;
    CUfunction k = function_of(load(text), "k");
    CUdeviceptr a = device_copy(input, bytes), b = device_alloc(result_bytes);
    assert_cuda(LAUNCH(k, 1, 32, 0, &a, &b, &n));
    assert_cuda(cuMemcpyDtoH_v2(out, b, result_bytes));
    assert_int_equal(ptxsim_report_count(), 0);
}

static void shuffles(void **state) {
    (void)state;
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    static const struct {
        int b, c;
    } ways[] = {{1, 31},     {1, 0},      {4, 0x181f}, {4, 0x1800}, {16, 31},
                {3, 0x1c1f}, {3, 0x1c00}, {0, 31},     {31, 31},    {7, 0x1807}};
    uint32_t in[32];
    for (int l = 0; l < 32; l++) in[l] = 1000 + (uint32_t)l;
    for (int mode = 0; mode < 4; mode++)
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
            char body[400];
            int b = ways[k].b, c = ways[k].c;
            snprintf(
                body, sizeof body,
                "ld.global.u32 %%r5, [%%d3];\n shfl.sync.%s.b32 %%r6|%%p1, %%r5, %d, %d, -1;\n selp.u32 %%r7, 1, 0, "
                "%%p1;\n mul.lo.u32 %%r7, %%r7, 65536;\n add.u32 %%r6, %%r6, %%r7;\n st.global.u32 [%%d4], %%r6;",
                modes[mode], b, c);
            run("", body, in, sizeof in, sizeof in);
            int segment = c >> 8 & 31, clamp = c & 31;
            for (int l = 0; l < 32; l++) {
                int most = (l & segment) | (clamp & ~segment), least = l & segment, j;
                bool ok;
                if (mode == 0) j = l - b, ok = j >= most;
                else if (mode == 1) j = l + b, ok = j <= most;
                else if (mode == 2) j = l ^ b, ok = j <= most;
                else j = least | (b & ~segment), ok = j <= most;
                uint32_t e = in[ok ? j : l] + (ok ? 65536 : 0);
                if (out[l] != e)
                    fail_msg("shfl.%s lane %d, %d, 0x%x: %u instead of %u", modes[mode], l, b, c, out[l], e);
            }
        }
}

static void votes_and_reductions(void **state) {
    (void)state;
    uint32_t in[32], ballot = 0, sum = 0, least = UINT32_MAX;
    for (uint32_t l = 0; l < 32; l++)
        in[l] = (l * 7) % 5, ballot |= (uint32_t)(in[l] > 2) << l, sum += in[l], least = in[l] < least ? in[l] : least;
    run("",
        "ld.global.u32 %r5, [%d3];\n setp.gt.u32 %p1, %r5, 2;\n vote.sync.ballot.b32 %r6, %p1, -1;\n "
        "vote.sync.any.pred %p2, %p1, -1;\n vote.sync.all.pred %p3, %p1, -1;\n selp.u32 %r7, 1, 0, %p2;\n selp.u32 "
        "%r8, 2, 0, %p3;\n add.u32 %r7, %r7, %r8;\n"
        "activemask.b32 %r9;\n match.any.sync.b32 %r10, %r5, -1;\n redux.sync.add.s32 %r11, %r5, -1;\n "
        "redux.sync.min.u32 %r12, %r5, -1;\n mul.lo.u32 %r13, %r2, 24;\n cvt.u64.u32 %d6, %r13;\n add.s64 %d6, %d2, "
        "%d6;\n"
        "st.global.v2.u32 [%d6], {%r6, %r7};\n st.global.v2.u32 [%d6+8], {%r9, %r10};\n st.global.v2.u32 [%d6+16], "
        "{%r11, %r12};",
        in, sizeof in, 32 * 24);
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t same = 0;
        for (uint32_t k = 0; k < 32; k++) same |= (uint32_t)(in[k] == in[l]) << k;
        const uint32_t *r = out + l * 6;
        assert_int_equal(r[0], ballot);
        assert_int_equal(r[1], 1);
        assert_int_equal(r[2], UINT32_MAX);
        assert_int_equal(r[3], same);
        assert_int_equal(r[4], sum);
        assert_int_equal(r[5], least);
    }
}

static float f16(uint32_t h) {
    int e = h >> 10 & 31;
    float m = (float)(h & 1023), v = e ? ldexpf(1024 + m, e - 25) : ldexpf(m, -24);
    return h & 0x8000 ? -v : v;
}

static float bf16(uint32_t h) {
    uint32_t u = h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* A and B, 16 x 16 each, in shared memory, fetched by ldmatrix, B transposed; D = A B + 1 in two tiles of 8 columns.
 * Products are summed in double in the order of k and rounded once; where one is no number, so is the sum. */
static void matrices_of_halves(void **state) {
    (void)state;
    static const char *const types[] = {"f16", "bf16"};
    static const char body[] =
        /* 32 bytes of 1024 from each lane */
        "mov.u32 %r4, s;\n mul.lo.u32 %r5, %r2, 16;\n cvt.u64.u32 %d6, %r5;\n add.s64 %d7, %d1, %d6;\n add.u32 %r6, "
        "%r4, %r5;\n"
        "cp.async.cg.shared.global [%r6], [%d7], 16;\n cp.async.commit_group;\n cp.async.cg.shared.global [%r6+512], "
        "[%d7+512], 16;\n cp.async.commit_group;\n"
        "cp.async.wait_group 1;\n cp.async.wait_group 0;\n bar.sync 0;\n"
        /* rows l % 16, halves l / 16 */
        "and.b32 %r7, %r2, 15;\n shr.u32 %r8, %r2, 4;\n mul.lo.u32 %r7, %r7, 32;\n mad.lo.u32 %r7, %r8, 16, %r7;\n "
        "add.u32 %r7, %r7, %r4;\n"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r7];\n"
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r14, %r15, %r16, %r17}, [%r7+512];\n"
        "mov.f32 %f1, 0f3f800000;\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.@.@.f32 {%f2,%f3,%f4,%f5}, {%r10,%r11,%r12,%r13}, {%r14,%r15}, "
        "{%f1,%f1,%f1,%f1};\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.@.@.f32 {%f6,%f7,%f8,%f9}, {%r10,%r11,%r12,%r13}, {%r16,%r17}, "
        "{%f1,%f1,%f1,%f1};\n"
        "shr.u32 %r18, %r2, 2;\n and.b32 %r19, %r2, 3;\n mul.lo.u32 %r18, %r18, 64;\n mad.lo.u32 %r18, %r19, 8, "
        "%r18;\n cvt.u64.u32 %d8, %r18;\n add.s64 %d8, %d2, %d8;\n"
        "st.global.v2.f32 [%d8], {%f2,%f3};\n st.global.v2.f32 [%d8+512], {%f4,%f5};\n st.global.v2.f32 [%d8+32], "
        "{%f6,%f7};\n st.global.v2.f32 [%d8+544], {%f8,%f9};";
    for (int t = 0; t < 2; t++) {
        char text[sizeof body + 16], *to = text;
        for (const char *c = body; *c; c++)
            if (*c == '@') to += sprintf(to, "%s", types[t]);
            else *to++ = *c;
        *to = 0;
        float (*value)(uint32_t) = t ? bf16 : f16;
        uint16_t in[2 * 16 * 16], nan = t ? 0x7fc0 : 0x7e00, infinity = t ? 0x7f80 : 0x7c00;
        for (int i = 0; i < 2 * 16 * 16; i++) in[i] = (uint16_t)((i * 2654435761u >> 20 & 0x83ff) | 0x3800);
        in[5 * 16 + 3] = nan, in[7 * 16 + 2] = infinity;
        run(".shared .align 16 .b8 s[1024];\n", text, in, sizeof in, 16 * 16 * 4);
        for (int r = 0; r < 16; r++)
            for (int c = 0; c < 16; c++) {
                double sum = 1;
                float e, got;
                for (int k = 0; k < 16; k++)
                    sum += (double)(r == 5 && k == 3   ? NAN
                                    : r == 7 && k == 2 ? INFINITY
                                                       : value(in[r * 16 + k])) *
                           value(in[256 + k * 16 + c]);
                e = (float)sum;
                memcpy(&got, &out[r * 16 + c], 4);
                if (e != e ? out[r * 16 + c] != 0x7fffffff : got != e)
                    fail_msg("%s, row %d, column %d: %g instead of %g", types[t], r, c, got, e);
            }
        ptxsim_stats s;
        assert_int_equal(ptxsim_get_stats("k", &s), 0);
        assert_int_equal(s.matrix_instructions, 2);
        assert_int_equal(s.global_read_bytes, sizeof in);
    }
}

/* tf32, m16n8k8, and bf16, m16n8k8, from registers by the layout of the ISA: a lane's group is lane / 4. */
static void matrices_of_tf32_and_bf16(void **state) {
    (void)state;
    float a[16 * 8], b[8 * 8];
    for (int i = 0; i < 128; i++) a[i] = (float)((i * 37) % 19 - 9) / 8;
    for (int i = 0; i < 64; i++) b[i] = (float)((i * 53) % 23 - 11) / 4;
    float in[192];
    memcpy(in, a, sizeof a), memcpy(in + 128, b, sizeof b);
    uint32_t low[192]; /* what tf32 leaves out of a float is ignored */
    memcpy(low, in, sizeof low);
    for (int i = 0; i < 192; i++) low[i] |= (uint32_t)i * 41 & 0x1fff;
    static const char fetch[] =
        "shr.u32 %r4, %r2, 2;\n and.b32 %r5, %r2, 3;\n mul.wide.u32 %d6, %r4, 32;\n mul.wide.u32 %d7, %r5, 4;\n";
    static const char store[] = "mul.wide.u32 %d7, %r5, 8;\n add.s64 %d8, %d2, %d6;\n add.s64 %d8, %d8, %d7;\n "
                                "st.global.v2.f32 [%d8], {%f12,%f13};\n st.global.v2.f32 [%d8+256], {%f14,%f15};";
    char body[3000];
    snprintf(body, sizeof body, "%s%s%s", fetch,
             "add.s64 %d8, %d1, %d6;\n add.s64 %d8, %d8, %d7;\n ld.global.u32 %r10, [%d8];\n ld.global.u32 %r11, "
             "[%d8+256];\n ld.global.u32 %r12, [%d8+16];\n ld.global.u32 %r13, [%d8+272];\n"
             "mul.wide.u32 %d9, %r5, 32;\n mul.wide.u32 %d10, %r4, 4;\n add.s64 %d9, %d9, %d10;\n add.s64 %d9, %d9, "
             "%d1;\n ld.global.u32 %r14, [%d9+512];\n ld.global.u32 %r15, [%d9+640];\n"
             "mov.f32 %f1, 0f00000000;\n mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f12,%f13,%f14,%f15}, "
             "{%r10,%r11,%r12,%r13}, {%r14,%r15}, {%f1,%f1,%f1,%f1};\n",
             store);
    for (int kind = 0; kind < 2; kind++) {
        if (kind)
            snprintf(body, sizeof body, "%s%s%s", fetch,
                     "mul.wide.u32 %d7, %r5, 8;\n add.s64 %d8, %d1, %d6;\n add.s64 %d8, %d8, %d7;\n ld.global.v2.f32 "
                     "{%f2,%f3}, [%d8];\n ld.global.v2.f32 {%f4,%f5}, [%d8+256];\n cvt.rn.bf16x2.f32 %r10, %f3, %f2;\n "
                     "cvt.rn.bf16x2.f32 %r11, %f5, %f4;\n"
                     "mul.wide.u32 %d9, %r5, 64;\n mul.wide.u32 %d10, %r4, 4;\n add.s64 %d9, %d9, %d10;\n add.s64 %d9, "
                     "%d9, %d1;\n ld.global.f32 %f6, [%d9+512];\n ld.global.f32 %f7, [%d9+544];\n cvt.rn.bf16x2.f32 "
                     "%r14, %f7, %f6;\n"
                     "mov.f32 %f1, 0f00000000;\n mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
                     "{%f12,%f13,%f14,%f15}, {%r10,%r11}, {%r14}, {%f1,%f1,%f1,%f1};\n",
                     store);
        run("", body, kind ? (void *)in : (void *)low, sizeof in, 16 * 8 * 4);
        for (int r = 0; r < 16; r++)
            for (int c = 0; c < 8; c++) {
                float e = 0, got;
                for (int k = 0; k < 8; k++) e += a[r * 8 + k] * b[k * 8 + c];
                memcpy(&got, &out[r * 8 + c], 4);
                if (got != e) fail_msg("kind %d, row %d, column %d: %g instead of %g", kind, r, c, got, e);
            }
    }
}

static void atomics(void **state) {
    (void)state;
    static const struct {
        const char *op, *type;
        uint32_t start, expected;
    } ops[] = {
        {"add", "u32", 5, 5 + 496},  {"min", "s32", 9, 0}, {"max", "u32", 3, 31}, {"and", "b32", 0xff, 0},
        {"or", "b32", 0x100, 0x11f}, {"xor", "b32", 7, 7}, {"inc", "u32", 0, 0},  {"exch", "b32", 0, 31},
    };
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        char body[300];
        uint32_t in[32] = {ops[k].start};
        snprintf(body, sizeof body,
                 "atom.global.%s.%s %%r5, [%%d1], %%r2;\n bar.sync 0;\n ld.global.u32 %%r6, [%%d1];\n st.global.u32 "
                 "[%%d4], %%r6;",
                 ops[k].op, ops[k].type);
        run("", body, in, sizeof in, sizeof in);
        if (k == 6) continue; /* depends on the order */
        if (out[3] != ops[k].expected) fail_msg("atom.%s: %u instead of %u", ops[k].op, out[3], ops[k].expected);
    }
    float in[32] = {1};
    run("",
        "cvt.rn.f32.u32 %f1, %r2;\n red.global.add.f32 [%d1], %f1;\n bar.sync 0;\n ld.global.u32 %r6, [%d1];\n "
        "st.global.u32 [%d4], %r6;",
        in, sizeof in, sizeof in);
    memcpy(in, out, 4);
    assert_float_equal(in[0], 497, 0);
    ptxsim_stats s;
    assert_int_equal(ptxsim_get_stats("k", &s), 0);
    assert_int_equal(s.float_atomics, 32);
    assert_int_equal(s.integer_atomics, 0);
}

static void conflicts_are_counted(void **state) {
    (void)state;
    static const struct {
        const char *address, *access;
        uint64_t conflicts, accesses;
    } ways[] = {
        {"mul.lo.u32 %r5, %r2, 4;", "st.shared.u32 [%r4], %r2;", 0, 1},
        {"mul.lo.u32 %r5, %r2, 8;", "st.shared.u32 [%r4], %r2;", 1, 2},
        {"mul.lo.u32 %r5, %r2, 128;", "st.shared.u32 [%r4], %r2;", 31, 32},
        {"mul.lo.u32 %r5, %r2, 132;", "st.shared.u32 [%r4], %r2;", 0, 1},
        {"mul.lo.u32 %r5, %r2, 16;", "st.shared.v4.u32 [%r4], {%r2,%r2,%r2,%r2};", 0, 4},
        {"mul.lo.u32 %r5, %r2, 64;", "st.shared.v4.u32 [%r4], {%r2,%r2,%r2,%r2};", 12, 16},
    };
    uint32_t in[32] = {0};
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        char body[300];
        snprintf(body, sizeof body,
                 "mov.u32 %%r4, s;\n %s\n add.u32 %%r4, %%r4, %%r5;\n %s\n st.global.u32 [%%d4], %%r2;",
                 ways[k].address, ways[k].access);
        run(".shared .align 16 .b8 s[8192];\n", body, in, sizeof in, sizeof in);
        ptxsim_stats s;
        assert_int_equal(ptxsim_get_stats("k", &s), 0);
        if (s.shared_conflicts != ways[k].conflicts || s.shared_accesses != ways[k].accesses)
            fail_msg("%s %s: %d conflicts of %d instead of %d of %d", ways[k].address, ways[k].access,
                     (int)s.shared_conflicts, (int)s.shared_accesses, (int)ways[k].conflicts, (int)ways[k].accesses);
        assert_int_equal(s.global_sectors, 4);
    }
}

int main(void) {
    setenv("PTXSIM_MEMORY_MIB", "256", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles),
        cmocka_unit_test(votes_and_reductions),
        cmocka_unit_test(matrices_of_halves),
        cmocka_unit_test(matrices_of_tf32_and_bf16),
        cmocka_unit_test(atomics),
        cmocka_unit_test(conflicts_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
