/* SPDX-License-Identifier: MIT
 * The interpreter on pooling, resizing and attention: hand-computed values, formulas, and gradients
 * as transposes. */
#include "harness/check.h"
#include "harness/evaluate.h"

#include <math.h>

#define ROW "%0 = constant {values=[3, 1, 4, 1, 5]} : f32[1,1,5]\n%1 = "
#define POOL "{window=[3], stride=[2], pad_lo=[1], pad_hi=[1]"

static void test_pooling(void **state) {
    (void)state;
    EXPECT(ROW "max_pool(%0) " POOL "} : f32[1,1,3]", 3, 4, 5);
    EXPECT("%0 = constant {values=[-3, -1, -4, nan, -5]} : f32[1,1,5]\n%1 = max_pool(%0) " POOL "} : f32[1,1,3]", -1,
           NAN, NAN);
    EXPECT_NEAR(1e-14, ROW "avg_pool(%0) " POOL "} : f32[1,1,3]", 2, 2, 3);
    EXPECT_NEAR(1e-14, ROW "avg_pool(%0) " POOL ", include_pad=true} : f32[1,1,3]", 4.0 / 3, 2, 2);
    /* The first of equal maxima gets the gradient. */
    EXPECT("%0 = constant {values=[2, 2, 2, 1, 5]} : f32[1,1,5]\n%1 = constant {values=[1, 10, "
           "100]} : f32[1,1,3]\n%2 = max_pool_place(%0) " POOL "} : i32[1,1,3]\n"
           "%3 = max_pool_grad(%2, %1) " POOL "} : f32[1,1,5]",
           1, 10, 0, 0, 100);
    /* Padding wins nowhere, and the first NaN everywhere. */
    EXPECT("%0 = constant {values=[-inf, -inf, 1, nan, nan]} : f32[1,1,5]\n%1 = max_pool_place(%0) " POOL
           "} : i32[1,1,3]",
           1, 2, 0);
    /* A place in the padding gets nothing. */
    EXPECT("%0 = constant {values=[0, 2, 2]} : i32[1,1,3]\n%1 = constant {values=[1, 10, 100]} : f32[1,1,3]\n"
           "%2 = max_pool_grad(%0, %1) " POOL "} : f32[1,1,5]",
           0, 0, 0, 10, 0);
    EXPECT_NEAR(1e-14, "%0 = constant {values=[6, 12, 18]} : f32[1,1,3]\n%1 = avg_pool_grad(%0) " POOL "} : f32[1,1,5]",
                3, 7, 4, 13, 9);
    /* Two dims, two channels that are last: windows of 2x2. */
    EXPECT("%0 = constant {values=[1, -1, 2, -2, 3, -3, 4, -4]} : f32[1,2,2,2]\n"
           "%1 = max_pool(%0) {window=[2, 2], stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], "
           "channels_last=true} : f32[1,1,1,2]",
           4, -1);
    EXPECT("%0 = constant {values=[1, -1, 2, -2, 3, -3, 4, -4]} : f32[1,2,2,2]\n"
           "%1 = avg_pool(%0) {window=[2, 2], stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], "
           "channels_last=true} : f32[1,1,1,2]",
           2.5, -2.5);
}

