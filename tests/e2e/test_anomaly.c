/* SPDX-License-Identifier: MIT
 * Anomalies are found in every mode and precision, and in micro-batches. */
#include "harness/anomaly_cases.h"
#include "harness/check.h"

static void modes(void **state) {
    (void)state;
    for (int mode = TCC_MODE_DEFAULT; mode <= TCC_MODE_MAX_AUTOTUNE; mode++)
        check_anomaly("cpu", (tcc_mode)mode, TCC_MIXED_NONE, 1);
}

static void precisions(void **state) {
    (void)state;
    check_anomaly("cpu", TCC_MODE_DEFAULT, TCC_MIXED_BF16, 1);
    check_anomaly("cpu", TCC_MODE_DEFAULT, TCC_MIXED_FP16, 1);
}

static void micro_batches(void **state) {
    (void)state;
    check_anomaly("cpu", TCC_MODE_DEFAULT, TCC_MIXED_NONE, 2);
    check_anomaly("cpu", TCC_MODE_DEFAULT, TCC_MIXED_FP16, 2);
}

static void left_out(void **state) {
    (void)state;
    for (int parts = 1; parts <= 3; parts += 2) {
        check_left_out("cpu", TCC_MIXED_NONE, parts, true);
        check_left_out("cpu", TCC_MIXED_BF16, parts, true);
        check_left_out("cpu", TCC_MIXED_FP16, parts, true);
        check_left_out("cpu", TCC_MIXED_FP16, parts, false);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(modes), cmocka_unit_test(precisions),
                                       cmocka_unit_test(micro_batches), cmocka_unit_test(left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
