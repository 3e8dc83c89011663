/* SPDX-License-Identifier: MIT
 * The interpreter on views, indexing, reductions and running sums, by hand-computed values. */
#include "harness/check.h"
#include "harness/evaluate.h"

#include <math.h>

/* 0 1 2 / 3 4 5 */
#define X23 "%0 = constant {values=[0, 1, 2, 3, 4, 5]} : f32[2,3]\n%1 = "
#define I23 "%0 = constant {values=[0, 1, 2, 3, 4, 5]} : i32[2,3]\n%1 = "

static void test_views(void **state) {
    (void)state;
    EXPECT(X23 "reshape(%0) : f32[3,2]", 0, 1, 2, 3, 4, 5);
    EXPECT(X23 "transpose(%0) {perm=[1, 0]} : f32[3,2]", 0, 3, 1, 4, 2, 5);
    EXPECT(I23 "transpose(%0) {perm=[1, 0]} : i32[3,2]", 0, 3, 1, 4, 2, 5);
    EXPECT("%0 = iota {axis=2} : i32[1,2,3]\n%1 = iota {axis=1} : i32[1,2,3]\n%2 = constant "
           "{values=[10]} : i32[1,2,3]\n"
           "%3 = mul(%1, %2) : i32[1,2,3]\n%4 = add(%0, %3) : i32[1,2,3]\n%5 = transpose(%4) "
           "{perm=[2, 0, 1]} : i32[3,1,2]",
           0, 10, 1, 11, 2, 12);
    EXPECT("%0 = constant {values=[1, 2]} : f32[2]\n%1 = broadcast(%0) {dims=[0]} : f32[2,3]", 1, 1, 1, 2, 2, 2);
    EXPECT("%0 = constant {values=[1, 2]} : f32[2]\n%1 = broadcast(%0) {dims=[1]} : f32[3,2]", 1, 2, 1, 2, 1, 2);
    EXPECT("%0 = constant {values=[1, 2]} : f32[2,1]\n%1 = broadcast(%0) {dims=[0, 1]} : f32[2,2]", 1, 1, 2, 2);
    EXPECT("%0 = constant {values=[7]} : f32[]\n%1 = broadcast(%0) : f32[2]", 7, 7);
    EXPECT(X23 "slice(%0) {start=[1, 0], limit=[2, 3], stride=[1, 2]} : f32[1,2]", 3, 5);
    EXPECT(X23 "flip(%0) {axes=[1]} : f32[2,3]", 2, 1, 0, 5, 4, 3);
    EXPECT(X23 "flip(%0) {axes=[0, 1]} : f32[2,3]", 5, 4, 3, 2, 1, 0);
    EXPECT(X23 "pad(%0) {value=9, lo=[0, 1], hi=[1, 0], interior=[0, 1]} : f32[3,6]", 9, 0, 9, 1, 9, 2, 9, 3, 9, 4, 9,
           5, 9, 9, 9, 9, 9, 9);
    EXPECT("%0 = constant {values=[1, 2]} : i32[2]\n%1 = pad(%0) {value=-1, lo=[1], hi=[0], "
           "interior=[1]} : i32[4]",
           -1, 1, -1, 2);
    EXPECT(X23 "constant {values=[8, 9]} : f32[2,1]\n%2 = concat(%1, %0, %1) {axis=1} : f32[2,5]", 8, 0, 1, 2, 8, 9, 3,
           4, 5, 9);
    EXPECT(X23 "concat(%0, %0) : f32[4,3]", 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5);
}

#define TABLE "%0 = constant {values=[10, 11, 20, 21, 30, 31]} : f32[3,2]\n"

