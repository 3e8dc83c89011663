/* SPDX-License-Identifier: MIT
 * Fusing never multiplies work: random programs with unrolled loops do about eager's arithmetic, in no longer predicted
 * time. bench/loop_programs.c runs more and longer ones, and times compiling. */
#include "harness/check.h"
#include "harness/loop_programs.h"

#include <stdlib.h>

enum { PROGRAMS = 42, TURNS = 24 };

static void no_more_work(void **state) {
    (void)state;
    int wrong = 0;
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        const char *name;
        loop_work eager, fused;
        tcc_context *cx;
        if (tcc_context_create(&cx) != TCC_OK) fail_msg("no context");
        if (loop_program_compile(cx, seed, TURNS, TCC_MODE_EAGER, &name, &eager) != TCC_OK ||
            loop_program_compile(cx, seed, TURNS, TCC_MODE_DEFAULT, &name, &fused) != TCC_OK)
            fail_msg("%s %d: %s", name, (int)seed, tcc_context_error(cx));
        tcc_context_destroy(cx);
        assert_true(eager.flop > 0 && eager.bytes > 0 && eager.ns > 0);
        const char *why = loop_work_judge(&eager, &fused);
        if (why) print_error("%s %d: %s\n", name, (int)seed, why);
        wrong += why != NULL;
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    setenv("TCC_CACHE_DISABLE", "1", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_more_work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
