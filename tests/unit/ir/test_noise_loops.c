/* SPDX-License-Identifier: MIT
 * Loops of the noise: what each element becomes, one at a time and as it is written; the same at every vector width. */
#include "ir/noise_loops.h"
#include "harness/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1003 };

static uint64_t random_word(void) {
    static uint64_t x = 1;
    x = x * 6364136223846793005u + 1442695040888963407u;
    return x ^ x >> 29;
}

/* Of all sizes, some that types hold, and what is special. */
static void fill(double *x) {
    static const double special[] = {0,       -0.0,     INFINITY, -INFINITY, (double)NAN, 1,      -3,      65504,
                                     65519.9, 0x1p-140, 3.4e38,   -1e39,     0x1p-24,     0x1p24, 0x1p-26, 0.1};
    for (int e = 0; e < COUNT; e++) {
        x[e] = ldexp((double)(int64_t)random_word() * 0x1p-63, (int)(random_word() % 60) - 30);
        if (e % 3 == 1) x[e] = (double)(float)x[e];
        if (e % 3 == 2) x[e] = floor(x[e]);
        if (e < 16) x[e] = special[e];
        if (e >= 500 && e < 516) x[e] = special[e - 500];
    }
}

static bool same(const double *a, const double *b) { /* every NaN is the same */
    for (int e = 0; e < COUNT; e++)
        if (memcmp(&a[e], &b[e], sizeof *a) != 0 && !(isnan(a[e]) && isnan(b[e]))) return false;
    return true;
}

static bool is_rounded(tcc_dtype t, double x) {
    return isfinite(x) && (t == TCC_F64 ? x != floor(x) : x != tcc_dtype_round(t, x));
}

static double moved_by(const tcc_noise_points *n, double x) { return n->units * fmax(n->unit * fabs(x), n->smallest); }

static bool points(const tcc_pushes *p, const tcc_noise_points *n, double *out) {
    bool changed = false;
    for (int e = 0; e < COUNT; e++) {
        const double x = out[e];
        if (x == 0 || !(n->all ? isfinite(x) : is_rounded(n->held, x))) continue;
        out[e] += tcc__noise_push(p, e) * copysign(moved_by(n, x), x);
        changed = true;
    }
    return changed;
}

static bool sums(const tcc_pushes *p, const tcc_noise_sums *s, double *out) {
    bool changed = false;
    for (int e = 0; e < COUNT; e++) {
        const bool exact = s->whole && s->terms[e] < 0x1p24;
        const bool own = s->rounds && (!exact || is_rounded(s->own.held, out[e]));
        if (s->terms[e] == 0 || !isfinite(s->terms[e]) || (exact && !own)) continue;
        out[e] += tcc__noise_push(p, e) *
                  ((exact ? 0 : s->units * s->terms[e]) + (own ? moved_by(&s->own, out[e]) : 0));
        changed = true;
    }
    return changed;
}

static void pushes_are_between_half_and_one(void **state) {
    (void)state;
    double x[2] = {0.3, 0.3};
    const tcc_pushes own = {.seed = 5}, other = {.seed = 5, .reversed = true}, alike = {.seed = 5, .alike = x};
    int positive = 0;
    for (int e = 0; e < 1000; e++) {
        const double push = tcc__noise_push(&own, e);
        assert_true(fabs(push) >= 0.5 && fabs(push) < 1 && tcc__noise_push(&other, e) == -push);
        positive += push > 0;
    }
    assert_in_range(positive, 400, 600);
    assert_true(tcc__noise_push(&alike, 0) == tcc__noise_push(&alike, 1));
    assert_true(tcc__noise_push(&own, 0) != tcc__noise_push(&own, 1));
}

static void each_loop_is_what_it_says(void **state) {
    (void)state;
    static const tcc_dtype types[] = {TCC_F64, TCC_F32, TCC_BF16, TCC_F16};
    const tcc_noise_loops *loops[] = {&tcc__noise_loops_portable, tcc__noise_loops_best()};
    static double x[COUNT], alike[COUNT], terms[COUNT], want[COUNT], got[COUNT];
    for (int round = 0; round < 4 * 2 * 2 * 2; round++) {
        const tcc_dtype type = types[round % 4];
        const bool equal = round / 4 % 2, flag = round / 8 % 2;
        fill(x), fill(alike), fill(terms);
        for (int e = 0; e < COUNT; e++) terms[e] = fabs(terms[e]);
        const tcc_pushes p = {
            .seed = random_word(), .reversed = round / 16, .alike = equal ? alike : NULL, .too = equal ? terms : NULL};
        tcc_pushes one = p;
        one.too = NULL;
        const tcc_noise_points n = {.held = type, .all = flag, .units = 3, .unit = 0x1p-12, .smallest = 0x1p-126};
        const tcc_noise_sums s = {.terms = terms, .units = 0x1p-20, .whole = flag, .rounds = round % 3 != 0, .own = n};
        for (int v = 0; v < 2; v++) {
            memcpy(want, x, sizeof x), memcpy(got, x, sizeof x);
            assert_int_equal(loops[v]->points(&one, &n, got, COUNT), points(&one, &n, want));
            assert_true(same(got, want));
            memcpy(want, x, sizeof x), memcpy(got, x, sizeof x);
            assert_int_equal(loops[v]->sums(&p, &s, got, COUNT), sums(&p, &s, want));
            assert_true(same(got, want));
            loops[v]->factors(&one, 0x1p-9, x, got, COUNT);
            for (int e = 0; e < COUNT; e++) want[e] = x[e] * (1 + 0x1p-9 * tcc__noise_push(&one, e));
            assert_true(same(got, want));
            for (int e = 0; e < COUNT; e++) want[e] = tcc_dtype_round(type, x[e]);
            memcpy(got, x, sizeof x);
            assert_true(loops[v]->round_all(type, got, COUNT));
            assert_true(same(got, want));
        }
    }
}

static void nothing_changed_is_said(void **state) {
    (void)state;
    const tcc_noise_loops *loops[] = {&tcc__noise_loops_portable, tcc__noise_loops_best()};
    const tcc_pushes p = {.seed = 3};
    const tcc_noise_points n = {.held = TCC_F32, .units = 1, .unit = 0x1p-24};
    double x[20], terms[20] = {0}, far[20];
    for (int e = 0; e < 20; e++) x[e] = (double)(float)(0.1 * e), far[e] = e == 19 ? -40000 : x[e];
    const tcc_noise_sums s = {.terms = terms, .units = 1};
    for (int v = 0; v < 2; v++) {
        assert_false(loops[v]->points(&p, &n, x, 20));
        assert_false(loops[v]->sums(&p, &s, x, 20));
        assert_false(loops[v]->round_all(TCC_F32, x, 20));
        assert_false(loops[v]->any_beyond(0x1p15, x, x, 20));
        assert_true(loops[v]->any_beyond(0x1p15, x, far, 20));
        assert_true(loops[v]->any_beyond(0x1p14, far, x, 20)); /* on the other side */
        double rounds[] = {0.1};
        assert_true(loops[v]->round_all(TCC_BF16, rounds, 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pushes_are_between_half_and_one),
                                       cmocka_unit_test(each_loop_is_what_it_says),
                                       cmocka_unit_test(nothing_changed_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
