/* SPDX-License-Identifier: MIT
 * Public random draws by the interpreter: their distributions, what their numbers follow from, and what is refused.
 * Compiled programs are in e2e/test_random_draws.c. */
#include "frontend/trace.h"
#include "harness/check.h"
#include "ir/eval.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A trace of draws, of which the last is looked at. */
typedef void (*draws)(tcc_trace *t);

static tcc_status trace(draws make, bool training, tcc_graph **out, tcc_diag *diag) {
    tcc_store store = {.seed = 1};
    tcc_trace t;
    assert_ok(tcc_trace_begin(&t, "random", &store, training, NULL, 0, diag), diag);
    make(&t);
    tcc_status status = tcc_trace_end(&t, out);
    tcc_store_free(&store);
    return status;
}

/* Output "x" with this seed at this step. */
static tcc_value draw(draws make, bool training, int64_t seed, int64_t step) {
    tcc_diag diag = {0};
    tcc_graph *g = NULL;
    tcc_value key, outputs[4], x = {0};
    if (trace(make, training, &g, &diag) != TCC_OK) fail_msg("%s", tcc_diag_text(&diag));
    assert_int_equal(g->inputs.count, 1);
    assert_ok(tcc_value_create(&g->inputs.data[0]->type, &key, &diag), &diag);
    key.i[0] = seed, key.i[1] = step;
    assert_ok(tcc_graph_eval(g, &key, outputs, &diag), &diag);
    for (int i = 0; i < g->outputs.count; i++) {
        if (!strcmp(g->outputs.data[i].name, "x")) x = outputs[i];
        else tcc_value_free(&outputs[i]);
    }
    tcc_value_free(&key);
    tcc_graph_destroy(g);
    return x;
}

static double number(const tcc_value *v, int64_t e) {
    return tcc_dtype_is_float(v->type.dtype) ? v->f[e] : (double)v->i[e];
}

static bool same(const tcc_value *a, const tcc_value *b) {
    bool equal = tcc_type_equal(&a->type, &b->type);
    for (int64_t e = 0; equal && e < tcc_type_numel(&a->type); e++) equal = number(a, e) == number(b, e);
    return equal;
}

/* -- Distributions -- */

enum { MANY = 40000, BINS = 16 };

static void uniform_many(tcc_trace *t) {
    tcc_output(t, "x", tcc_random_uniform(t, "u", -2, 3, TCC_F32, TCC_DIMS(MANY)));
}
static void uniform_bf16(tcc_trace *t) {
    tcc_output(t, "x", tcc_random_uniform(t, "u", 1, 3, TCC_BF16, TCC_DIMS(MANY)));
}
static void normal_many(tcc_trace *t) { tcc_output(t, "x", tcc_random_normal(t, "n", 1, 2, TCC_F32, TCC_DIMS(MANY))); }
static void bernoulli_many(tcc_trace *t) { tcc_output(t, "x", tcc_random_bernoulli(t, "b", 0.3, TCC_DIMS(MANY))); }
static void integers_many(tcc_trace *t) {
    tcc_output(t, "x", tcc_random_integers(t, "i", -5, 8, TCC_I32, TCC_DIMS(MANY)));
}
static void integers_far(tcc_trace *t) {
    const int64_t first = INT64_C(1) << 45;
    tcc_output(t, "x", tcc_random_integers(t, "i", first, first + (INT64_C(1) << 31), TCC_I64, TCC_DIMS(MANY)));
}
static void permutation(tcc_trace *t) { tcc_output(t, "x", tcc_random_permutation(t, "p", 5)); }

/* The mean of ((x - center) / scale)^power. */
static double moment(const tcc_value *v, double center, double scale, int power) {
    double sum = 0;
    for (int64_t e = 0; e < tcc_type_numel(&v->type); e++) sum += pow((number(v, e) - center) / scale, power);
    return sum / (double)tcc_type_numel(&v->type);
}

/* Chi-square of counts that are expected to be equal, over its degrees of freedom: about 1. */
static double chi_square(const int *counts, int n, double expected) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    return sum / (n - 1);
}

