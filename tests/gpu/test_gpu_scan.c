/* SPDX-License-Identifier: MIT
 * Running sums and linear scans on a GPU: long rows and many short ones, both ways, of several element types, with work
 * before and behind. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"
#include "harness/product_cases.h"
#include "harness/scan_cases.h"

#include <stdio.h>

static void rows(void **state) {
    (void)state;
    static const struct {
        int rows, width;
    } shapes[] = {{3, 1},   {5, 2},    {70, 7},   {33, 16},  {9, 60},  {4, 128},
                  {3, 257}, {2, 1000}, {2, 1024}, {1, 3000}, {3, 2050}};
    static const char *const types[] = {"f32", "bf16", "i32", "f64", "i64"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int reverse = 0; reverse < 2; reverse++) {
                char text[1024], type[64];
                snprintf(type, sizeof type, "%s[%d,%d]", types[t], shapes[i].rows, shapes[i].width);
                snprintf(text, sizeof text,
                         "graph @s {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = mul(%%0, %%0) : %s\n  %%2 = cumsum(%%1) "
                         "{axis=1%s} : %s\n"
                         "  %%3 = add(%%2, %%0) : %s\n  output \"o\" %%3\n}\n",
                         type, type, reverse ? ", reverse=true" : "", type, type);
                check_gpu_text(text, &(compiled_options){.seed = i, .low = -1, .high = 1, .tolerance = 4e-5});
            }
}

static void sums_of_sums(void **state) {
    (void)state;
    check_gpu_text(
        "graph @s {\n  %0 = input {name=\"x\"} : f32[7,3,400]\n  %1 = cumsum(%0) {axis=2} : f32[7,3,400]\n  %2 = "
        "exp(%0) : f32[7,3,400]\n"
        "  %3 = mul(%1, %2) : f32[7,3,400]\n  %4 = cumsum(%3) {axis=2} : f32[7,3,400]\n  output \"o\" %4\n}\n",
        &(compiled_options){.seed = 1, .tolerance = 1e-4});
    check_gpu_text("graph @s {\n  %0 = input {name=\"x\"} : f32[4,50,36]\n  %1 = cumsum(%0) {axis=1, reverse=true} : "
                   "f32[4,50,36]\n  output \"o\" %1\n}\n",
                   &(compiled_options){.seed = 1});
    check_gpu_text(
        "graph @s {\n  %0 = input {name=\"x\"} : f32[30,40]\n  %1 = transpose(%0) {perm=[1, 0]} : f32[40,30]\n"
        "  %2 = cumsum(%1) {axis=1} : f32[40,30]\n  output \"o\" %2\n}\n",
        &(compiled_options){.seed = 1});
}

static void long_lines(void **state) {
    (void)state;
    running_sums_of_long_lines(check_gpu);
}

static void equal_values(void **state) {
    (void)state;
    running_sums_of_equal_values(check_gpu);
}

static void linear(void **state) {
    (void)state;
    linear_scans(check_gpu);
}

static void special_values(void **state) {
    (void)state;
    linear_scans_of_special_values(check_gpu, false);
}

static void bytes(void **state) {
    (void)state;
    running_results_of_bytes(check_gpu);
}

static void maxima(void **state) {
    (void)state;
    running_maxima(check_gpu);
}

static void runs(void **state) {
    (void)state;
    running_sums_of_runs(check_gpu);
}

static void both_ways(void **state) {
    (void)state;
    running_results_both_ways(check_gpu);
}

/* One kernel has a line at once, so it reads and writes each value once; no longer line than it has threads for. */
static void launches(void **state) {
    (void)state;
    static const struct {
        const char *type;
        int width, steps;
    } cases[] = {{"f32", 2048, 1}, {"bf16", 2048, 1}, {"f64", 1024, 1}, {"i32", 511, 1},
                 {"f32", 2052, 2}, {"f64", 1026, 2},  {"f32", 1023, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = results_both_ways(cases[i].type, cases[i].width, i % 2, &diag);
        gpu_program *p = gpu_program_create(g, &(compiled_options){.simplify = true}, "sm_90");
        const int steps = p->program->n_steps;
        const long spilled = gpu_assemble(p->program, "sm_90");
        printf("%s[%d]: %d steps, %ld bytes spilled\n", cases[i].type, cases[i].width, steps, spilled);
        assert_true(cases[i].steps == 1 ? steps == 1 : steps > 1);
        assert_true(spilled <= 0);
        gpu_program_destroy(p);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

static void of_products(void **state) {
    (void)state;
    products(check_gpu);
}

/* Of lines that a kernel has at once, the product and its gradient are one launch; where the gradient waits for the
 * product, another one that reads the factors again, and nothing else. */
static void launches_of_products(void **state) {
    (void)state;
#define PRODUCT(line, type, part, dy)                                                          \
    "graph @p {\n  %0 = input {name=\"x\"} : " type "\n  %1 = input {name=\"w\"} : " part "\n" \
    "  %2 = prod(%0) {axes=[" line "]} : " part "\n  %3 = mul(%2, %1) : " part "\n"            \
    "  %4 = prod_grad(%0, %" dy ") {axes=[" line "]} : " type "\n  output \"y\" %2\n  output \"dx\" %4\n}\n"
    const compiled_options options = {.simplify = true};
    assert_int_equal(gpu_steps_of_text(PRODUCT("1", "f32[9,256]", "f32[9]", "1"), &options), 1);
    assert_int_equal(gpu_steps_of_text(PRODUCT("1", "bf16[9,256]", "bf16[9]", "1"), &options), 1);
    assert_int_equal(gpu_steps_of_text(PRODUCT("2", "f64[9,1,1024]", "f64[9,1]", "1"), &options), 1);
    assert_int_equal(gpu_steps_of_text(PRODUCT("1", "f32[9,2048]", "f32[9]", "3"), &options), 2);
    assert_in_range(gpu_steps_of_text(PRODUCT("1", "f32[9,2052]", "f32[9]", "1"), &options), 3, 20);
    assert_in_range(gpu_steps_of_text(PRODUCT("1", "f32[9,254]", "f32[9]", "1"), &options), 3, 20);
    assert_in_range(gpu_steps_of_text(PRODUCT("0", "f32[256,9]", "f32[9]", "1"), &options), 3, 20);
#undef PRODUCT
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows),
                                       cmocka_unit_test(sums_of_sums),
                                       cmocka_unit_test(long_lines),
                                       cmocka_unit_test(equal_values),
                                       cmocka_unit_test(linear),
                                       cmocka_unit_test(special_values),
                                       cmocka_unit_test(bytes),
                                       cmocka_unit_test(maxima),
                                       cmocka_unit_test(runs),
                                       cmocka_unit_test(both_ways),
                                       cmocka_unit_test(launches),
                                       cmocka_unit_test(of_products),
                                       cmocka_unit_test(launches_of_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
