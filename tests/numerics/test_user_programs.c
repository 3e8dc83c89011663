/* SPDX-License-Identifier: MIT
 * Random programs as users write them, trained through the public API: losses, gradients, parameters and moments are
 * the interpreter's, op by op and fused, with any number of threads; and with a budget of memory, which some programs
 * have, the bits are those without one. TCC_TEST_SEED and TCC_TEST_COUNT choose others;
 * build/bin/campaign runs many. */
#include "harness/check.h"
#include "harness/user_check.h"
#include "harness/user_random.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIRST = 1, SEEDS = 44, PLANTED = 12 };

static user_program p, q; /* large */

static void make(const user_random_options *o, uint64_t seed, user_program *out) {
    const char *refused = user_program_random(o, seed, out);
    if (refused) fail_msg("seed %llu: %s", (unsigned long long)seed, refused);
}

static bool agrees(uint64_t seed, const user_random_options *o, unsigned modes) {
    user_verdict v;
    make(o, seed, &p);
    user_program_check(&p, modes, &v);
    if (!v.mode) return true;
    tcc_strbuf text = {0};
    user_program_print_c(&text, &p);
    print_error("%s: %s\n%s", user_mode_name(v.mode), v.text, text.text);
    tcc_strbuf_free(&text);
    return false;
}

static void test_all_modes(void **state) {
    (void)state;
    const char *first = getenv("TCC_TEST_SEED"), *count = getenv("TCC_TEST_COUNT");
    uint64_t seed = first ? strtoull(first, NULL, 0) : FIRST, end = seed + (count ? strtoull(count, NULL, 0) : SEEDS);
    int failed = 0;
    for (; seed < end; seed++) {
        user_random_options o = {.least = 1, .most = seed % 11 ? 5 : 16};
        unsigned modes = USER_DEFAULT | USER_EAGER | USER_THREADS | USER_BUDGET;
        if (seed % 4 == 0) modes |= USER_EVALUATE;
        failed += !agrees(seed, &o, modes);
    }
    assert_int_equal(failed, 0);
}

static void test_millions(void **state) {
    (void)state;
    assert_true(agrees(5, &(user_random_options){.least = 1, .most = 1, .huge = true}, USER_DEFAULT));
}

/* Another function or number in one step. */
static bool plant(user_program *r) {
    for (int i = r->n_steps - 1; i >= 0; i--) {
        user_step *s = &r->steps[i];
        if (s->op == USER_scale)
            s->real *= r->precision == TCC_MIXED_NONE ? 1.001 : 1.25; /* beyond what 16 bits round */
        else if (s->op == USER_relu) s->op = USER_silu;
        else if (s->op == USER_add) s->op = USER_sub;
        else if (s->op == USER_mean && s->n_ints == 1) s->op = USER_reduce_max;
        else if (s->op == USER_tanh) s->op = USER_erf;
        else continue;
        return true;
    }
    return false;
}

/* The comparison can fail: what is slightly another program is told from this one. */
static void test_differences_show(void **state) {
    (void)state;
    int planted = 0, seen = 0;
    for (uint64_t seed = 500; planted < PLANTED; seed++) {
        user_verdict v;
        make(&(user_random_options){.least = 1, .most = 2}, seed, &p);
        p.precision = TCC_MIXED_NONE; /* whose rounding hides small differences */
        q = p;
        if (!plant(&q)) continue;
        planted++;
        user_program_compare(&q, &p, USER_DEFAULT, &v);
        if (v.mode) {
            seen++;
            continue;
        }
        tcc_strbuf text = {0};
        user_program_print_c(&text, &q);
        print_message("seed %llu: not seen\n%s", (unsigned long long)seed, text.text ? text.text : "");
        tcc_strbuf_free(&text);
    }
    assert_int_equal(seen, planted);
}

/* The same seed gives the same program, and its text says so. */
static void test_same_seed(void **state) {
    (void)state;
    tcc_strbuf text[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        make(&(user_random_options){.most = 20}, 77, i ? &q : &p);
        user_program_print_c(&text[i], i ? &q : &p);
    }
    assert_string_equal(text[0].text, text[1].text);
    for (int i = 0; i < 2; i++) tcc_strbuf_free(&text[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_seed), cmocka_unit_test(test_all_modes),
                                       cmocka_unit_test(test_millions), cmocka_unit_test(test_differences_show)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
