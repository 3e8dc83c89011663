/* SPDX-License-Identifier: MIT
 * Threads that run independently: what .sync instructions promise holds for every seed, what lockstep alone gives does
 * not, threads that wait for others of their warp come to an end, and those that wait for nobody are reported. */
#include "driver.h"

enum { LANES = 32, SEEDS = 40 };

static uint32_t out[256];

/* Launches one block on a fresh device: `lines` goes into KERNEL, a has 64 words 0, 1, 2..., b has a word a thread. */
static CUresult run_globals(const char *globals, const char *lines, const char *schedule, unsigned threads) {
    static char text[16384];
    static const char template[] = KERNEL("k", "@");
    uint32_t in[64];
    int n = 0;
    setenv("PTXSIM_SCHEDULE", schedule, 1);
    fresh_device();
    const char *at = strchr(template, '@');
    snprintf(text, sizeof text, "%s%s%.*s%s%s", PTX_HEAD, globals, (int)(at - template), template, lines, at + 1);
    CUfunction k = function_of(load(text), "k");
    for (uint32_t i = 0; i < 64; i++) in[i] = i;
    CUdeviceptr a = device_copy(in, sizeof in), b = device_alloc(threads * 4);
    assert_cuda(cuMemsetD8_v2(b, 0, threads * 4));
    assert_cuda(LAUNCH(k, 1, threads, 0, &a, &b, &n));
    CUresult r = cuCtxSynchronize();
    if (!r) assert_cuda(cuMemcpyDtoH_v2(out, b, threads * 4));
    return r;
}

static CUresult run(const char *lines, const char *schedule, unsigned threads) {
    return run_globals(".shared .align 4 .b8 s[256];\n", lines, schedule, threads);
}

static const char *seeded(int seed) {
    static char text[32];
    snprintf(text, sizeof text, "independent:%d", seed);
    return text;
}

/* A branch parts the warp (odd lanes go a longer way), then comes what is tested. */
#define PARTED                                                                                                    \
    "and.b32 %r5, %r2, 1;\n setp.eq.u32 %p1, %r5, 1;\n @%p1 bra $odd;\n bra $join;\n$odd:\n mov.u32 %r6, %r2;\n " \
    "mul.lo.u32 %r6, %r6, %r6;\n mov.u32 %r6, %r2;\n$join:\n"

