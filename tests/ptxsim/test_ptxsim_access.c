/* SPDX-License-Identifier: MIT
 * Loads and stores of every type and vector length, through every kind of memory, and what is counted of them. */
#include "driver.h"

enum { THREADS = 64, MOST_BYTES = 16 };

static uint8_t in[THREADS * MOST_BYTES], out[THREADS * MOST_BYTES];

/* Each thread takes `bytes` of a, by way of `through`, to b. %d6: its offset there. */
static void run(const char *globals, const char *body, size_t bytes) {
    static char text[16384];
    int n = 0;
    fresh_device();
    snprintf(text, sizeof text, "%s%s.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n) {\n", PTX_HEAD,
             globals);
    size_t length = strlen(text);
    snprintf(text + length, sizeof text - length,
             "  .reg .b16 %%h<20>;\n  .reg .b32 %%r<20>;\n  .reg .f32 %%f<20>;\n  .reg .b64 %%d<20>;\n  .reg .f64 "
             "%%q<20>;\n  .local .align 16 .b8 l[16];\n"
             "  ld.param.u64 %%d1, [a];\n  ld.param.u64 %%d2, [b];\n  mov.u32 %%r2, %%tid.x;\n  mul.wide.u32 %%d6, "
             "%%r2, %zu;\n  add.s64 %%d3, %%d1, %%d6;\n  add.s64 %%d4, %%d2, %%d6;\n%s\n  ret;\n}\n",
             bytes, body);
    CUfunction k = function_of(load(text), "k");
    CUdeviceptr a = device_copy(in, THREADS * bytes), b = device_alloc(THREADS * bytes);
    assert_cuda(LAUNCH(k, 1, THREADS, 0, &a, &b, &n));
    assert_cuda(cuMemcpyDtoH_v2(out, b, THREADS * bytes));
    assert_int_equal(ptxsim_report_count(), 0);
}

static void every_type_through_every_memory(void **state) {
    (void)state;
    static const char *const types[] = {"u8",  "s8",  "b8",  "u16", "s16", "b16", "u32",
                                        "s32", "b32", "f32", "u64", "s64", "b64", "f64"};
    static const char through_shared[] = ".shared .align 16 .b8 s[1024];\n";
    /* Load and store, and between them a way there and back. */
    static const struct {
        const char *globals, *load, *store, *prepare;
    } ways[] = {
        {"", "", "", ""},
        {through_shared, "shared", "[%d7]", "mov.u64 %d7, s;\n add.s64 %d7, %d7, %d6;\n"},
        {"", "local", "[%d7]", "mov.u64 %d7, l;\n"},
        {through_shared, "", "[%d7]", "mov.u64 %d8, s;\n cvta.shared.u64 %d8, %d8;\n add.s64 %d7, %d8, %d6;\n"},
        {through_shared, "shared", "[%d7]",
         "mov.u64 %d8, s;\n cvta.shared.u64 %d8, %d8;\n cvta.to.shared.u64 %d8, %d8;\n add.s64 %d7, %d8, %d6;\n"},
        {"", "", "[%d7]", "mov.u64 %d7, l;\n cvta.local.u64 %d7, %d7;\n"},
    };
    for (int i = 0; i < THREADS * MOST_BYTES; i++) in[i] = (uint8_t)(i * 37 + i / 7);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int vector = 1; vector <= 4; vector *= 2)
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                int width = atoi(types[t] + 1) / 8;
                char kind = types[t][0] == 'f' ? width == 8 ? 'q' : 'f'
                            : width == 8       ? 'd'
                            : width == 4       ? 'r'
                                               : 'h',
                     body[2048], values[64], access[16];
                if (width * vector > MOST_BYTES) continue;
                int at = snprintf(values, sizeof values, vector > 1 ? "{" : "");
                for (int v = 0; v < vector; v++)
                    at += snprintf(values + at, sizeof values - (size_t)at, "%s%%%c%d", v ? "," : "", kind, 10 + v);
                if (vector > 1) snprintf(values + at, sizeof values - (size_t)at, "}");
                snprintf(access, sizeof access, vector > 1 ? ".v%d.%s" : "%.0d.%s", vector > 1 ? vector : 0, types[t]);
                at = snprintf(body, sizeof body, "%s ld.global%s %s, [%%d3];\n", ways[w].prepare, access, values);
                if (*ways[w].store) {
                    const char *dot = *ways[w].load ? "." : "";
                    at += snprintf(body + at, sizeof body - (size_t)at, " st%s%s%s %s, %s;\n", dot, ways[w].load,
                                   access, ways[w].store, values);
                    at += snprintf(body + at, sizeof body - (size_t)at, " ld%s%s%s %s, %s;\n", dot, ways[w].load,
                                   access, values, ways[w].store);
                }
                snprintf(body + at, sizeof body - (size_t)at, " st.global%s [%%d4], %s;\n", access, values);
                size_t bytes = (size_t)(width * vector);
                run(ways[w].globals, body, bytes);
                if (memcmp(in, out, THREADS * bytes)) fail_msg("%s: other bytes", body);
                ptxsim_stats s;
                assert_int_equal(ptxsim_get_stats("k", &s), 0);
                int k = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : bytes == 8 ? 3 : 4;
                assert_int_equal(s.global_loads[k], THREADS);
                assert_int_equal(s.global_stores[k], THREADS);
                assert_int_equal(s.global_read_unique_bytes, THREADS * bytes);
                assert_int_equal(s.global_write_unique_bytes, THREADS * bytes);
                assert_int_equal(s.global_sectors, 2 * ((THREADS / 2 * bytes + 31) / 32) * 2);
                bool shared = ways[w].globals == through_shared, local = strstr(ways[w].prepare, "l;") != NULL;
                assert_int_equal(s.shared_read_bytes, shared ? THREADS * bytes : 0);
                assert_int_equal(s.shared_write_bytes, shared ? THREADS * bytes : 0);
                assert_int_equal(s.local_read_bytes, local ? THREADS * bytes : 0);
                assert_int_equal(s.local_write_bytes, local ? THREADS * bytes : 0);
            }
}

