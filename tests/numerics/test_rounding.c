/* SPDX-License-Identifier: MIT
 * f16 and bf16 compiled for this machine: the bits that the interpreter rounds to. */
#include "harness/check.h"
#include "harness/rounding_cases.h"

static void chains(void **state) {
    (void)state;
    rounded_chains(check_compiled);
}

static void borders(void **state) {
    (void)state;
    rounded_borders(check_compiled);
}

static void sums(void **state) {
    (void)state;
    rounded_sums(check_compiled);
}

static void functions(void **state) {
    (void)state;
    rounded_functions(run_compiled);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chains), cmocka_unit_test(borders), cmocka_unit_test(sums),
                                       cmocka_unit_test(functions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
