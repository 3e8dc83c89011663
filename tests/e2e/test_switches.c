/* SPDX-License-Identifier: MIT
 * The switches of training in combinations, on the CPU. */
#include "harness/check.h"
#include "harness/switches.h"

static void every_two_values_of_every_two(void **state) {
    (void)state;
    check_switches((const char *const[]){"cpu"}, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_two_values_of_every_two)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