/* Equal numbers of draws in BINS equal intervals of [low, high), in which all lie. */
static void check_even(const tcc_value *v, double low, double high) {
    int counts[BINS] = {0}, pairs[BINS * BINS] = {0}, last = 0;
    for (int64_t e = 0; e < MANY; e++) {
        const double x = number(v, e);
        assert_true(x >= low && x < high);
        const int bin = (int)((x - low) / (high - low) * BINS);
        counts[bin]++;
        pairs[last * BINS + bin] += e % 2;
        last = bin;
    }
    assert_true(chi_square(counts, BINS, (double)MANY / BINS) < 2);
    assert_true(chi_square(pairs, BINS * BINS, MANY / 2.0 / BINS / BINS) < 1.3); /* neighbors know nothing of another */
}

static void uniform_is_even(void **state) {
    (void)state;
    tcc_value v = draw(uniform_many, true, 11, 0);
    check_even(&v, -2, 3);
    assert_true(fabs(moment(&v, 0.5, 5, 1)) < 0.005);
    assert_true(fabs(moment(&v, 0.5, 5, 2) - 1.0 / 12) < 0.002);
    tcc_value_free(&v);
    /* A type with few numbers: none is rounded up to the end, and the mean stays. */
    v = draw(uniform_bf16, true, 11, 0);
    int last = 0;
    for (int64_t e = 0; e < MANY; e++) {
        assert_true(v.f[e] >= 1 && v.f[e] < 3 && v.f[e] == tcc_dtype_round(TCC_BF16, v.f[e]));
        last += v.f[e] == 3 - 0x1p-6;
    }
    assert_true(last > 100);
    assert_true(fabs(moment(&v, 2, 1, 1)) < 0.01);
    tcc_value_free(&v);
}

static void normal_has_its_moments(void **state) {
    (void)state;
    tcc_value v = draw(normal_many, true, 12, 3);
    assert_true(fabs(moment(&v, 1, 2, 1)) < 0.015);
    assert_true(fabs(moment(&v, 1, 2, 2) - 1) < 0.02);
    assert_true(fabs(moment(&v, 1, 2, 3)) < 0.05);
    assert_true(fabs(moment(&v, 1, 2, 4) - 3) < 0.15);
    int counts[BINS] = {0}; /* of equal probability */
    for (int64_t e = 0; e < MANY; e++) counts[(int)(0.5 * erfc(-(v.f[e] - 1) / 2 / sqrt(2)) * BINS)]++;
    assert_true(chi_square(counts, BINS, (double)MANY / BINS) < 2);
    tcc_value_free(&v);
}

static void bernoulli_and_integers_are_even(void **state) {
    (void)state;
    tcc_value v = draw(bernoulli_many, true, 13, 0);
    assert_int_equal(v.type.dtype, TCC_BOOL);
    assert_true(fabs(moment(&v, 0, 1, 1) - 0.3) < 0.01);
    tcc_value_free(&v);
    v = draw(integers_many, true, 13, 0);
    int counts[13] = {0};
    for (int64_t e = 0; e < MANY; e++) {
        assert_in_range(v.i[e] + 5, 0, 12);
        counts[v.i[e] + 5]++;
    }
    assert_true(chi_square(counts, 13, MANY / 13.0) < 2);
    tcc_value_free(&v);
    v = draw(integers_far, true, 13, 0);
    check_even(&v, 0x1p45, 0x1p45 + 0x1p31);
    tcc_value_free(&v);
}

/* Each of the 120 orders of 5 comes as often, over the steps. */
static void permutations_are_even(void **state) {
    (void)state;
    enum { STEPS = 6000 };
    static int counts[3125];
    int orders[120], found = 0;
    for (int step = 0; step < STEPS; step++) {
        tcc_value v = draw(permutation, true, 14, step);
        int code = 0, seen = 0;
        for (int i = 0; i < 5; i++) code = code * 5 + (int)v.i[i], seen |= 1 << v.i[i];
        assert_int_equal(seen, 31);
        counts[code]++;
        tcc_value_free(&v);
    }
    for (int code = 0; code < 3125; code++)
        if (counts[code]) orders[found++] = counts[code];
    assert_int_equal(found, 120);
    assert_true(chi_square(orders, 120, STEPS / 120.0) < 1.4);
}

/* -- What numbers follow from -- */

