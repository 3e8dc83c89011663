/* SPDX-License-Identifier: MIT
 * Anomalies are found on a CUDA device, by launches and by replays. */
#include "harness/anomaly_cases.h"
#include "harness/check.h"
#include "harness/cuda_device.h"

static void found(void **state) {
    (void)state;
    check_anomaly("cuda", TCC_MODE_DEFAULT, TCC_MIXED_NONE, 1);
    check_anomaly("cuda", TCC_MODE_DEFAULT, TCC_MIXED_FP16, 1);
    check_anomaly("cuda", TCC_MODE_EAGER, TCC_MIXED_NONE, 1);
    check_anomaly("cuda", TCC_MODE_REDUCE_OVERHEAD, TCC_MIXED_BF16, 1);
    check_anomaly("cuda", TCC_MODE_REDUCE_OVERHEAD, TCC_MIXED_NONE, 2);
}

static void left_out(void **state) {
    (void)state;
    check_left_out("cuda", TCC_MIXED_NONE, 3, true);
    check_left_out("cuda", TCC_MIXED_FP16, 1, true);
    check_left_out("cuda", TCC_MIXED_FP16, 3, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {CUDA_TEST(found), CUDA_TEST(left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
