/* SPDX-License-Identifier: MIT
 * What other compilers got wrong without a word is right here: three training steps of each case op by op and fused,
 * with any number of threads and forward alone, against the interpreter; and values that are known by hand. */
#include "harness/check.h"
#include "harness/field_cases.h"

static void test_all(void **state) {
    (void)state;
    static user_program p;
    const unsigned modes = USER_EAGER | USER_DEFAULT | USER_THREADS | USER_EVALUATE;
    int failed = 0;
    const field_case *c;
    for (int i = 0; (c = field_case_at(i)); i++) {
        user_verdict v;
        field_case_program(c, &p);
        user_program_check(&p, modes, &v);
        if (v.mode) print_error("%s, %s: %s\n    (%s)\n", c->name, user_mode_name(v.mode), v.text, c->source);
        failed += v.mode != 0;
    }
    assert_int_equal(failed, 0);
}

static void test_by_hand(void **state) {
    (void)state;
    int failed = 0, facts = 0;
    const field_case *c;
    for (int i = 0; (c = field_case_at(i)); i++)
        for (unsigned mode = USER_EAGER; mode <= USER_DEFAULT; mode++) {
            const char *wrong = c->facts[0].output ? field_case_by_hand(c, mode) : NULL;
            if (wrong) print_error("%s, %s: %s\n    (%s)\n", c->name, user_mode_name(mode), wrong, c->source);
            failed += wrong != NULL;
            facts += c->facts[0].output != NULL;
        }
    assert_int_equal(failed, 0);
    assert_true(facts > 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_by_hand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
