/* SPDX-License-Identifier: MIT
 * Random networks of real sizes, trained through the public API: loss, gradients, moments and buffers of the default
 * mode are those of eager within its noise; budgets of memory, segments, threads and reduce-overhead change no bit.
 * TCC_TEST_SEED and TCC_TEST_COUNT choose others; build/bin/net_campaign runs many. */
#include "bench/kernel_cache.h"
#include "harness/check.h"
#include "harness/net_check.h"
#include "harness/net_random.h"

#include <stdio.h>
#include <stdlib.h>

/* A hundred nets are to take 20 s, most of which LLVM takes, so they have few layers. */
static const net_options sizes = {.few = true};

enum { FIRST = 1, SEEDS = 100, PLANTED = 10 };

static user_program p, q; /* large */

static void make(uint64_t seed, user_program *out) {
    const char *refused = net_random(&sizes, seed, out);
    if (refused) fail_msg("seed %llu: %s", (unsigned long long)seed, refused);
}

static void show(const user_program *net) {
    tcc_strbuf text = {0};
    user_program_print_c(&text, net);
    print_error("%s", text.text);
    tcc_strbuf_free(&text);
}

static void test_all_modes(void **state) {
    (void)state;
    const char *first = getenv("TCC_TEST_SEED"), *count = getenv("TCC_TEST_COUNT");
    uint64_t seed = first ? strtoull(first, NULL, 0) : FIRST, end = seed + (count ? strtoull(count, NULL, 0) : SEEDS);
    int failed = 0;
    for (; seed < end; seed++) {
        net_verdict v;
        make(seed, &p);
        net_check(&p, NET_DEFAULT | NET_BUDGET | (seed % 16 == 1 ? NET_THREADS : seed % 16 == 9 ? NET_REPLAY : 0), &v);
        if (!v.mode) continue;
        print_error("%s: %s\n", net_mode_name(v.mode), v.text);
        show(&p);
        failed++;
    }
    long hits, misses;
    kernel_cache_count(&hits, &misses);
    print_message("kernels compiled %ld, found %ld\n", misses, hits);
    assert_int_equal(failed, 0);
}

/* Another function or number in one step. */
static bool plant(user_program *r) {
    for (int i = r->n_steps - 1; i >= 0; i--) {
        user_step *s = &r->steps[i];
        if (s->op == USER_conv_layer_full && !s->ints[18] && s->ints[8] && s->ints[11] == s->ints[8])
            s->ints[8]--, s->ints[11]++; /* a pixel further */
        else if (s->op == USER_relu) s->op = USER_softplus;
        else if (s->op == USER_gelu) s->op = USER_gelu_tanh;
        else if (s->op == USER_scale) s->real *= 1.001;
        else if (s->op == USER_cross_entropy_full) s->real += 0.01;
        else continue;
        return true;
    }
    return false;
}

/* The comparison can fail: what is slightly another network is told from this one. */
static void test_differences_show(void **state) {
    (void)state;
    int planted = 0, seen = 0;
    for (uint64_t seed = 500; planted < PLANTED; seed++) {
        net_verdict v;
        make(seed, &p);
        p.precision = TCC_MIXED_NONE; /* whose rounding hides small differences */
        q = p;
        if (!plant(&q)) continue;
        planted++;
        net_compare(&q, &p, NET_DEFAULT, &v);
        seen += v.mode == NET_DEFAULT;
        if (!v.mode) show(&q);
    }
    assert_int_equal(seen, planted);
}

/* The same seed gives the same network, and its text says so. */
static void test_same_seed(void **state) {
    (void)state;
    tcc_strbuf text[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        make(77, i ? &q : &p);
        user_program_print_c(&text[i], i ? &q : &p);
    }
    assert_string_equal(text[0].text, text[1].text);
    for (int i = 0; i < 2; i++) tcc_strbuf_free(&text[i]);
}

int main(void) {
    setenv("TCC_NUM_THREADS", "1", 1); /* the cache of kernels has one compiler */
    if (!kernel_cache_create((size_t)1 << 30)) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_seed), cmocka_unit_test(test_all_modes),
                                       cmocka_unit_test(test_differences_show)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