static void test_indexing(void **state) {
    (void)state;
    EXPECT(TABLE "%1 = constant {values=[2, 0, 3, -1]} : i32[2,2]\n%2 = take(%0, %1) : f32[2,2,2]", 30, 31, 10, 11, 0,
           0, 0, 0);
    EXPECT(TABLE "%1 = constant {values=[1, 1, 0]} : i64[3]\n%2 = take(%0, %1) {axis=1} : f32[3,3]", 11, 11, 10, 21, 21,
           20, 31, 31, 30);
    EXPECT(TABLE "%1 = constant {values=[1]} : i32[]\n%2 = take(%0, %1) : f32[2]", 20, 21);
    EXPECT(TABLE "%1 = constant {values=[2, 0, 5, 1]} : i32[2,2]\n%2 = take_along(%0, %1) : f32[2,2]", 30, 11, 0, 21);
    EXPECT(TABLE "%1 = constant {values=[1, 0, -1]} : i32[3,1]\n%2 = take_along(%0, %1) {axis=1} : f32[3,1]", 11, 20,
           0);
    EXPECT(TABLE "%1 = constant {values=[2, 2, 3]} : i32[3]\n%2 = constant {values=[1, 2, 3, 4, 5, "
                 "6]} : f32[3,2]\n"
                 "%3 = scatter_add(%0, %1, %2) : f32[3,2]",
           10, 11, 20, 21, 34, 37);
    EXPECT(TABLE "%1 = constant {values=[1]} : i32[]\n%2 = constant {values=[1, 2, 3]} : f32[3]\n"
                 "%3 = scatter_add(%0, %1, %2) {axis=1} : f32[3,2]",
           10, 12, 20, 23, 30, 34);
    EXPECT(TABLE "%1 = constant {values=[0, 1, 0, -1]} : i32[2,2]\n%2 = constant {values=[1, 2, 3, "
                 "4]} : f32[2,2]\n"
                 "%3 = scatter_add_along(%0, %1, %2) : f32[3,2]",
           14, 11, 20, 23, 30, 31);
    EXPECT(TABLE "%1 = constant {values=[2, 2, 3]} : i32[3]\n%2 = constant {values=[1, 2, nan, 4, 5, "
                 "6]} : f32[3,2]\n"
                 "%3 = scatter(%0, %1, %2) : f32[3,2]",
           10, 11, 20, 21, NAN, 4);
    EXPECT(TABLE "%1 = constant {values=[0, 1, 0, -1]} : i32[2,2]\n%2 = constant {values=[1, 2, 3, "
                 "4]} : f32[2,2]\n"
                 "%3 = scatter_along(%0, %1, %2) : f32[3,2]",
           3, 11, 20, 2, 30, 31);
    EXPECT("%0 = constant {values=[250, 0]} : u8[2]\n%1 = constant {values=[0, 0]} : i32[2]\n"
           "%2 = constant {values=[4, 5]} : u8[2]\n%3 = scatter_add(%0, %1, %2) : u8[2]",
           3, 0);
    EXPECT(TABLE "%1 = constant {values=[2, 2, 0, 7]} : i64[2,2]\n%2 = constant {values=[31, 1, 2, 32, 12, 11, nan, "
                 "99]} : f32[2,2,2]\n"
                 "%3 = scatter_max(%0, %1, %2) : f32[3,2]",
           12, 11, 20, 21, 31, 32);
    EXPECT("%0 = constant {values=[5, 1, -3]} : f64[3]\n%1 = constant {values=[0, 2, 0, 1, 2]} : i32[5]\n"
           "%2 = constant {values=[nan, -4, 6, 1, -2]} : f64[5]\n%3 = scatter_max(%0, %1, %2) : f64[3]",
           NAN, 1, -2);
    EXPECT("%0 = constant {values=[-5, 7]} : i64[2]\n%1 = constant {values=[0, 0, 1]} : i32[3]\n"
           "%2 = constant {values=[-6, -4, 3]} : i64[3]\n%3 = scatter_max(%0, %1, %2) : i64[2]",
           -4, 7);
}

#define X34 "%0 = constant {values=[5, 1, -2, 7, 3, 3, 0, 7, -1, 4, 4, 2]} : f64[3,4]\n%1 = "
#define WITH_NAN "%0 = constant {values=[5, nan, 2, 7, 3, 3]} : f64[2,3]\n%1 = "

static void test_reductions(void **state) {
    (void)state;
    EXPECT(X34 "reduce_sum(%0) {axes=[1]} : f64[3]", 11, 13, 9);
    EXPECT(X34 "reduce_sum(%0) {axes=[0]} : f64[4]", 7, 8, 2, 16);
    EXPECT(X34 "reduce_sum(%0) {axes=[0, 1]} : f64[]", 33);
    EXPECT(X34 "reduce_max(%0) {axes=[1]} : f64[3]", 7, 7, 4);
    EXPECT(X34 "reduce_min(%0) {axes=[0]} : f64[4]", -1, 1, -2, 2);
    EXPECT(X34 "reduce_mean(%0) {axes=[0]} : f64[4]", 7 / 3.0, 8 / 3.0, 2 / 3.0, 16 / 3.0);
    EXPECT(X34 "reduce_mean(%0) {axes=[0, 1]} : f64[]", 33 / 12.0);
    EXPECT(X34 "reduce_m2(%0) {axes=[1]} : f64[3]", 48.75, 24.75, 16.75);
    EXPECT(X34 "reduce_m2(%0) {axes=[0, 1]} : f64[]", 92.25);
    EXPECT(WITH_NAN "reduce_max(%0) {axes=[1]} : f64[2]", NAN, 7);
    EXPECT(WITH_NAN "reduce_min(%0) {axes=[1]} : f64[2]", NAN, 3);
    EXPECT(WITH_NAN "argmax(%0) {axis=1} : i32[2]", 1, 0);
    EXPECT(X34 "argmax(%0) {axis=1} : i32[3]", 3, 3, 1);
    EXPECT(X34 "argmax(%0) : i32[4]", 0, 2, 2, 0);
    EXPECT("%0 = iota {axis=1} : f32[2,3,2]\n%1 = reduce_sum(%0) {axes=[0, 2]} : f32[3]", 0, 4, 8);
    EXPECT("%0 = constant {values=[200, 100]} : u8[2]\n%1 = reduce_sum(%0) {axes=[0]} : u8[]", 44);
    EXPECT("%0 = constant {values=[-5, -9]} : i32[2]\n%1 = reduce_max(%0) {axes=[0]} : i32[]", -5);
    EXPECT("%0 = constant {values=[-5, -9]} : i32[2]\n%1 = argmax(%0) : i32[]", 0);
}