/* Each as every seed must have it; `word` is what thread t has in b. */
static const struct {
    const char *name, *globals, *lines;
    unsigned threads;
    uint32_t times, plus; /* b[t] = times * f(t) + plus with f(t) = t ^ 1 */
} promises[] = {
    {"shfl.sync of the whole warp", "", PARTED "shfl.sync.bfly.b32 %r7, %r2, 1, 31, -1;\n st.global.u32 [%d4], %r7;",
     32, 1, 0},
    {"shfl.sync of pairs, each in a loop of its own length", "",
     "shr.u32 %r5, %r2, 1;\n mov.u32 %r6, 0;\n$more:\n add.u32 %r6, %r6, 1;\n setp.lt.u32 %p1, %r6, %r5;\n @%p1 bra "
     "$more;\n and.b32 %r7, %r2, 30;\n mov.u32 %r8, 3;\n shl.b32 %r8, %r8, %r7;\n"
     "shfl.sync.bfly.b32 %r9, %r2, 1, 31, %r8;\n st.global.u32 [%d4], %r9;",
     32, 1, 0},
    {"memory between bar.warp.sync", ".shared .align 4 .b8 s[256];\n",
     PARTED "mov.u32 %r7, s;\n shl.b32 %r8, %r2, 2;\n add.u32 %r9, %r7, %r8;\n st.shared.u32 [%r9], %r2;\n "
            "bar.warp.sync -1;\n xor.b32 %r8, %r8, 4;\n add.u32 %r9, %r7, %r8;\n ld.shared.u32 %r10, [%r9];\n "
            "st.global.u32 [%d4], %r10;",
     32, 1, 0},
    {"bar.warp.sync at two places", ".shared .align 4 .b8 s[256];\n",
     "mov.u32 %r7, s;\n shl.b32 %r8, %r2, 2;\n add.u32 %r9, %r7, %r8;\n st.shared.u32 [%r9], %r2;\n xor.b32 %r8, %r8, "
     "4;\n add.u32 %r9, %r7, %r8;\n and.b32 %r5, %r2, 1;\n setp.eq.u32 %p1, %r5, 1;\n @%p1 bra $odd;\n bar.warp.sync "
     "-1;\n ld.shared.u32 %r10, [%r9];\n bra $join;\n$odd:\n bar.warp.sync -1;\n ld.shared.u32 %r10, [%r9];\n$join:\n "
     "st.global.u32 [%d4], %r10;",
     32, 1, 0},
    {"memory between bar.sync", ".shared .align 4 .b8 s[512];\n",
     PARTED
     "mov.u32 %r7, s;\n shl.b32 %r8, %r2, 2;\n add.u32 %r9, %r7, %r8;\n st.shared.u32 [%r9], %r2;\n bar.sync 0;\n "
     "xor.b32 %r8, %r8, 4;\n add.u32 %r9, %r7, %r8;\n ld.shared.u32 %r10, [%r9];\n st.global.u32 [%d4], %r10;",
     128, 1, 0},
    {"barrier.sync at two places", ".shared .align 4 .b8 s[512];\n",
     "mov.u32 %r7, s;\n shl.b32 %r8, %r2, 2;\n add.u32 %r9, %r7, %r8;\n st.shared.u32 [%r9], %r2;\n xor.b32 %r8, %r8, "
     "4;\n add.u32 %r9, %r7, %r8;\n and.b32 %r5, %r2, 1;\n setp.eq.u32 %p1, %r5, 1;\n @%p1 bra $odd;\n barrier.sync "
     "1;\n ld.shared.u32 %r10, [%r9];\n bra $join;\n$odd:\n barrier.sync 1;\n ld.shared.u32 %r10, [%r9];\n$join:\n "
     "st.global.u32 [%d4], %r10;",
     128, 1, 0},
    {"shfl.sync at two places", "",
     "and.b32 %r5, %r2, 1;\n mul.lo.u32 %r6, %r2, 7;\n mul.lo.u32 %r11, %r2, 7;\n setp.eq.u32 %p1, %r5, 1;\n @%p1 bra "
     "$odd;\n shfl.sync.bfly.b32 %r7|%p2, %r6, 1, 31, -1;\n selp.u32 %r8, 1, 0, %p2;\n bra $join;\n$odd:\n "
     "shfl.sync.bfly.b32 %r7, %r11, 1, 31, -1;\n mov.u32 %r8, 1;\n$join:\n add.u32 %r7, %r7, %r8;\n st.global.u32 "
     "[%d4], %r7;",
     32, 7, 1},
    {"votes at two places", "",
     "and.b32 %r5, %r2, 1;\n setp.ge.u32 %p3, %r2, 8;\n setp.ge.u32 %p4, %r2, 9;\n setp.eq.u32 %p1, %r5, 1;\n @%p1 bra "
     "$odd;\n vote.sync.ballot.b32 %r7, %p3, -1;\n bra $join;\n$odd:\n vote.sync.ballot.b32 %r7, %p4, -1;\n$join:\n "
     "popc.b32 %r7, %r7;\n xor.b32 %r8, %r2, 1;\n mad.lo.u32 %r7, %r7, 100, %r8;\n st.global.u32 [%d4], %r7;",
     32, 1, 2400},
    {"asynchronous copies of each thread's own", ".shared .align 4 .b8 s[256];\n",
     PARTED "mov.u32 %r7, s;\n shl.b32 %r8, %r2, 2;\n add.u32 %r9, %r7, %r8;\n @%p1 cp.async.commit_group;\n"
            "cp.async.ca.shared.global [%r9], [%d3], 4;\n cp.async.commit_group;\n @!%p1 cp.async.wait_group 0;\n @%p1 "
            "cp.async.wait_group 0;\n bar.warp.sync -1;\n xor.b32 %r8, %r8, 4;\n add.u32 %r9, %r7, %r8;\n "
            "ld.shared.u32 %r10, [%r9];\n st.global.u32 [%d4], %r10;",
     32, 1, 0},
    {"a shuffle in a function that the parted call",
     ".func (.param .b32 r) f(.param .b32 x) {\n .reg .b32 %a<4>;\n "
     "ld.param.b32 %a1, [x];\n shfl.sync.bfly.b32 %a2, %a1, 1, 31, -1;\n mad.lo.u32 %a3, %a2, 3, 5;\n st.param.b32 "
     "[r], "
     "%a3;\n ret;\n}\n",
     PARTED "{\n .param .b32 x;\n st.param.b32 [x], %r2;\n .param .b32 r;\n call.uni (r), f, (x);\n ld.param.b32 %r7, "
            "[r];\n }\n st.global.u32 [%d4], %r7;",
     32, 3, 5},
    {"a vote, with lanes that have exited", "",
     "setp.ge.u32 %p2, %r2, 32;\n @%p2 exit;\n" PARTED
     "setp.ge.u32 %p3, %r2, 0;\n vote.sync.ballot.b32 %r7, %p3, -1;\n "
     "popc.b32 %r7, %r7;\n xor.b32 %r8, %r2, 1;\n mad.lo.u32 %r7, %r7, 100, %r8;\n st.global.u32 [%d4], %r7;",
     32, 1, 3200},
};

