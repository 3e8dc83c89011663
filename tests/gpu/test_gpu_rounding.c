/* SPDX-License-Identifier: MIT
 * f16 and bf16 on a GPU: the bits that the interpreter rounds to. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/rounding_cases.h"

static void chains(void **state) {
    (void)state;
    rounded_chains(check_gpu);
}

static void sums(void **state) {
    (void)state;
    rounded_sums(check_gpu);
}

static void functions(void **state) {
    (void)state;
    rounded_functions(run_gpu);
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(chains), cmocka_unit_test(sums), cmocka_unit_test(functions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
