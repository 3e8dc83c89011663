/* SPDX-License-Identifier: MIT
 * Public random draws in programs for the CPU. */
#include "harness/check.h"
#include "harness/random_draw_cases.h"

static void interpreter_and_modes_agree(void **state) {
    (void)state;
    random_draws_are_the_interpreters("cpu");
}

static void a_resumed_run_draws_the_same(void **state) {
    (void)state;
    random_draws_resume("cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(interpreter_and_modes_agree),
                                       cmocka_unit_test(a_resumed_run_draws_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