static void promises_hold(void **state) {
    (void)state;
    for (size_t p = 0; p < sizeof promises / sizeof *promises; p++)
        for (int seed = 0; seed < SEEDS; seed++) {
            const char *schedule = seeded(seed);
            CUresult r = run_globals(promises[p].globals, promises[p].lines, schedule, promises[p].threads);
            if (r) fail_msg("%s, %s: %d, %s", promises[p].name, schedule, r, ptxsim_last_report());
            for (uint32_t t = 0; t < promises[p].threads; t++)
                if (out[t] != promises[p].times * (t ^ 1) + promises[p].plus)
                    fail_msg("%s, %s: thread %u has %u", promises[p].name, schedule, t, out[t]);
        }
}

/* Threads write to global memory in two paths and read their neighbours' words where the paths join. In lockstep the
 * words are there; nothing promises it but a bar.warp.sync. */
static void missing_syncs_are_found(void **state) {
    (void)state;
    static const char *const syncs[] = {"", "bar.warp.sync -1;\n"};
    for (int s = 0; s < 2; s++) {
        char lines[1024];
        int wrong = 0;
        snprintf(lines, sizeof lines,
                 "and.b32 %%r5, %%r2, 1;\n setp.eq.u32 %%p1, %%r5, 1;\n mul.lo.u32 %%r6, %%r2, 10;\n @%%p1 bra $odd;\n "
                 "st.global.u32 [%%d3], %%r6;\n bra $join;\n$odd:\n st.global.u32 [%%d3], %%r6;\n$join:\n %s xor.b32 "
                 "%%r7, %%r2, 1;\n mul.wide.u32 %%d6, %%r7, 4;\n add.s64 %%d6, %%d1, %%d6;\n ld.global.u32 %%r8, "
                 "[%%d6];\n st.global.u32 [%%d4], %%r8;",
                 syncs[s]);
        assert_int_equal(run(lines, "lockstep", LANES), 0);
        for (uint32_t t = 0; t < LANES; t++) assert_int_equal(out[t], 10 * (t ^ 1));
        for (int seed = 0; seed < SEEDS; seed++) {
            assert_int_equal(run(lines, seeded(seed), LANES), 0);
            for (uint32_t t = 0; t < LANES; t++) wrong += out[t] != 10 * (t ^ 1);
        }
        if ((wrong > 0) == (s > 0)) fail_msg("%s: %d words are wrong", s ? "with bar.warp.sync" : "without", wrong);
    }
}

/* Without any branch: threads of a warp that exchange words of global memory with nothing between. */
static void threads_part_anywhere(void **state) {
    (void)state;
    int wrong = 0;
    for (int seed = 0; seed < 400 && !wrong; seed++) {
        assert_int_equal(
            run("mul.lo.u32 %r6, %r2, 10;\n st.global.u32 [%d3], %r6;\n xor.b32 %r7, %r2, 1;\n mul.wide.u32 "
                "%d6, %r7, 4;\n add.s64 %d6, %d1, %d6;\n ld.global.u32 %r8, [%d6];\n st.global.u32 [%d4], "
                "%r8;",
                seeded(seed), LANES),
            0);
        for (uint32_t t = 0; t < LANES; t++) wrong += out[t] != 10 * (t ^ 1);
    }
    assert_true(wrong > 0);
}

/* Each thread takes a lock that another thread of its warp may have: in lockstep that one never gets to give it back.
 */