static void plain(tcc_trace *t) { tcc_output(t, "x", tcc_random_normal(t, "n", 0, 1, TCC_F32, TCC_DIMS(7))); }
static void with_others(tcc_trace *t) {
    tcc_output(t, "a", tcc_random_normal(t, "m", 0, 1, TCC_F32, TCC_DIMS(7)));
    tcc_scope(t, "layer.%d", 3);
    tcc_output(t, "b", tcc_dropout(tcc_random_uniform(t, "n", 0, 1, TCC_F32, TCC_DIMS(7)), 0.5));
    tcc_scope_end(t);
    plain(t);
}
static void in_a_scope(tcc_trace *t) {
    tcc_scope(t, "layer");
    plain(t);
    tcc_scope_end(t);
}

static void numbers_follow_seed_step_and_name(void **state) {
    (void)state;
    tcc_value x = draw(plain, true, 5, 9);
    const struct {
        draws make;
        bool training, equal;
        int64_t seed, step;
    } others[] = {{plain, true, true, 5, 9},       {with_others, true, true, 5, 9}, {plain, false, true, 5, 9},
                  {plain, true, false, 6, 9},      {plain, true, false, 5, 10},     {in_a_scope, true, false, 5, 9},
                  {plain, true, false, 5 << 16, 9}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        tcc_value y = draw(others[i].make, others[i].training, others[i].seed, others[i].step);
        assert_int_equal(same(&x, &y), others[i].equal);
        tcc_value_free(&y);
    }
    tcc_value_free(&x);
}

/* -- What is refused -- */

static char twin[2][16];

static void two_of_one_name(tcc_trace *t) {
    tcc_random_uniform(t, "a", 0, 1, TCC_F32, TCC_DIMS(2));
    tcc_random_normal(t, "a", 0, 1, TCC_F32, TCC_DIMS(3));
}
static void two_of_one_hash(tcc_trace *t) {
    tcc_random_permutation(t, twin[0], 3);
    tcc_random_permutation(t, twin[1], 3);
}

static void check_refused(draws make, const char *part) {
    tcc_diag diag = {0};
    tcc_graph *g = NULL;
    assert_int_not_equal(trace(make, true, &g, &diag), TCC_OK);
    if (!strstr(tcc_diag_text(&diag), part)) fail_msg("\"%s\" does not say \"%s\"", tcc_diag_text(&diag), part);
    tcc_diag_clear(&diag);
}

static uint32_t hash(const char *name) {
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return h | UINT32_C(1) << 31;
}

/* Two names whose numbers would be the same: among so many there are some. */
static void find_twins(void) {
    enum { NAMES = 200000, SLOTS = 1 << 19 };
    int *slots = calloc(SLOTS, sizeof *slots);
    for (int i = 1; i < NAMES && !twin[0][0]; i++) {
        char name[16], other[16];
        snprintf(name, sizeof name, "%x", (unsigned)i * 2654435761u);
        const uint32_t h = hash(name);
        uint32_t at = h * 2654435761u >> 13;
        for (; slots[at]; at = (at + 1) % SLOTS) {
            snprintf(other, sizeof other, "%x", (unsigned)slots[at] * 2654435761u);
            if (hash(other) != h) continue;
            memcpy(twin[0], other, sizeof other), memcpy(twin[1], name, sizeof name);
            break;
        }
        slots[at] = i;
    }
    free(slots);
    assert_true(twin[0][0]);
}

static void a_name_is_drawn_once(void **state) {
    (void)state;
    check_refused(two_of_one_name, "random_normal: \"a\" is drawn twice");
    check_refused(two_of_one_name, "the first is drawn here");
    find_twins();
    check_refused(two_of_one_hash, "would draw the same numbers, as their names have one hash; rename one");
}

#define REFUSED(name, call) \
    static void name(tcc_trace *t) { call; }
