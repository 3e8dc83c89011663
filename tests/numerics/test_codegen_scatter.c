/* SPDX-License-Identifier: MIT
 * scatter_add compiled for this machine, against the interpreter. */
#include "harness/check.h"
#include "harness/scatter_cases.h"

static void repeated_indices(void **state) {
    (void)state;
    scatter_at_repeated_indices(check_compiled);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(repeated_indices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
