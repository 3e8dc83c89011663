/* SPDX-License-Identifier: MIT
 * Philox 4x32-10 against the known answers that its authors publish. */
#include "ir/support/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void known_answers(void **state) {
    (void)state;
    static const uint32_t cases[][10] = {
        /* counter, key, result */
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        tcc_philox4x32(cases[i] + 4, cases[i], out);
        for (int j = 0; j < 4; j++) assert_int_equal(out[j], cases[i][6 + j]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
