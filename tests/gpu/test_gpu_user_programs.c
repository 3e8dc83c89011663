/* SPDX-License-Identifier: MIT
 * Random programs as users write them on a GPU, fused, replayed and op by op, against the interpreter. */
#include "harness/check.h"
#include "harness/gpu_program.h"
#include "harness/user_check.h"
#include "harness/user_random.h"

#include <stdlib.h>

enum { FIRST = 1, SEEDS = 14 };

static void test_gpu(void **state) {
    (void)state;
    static user_program p;
    const char *first = getenv("TCC_TEST_SEED"), *count = getenv("TCC_TEST_COUNT");
    uint64_t seed = first ? strtoull(first, NULL, 0) : FIRST, end = seed + (count ? strtoull(count, NULL, 0) : SEEDS);
    int failed = 0;
    for (; seed < end; seed++) {
        user_verdict v;
        const char *refused = user_program_random(&(user_random_options){.least = 1, .most = 3}, seed, &p);
        if (refused) fail_msg("seed %llu: %s", (unsigned long long)seed, refused);
        user_program_check(&p, USER_GPU | (seed % 4 ? 0 : USER_GPU_EAGER) | (seed % 2 ? USER_GPU_REPLAY : 0), &v);
        if (!v.mode) continue;
        tcc_strbuf text = {0};
        user_program_print_c(&text, &p);
        print_error("%s: %s\n%s", user_mode_name(v.mode), v.text, text.text);
        tcc_strbuf_free(&text);
        failed++;
    }
    assert_int_equal(failed, 0);
}

int main(void) {
    if (!gpu_available()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
