/* SPDX-License-Identifier: MIT */
#include "ir/support/nearest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const char *const keys[] = {"training.max_steps", "training.max_epochs", "optimizer.lr"};

static void finds_the_nearest(void **state) {
    (void)state;
    assert_string_equal(tcc_nearest("training.maxsteps", keys, 3), "training.max_steps");
    assert_string_equal(tcc_nearest("training.max_epoch", keys, 3), "training.max_epochs");
    assert_string_equal(tcc_nearest("optimiser.lr", keys, 3), "optimizer.lr");
}

static void leaves_strangers_alone(void **state) {
    (void)state;
    assert_null(tcc_nearest("banana", keys, 3));
    assert_null(tcc_nearest("", keys, 3));
    assert_null(tcc_nearest("x", keys, 0));
    char longer[100] = {0};
    for (int i = 0; i < 99; i++) longer[i] = 'a';
    assert_null(tcc_nearest(longer, keys, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_the_nearest), cmocka_unit_test(leaves_strangers_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
