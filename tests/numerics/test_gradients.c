/* SPDX-License-Identifier: MIT
 * Every op's gradient, and the gradient of that, against finite differences in the interpreter, in double precision. */
#include "harness/check.h"
#include "harness/gradcheck.h"
#include "harness/gradient_cases.h"

static void check(const tcc_graph *g, tcc_value *inputs) {
    const int64_t elements_a_parameter = 40;
    gradcheck_counts counts = gradcheck(g, inputs, 1e-7, elements_a_parameter);
    assert_true(counts.checked > 0);
    assert_true(counts.skipped * 10 <= counts.checked); /* kinks are rare */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradient_cases_cover)};
    return gradient_cases_run(TCC_F64, FIRST_ORDER, check) + gradient_cases_run(TCC_F64, SECOND_ORDER, check) +
           cmocka_run_group_tests(tests, NULL, NULL);
}