static void test_linear_scans(void **state) {
    (void)state;
    EXPECT(X34 "linear_scan(%0) {axis=1} : f64[3,4]", 5, 5, -10, -70, 3, 9, 0, 0, -1, -4, -16, -32);
    EXPECT(X34 "linear_scan(%0) {reverse=true} : f64[3,4]", -15, 12, 0, 98, -3, 12, 0, 14, -1, 4, 4, 2);
    EXPECT("%0 = constant {values=[2, -1, 0, 3, 1, 2]} : f64[2,3]\n%1 = constant {values=[1, 4, 5, 0, -2, 6]} : "
           "f64[2,3]\n%2 = linear_scan(%0, %1) {axis=1} : f64[2,3]",
           1, 3, 5, 0, -2, 2);
    EXPECT("%0 = constant {values=[2, -1, 0, 3, 1, 2]} : i32[2,3]\n%1 = constant {values=[1, 4, 5, 0, -2, 6]} : "
           "i32[2,3]\n%2 = linear_scan(%0, %1) {reverse=true} : i32[2,3]",
           1, 6, 5, 0, -2, 6);
    EXPECT("%0 = constant {values=[nan, 1, 2]} : f32[3]\n%1 = linear_scan(%0, %0) : f32[3]", NAN, NAN, NAN);
    EXPECT("%0 = constant {values=[7, 20, 2]} : u8[3]\n%1 = linear_scan(%0, %0) : u8[3]", 7, 160, 66);
}

static void test_running_sums(void **state) {
    (void)state;
    EXPECT(X34 "cumsum(%0) {axis=1} : f64[3,4]", 5, 6, 4, 11, 3, 6, 6, 13, -1, 3, 7, 9);
    EXPECT(X34 "cumsum(%0) : f64[3,4]", 5, 1, -2, 7, 8, 4, -2, 14, 7, 8, 2, 16);
    EXPECT(X34 "cumsum(%0) {axis=1, reverse=true} : f64[3,4]", 11, 6, 5, 7, 13, 10, 7, 7, 9, 10, 6, 2);
    EXPECT("%0 = constant {values=[200, 100, 1]} : u8[3]\n%1 = cumsum(%0) : u8[3]", 200, 44, 45);
#define ON "%0 = constant {values=[0, 1, 1, 1, 1, 0]} : bool[2,3]\n%1 = constant "
    EXPECT(ON "{values=[1, 2, inf, 4, 8, 16]} : f32[2,3]\n%2 = cumsum(%1, %0) {axis=1} : f32[2,3]", 1, 3, INFINITY, 4,
           12, 16);
    EXPECT(ON "{values=[1, 2, inf, 4, 8, 16]} : f32[2,3]\n%2 = cumsum(%1, %0) {reverse=true} : f32[2,3]", 1, 10,
           INFINITY, 4, 8, 16);
    EXPECT(ON "{values=[200, 100, 1, 4, 255, 16]} : u8[2,3]\n%2 = cumsum(%1, %0) {axis=1} : u8[2,3]", 200, 44, 45, 4, 3,
           16);
}

static void test_running_maxima(void **state) {
    (void)state;
    EXPECT(X34 "cummax(%0) {axis=1} : f64[3,4]", 5, 5, 5, 7, 3, 3, 3, 7, -1, 4, 4, 4);
    EXPECT(X34 "cummax(%0) {reverse=true} : f64[3,4]", 5, 4, 4, 7, 3, 4, 4, 7, -1, 4, 4, 2);
    EXPECT(WITH_NAN "cummax(%0) {axis=1} : f64[2,3]", 5, NAN, NAN, 7, 7, 7);
    EXPECT(WITH_NAN "cummax(%0) {axis=1, reverse=true} : f64[2,3]", NAN, NAN, 2, 7, 3, 3);
    /* the last of equal ones, as the sign shows */
    EXPECT("%0 = constant {values=[0, -0x0p+0, -1]} : f64[3]\n%1 = cummax(%0) : f64[3]\n%2 = constant {values=[1]} : "
           "f64[3]\n%3 = div(%2, %1) : f64[3]",
           INFINITY, -INFINITY, -INFINITY);
    EXPECT("%0 = constant {values=[-5, -9, -3]} : i64[3]\n%1 = cummax(%0) : i64[3]", -5, -5, -3);
    EXPECT("%0 = constant {values=[7, 200, 20]} : u8[3]\n%1 = cummax(%0) {reverse=true} : u8[3]", 200, 200, 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_views),          cmocka_unit_test(test_indexing),
                                       cmocka_unit_test(test_reductions),     cmocka_unit_test(test_running_sums),
                                       cmocka_unit_test(test_running_maxima), cmocka_unit_test(test_linear_scans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