static void threads_of_a_warp_may_wait_for_each_other(void **state) {
    (void)state;
    static const char lines[] =
        "mov.u32 %r7, s;\n setp.eq.u32 %p1, %r2, 0;\n @%p1 st.shared.u32 [%r7], 0;\n @%p1 st.shared.u32 [%r7+4], 0;\n "
        "bar.sync 0;\n$again:\n atom.shared.cas.b32 %r8, [%r7], 0, 1;\n setp.ne.u32 %p2, %r8, 0;\n @%p2 bra $again;\n "
        "ld.volatile.shared.u32 %r9, [%r7+4];\n add.u32 %r9, %r9, 1;\n st.volatile.shared.u32 [%r7+4], %r9;\n "
        "atom.shared.exch.b32 %r8, [%r7], 0;\n st.global.u32 [%d4], %r9;";
    setenv("PTXSIM_LIMIT", "1000000", 1);
    setenv("PTXSIM_CHECKS", "-race", 1); /* no barrier orders what the lock orders */
    assert_int_equal(run(lines, "lockstep", LANES), CUDA_ERROR_LAUNCH_TIMEOUT);
    for (int seed = 0; seed < SEEDS; seed++) {
        bool seen[65] = {false};
        assert_cuda_is(run(lines, seeded(seed), 64), 0);
        for (int t = 0; t < 64; t++) {
            assert_in_range(out[t], 1, 64);
            assert_false(seen[out[t]]);
            seen[out[t]] = true;
        }
    }
    unsetenv("PTXSIM_LIMIT"), unsetenv("PTXSIM_CHECKS");
}

static void who_waits_for_ever_is_reported(void **state) {
    (void)state;
    static const struct {
        const char *lines, *report;
    } stuck[] = {
        {"setp.lt.u32 %p1, %r2, 16;\n @%p1 bra $half;\n bar.sync 0;\n bra $end;\n$half:\n shfl.sync.idx.b32 %r6, %r2, "
         "0, "
         "31, -1;\n$end:",
         "threads wait for ever for others; warp 0: lanes 0x"},
        {"setp.lt.u32 %p1, %r2, 16;\n @%p1 bra $half;\n bar.sync 0;\n bra $end;\n$half:\n bar.sync 0;\n$end:",
         "for ever"},
        {"setp.lt.u32 %p1, %r2, 32;\n @%p1 bar.sync 0;", "at the barrier of line"},
    };
    for (size_t k = 0; k < sizeof stuck / sizeof *stuck; k++)
        for (int seed = 0; seed < 4; seed++) {
            assert_cuda_is(run(stuck[k].lines, seeded(seed), 64), CUDA_ERROR_LAUNCH_FAILED);
            assert_report(stuck[k].report);
        }
}

/* Which threads are together somewhere is drawn: the same for a seed, on any number of host threads. */
static void order_comes_from_the_seed(void **state) {
    (void)state;
    static const char lines[] =
        "and.b32 %r5, %r2, 3;\n$more:\n add.u32 %r6, %r6, 1;\n setp.lt.u32 %p1, %r6, %r5;\n @%p1 bra $more;\n "
        "atom.global.add.u32 %r7, [%d1], 1;\n st.global.u32 [%d4], %r7;";
    uint32_t first[128];
    char text[sizeof lines + 32];
    int others = 0;
    snprintf(text, sizeof text, "mov.u32 %%r6, 0;\n%s", lines);
    for (int k = 0; k < 8; k++) {
        setenv("PTXSIM_THREADS", k & 1 ? "1" : "3", 1);
        assert_int_equal(run(text, seeded(k < 4 ? 5 : k), 128), 0);
        if (k == 0) memcpy(first, out, sizeof first);
        else if (k < 4) assert_memory_equal(first, out, sizeof first);
        else others += memcmp(first, out, sizeof first) != 0;
    }
    unsetenv("PTXSIM_THREADS");
    assert_true(others > 0);
}

int main(void) {
    setenv("PTXSIM_MEMORY_MIB", "64", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promises_hold),
        cmocka_unit_test(missing_syncs_are_found),
        cmocka_unit_test(threads_part_anywhere),
        cmocka_unit_test(threads_of_a_warp_may_wait_for_each_other),
        cmocka_unit_test(who_waits_for_ever_is_reported),
        cmocka_unit_test(order_comes_from_the_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
