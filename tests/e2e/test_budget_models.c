/* SPDX-License-Identifier: MIT
 * Budgets of memory leave the bits of training alone, on the CPU. */
#include "harness/budget_models.h"
#include "harness/check.h"

static void same_bits(void **state) {
    (void)state;
    check_budget_models("cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
