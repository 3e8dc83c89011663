/* SPDX-License-Identifier: MIT
 * The interpreter on leaves, random draws and element-by-element ops, by hand-computed values. */
#include "harness/check.h"
#include "harness/evaluate.h"
#include "ir/support/philox.h"

#include <math.h>
#include <stdio.h>

static void test_leaves(void **state) {
    (void)state;
    EXPECT("%0 = constant {values=[0x1.8p+0]} : f32[2,2]", 1.5, 1.5, 1.5, 1.5);
    EXPECT("%0 = constant {values=[1, 2, 3]} : i64[3]", 1, 2, 3);
    EXPECT("%0 = constant {values=[0.1]} : f32[]", (double)0.1f);
    EXPECT("%0 = constant {values=[0.1]} : f64[]", 0.1);
    EXPECT("%0 = constant {values=[1, 0]} : bool[2]", 1, 0);
    EXPECT("%0 = iota {axis=1} : i32[2,3]", 0, 1, 2, 0, 1, 2);
    EXPECT("%0 = iota : f32[2,3]", 0, 0, 0, 1, 1, 1);
}

/* Words of Philox for key 0 and counter 0, as its authors publish them. */
static void test_random_bits(void **state) {
    (void)state;
    const uint32_t words[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    EXPECT("%0 = constant {values=[0]} : i64[2]\n%1 = rng_bits(%0) : i32[2,2]", (int32_t)words[0], (int32_t)words[1],
           (int32_t)words[2], (int32_t)words[3]);
    EXPECT("%0 = constant {values=[0]} : i64[2]\n%1 = rng_uniform(%0) : f32[3]", ldexp(words[0] >> 8, -24),
           ldexp(words[1] >> 8, -24), ldexp(words[2] >> 8, -24));
    double radius = sqrt(-2 * log(ldexp((double)(words[2] >> 8) + 1, -24))),
           angle = 2 * M_PI * ldexp(words[3] >> 8, -24);
    tcc_value y = evaluate_lines("%0 = constant {values=[0]} : i64[2]\n%1 = rng_normal(%0) : f32[4]");
    assert_true(fabs(y.f[2] - radius * cos(angle)) < 1e-15);
    assert_true(fabs(y.f[3] - radius * sin(angle)) < 1e-15);
    tcc_value_free(&y);
}

/* The place of an element, the draw's id, the step and both words of the seed all count. */
static void test_random_counter(void **state) {
    (void)state;
    const uint32_t key[2] = {0x55667788, 0x11223}, counter[4] = {2, 0, 77, 5};
    uint32_t words[4];
    tcc_philox4x32(key, counter, words);
    char text[256];
    snprintf(text, sizeof text, "%%0 = constant {values=[%llu, 5]} : i64[2]\n%%1 = rng_bits(%%0) {id=77} : i32[5,2]",
             (unsigned long long)key[1] << 32 | key[0]);
    tcc_value y = evaluate_lines(text);
    assert_int_equal(y.i[8], (int32_t)words[0]);
    assert_int_equal(y.i[9], (int32_t)words[1]);
    tcc_value_free(&y);
}

static void test_random_moments(void **state) {
    (void)state;
    const int count = 40000;
    tcc_value u = evaluate_lines("%0 = constant {values=[1, 2]} : i64[2]\n%1 = rng_uniform(%0) : f32[40000]");
    tcc_value z = evaluate_lines("%0 = constant {values=[1, 2]} : i64[2]\n%1 = rng_normal(%0) : f32[40000]");
    double mean_u = 0, mean_z = 0, square_z = 0, neighbours = 0;
    for (int i = 0; i < count; i++) {
        assert_true(u.f[i] >= 0 && u.f[i] < 1 && isfinite(z.f[i]));
        mean_u += u.f[i] / count, mean_z += z.f[i] / count, square_z += z.f[i] * z.f[i] / count;
        if (i > 0) neighbours += z.f[i] * z.f[i - 1] / count;
    }
    /* Five standard errors of each mean. */
    assert_true(fabs(mean_u - 0.5) < 5 * sqrt(1.0 / 12 / count));
    assert_true(fabs(mean_z) < 5 / sqrt(count));
    assert_true(fabs(square_z - 1) < 5 * sqrt(2.0 / count));
    assert_true(fabs(neighbours) < 5 / sqrt(count));
    tcc_value_free(&u);
    tcc_value_free(&z);
}

#define F "%0 = constant {values=[-1.5, 0, 0.25, 2]} : f64[4]\n%1 = "
#define SPECIAL "%0 = constant {values=[nan, inf, -inf, -0]} : f64[4]\n%1 = "

static void test_unary(void **state) {
    (void)state;
    EXPECT(F "neg(%0) : f64[4]", 1.5, -0.0, -0.25, -2);
    EXPECT(F "abs(%0) : f64[4]", 1.5, 0, 0.25, 2);
    EXPECT(F "sign(%0) : f64[4]", -1, 0, 1, 1);
    EXPECT(SPECIAL "sign(%0) : f64[4]", NAN, 1, -1, 0);
    EXPECT(SPECIAL "neg(%0) : f64[4]", NAN, -INFINITY, INFINITY, 0);
    EXPECT_NEAR(1e-15, F "exp(%0) : f64[4]", 0.22313016014842982, 1, 1.2840254166877414, 7.38905609893065);
    EXPECT_NEAR(1e-15, F "expm1(%0) : f64[4]", -0.7768698398515702, 0, 0.2840254166877415, 6.38905609893065);
    EXPECT_NEAR(1e-15, F "log(%0) : f64[4]", NAN, -INFINITY, -1.3862943611198906, 0.6931471805599453);
    EXPECT_NEAR(1e-15, F "log1p(%0) : f64[4]", NAN, 0, 0.22314355131420976, 1.0986122886681098);
    EXPECT_NEAR(1e-15, F "sqrt(%0) : f64[4]", NAN, 0, 0.5, 1.4142135623730951);
    EXPECT_NEAR(1e-15, F "rsqrt(%0) : f64[4]", NAN, INFINITY, 2, 0.7071067811865475);
    EXPECT_NEAR(1e-15, F "sin(%0) : f64[4]", -0.9974949866040544, 0, 0.24740395925452294, 0.9092974268256817);
    EXPECT_NEAR(1e-15, F "cos(%0) : f64[4]", 0.0707372016677029, 1, 0.9689124217106447, -0.4161468365471424);
    EXPECT_NEAR(1e-15, F "atan(%0) : f64[4]", -0.98279372324732907, 0, 0.24497866312686414, 1.1071487177940904);
    EXPECT_NEAR(1e-15, F "sinh(%0) : f64[4]", -2.1292794550948173, 0, 0.25261231680816831, 3.6268604078470186);
    EXPECT_NEAR(1e-15, F "cosh(%0) : f64[4]", 2.3524096152432472, 1, 1.0314130998795732, 3.7621956910836314);
    EXPECT_NEAR(1e-15, F "tanh(%0) : f64[4]", -0.9051482536448664, 0, 0.24491866240370913, 0.9640275800758169);
    EXPECT_NEAR(1e-15, F "sigmoid(%0) : f64[4]", 0.18242552380635635, 0.5, 0.5621765008857981, 0.8807970779778823);
    EXPECT_NEAR(1e-15, F "erf(%0) : f64[4]", -0.9661051464753108, 0, 0.2763263901682369, 0.9953222650189527);
    EXPECT(SPECIAL "sigmoid(%0) : f64[4]", NAN, 1, 0, 0.5);
    EXPECT("%0 = constant {values=[-1.5, -0.5, 0.5, 1.5, 2.5]} : f64[5]\n%1 = floor(%0) : f64[5]", -2, -1, 0, 1, 2);
    EXPECT("%0 = constant {values=[-1.5, -0.5, 0.5, 1.5, 2.5]} : f64[5]\n%1 = ceil(%0) : f64[5]", -1, 0, 1, 2, 3);
    EXPECT("%0 = constant {values=[-1.5, -0.5, 0.5, 1.5, 2.5]} : f64[5]\n%1 = round(%0) : f64[5]", -2, 0, 0, 2, 2);
    EXPECT(SPECIAL "isfinite(%0) : bool[4]", 0, 0, 0, 1);
}

static void test_integers_wrap(void **state) {
    (void)state;
    EXPECT("%0 = constant {values=[-2147483648, 5]} : i32[2]\n%1 = neg(%0) : i32[2]", -2147483648.0, -5);
    EXPECT("%0 = constant {values=[-2147483648, -5]} : i32[2]\n%1 = abs(%0) : i32[2]", -2147483648.0, 5);
    EXPECT("%0 = constant {values=[-7, 0, 9]} : i32[3]\n%1 = sign(%0) : i32[3]", -1, 0, 1);
    EXPECT("%0 = constant {values=[200, 1]} : u8[2]\n%1 = add(%0, %0) : u8[2]", 144, 2);
    EXPECT("%0 = constant {values=[2147483647]} : i32[1]\n%1 = mul(%0, %0) : i32[1]", 1);
    EXPECT("%0 = constant {values=[0, 1]} : u8[2]\n%1 = not(%0) : u8[2]", 255, 254);
    EXPECT("%0 = constant {values=[0, 1]} : bool[2]\n%1 = not(%0) : bool[2]", 1, 0);
}

#define TWO                                                                                        \
    "%0 = constant {values=[7, -7, 7, -7, 3]} : f64[5]\n%1 = constant {values=[2, 2, -2, -2, 0]} " \
    ": f64[5]\n%2 = "
#define INTS                                                                                    \
    "%0 = constant {values=[7, -7, 7, -2147483648, 3]} : i32[5]\n%1 = constant {values=[2, 2, " \
    "-2, -1, 0]} : i32[5]\n%2 = "
#define SHIFTS                                                                                            \
    "%0 = constant {values=[-7, 1, -9, 5, -3, -2147483648]} : i32[6]\n%1 = constant {values=[1, 31, 32, " \
    "-1, 0, 1]} : i32[6]\n%2 = "
#define NANS                                                                             \
    "%0 = constant {values=[nan, 1, 2]} : f64[3]\n%1 = constant {values=[1, nan, 3]} : " \
    "f64[3]\n%2 = "

static void test_binary(void **state) {
    (void)state;
    EXPECT(TWO "add(%0, %1) : f64[5]", 9, -5, 5, -9, 3);
    EXPECT(TWO "sub(%0, %1) : f64[5]", 5, -9, 9, -5, 3);
    EXPECT(TWO "mul(%0, %1) : f64[5]", 14, -14, -14, 14, 0);
    EXPECT(TWO "div(%0, %1) : f64[5]", 3.5, -3.5, -3.5, 3.5, INFINITY);
    EXPECT(TWO "rem(%0, %1) : f64[5]", 1, -1, 1, -1, NAN);
    EXPECT(TWO "pow(%0, %1) : f64[5]", 49, 49, 1.0 / 49, 1.0 / 49, 1);
    EXPECT(TWO "max(%0, %1) : f64[5]", 7, 2, 7, -2, 3);
    EXPECT(TWO "min(%0, %1) : f64[5]", 2, -7, -2, -7, 0);
    EXPECT(NANS "max(%0, %1) : f64[3]", NAN, NAN, 3);
    EXPECT(NANS "min(%0, %1) : f64[3]", NAN, NAN, 2);
    EXPECT(INTS "div(%0, %1) : i32[5]", 3, -3, -3, -2147483648.0, 0);
    EXPECT(INTS "rem(%0, %1) : i32[5]", 1, -1, 1, 0, 0);
    EXPECT(INTS "max(%0, %1) : i32[5]", 7, 2, 7, -1, 3);
    EXPECT(INTS "and(%0, %1) : i32[5]", 2, 0, 6, -2147483648.0, 0);
    EXPECT(INTS "or(%0, %1) : i32[5]", 7, -5, -1, -1, 3);
    EXPECT(INTS "xor(%0, %1) : i32[5]", 5, -5, -7, 2147483647, 3);
    EXPECT(SHIFTS "shift_left(%0, %1) : i32[6]", -14, -2147483647 - 1, 0, 0, -3, 0);
    EXPECT(SHIFTS "shift_right(%0, %1) : i32[6]", -4, 0, -1, 0, -3, -1073741824);
    EXPECT("%0 = constant {values=[200, 3]} : u8[2]\n%1 = constant {values=[1, 8]} : u8[2]\n"
           "%2 = shift_left(%0, %1) : u8[2]",
           144, 0);
    EXPECT("%0 = constant {values=[-5, 5]} : i64[2]\n%1 = constant {values=[64, 62]} : i64[2]\n"
           "%2 = shift_right(%0, %1) : i64[2]",
           -1, 0);
}

static void test_comparisons(void **state) {
    (void)state;
    EXPECT(TWO "eq(%0, %1) : bool[5]", 0, 0, 0, 0, 0);
    EXPECT(TWO "lt(%0, %1) : bool[5]", 0, 1, 0, 1, 0);
    EXPECT(INTS "ge(%0, %1) : bool[5]", 1, 0, 1, 0, 1);
    EXPECT(NANS "eq(%0, %0) : bool[3]", 0, 1, 1);
    EXPECT(NANS "ne(%0, %0) : bool[3]", 1, 0, 0);
    EXPECT(NANS "le(%0, %1) : bool[3]", 0, 0, 1);
    EXPECT(NANS "gt(%1, %0) : bool[3]", 0, 0, 1);
    EXPECT("%0 = constant {values=[1, 0]} : bool[2]\n%1 = constant {values=[5, 6]} : f32[2]\n"
           "%2 = constant {values=[7, 8]} : f32[2]\n%3 = select(%0, %1, %2) : f32[2]",
           5, 8);
    EXPECT("%0 = constant {values=[0]} : bool[1]\n%1 = constant {values=[5]} : i32[1]\n"
           "%2 = constant {values=[-7]} : i32[1]\n%3 = select(%0, %1, %2) : i32[1]",
           -7);
}

#define WIDE "%0 = constant {values=[-1.9, 1.9, 300, -3e9, 1e30, nan, -0]} : f64[7]\n%1 = "

static void test_casts(void **state) {
    (void)state;
    EXPECT(WIDE "cast(%0) : i32[7]", -1, 1, 300, -2147483648.0, 2147483647, 0, 0);
    EXPECT(WIDE "cast(%0) : u8[7]", 0, 1, 255, 0, 255, 0, 0);
    EXPECT(WIDE "cast(%0) : bool[7]", 1, 1, 1, 1, 1, 1, 0);
    EXPECT(WIDE "cast(%0) : f32[7]", (double)-1.9f, (double)1.9f, 300, -3e9, (double)1e30f, NAN, 0);
    EXPECT("%0 = constant {values=[-1, 256, 300]} : i32[3]\n%1 = cast(%0) : u8[3]", 255, 0, 44);
    EXPECT("%0 = constant {values=[16777217]} : i32[1]\n%1 = cast(%0) : f32[1]", 16777216);
    /* One rounding: through float32 this would be a tie and go down to the even 1. */
    EXPECT("%0 = constant {values=[0x1.0020000001p+0, 65520, 0x1p-25, 0x1.8p-24]} : f64[4]\n%1 = "
           "cast(%0) : f16[4]",
           0x1.004p+0, INFINITY, 0, 0x1p-23);
    EXPECT("%0 = constant {values=[0x1.0100000001p+0, 0x1.03p+0]} : f64[2]\n%1 = cast(%0) : bf16[2]", 0x1.02p+0,
           0x1.04p+0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves),         cmocka_unit_test(test_random_bits),
        cmocka_unit_test(test_random_counter), cmocka_unit_test(test_random_moments),
        cmocka_unit_test(test_unary),          cmocka_unit_test(test_integers_wrap),
        cmocka_unit_test(test_binary),         cmocka_unit_test(test_comparisons),
        cmocka_unit_test(test_casts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
