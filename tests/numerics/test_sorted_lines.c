/* SPDX-License-Identifier: MIT
 * Long lines in sorted order, against places that are counted: among equal elements, infinities and NaN, in every type,
 * of lengths at which runs and strides of them end early. */
#include "harness/check.h"
#include "harness/sorted_lines.h"

static void lines_are_in_stable_order(void **state) {
    (void)state;
    static const int lengths[] = {257, 287, 512, 688, 699};
    for (int i = 0; i < 5; i++)
        for (int kind = 0; kind < 4; kind++) {
            static const int kinds[] = {0, 2, 3, 8};
            const int n = lengths[i];
            for (int down = 0; down < 2; down++)
                check_sorted_line(NULL, (sorted_line){n, n, down, TCC_F32}, kinds[kind], NULL);
            check_sorted_line(NULL, (sorted_line){n, n, kind % 2, TCC_I32}, kinds[kind], NULL);
            check_sorted_line(NULL, (sorted_line){n, kind % 2 ? 64 : 37, true, TCC_F32}, kinds[kind], NULL);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_in_stable_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
