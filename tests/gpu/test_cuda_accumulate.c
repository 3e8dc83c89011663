/* SPDX-License-Identifier: MIT
 * Steps in micro-batches on a CUDA device. */
#include "harness/accumulate_cases.h"
#include "harness/check.h"
#include "harness/cuda_device.h"

static void equal_whole_batches(void **state) {
    (void)state;
    for (int mode = TCC_MODE_DEFAULT; mode <= TCC_MODE_REDUCE_OVERHEAD; mode++)
        check_micro_batches("cuda", (tcc_mode)mode, TCC_MIXED_NONE);
    check_micro_batches("cuda", TCC_MODE_REDUCE_OVERHEAD, TCC_MIXED_BF16);
}

static void other_masks(void **state) {
    (void)state;
    check_micro_masks("cuda");
}

static void overflow_spoils_its_step(void **state) {
    (void)state;
    check_micro_overflow("cuda");
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TEST(equal_whole_batches), CUDA_TEST(other_masks),
                                       CUDA_TEST(overflow_spoils_its_step)};
    return cmocka_run_group_tests(tests, cuda_set_up, NULL);
}
