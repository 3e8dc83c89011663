/* SPDX-License-Identifier: MIT
 * Long lines in sorted order, against places that are counted: among equal elements, infinities and NaN, in every type,
 * of lengths at which runs and strides of them end early. */
#include "harness/check.h"

#include "traincc/traincc.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 2, LONGEST = 700 };

typedef struct line {
    int n, k; /* the first k of n are asked for; descending if k < n */
    bool descending;
    tcc_dtype dtype;
} line;

static void sorted(tcc_trace *t, void *user) {
    const line *l = user;
    tcc_tensor x = tcc_input(t, "x"), found;
    if (l->k < l->n) tcc_top_k(x, l->k, 1, &found);
    else found = tcc_argsort(x, 1, l->descending);
    tcc_output(t, "y", found);
}

/* Of `kinds` elements that are often equal, or of many. */
static double draw(uint64_t *state, int kinds) {
    static const double few[] = {2, 3, NAN, 0.0, -0.0, INFINITY, -INFINITY, -3};
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return kinds ? few[(*state >> 33) % (uint64_t)kinds] : (double)(*state >> 50);
}

/* Whether a comes before b, wherever they stand. NaN is the largest. */
static bool comes_before(double a, double b, bool descending) {
    if (isnan(a) || isnan(b)) return descending ? isnan(a) && !isnan(b) : isnan(b) && !isnan(a);
    return descending ? a > b : a < b;
}

static void check_row(const line *l, const double *x, const int32_t *found) {
    for (int e = 0; e < l->n; e++) {
        int place = 0;
        for (int i = 0; i < l->n; i++)
            place += comes_before(x[i], x[e], l->descending) || (i < e && !comes_before(x[e], x[i], l->descending));
        if (place < l->k) assert_int_equal(found[place], e);
    }
}

static void check(line l, int kinds, uint64_t seed) {
    static double x[ROWS * LONGEST];
    static float floats[ROWS * LONGEST];
    static int32_t integers[ROWS * LONGEST];
    const bool is_float = l.dtype == TCC_F32;
    for (int i = 0; i < ROWS * l.n; i++) {
        x[i] = draw(&seed, is_float ? kinds : kinds ? 2 : 0);
        floats[i] = (float)x[i];
        integers[i] = is_float ? 0 : (int32_t)x[i];
    }
    tcc_context *cx;
    tcc_model *m;
    tcc_array in = {.name = "x", .dtype = l.dtype, .rank = 2, .dims = {ROWS, l.n}, .data = integers}, y;
    if (is_float) in.data = floats;
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_model_create(cx, sorted, &l, NULL, &m) || tcc_model_evaluate(m, &in, 1) || tcc_model_output(m, "y", &y))
        fail_msg("%s", tcc_context_error(cx));
    for (int row = 0; row < ROWS; row++) check_row(&l, x + row * l.n, (const int32_t *)y.data + row * l.k);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

static void lines_are_in_stable_order(void **state) {
    (void)state;
    static const int lengths[] = {257, 287, 512, 688, 699};
    for (int i = 0; i < 5; i++)
        for (int kind = 0; kind < 4; kind++) {
            static const int kinds[] = {0, 2, 3, 8};
            const int n = lengths[i];
            for (int down = 0; down < 2; down++) check((line){n, n, down, TCC_F32}, kinds[kind], (uint64_t)n);
            check((line){n, n, kind % 2, TCC_I32}, kinds[kind], (uint64_t)n);
            check((line){n, kind % 2 ? 64 : 37, true, TCC_F32}, kinds[kind], (uint64_t)n);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_are_in_stable_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
