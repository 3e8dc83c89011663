/* SPDX-License-Identifier: MIT
 * Parameters and buffers of every element type on the CPU. */
#include "harness/check.h"
#include "harness/typed_params.h"

static void every_type(void **state) {
    (void)state;
    check_typed_params("cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