REFUSED(no_name, tcc_random_uniform(t, "", 0, 1, TCC_F32, TCC_DIMS(2)))
REFUSED(null_name, tcc_random_normal(t, NULL, 0, 1, TCC_F32, TCC_DIMS(2)))
REFUSED(empty_range, tcc_random_uniform(t, "a", 1, 1, TCC_F32, TCC_DIMS(2)))
REFUSED(nan_range, tcc_random_uniform(t, "a", NAN, 1, TCC_F32, TCC_DIMS(2)))
REFUSED(infinite_range, tcc_random_uniform(t, "a", 0, INFINITY, TCC_F32, TCC_DIMS(2)))
REFUSED(narrow_range, tcc_random_uniform(t, "a", 1, 1.0001, TCC_F16, TCC_DIMS(2)))
REFUSED(wide_range, tcc_random_uniform(t, "a", -3e38, 3e38, TCC_F32, TCC_DIMS(2)))
REFUSED(of_integers, tcc_random_uniform(t, "a", 0, 9, TCC_I32, TCC_DIMS(2)))
REFUSED(negative_std, tcc_random_normal(t, "a", 0, -1, TCC_F32, TCC_DIMS(2)))
REFUSED(infinite_mean, tcc_random_normal(t, "a", INFINITY, 1, TCC_F32, TCC_DIMS(2)))
REFUSED(large_p, tcc_random_bernoulli(t, "a", 1.5, TCC_DIMS(2)))
REFUSED(nan_p, tcc_random_bernoulli(t, "a", NAN, TCC_DIMS(2)))
REFUSED(no_integers, tcc_random_integers(t, "a", 3, 3, TCC_I32, TCC_DIMS(2)))
REFUSED(large_integers, tcc_random_integers(t, "a", 0, (INT64_C(1) << 31) + 1, TCC_I64, TCC_DIMS(2)))
REFUSED(wide_integers, tcc_random_integers(t, "a", 1, (INT64_C(1) << 31) + 1, TCC_I32, TCC_DIMS(2)))
REFUSED(float_integers, tcc_random_integers(t, "a", 0, 3, TCC_F32, TCC_DIMS(2)))
REFUSED(no_permutation, tcc_random_permutation(t, "a", 0))
REFUSED(negative_dim, tcc_random_bernoulli(t, "a", 0.5, TCC_DIMS(2, -1)))
REFUSED(nine_dims, tcc_random_bernoulli(t, "a", 0.5, TCC_DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1)))

static void arguments_have_ranges(void **state) {
    (void)state;
    const struct {
        draws make;
        const char *part;
    } all[] = {
        {no_name, "random_uniform: a draw must have a name"},
        {null_name, "random_normal: a draw must have a name"},
        {empty_range, "random_uniform: [1, 1) must be finite and hold numbers of f32"},
        {nan_range, "random_uniform: [nan, 1) must be finite"},
        {infinite_range, "random_uniform: [0, inf) must be finite"},
        {narrow_range, "random_uniform: [1, 1.0001) must be finite and hold numbers of f16"},
        {wide_range, "random_uniform: [-3e+38, 3e+38) must be finite"},
        {of_integers, "random_uniform: it draws floats"},
        {negative_std, "random_normal: the mean must be finite and the deviation finite and 0 or more, not 0 and -1"},
        {infinite_mean, "random_normal: the mean must be finite"},
        {large_p, "random_bernoulli: p must be in [0, 1], not 1.5"},
        {nan_p, "random_bernoulli: p must be in [0, 1], not nan"},
        {no_integers, "random_integers: [3, 3) must hold 1 to 2^31 numbers"},
        {large_integers, "random_integers: [0, 2147483649) must hold 1 to 2^31 numbers"},
        {wide_integers, "between -2147483648 and 2147483647 for i32"},
        {float_integers, "random_integers: it draws i32 or i64"},
        {no_permutation, "random_permutation: dim 0 is 0; it must be 1 or more"},
        {negative_dim, "random_bernoulli: dim 1 is -1; it must be 1 or more"},
        {nine_dims, "random_bernoulli: rank 9 is out of range (0 to 8)"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_refused(all[i].make, all[i].part);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(uniform_is_even),
                                       cmocka_unit_test(normal_has_its_moments),
                                       cmocka_unit_test(bernoulli_and_integers_are_even),
                                       cmocka_unit_test(permutations_are_even),
                                       cmocka_unit_test(numbers_follow_seed_step_and_name),
                                       cmocka_unit_test(a_name_is_drawn_once),
                                       cmocka_unit_test(arguments_have_ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
