/* SPDX-License-Identifier: MIT
 * What dtype.def says of each type, against C's types, the conversions and the names of safetensors' documentation. */
#include "harness/check.h"

#include "ir/support/dtype.h"

#include <math.h>

static void sizes_and_names(void **state) {
    (void)state;
    static const struct {
        const char *text, *safetensors;
        int bytes;
    } expected[] = {
        [TCC_F64] = {"f64", "F64", sizeof(double)},
        [TCC_F32] = {"f32", "F32", sizeof(float)},
        [TCC_F16] = {"f16", "F16", 2},
        [TCC_BF16] = {"bf16", "BF16", 2},
        [TCC_I64] = {"i64", "I64", sizeof(int64_t)},
        [TCC_I32] = {"i32", "I32", sizeof(int32_t)},
        [TCC_U8] = {"u8", "U8", sizeof(uint8_t)},
        [TCC_BOOL] = {"bool", "BOOL", sizeof(bool)},
    };
    assert_int_equal(sizeof expected / sizeof *expected, TCC_DTYPE_COUNT);
    for (int t = 0; t < TCC_DTYPE_COUNT; t++) {
        assert_string_equal(tcc_dtype_text((tcc_dtype)t), expected[t].text);
        assert_string_equal(tcc_dtype_safetensors((tcc_dtype)t), expected[t].safetensors);
        assert_int_equal(tcc_dtype_bytes((tcc_dtype)t), expected[t].bytes);
    }
}

static bool keeps(int t, double x) { return tcc_dtype_round((tcc_dtype)t, x) == x; }

/* 1 + 2^(1 - digits) is one of a float's values and 1 + 2^-digits is not; 2^digits - 1 is the largest integer. f64 and
 * i64 are what a double can show of them. */
static void digits(void **state) {
    (void)state;
    for (int t = 0; t < TCC_DTYPE_COUNT; t++) {
        const int n = tcc_dtype_digits((tcc_dtype)t);
        const bool is_float = tcc_dtype_is_float((tcc_dtype)t);
        assert_true(keeps(t, is_float ? 1 + ldexp(1, 1 - n) : n > 53 ? ldexp(1, 62) : ldexp(1, n) - 1));
        const double more = is_float ? 1 + ldexp(1, -n) : ldexp(1, n);
        assert_true(more == 1 || !keeps(t, more));
    }
}

/* A type holds another one if it keeps the ends of its range, its smallest value and one with all digits. */
static void held(void **state) {
    (void)state;
    static const struct {
        int n;
        double values[5];
    } edges[] = {
        [TCC_F64] = {4, {0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023, 0x1p-1074, 0x1.0000000000001p0}},
        [TCC_F32] = {4, {0x1.fffffep127, -0x1.fffffep127, 0x1p-149, 0x1.000002p0}},
        [TCC_F16] = {4, {65504, -65504, 0x1p-24, 0x1.004p0}},
        [TCC_BF16] = {4, {0x1.fep127, -0x1.fep127, 0x1p-133, 0x1.02p0}},
        [TCC_I64] = {3, {0x1p62, -0x1p63, 0x1.fffffffffffffp61}},
        [TCC_I32] = {2, {2147483647, -2147483648.0}},
        [TCC_U8] = {1, {255}},
        [TCC_BOOL] = {1, {1}},
    };
    for (int from = 0; from < TCC_DTYPE_COUNT; from++)
        for (int to = 0; to < TCC_DTYPE_COUNT; to++) {
            bool all = true;
            for (int i = 0; i < edges[from].n; i++) all &= keeps(to, edges[from].values[i]);
            if (from == TCC_I64 && to == TCC_F64) all = false; /* 2^63 - 1, which is no double */
            if (tcc_dtype_holds((tcc_dtype)to, (tcc_dtype)from) != all)
                fail_msg("%s %s hold %s", tcc_dtype_text((tcc_dtype)to), all ? "does not" : "does",
                         tcc_dtype_text((tcc_dtype)from));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_names),
        cmocka_unit_test(digits),
        cmocka_unit_test(held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
