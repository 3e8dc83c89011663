/* SPDX-License-Identifier: MIT
 * A step in micro-batches is that of the whole batch, or is refused: some random pairs of network and loss. The program
 * accumulate-campaign runs thousands of them. */
#include "harness/accumulate_random.h"
#include "harness/check.h"

#include <stdlib.h>

enum { PAIRS = 14 };

static void equal_or_refused(void **state) {
    (void)state;
    const char *given = getenv("TCC_TEST_COUNT");
    const int count = given ? atoi(given) : PAIRS;
    int counts[ACCUMULATE_VERDICTS] = {0};
    for (int seed = 1; seed <= count; seed++) {
        accumulate_result r;
        accumulate_random((uint64_t)seed, seed % 4 == 3 ? TCC_MIXED_BF16 : TCC_MIXED_NONE, "cpu", &r);
        if (r.verdict == ACCUMULATE_DIFFERENT) fail_msg("seed %d (%s): %s", seed, r.network, r.text);
        counts[r.verdict]++;
    }
    assert_true(counts[ACCUMULATE_EQUAL] > counts[ACCUMULATE_REFUSED]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_or_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
