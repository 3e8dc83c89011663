/* SPDX-License-Identifier: MIT
 * Values and slopes at the edges of functions, as PyTorch has them or as their headers say; and numbers that a type
 * does not have. */
#include "harness/check.h"
#include "traincc/traincc.h"

#include <math.h>
#include <string.h>

enum { MOST = 8 };

typedef struct edges {
    tcc_tensor (*make)(tcc_tensor x, tcc_tensor y);
    int n;
    float x[MOST], y[MOST], value[MOST], dx[MOST], dy[MOST];
} edges;

static tcc_tensor make_atan2(tcc_tensor x, tcc_tensor y) { return tcc_atan2(x, y); }
static tcc_tensor make_asin(tcc_tensor x, tcc_tensor y) { return tcc_add(tcc_asin(x), tcc_scale(y, 0)); }
static tcc_tensor make_acos(tcc_tensor x, tcc_tensor y) { return tcc_add(tcc_acos(x), tcc_scale(y, 0)); }
static tcc_tensor make_bce(tcc_tensor x, tcc_tensor y) { return tcc_bce_loss(x, y, .reduction = TCC_REDUCE_NONE); }
static tcc_tensor make_cosine(tcc_tensor x, tcc_tensor y) {
    return tcc_cosine_similarity(tcc_reshape(x, TCC_DIMS(-1, 1)), tcc_reshape(y, TCC_DIMS(-1, 1)), 1);
}

#define PI 3.14159265f
static const edges all[] = {
    {make_atan2,
     5,
     {0, 0, 1, 0, -1},
     {1, -1, 0, 0, 0},
     {0, PI, PI / 2, 0, -PI / 2},
     {1, -1, 0, 0, 0},
     {0, 0, -1, 0, 1}},
    {make_asin, 3, {1, -1, 0}, {0}, {PI / 2, -PI / 2, 0}, {INFINITY, INFINITY, 1}, {0}},
    {make_acos, 3, {1, -1, 0}, {0}, {0, PI, PI / 2}, {-INFINITY, -INFINITY, -1}, {0}},
    {make_bce, 4, {0, 1, 0, 1}, {0, 1, 1, 0}, {0, 0, 100, 100}, {1, -1, -1e12f, 1e12f}, {100, -100, 100, -100}},
    {make_cosine, 2, {0, 0}, {1, 2}, {0, 0}, {1e8f, 1e8f}, {0, 0}},
};

static void net(tcc_trace *t, void *user) {
    const edges *e = user;
    tcc_tensor y = e->make(tcc_input(t, "x"), tcc_input(t, "y"));
    tcc_tensor w = tcc_param(t, "w", ((tcc_init){.kind = TCC_INIT_ZEROS}), TCC_DIMS(1));
    tcc_output(t, "value", y);
    tcc_loss(t, tcc_add(tcc_sum(y, TCC_ALL), tcc_sum(w, TCC_ALL)));
}

static void compare(const char *what, int function, const tcc_array *have, const float *want, int n) {
    for (int i = 0; i < n; i++) {
        const float is = ((const float *)have->data)[i];
        if (!(is == want[i] || fabsf(is - want[i]) <= 2e-6f * fabsf(want[i])))
            fail_msg("function %d, point %d: %s is %g, not %g", function, i, what, is, want[i]);
    }
}

static void values_and_slopes(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof all / sizeof *all; f++) {
        edges e = all[f];
        const tcc_model_options o = {.size = sizeof o, .keep_input_gradients = true};
        const tcc_array batch[] = {{.name = "x", .dtype = TCC_F32, .rank = 1, .dims = {e.n}, .data = e.x},
                                   {.name = "y", .dtype = TCC_F32, .rank = 1, .dims = {e.n}, .data = e.y}};
        tcc_context *cx;
        tcc_model *m;
        tcc_array a;
        assert_int_equal(tcc_context_create(&cx), TCC_OK);
        if (tcc_model_create(cx, net, &e, &o, &m) || tcc_model_train(m, batch, 2))
            fail_msg("%s", tcc_context_error(cx));
        assert_int_equal(tcc_model_output(m, "value", &a), TCC_OK);
        compare("the value", (int)f, &a, e.value, e.n);
        assert_int_equal(tcc_model_gradient(m, "x", &a), TCC_OK);
        compare("the slope by x", (int)f, &a, e.dx, e.n);
        assert_int_equal(tcc_model_gradient(m, "y", &a), TCC_OK);
        compare("the slope by y", (int)f, &a, e.dy, e.n);
        tcc_model_destroy(m);
        tcc_context_destroy(cx);
    }
}

static void refused(tcc_trace *t, void *user) {
    const int which = *(const int *)user;
    tcc_tensor y = tcc_constant(t, 0, TCC_F32, 0, NULL);
    if (which == 0) y = tcc_arange(t, 0, 3e9, 1e8, TCC_I32);
    if (which == 1) y = tcc_arange(t, 250, 260, 1, TCC_U8);
    if (which == 2) y = tcc_iota(t, 0, TCC_U8, TCC_DIMS(257));
    if (which == 3) y = tcc_constant(t, 1e5, TCC_F16, 0, NULL);
    if (which == 4) y = tcc_count_nonzero(tcc_constant(t, 1, TCC_U8, TCC_DIMS(65536, 32768)), TCC_ALL);
    tcc_loss(t, tcc_sum(tcc_cast(y, TCC_F32), TCC_ALL));
}

static void what_a_type_does_not_hold(void **state) {
    (void)state;
    static const char *const words[] = {"2900000000 is no value of i32", "259 is no value of u8",
                                        "256 is no value of u8", "100000 is no value of f16",
                                        "2147483648 elements may be more than an i32"};
    for (int i = 0; i < 5; i++) {
        tcc_context *cx;
        tcc_model *m;
        const float x = 0;
        const tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 1, .dims = {1}, .data = (void *)&x};
        assert_int_equal(tcc_context_create(&cx), TCC_OK);
        assert_int_equal(tcc_model_create(cx, refused, &i, NULL, &m), TCC_OK);
        assert_int_not_equal(tcc_model_compile(m, false, &batch, 1), TCC_OK);
        if (!strstr(tcc_context_error(cx), words[i])) fail_msg("%s", tcc_context_error(cx));
        tcc_model_destroy(m);
        tcc_context_destroy(cx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_and_slopes),
                                       cmocka_unit_test(what_a_type_does_not_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
