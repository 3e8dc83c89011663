/* SPDX-License-Identifier: MIT
 * Derived states on the CPU. */
#include "harness/check.h"
#include "harness/derived_states.h"

static void copies_follow(void **state) {
    (void)state;
    check_derived_states("cpu");
}

static void weights_may_be_idle(void **state) {
    (void)state;
    check_idle_weights("cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_follow), cmocka_unit_test(weights_may_be_idle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
