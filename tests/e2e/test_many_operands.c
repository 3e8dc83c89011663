/* SPDX-License-Identifier: MIT
 * Hundreds of operands of one kind on the CPU, in both modes. */
#include "harness/check.h"
#include "harness/many_operands.h"

static void hundreds_of_operands(void **state) {
    (void)state;
    const int counts[] = {25, 300};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int eager = 0; eager < 2; eager++)
            check_many_operands("cpu", eager ? TCC_MODE_EAGER : TCC_MODE_DEFAULT, counts[i]);
}

static void thirty_of_each(void **state) {
    (void)state;
    check_thirty_of_each("cpu", TCC_MODE_DEFAULT);
    check_thirty_of_each("cpu", TCC_MODE_EAGER);
}

static void forty_blocks(void **state) {
    (void)state;
    check_forty_blocks("cpu", TCC_MODE_DEFAULT);
    check_forty_blocks("cpu", TCC_MODE_EAGER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hundreds_of_operands),
        cmocka_unit_test(thirty_of_each),
        cmocka_unit_test(forty_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
