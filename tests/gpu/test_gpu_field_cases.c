/* SPDX-License-Identifier: MIT
 * What other compilers got wrong without a word, on a GPU: op by op and fused, against the interpreter and by hand. */
#include "harness/check.h"
#include "harness/field_cases.h"
#include "harness/gpu_program.h"

static void test_all(void **state) {
    (void)state;
    static user_program p;
    int failed = 0;
    const field_case *c;
    for (int i = 0; (c = field_case_at(i)); i++) {
        user_verdict v;
        field_case_program(c, &p);
        user_program_check(&p, USER_GPU | USER_GPU_EAGER, &v);
        if (v.mode) print_error("%s, %s: %s\n    (%s)\n", c->name, user_mode_name(v.mode), v.text, c->source);
        failed += v.mode != 0;
    }
    assert_int_equal(failed, 0);
}

static void test_by_hand(void **state) {
    (void)state;
    int failed = 0;
    const field_case *c;
    for (int i = 0; (c = field_case_at(i)); i++)
        for (unsigned mode = USER_GPU; mode <= USER_GPU_EAGER; mode *= 2) {
            const char *wrong = c->facts[0].output ? field_case_by_hand(c, mode) : NULL;
            if (wrong) print_error("%s, %s: %s\n    (%s)\n", c->name, user_mode_name(mode), wrong, c->source);
            failed += wrong != NULL;
        }
    assert_int_equal(failed, 0);
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
