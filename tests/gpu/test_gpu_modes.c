/* SPDX-License-Identifier: MIT
 * A kernel of each kind in which threads exchange values or tensor cores sum, small: what the suite runs with threads
 * that are independent, and with sums as tensor cores truncate them (PTXSIM_SCHEDULE, PTXSIM_MMA; see CMakeLists.txt).
 * Both runs of a program must give equal bits, whatever the order of threads. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"

#include <math.h>
#include <stdio.h>

/* What tensor cores may cut off a sum of k products of random factors within 1. Of a block of n products and the sum so
 * far, each term loses less than a unit of 2^-(23 + extra) of the largest, and their sum less than one of 2^-23; no
 * partial sum is beyond 4 sqrt(k / 9), four standard deviations. Blocks of 8 with one extra bit are the worst that
 * devices with these instructions have, 4 of tf32. */
static double cut_off(int k, bool tf32) {
    const int n = tf32 ? 4 : 8, blocks = (k + n - 1) / n, extra = 1;
    return blocks * ((n + 1) * ldexp(1, -extra) + 1) * 0x1p-23 * fmax(1, 4 * sqrt(k / 9.0));
}

/* The result is rounded to the type, or, of tf32, operands to 11 bits: errors of 2^-11 of each product, of random sign.
 */
static void products(void **state) {
    (void)state;
    static const char *const types[] = {"f16", "bf16", "f32"};
    static const double rounding[] = {0x1p-11, 0x1p-8, 0}; /* relative to the result */
    static const int sizes[][3] = {{72, 40, 48}, {64, 72, 264}};
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < 2; i++) {
            const int m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            const bool tf32 = t == 2;
            char text[1024];
            snprintf(text, sizeof text,
                     "graph @dot {\n  %%0 = input {name=\"a\"} : %1$s[%2$d,%4$d]\n  %%1 = input {name=\"b\"} : "
                     "%1$s[%4$d,%3$d]\n  %%2 = dot(%%0, %%1) {contract_a=[1], contract_b=[0]} : %1$s[%2$d,%3$d]\n  "
                     "output \"c\" %%2\n}\n",
                     types[t], m, n, k);
            const double tolerance = (tf32 ? 4 * 0x1p-11 * sqrt(2 * k / 9.0) : 2 * rounding[t]) + cut_off(k, tf32);
            check_gpu_text(text, &(compiled_options){.tolerance = tolerance, .tf32 = true});
        }
}

static void attention(void **state) {
    (void)state;
    static const attention_graph all[] = {
        {"2,", 33, 40, 16, 16, "scale=0.25, causal=true", .p = 0.2, .type = "bf16"},
        {"1,", 40, 40, 32, 32, "scale=0.2", .p = 0, .type = "f16"},
        {"1,", 20, 24, 8, 8, "scale=0.3", .p = 0},
    };
    for (int i = 0; i < 3; i++) {
        char text[4096];
        attention_graph_text(text, sizeof text, &all[i]);
        check_gpu_text(text, &(compiled_options){.tolerance = i == 0 ? 3e-2 : i == 1 ? 4e-3 : 1e-4});
    }
}

/* Rows by parts of a warp, by a warp, and by a block; sums over rows; running sums; scatters; a split dot. */
static void exchanges(void **state) {
    (void)state;
    static const char *const graphs[] = {
        ("graph @norms {\n  %0 = input {name=\"x\"} : f32[40,24]\n  %1 = softmax(%0) {axis=1} : f32[40,24]\n"
         "  %2 = input {name=\"y\"} : f32[9,3000]\n  %3 = softmax(%2) {axis=1} : f32[9,3000]\n"
         "  %4 = reduce_sum(%0) {axes=[0]} : f32[24]\n  %5 = argmax(%2) {axis=1} : i32[9]\n"
         "  output \"s\" %1\n  output \"t\" %3\n  output \"c\" %4\n  output \"i\" %5\n}\n"),
        ("graph @scans {\n  %0 = input {name=\"x\"} : f32[7,90]\n  %1 = cumsum(%0) {axis=1} : f32[7,90]\n"
         "  %2 = input {name=\"y\"} : f32[2,3000]\n  %3 = cumsum(%2) {axis=1} : f32[2,3000]\n  output \"s\" %1\n"
         "  output \"t\" %3\n}\n"),
        ("graph @split {\n  %0 = input {name=\"x\"} : f32[600,20]\n  %1 = input {name=\"dy\"} : f32[600,18]\n"
         "  %2 = dot(%1, %0) {contract_a=[0], contract_b=[0]} : f32[18,20]\n  output \"dw\" %2\n}\n"),
    };
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
        check_gpu_text(graphs[i], &(compiled_options){.tolerance = 1e-4});
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(attention),
        cmocka_unit_test(exchanges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
