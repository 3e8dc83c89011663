/* SPDX-License-Identifier: MIT
 * What a program's text says of a schedule's parameters is what a GPU runs: other parameters are other kernels with the
 * same result. */
#include "harness/check.h"
#include "harness/choice_cases.h"
#include "harness/gpu_program.h"

static void other_parameters_are_followed(void **state) {
    (void)state;
    check_choice_cases(check_gpu, true);
}

static void variations_are_right(void **state) {
    (void)state;
    check_choice_variations(check_gpu, 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_parameters_are_followed),
                                       cmocka_unit_test(variations_are_right)};
    if (!gpu_available()) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
