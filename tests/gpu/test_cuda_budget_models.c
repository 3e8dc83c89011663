/* SPDX-License-Identifier: MIT
 * Budgets of memory leave the bits of training alone, on a CUDA device. */
#include "harness/budget_models.h"
#include "harness/check.h"
#include "harness/cuda_device.h"

static void same_bits(void **state) {
    (void)state;
    check_budget_models("cuda");
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TEST(same_bits)};
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
