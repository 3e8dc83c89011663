/* SPDX-License-Identifier: MIT
 * What the CPU has, and TCC_CPU, which takes it for less. */
#include "harness/check.h"
#include "harness/environment.h"

#include "ir/support/cpu.h"

#include <stdio.h>
#include <string.h>

static void lists_of_features(void **state) {
    (void)state;
    assert_true(tcc_cpu_lists("znver4,+avx2,-amx-bf16,+fma", "avx2"));
    assert_true(tcc_cpu_lists("znver4,+avx2,-amx-bf16,+fma", "fma"));
    assert_false(tcc_cpu_lists("znver4,+avx2,-amx-bf16,+fma", "amx-bf16"));
    assert_false(tcc_cpu_lists("znver4,+avx2", "avx"));
    assert_false(tcc_cpu_lists("znver4,+avx", "avx2"));
    assert_false(tcc_cpu_lists(NULL, "avx2"));
    assert_false(tcc_cpu_lists("", "avx2"));
}

static void unknown_sets_are_there(void **state) {
    (void)state;
    assert_null(tcc_cpu_lacks("znver4"));
    assert_null(tcc_cpu_lacks("znver4,-avx2,+imaginary,"));
    assert_true(tcc_cpu_has("imaginary"));
}

#if defined __x86_64__
static const char *const levels[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
static const char *const features[] = {TCC_CPU_V2, TCC_CPU_V3, TCC_CPU_V4};

/* Some set that this machine lacks, if there is one, is found behind others; sets that it has are not. */
static void sets_are_those_of_the_machine(void **state) {
    (void)state;
    static const char *const sets[] = {"avx2", "fma", "avx512f", "avx512bf16", "avx512vnni"};
    int have[] = {__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"), __builtin_cpu_supports("avx512f"),
                  __builtin_cpu_supports("avx512bf16"), __builtin_cpu_supports("avx512vnni")};
    test_environment_set("TCC_CPU", NULL);
    for (int i = 0; i < 5; i++) {
        char cpu[64];
        snprintf(cpu, sizeof cpu, "some-name,+sse3,+%s,+imaginary", sets[i]);
        const char *lacking = tcc_cpu_lacks(cpu);
        if (have[i]) assert_null(lacking);
        else assert_memory_equal(lacking, sets[i], strlen(sets[i]));
        assert_int_equal(tcc_cpu_has(sets[i]), have[i] != 0);
    }
}

static void a_level_takes_what_is_above_it(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        test_environment_set("TCC_CPU", NULL);
        const char *wanted, *lacking = tcc_cpu_lacks(features[i]);
        tcc_diag d = {0};
        test_environment_set("TCC_CPU", levels[i]);
        if (lacking) {
            assert_int_equal(tcc_cpu_wanted(&d, &wanted), TCC_EUNSUPPORTED);
            assert_non_null(strstr(tcc_diag_text(&d), "is more than this CPU has: it lacks "));
            tcc_diag_clear(&d);
            continue;
        }
        assert_ok(tcc_cpu_wanted(&d, &wanted), &d);
        assert_string_equal(wanted, levels[i]);
        assert_string_equal(tcc_cpu_level(), levels[i]);
        for (int k = 0; k < 3; k++) assert_int_equal(tcc_cpu_lacks(features[k]) != NULL, k > i);
        assert_false(tcc_cpu_has("avx512bf16"));
        assert_false(tcc_cpu_has("amx-bf16"));
        assert_false(tcc_cpu_has("avx512vnni"));
        assert_int_equal(tcc_cpu_has("avx2"), i > 0);
        assert_true(tcc_cpu_has("imaginary"));
    }
    test_environment_restore();
}
#endif

static void other_values_are_errors(void **state) {
    (void)state;
    static const char *const wrong[] = {"avx2", "x86-64-v1", "x86-64-v5", "X86-64-V3", "v3", " native", "znver4"};
    const char *wanted;
    tcc_diag d = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        test_environment_set("TCC_CPU", wrong[i]);
        assert_int_equal(tcc_cpu_wanted(&d, &wanted), TCC_EINVAL);
        assert_non_null(strstr(tcc_diag_text(&d), wrong[i]));
        assert_non_null(strstr(tcc_diag_text(&d), "expected x86-64-v2, x86-64-v3, x86-64-v4 or native"));
        tcc_diag_clear(&d);
    }
    test_environment_set("TCC_CPU", "native");
    assert_ok(tcc_cpu_wanted(&d, &wanted), &d);
    assert_null(wanted);
    test_environment_set("TCC_CPU", NULL);
    assert_ok(tcc_cpu_wanted(&d, &wanted), &d);
    assert_null(wanted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_features),
        cmocka_unit_test(unknown_sets_are_there),
#if defined __x86_64__
        cmocka_unit_test(sets_are_those_of_the_machine),
        cmocka_unit_test(a_level_takes_what_is_above_it),
#endif
        cmocka_unit_test(other_values_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
