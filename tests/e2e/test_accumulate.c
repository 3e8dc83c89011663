/* SPDX-License-Identifier: MIT
 * Steps in micro-batches on the CPU. */
#include "harness/accumulate_cases.h"
#include "harness/check.h"

static void equal_whole_batches(void **state) {
    (void)state;
    for (int mode = TCC_MODE_DEFAULT; mode <= TCC_MODE_REDUCE_OVERHEAD; mode++)
        check_micro_batches("cpu", (tcc_mode)mode, TCC_MIXED_NONE);
    check_micro_batches("cpu", TCC_MODE_DEFAULT, TCC_MIXED_BF16);
    check_micro_batches("cpu", TCC_MODE_DEFAULT, TCC_MIXED_FP16);
}

static void computed_again_and_tuned(void **state) {
    (void)state;
    check_micro_modes("cpu");
}

static void other_masks(void **state) {
    (void)state;
    check_micro_masks("cpu");
}

static void overflow_spoils_its_step(void **state) {
    (void)state;
    check_micro_overflow("cpu");
}

static void refuses(void **state) {
    (void)state;
    check_micro_refusals();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_whole_batches),
                                       cmocka_unit_test(computed_again_and_tuned), cmocka_unit_test(other_masks),
                                       cmocka_unit_test(refuses), cmocka_unit_test(overflow_spoils_its_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
