/* SPDX-License-Identifier: MIT
 * Running sums and linear scans compiled for this machine, against the interpreter. */
#include "harness/check.h"
#include "harness/product_cases.h"
#include "harness/scan_cases.h"

#include <stdio.h>

static void long_lines(void **state) {
    (void)state;
    running_sums_of_long_lines(check_compiled);
}

static void equal_values(void **state) {
    (void)state;
    running_sums_of_equal_values(check_compiled);
}

static void widths(void **state) {
    (void)state;
    static const int widths[] = {1, 2, 7, 15, 16, 17, 31, 64, 257, 1000};
    static const char *const types[] = {"f32", "bf16", "f16", "i32", "f64", "i64"};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            char text[1024], type[64];
            const char *reverse = (i + t) % 2 ? ", reverse=true" : "";
            snprintf(type, sizeof type, "%s[3,%d]", types[t], widths[i]);
            snprintf(text, sizeof text,
                     "graph @s {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = mul(%%0, %%0) : %s\n  %%2 = cumsum(%%1) "
                     "{axis=1%s} : %s\n  %%3 = add(%%2, %%0) : %s\n  %%4 = cumsum(%%3) {axis=1%s} : %s\n"
                     "  output \"o\" %%3\n  output \"s\" %%4\n}\n",
                     type, type, reverse, type, type, reverse, type);
            check_text(text, &(compiled_options){.seed = i, .low = -0.25, .high = 0.25});
        }
}

/* The same values and lanes, along another axis: not the same kernel. */
static void another_axis(void **state) {
    (void)state;
    check_text("graph @s {\n  %0 = input {name=\"x\"} : f32[1,8]\n  %1 = input {name=\"y\"} : f32[1,8]\n"
               "  %2 = cumsum(%0) {axis=1, reverse=true} : f32[1,8]\n  %3 = cumsum(%1) {reverse=true} : f32[1,8]\n"
               "  output \"along\" %2\n  output \"still\" %3\n}\n",
               &(compiled_options){.seed = 1, .eager = true});
}

static void linear(void **state) {
    (void)state;
    linear_scans(check_compiled);
}

static void special_values(void **state) {
    (void)state;
    linear_scans_of_special_values(check_compiled, true);
}

static void bytes(void **state) {
    (void)state;
    running_results_of_bytes(check_compiled);
}

static void maxima(void **state) {
    (void)state;
    running_maxima(check_compiled);
}

static void runs(void **state) {
    (void)state;
    running_sums_of_runs(check_compiled);
}

static void both_ways(void **state) {
    (void)state;
    running_results_both_ways(check_compiled);
}

static void of_products(void **state) {
    (void)state;
    products(check_compiled);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_lines),   cmocka_unit_test(equal_values), cmocka_unit_test(widths),
        cmocka_unit_test(another_axis), cmocka_unit_test(linear),       cmocka_unit_test(special_values),
        cmocka_unit_test(bytes),        cmocka_unit_test(maxima),       cmocka_unit_test(runs),
        cmocka_unit_test(both_ways),    cmocka_unit_test(of_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