static void test_resizing(void **state) {
    (void)state;
    /* Windows 0..2, 1..4, 3..5 */
    EXPECT_NEAR(1e-14, ROW "adaptive_avg_pool(%0) : f32[1,1,3]", 2, 2, 3);
    EXPECT_NEAR(1e-14, ROW "adaptive_avg_pool(%0) : f32[1,1,1]", 2.8);
    EXPECT("%0 = constant {values=[3, 1]} : f32[1,1,2]\n%1 = adaptive_avg_pool(%0) : f32[1,1,3]", 3, 2, 1);
    EXPECT(ROW "resize_nearest(%0) : f32[1,1,3]", 3, 1, 1); /* 0, 5/3, 10/3 */
    EXPECT(ROW "resize_nearest(%0) : f32[1,1,7]", 3, 3, 1, 4, 4, 1, 5);
    EXPECT(ROW "resize_nearest(%0) {align_corners=true} : f32[1,1,3]", 3, 4, 5);
    EXPECT(ROW "resize_nearest(%0) {align_corners=true} : f32[1,1,4]", 3, 1, 1, 5); /* 0, 4/3, 8/3, 4 */
    EXPECT(ROW "resize_nearest(%0) {align_corners=true} : f32[1,1,1]", 3);
    EXPECT("%0 = constant {values=[0, 8]} : f64[1,1,2]\n%1 = resize_bilinear(%0) : f64[1,1,4]", 0, 2, 6, 8);
    EXPECT_NEAR(1e-14,
                "%0 = constant {values=[0, 9]} : f64[1,1,2]\n%1 = resize_bilinear(%0) "
                "{align_corners=true} : f64[1,1,4]",
                0, 3, 6, 9);
    EXPECT_NEAR(1e-14, ROW "resize_bilinear(%0) : f32[1,1,2]", 1.5, 2);
    EXPECT("%0 = constant {values=[0, 8]} : f64[1,1,2]\n%1 = resize_bicubic(%0) : f64[1,1,4]", -0.84375, 1.8125, 6.1875,
           8.84375);
    EXPECT(ROW "resize_bicubic(%0) : f32[1,1,5]", 3, 1, 4, 1, 5);
    EXPECT(ROW "resize_bicubic(%0) {align_corners=true} : f32[1,1,3]", 3, 4, 5);
    EXPECT(ROW "resize_bicubic(%0) {align_corners=true} : f32[1,1,1]", 3);
    /* Both dims: the corners of a 2x2 field, spread by half-pixel centres. */
    EXPECT("%0 = constant {values=[0, 4, 8, 12]} : f64[1,1,2,2]\n%1 = resize_bilinear(%0) : "
           "f64[1,1,2,4]",
           0, 1, 3, 4, 8, 9, 11, 12);
}

static double inner(const tcc_value *a, const tcc_value *b) {
    double sum = 0;
    assert_true(tcc_type_equal(&a->type, &b->type));
    for (int64_t e = 0; e < tcc_type_numel(&a->type); e++) sum += a->f[e] * b->f[e];
    return sum;
}

/* <op(x), dy> = <x, grad(dy)> */
static void check_transpose(tcc_op op, tcc_op gradient, const tcc_attrs *attrs, tcc_type x_type,
                            const tcc_type *y_type) {
    tcc_value x = random_value(&x_type, 1, -1, 1), y = evaluate_op(op, attrs, y_type, 1, &x);
    tcc_value dy = random_value(&y.type, 2, -1, 1), dx = evaluate_op(gradient, attrs, &x_type, 1, &dy);
    assert_true(fabs(inner(&x, &dx) - inner(&y, &dy)) < 1e-12);
    tcc_value *all[] = {&x, &y, &dy, &dx};
    for (int i = 0; i < 4; i++) tcc_value_free(all[i]);
}

static void test_gradients_are_transposes(void **state) {
    (void)state;
    const tcc_type x = {TCC_F32, 4, {2, 3, 5, 6}}, x3 = {TCC_F32, 5, {1, 4, 3, 5, 2}};
    const tcc_type larger = {TCC_F32, 4, {2, 3, 7, 9}}, smaller = {TCC_F32, 4, {2, 3, 2, 4}};
    for (int mode = 0; mode < 4; mode++) {
        tcc_attrs pool = {.pool = {.window = {2, {3, 2}},
                                   .stride = {2, {1, 2}},
                                   .pad_lo = {2, {2, 0}},
                                   .pad_hi = {2, {1, 1}},
                                   .include_pad = mode & 1}};
        check_transpose(TCC_OP_AVG_POOL, TCC_OP_AVG_POOL_GRAD, &pool, x, NULL);
        tcc_attrs resize = {.resize = {.align_corners = mode & 1}}, none = {0};
        const tcc_type *y = mode & 2 ? &larger : &smaller;
        check_transpose(TCC_OP_ADAPTIVE_AVG_POOL, TCC_OP_ADAPTIVE_AVG_POOL_GRAD, &none, x, y);
        check_transpose(TCC_OP_RESIZE_NEAREST, TCC_OP_RESIZE_NEAREST_GRAD, &resize, x, y);
        check_transpose(TCC_OP_RESIZE_BILINEAR, TCC_OP_RESIZE_BILINEAR_GRAD, &resize, x, y);
        check_transpose(TCC_OP_RESIZE_BICUBIC, TCC_OP_RESIZE_BICUBIC_GRAD, &resize, x, y);
    }
    const tcc_type y3 = {TCC_F32, 5, {1, 2, 6, 4, 2}};
    tcc_attrs last = {.resize = {.channels_last = true}};
    check_transpose(TCC_OP_RESIZE_BILINEAR, TCC_OP_RESIZE_BILINEAR_GRAD, &last, x3, &y3);
}