/* Into a wider register a value comes extended by its sign, if its type has one. */
static void narrow_values_are_extended(void **state) {
    (void)state;
    static const struct {
        const char *load;
        int width;
        bool is_signed;
    } loads[] = {{"u8", 1, false}, {"s8", 1, true},   {"u16", 2, false},
                 {"s16", 2, true}, {"u32", 4, false}, {"s32", 4, true}};
    for (int i = 0; i < THREADS * 8; i++) in[i] = (uint8_t)(i * 57 + 130);
    for (size_t k = 0; k < sizeof loads / sizeof *loads; k++) {
        char body[200];
        snprintf(body, sizeof body, "ld.global.%s %%d10, [%%d3];\n st.global.u64 [%%d4], %%d10;", loads[k].load);
        run("", body, 8);
        for (int i = 0; i < THREADS; i++) {
            uint64_t e = 0, got;
            memcpy(&e, in + i * 8, (size_t)loads[k].width);
            int shift = 64 - 8 * loads[k].width;
            if (loads[k].is_signed) e = (uint64_t)((int64_t)(e << shift) >> shift);
            memcpy(&got, out + i * 8, 8);
            if (got != e)
                fail_msg("ld.global.%s: 0x%llx instead of 0x%llx", loads[k].load, (unsigned long long)got,
                         (unsigned long long)e);
        }
    }
}

/* Blocks that own a byte each of one word are no race; in test_ptxsim_faults.c blocks are that share one. */
static void bytes_of_a_word_are_apart(void **state) {
    (void)state;
    int n = 0;
    fresh_device();
    CUfunction k =
        function_of(load(PTX_HEAD KERNEL("apart", "cvt.u64.u32 %d5, %r3;\n add.s64 %d5, %d5, %d1;\n ld.global.u8 %r4, "
                                                  "[%d5];\n add.u32 %r4, %r4, 1;\n st.global.u8 [%d5], %r4;")),
                    "apart");
    uint8_t data[64] = {0};
    CUdeviceptr a = device_copy(data, sizeof data);
    assert_cuda(LAUNCH(k, 64, 1, 0, &a, &a, &n));
    assert_cuda(cuMemcpyDtoH_v2(data, a, sizeof data));
    for (size_t i = 0; i < sizeof data; i++) assert_int_equal(data[i], 1);
    assert_int_equal(ptxsim_report_count(), 0);
}

/* What the rest of the counters says of a kernel whose numbers are known. */
static void other_counts(void **state) {
    (void)state;
    int n = 0;
    fresh_device();
    CUfunction k =
        function_of(load(PTX_HEAD ".shared .align 16 .b8 s[512];\n" KERNEL(
                        "count", "mov.u32 %r4, s;\n add.u32 %r4, %r4, %r2;\n add.u32 %r4, %r4, %r2;\n add.u32 %r4, "
                                 "%r4, %r2;\n add.u32 %r4, %r4, %r2;\n st.shared.u32 [%r4], %r2;\n bar.sync 0;\n"
                                 "setp.lt.u32 %p1, %r2, 16;\n @!%p1 bra $end;\n ld.global.u32 %r5, [%d1];\n "
                                 "red.global.add.u32 [%d1+64], 1;\n$end:")),
                    "count");
    uint32_t data[32] = {0};
    CUdeviceptr a = device_copy(data, sizeof data);
    ptxsim_reset_stats();
    for (int run = 0; run < 2; run++) assert_cuda(LAUNCH(k, 3, 64, 0, &a, &a, &n));
    assert_cuda(cuCtxSynchronize());
    ptxsim_stats s, all;
    assert_int_equal(ptxsim_get_stats("count", &s), 0);
    assert_int_equal(ptxsim_get_stats(NULL, &all), 0);
    assert_memory_equal(&s, &all, sizeof s);
    assert_int_equal(s.launches, 2);
    assert_int_equal(s.blocks, 6);
    enum {
        BLOCKS = 6,
        HEAD = 10,
        BODY = 9,
        LOAD = 2,
        END = 1
    }; /* of the first warp; the second leaves out the loads */
    assert_int_equal(s.warp_instructions, BLOCKS * (2 * (HEAD + BODY + END) + LOAD));
    assert_int_equal(s.lane_instructions,
                     BLOCKS * (64 * (HEAD + BODY - 1 + END) + 48 + 16 * LOAD)); /* the branch: lanes that take it */
    assert_int_equal(s.barriers, BLOCKS * 2);
    assert_int_equal(s.shared_bytes, 512);
    assert_int_equal(s.shared_accesses, BLOCKS * 2);
    assert_int_equal(s.shared_conflicts, 0);
    assert_int_equal(s.integer_atomics, BLOCKS * 16);
    assert_int_equal(s.global_read_bytes, BLOCKS * 16 * 8);
    assert_int_equal(s.global_write_bytes, BLOCKS * 16 * 4);
    assert_int_equal(s.global_read_unique_bytes, 2 * 4); /* by a launch */
    ptxsim_reset_stats();
    assert_int_equal(ptxsim_get_stats("count", &s), -1);
}

int main(void) {
    setenv("PTXSIM_MEMORY_MIB", "256", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type_through_every_memory),
                                       cmocka_unit_test(narrow_values_are_extended),
                                       cmocka_unit_test(bytes_of_a_word_are_apart), cmocka_unit_test(other_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
