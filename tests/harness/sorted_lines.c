/* SPDX-License-Identifier: MIT
 * Lines in sorted order on a device, against places that are counted. */
#include "harness/sorted_lines.h"
#include "harness/check.h"

#include "frontend/run/model.h"
#include "ir/support/element.h"

#include <math.h>
#include <stdlib.h>

/* Where the first in order stand, and they themselves. */
static void sorted(tcc_trace *t, void *user) {
    const sorted_line *l = user;
    tcc_tensor x = tcc_input(t, "x"), found;
    if (l->k < l->n) {
        tcc_output(t, "values", tcc_top_k(x, l->k, 1, &found));
    } else {
        found = tcc_argsort(x, 1, l->descending);
        tcc_output(t, "values", tcc_sort(x, 1, l->descending));
    }
    tcc_output(t, "found", found);
}

/* Of a type with few values: those that all have. */
static double draw(uint64_t *state, int kinds, tcc_dtype dtype) {
    static const double few[SORTED_KINDS] = {2, 3, NAN, 0.0, -0.0, INFINITY, -INFINITY, -3};
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    if (dtype == TCC_U8) return (double)(*state >> 33 & (kinds ? 1 : 255));
    if (!kinds) return (double)((int64_t)(*state >> 40) - (1 << 23));
    return few[(*state >> 33) % (uint64_t)(dtype == TCC_I32 ? 2 : kinds)];
}

/* Whether a comes before b, wherever they stand. NaN is the largest. */
static bool comes_before(double a, double b, bool descending) {
    if (isnan(a) || isnan(b)) return descending ? isnan(a) && !isnan(b) : isnan(b) && !isnan(a);
    return descending ? a > b : a < b;
}

/* Each is not before the one that it follows, and stands behind it if they are equal. What is not there does not come
 * before the last, nor is it one of these twice. */
static void check_row(const sorted_line *l, const double *x, const int32_t *found, bool *seen) {
    for (int e = 0; e < l->n; e++) seen[e] = false;
    for (int i = 0; i < l->k; i++) {
        assert_in_range(found[i], 0, l->n - 1);
        assert_false(seen[found[i]]);
        seen[found[i]] = true;
        if (!i) continue;
        const double before = x[found[i - 1]], after = x[found[i]];
        assert_false(comes_before(after, before, l->descending));
        if (!comes_before(before, after, l->descending)) assert_true(found[i - 1] < found[i]);
    }
    const int last = found[l->k - 1];
    for (int e = 0; e < l->n; e++)
        if (!seen[e])
            assert_true(!comes_before(x[e], x[last], l->descending) &&
                        (comes_before(x[last], x[e], l->descending) || last < e));
}

static bool same_value(double a, double b) { return a == b ? signbit(a) == signbit(b) : isnan(a) && isnan(b); }

void check_sorted_line(const char *device, sorted_line l, int kinds, int *kernels) {
    const int count = SORTED_ROWS * l.n;
    double *x = calloc((size_t)count, sizeof *x);
    bool *seen = calloc((size_t)l.n, sizeof *seen);
    char *memory = calloc((size_t)count, sizeof(double));
    tcc_context *cx;
    tcc_model *m;
    tcc_array in = {.name = "x", .dtype = l.dtype, .rank = 2, .dims = {SORTED_ROWS, l.n}, .data = memory}, y, values;
    uint64_t state = (uint64_t)l.n;
    for (int i = 0; i < count; i++) {
        x[i] = draw(&state, kinds, l.dtype);
        tcc_element_set(l.dtype, memory, i, x[i]);
        x[i] = tcc_element_get(l.dtype, memory, i);
        if (isnan(x[i]) && i % 2) memory[(i + 1) * tcc_dtype_bytes(l.dtype) - 1] ^= (char)0x80; /* one with a sign */
    }
    const tcc_model_options options = {.size = sizeof options, .device = device};
    assert_int_equal(tcc_context_create(&cx), TCC_OK);
    if (tcc_model_create(cx, sorted, &l, &options, &m) || tcc_model_evaluate(m, &in, 1) ||
        tcc_model_output(m, "found", &y) || tcc_model_output(m, "values", &values))
        fail_msg("%s", tcc_context_error(cx));
    if (kernels) *kernels = m->programs.data[0]->program->n_kernels;
    for (int row = 0; row < SORTED_ROWS; row++) {
        const int32_t *found = (const int32_t *)y.data + row * l.k;
        check_row(&l, x + row * l.n, found, seen);
        for (int i = 0; i < l.k; i++) {
            const double value = tcc_element_get(l.dtype, values.data, row * l.k + i);
            assert_true(same_value(value, x[row * l.n + found[i]]));
        }
    }
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    free(x);
    free(seen);
    free(memory);
}