/* -- Attention, against its formula in plain loops -- */

enum { BATCHES = 2, QUERIES = 3, KEYS = 5, WIDTH = 4, VALUES = 2 };

static void check_attention(bool causal, bool masked) {
    const tcc_type types[] = {{TCC_F32, 3, {BATCHES, QUERIES, WIDTH}},
                              {TCC_F32, 3, {BATCHES, KEYS, WIDTH}},
                              {TCC_F32, 3, {BATCHES, KEYS, VALUES}},
                              {TCC_F32, 3, {BATCHES, QUERIES, KEYS}}};
    tcc_attrs attrs = {.sdpa = {.scale = 0.7, .causal = causal}};
    tcc_value in[4];
    for (int i = 0; i < 4; i++) in[i] = random_value(&types[i], 1 + (uint64_t)i, -2, 2);
    tcc_value o = evaluate_op(TCC_OP_SDPA, &attrs, NULL, masked ? 4 : 3, in);
    tcc_value lse = evaluate_op(TCC_OP_SDPA_LSE, &attrs, NULL, masked ? 3 : 2, (tcc_value[]){in[0], in[1], in[3]});
    for (int b = 0; b < BATCHES; b++)
        for (int t = 0; t < QUERIES; t++) {
            double sum = 0, value[VALUES] = {0};
            for (int s = 0; s < KEYS; s++) {
                if (causal && s > t + KEYS - QUERIES) continue;
                double score = masked ? in[3].f[(b * QUERIES + t) * KEYS + s] : 0;
                for (int d = 0; d < WIDTH; d++)
                    score += 0.7 * in[0].f[(b * QUERIES + t) * WIDTH + d] * in[1].f[(b * KEYS + s) * WIDTH + d];
                sum += exp(score);
                for (int e = 0; e < VALUES; e++) value[e] += exp(score) * in[2].f[(b * KEYS + s) * VALUES + e];
            }
            assert_true(fabs(lse.f[b * QUERIES + t] - log(sum)) < 1e-12);
            for (int e = 0; e < VALUES; e++)
                assert_true(fabs(o.f[(b * QUERIES + t) * VALUES + e] - value[e] / sum) < 1e-12);
        }
    for (int i = 0; i < 4; i++) tcc_value_free(&in[i]);
    tcc_value_free(&o);
    tcc_value_free(&lse);
}

static void test_attention(void **state) {
    (void)state;
    check_attention(false, false);
    check_attention(true, false);
    check_attention(false, true);
    check_attention(true, true);
}

/* Scores of 1000 do not overflow; a query whose mask hides all keys gives 0. */
static void test_attention_extremes(void **state) {
    (void)state;
    EXPECT("%0 = constant {values=[1000]} : f64[2,1]\n%1 = constant {values=[1, 0]} : f64[2,1]\n"
           "%2 = constant {values=[5, 7]} : f64[2,1]\n%3 = constant {values=[0, 0, -inf, -inf]} : "
           "f64[2,2]\n"
           "%4 = sdpa(%0, %1, %2, %3) {scale=1} : f64[2,1]",
           5, 0);
    EXPECT("%0 = constant {values=[1000]} : f64[2,1]\n%1 = constant {values=[1, 0]} : f64[2,1]\n"
           "%2 = constant {values=[0, 0, -inf, -inf]} : f64[2,2]\n%3 = sdpa_lse(%0, %1, %2) "
           "{scale=1} : f64[2]",
           1000, -INFINITY);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pooling), cmocka_unit_test(test_resizing),
                                       cmocka_unit_test(test_gradients_are_transposes),
                                       cmocka_unit_test(test_attention), cmocka_unit_test(test_attention_extremes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
