/* SPDX-License-Identifier: MIT
 * Derived states on the CPU. */
#include "harness/check.h"
#include "harness/derived_states.h"

static void copies_follow(void **state) {
    (void)state;
    check_derived_states("cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_follow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
