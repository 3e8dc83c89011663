/* SPDX-License-Identifier: MIT
 * Convolutions and pools as users ask for them: parameters of layers, and options that are refused, each with a message
 * at the user's line. Values are in numerics/test_functions.c. */
#include "harness/check.h"
#include "harness/tracing.h"
#include "frontend/run/store.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdio.h>

typedef struct fixture {
    tracing of;
    tcc_tensor line, image, cube;
} fixture;

static int begin(void **state) {
    static fixture f;
    tcc_trace *t = &f.of.trace;
    *state = &f;
    if (tracing_begin(&f.of, NULL, 0)) return -1;
    f.line = tcc_param(t, "line", (tcc_init){0}, TCC_DIMS(2, 4, 9));
    f.image = tcc_param(t, "image", (tcc_init){0}, TCC_DIMS(2, 4, 9, 5));
    f.cube = tcc_param(t, "cube", (tcc_init){0}, TCC_DIMS(1, 6, 3, 4, 5));
    return 0;
}

static int end(void **state) { return tracing_end(&((fixture *)*state)->of); }

static void check_shape(tcc_tensor x, int rank, const int64_t *dims) {
    assert_non_null(x.node);
    assert_int_equal(tcc_rank(x), rank);
    for (int d = 0; d < rank; d++) assert_int_equal(tcc_dim(x, d), dims[d]);
}

static const tcc_stored *find(fixture *f, const char *name) {
    const int i = tcc_store_find(&f->of.store, name);
    if (i < 0) fail_msg("no \"%s\"", name);
    return &f->of.store.entries.data[i];
}

static void check_param(fixture *f, const char *name, const char *type, double fan_in) {
    const tcc_stored *p = find(f, name);
    assert_string_equal(tcc_type_text(&p->type), type);
    assert_int_equal(p->init.kind, TCC_INIT_KAIMING_UNIFORM);
    assert_true(p->init.a == 1);
    const double own = (double)tcc_type_numel(&p->type) / (double)p->type.dims[0];
    assert_true((p->init.fan_in ? (double)p->init.fan_in : own) == fan_in);
}

/* Shapes and ranges of PyTorch's nn.Conv*d and nn.ConvTranspose*d. */
static void layers_have_pytorchs_parameters(void **state) {
    fixture *f = *state;
    check_shape(tcc_conv_layer(f->image, "c", 6, 3, .kernel_of = {0, 2}, .groups = 2), TCC_DIMS(2, 6, 7, 4));
    check_param(f, "c.weight", "f32[6,2,3,2]", 12);
    check_param(f, "c.bias", "f32[6]", 12);
    check_shape(tcc_conv_transpose_layer(f->image, "t", 6, 3, .stride_of = {2}, .groups = 2), TCC_DIMS(2, 6, 19, 7));
    check_param(f, "t.weight", "f32[4,3,3,3]", 27);
    check_param(f, "t.bias", "f32[6]", 27);
    check_shape(tcc_conv_transpose_layer(f->line, "line", 1, 1, .kernel_of = {4}, .stride = 4, .no_bias = true),
                TCC_DIMS(2, 1, 36));
    check_param(f, "line.weight", "f32[4,1,4]", 4);
    assert_int_equal(tcc_store_find(&f->of.store, "line.bias"), -1);
    check_shape(tcc_conv_transpose_layer(f->cube, "cube", 2, 1, .output_padding_of = {0, 1, 2}, .stride_of = {1, 2, 3}),
                TCC_DIMS(1, 2, 3, 8, 15));
    assert_int_equal(f->of.cx.diag.status, TCC_OK);
}

static void layers_begin_as_they_are_told(void **state) {
    fixture *f = *state;
    const tcc_init one = {.kind = TCC_INIT_CONSTANT, .a = 1}, two = {.kind = TCC_INIT_CONSTANT, .a = 2};
    tcc_conv_layer(f->image, "c", 2, 3, .weight_init = &one, .bias_init = &two);
    tcc_conv_transpose_layer(f->image, "t", 2, 3, .weight_init = &two);
    assert_true(find(f, "c.weight")->init.a == 1 && find(f, "c.bias")->init.a == 2);
    assert_true(find(f, "t.weight")->init.a == 2);
    assert_int_equal(find(f, "t.bias")->init.kind, TCC_INIT_KAIMING_UNIFORM);
}

/* -- Refused -- */

static void check_refused(fixture *f, tcc_tensor got, tcc_status status, int line, const char *text) {
    const char *message = tcc_diag_text(&f->of.cx.diag);
    bool said = false;
    for (int i = -2; i < 4; i++) { /* a call of some lines */
        char place[512];
        snprintf(place, sizeof place, "test_convolutions.c:%d: error: %s", line + i, text);
        said |= strstr(message, place) != NULL;
    }
    if (!said) fail_msg("\"%s\" does not say \"test_convolutions.c:%d: error: %s\"", message, line, text);
    assert_int_equal(f->of.cx.diag.status, status);
    assert_null(got.node);
    tcc_diag_clear(&f->of.cx.diag);
}
#define REFUSED(status, text, ...) check_refused(f, __VA_ARGS__, status, __LINE__, text)

static void options_in_the_wrong_place_are_refused(void **state) {
    fixture *f = *state;
    tcc_trace *t = &f->of.trace;
    tcc_tensor w = tcc_param(t, "w", (tcc_init){0}, TCC_DIMS(4, 4, 3, 3));
    REFUSED(TCC_EINVAL, "conv: stride is -1; it must be 1 to 1099511627776", tcc_conv(f->image, w, .stride = -1));
    REFUSED(TCC_EINVAL, "conv: dilation_of[1] is -2; it must be 1 to 1099511627776",
            tcc_conv(f->image, w, .dilation_of = {1, -2}));
    REFUSED(TCC_EINVAL, "conv: padding_after[0] is -3; it must be 0 to 1099511627776",
            tcc_conv(f->image, w, .padding_after = {-3}));
    REFUSED(TCC_EINVAL, "conv: stride_of[2] is 2, but x, f32[2,4,9,5], has 2 spatial dims",
            tcc_conv(f->image, w, .stride_of = {1, 1, 2}));
    REFUSED(TCC_EINVAL, "conv: groups is -4; it must be 1", tcc_conv(f->image, w, .groups = -4));
    REFUSED(TCC_EINVAL, "conv: padding is given, and same, which finds the padding",
            tcc_conv(f->image, w, .padding_of = {0, 1}, .same = true));
    REFUSED(TCC_EINVAL, "conv: output_padding is an option of transposed convolutions",
            tcc_conv(f->image, w, .output_padding_of = {0, 1}));
    REFUSED(TCC_EINVAL, "conv: no_bias, kernel_of, weight_init and bias_init are options of layers",
            tcc_conv(f->image, w, .kernel_of = {3}));
    REFUSED(TCC_EINVAL, "conv_transpose: same is no option of transposed convolutions",
            tcc_conv_transpose(f->image, w, .same = true));
    REFUSED(TCC_EINVAL, "conv_transpose: output_padding is 2 in spatial dim 1; it must be less than the stride, 2",
            tcc_conv_transpose(f->image, w, .stride_of = {3, 2}, .output_padding = 2));
    REFUSED(TCC_EINVAL, "conv \"c\": kernel_of[1] is 3, but x, f32[2,4,9], has 1 spatial dim",
            tcc_conv_layer(f->line, "c", 3, 3, .kernel_of = {0, 3}));
    REFUSED(TCC_EINVAL, "max_pool: window_of[1] is -2; it must be 1", tcc_max_pool(f->image, 2, .window_of = {0, -2}));
    REFUSED(TCC_EINVAL, "avg_pool: the window is 0; it must be 1", tcc_avg_pool(f->image, 0, .window_of = {2}));
}

static void shapes_that_do_not_fit_are_refused(void **state) {
    fixture *f = *state;
    tcc_trace *t = &f->of.trace;
    tcc_tensor w = tcc_param(t, "w", (tcc_init){0}, TCC_DIMS(4, 2, 3, 3));
    REFUSED(TCC_ESHAPE, "conv_transpose: x must be [N, C, spatial] with 1 to 3 spatial dims, not f32[4]",
            tcc_conv_transpose(tcc_sum(w, TCC_DIMS(1, 2, 3)), w));
    REFUSED(TCC_ESHAPE,
            "conv_transpose: w must be [C, O / groups, kernel], 1 groups dividing C: x is f32[2,4,9], w f32[4,2,3,3]",
            tcc_conv_transpose(f->line, w));
    REFUSED(TCC_ESHAPE, "conv_transpose: w must be [C, O / groups, kernel], 3 groups dividing C: x is f32[2,4,9,5]",
            tcc_conv_transpose(f->image, w, .groups = 3));
    REFUSED(TCC_EDTYPE, "conv_transpose: x is f64[2,4,9,5] and w f32[4,2,3,3]; they must be of one float type",
            tcc_conv_transpose(tcc_cast(f->image, TCC_F64), w));
    REFUSED(TCC_ESHAPE,
            "conv_transpose: spatial dim 1 of the result would have no element: x is f32[2,4,9,5], w f32[4,2,3,3], "
            "the stride 1, the padding 3 + 4",
            tcc_conv_transpose(f->image, w, .padding_before = {0, 3}, .padding_after = {0, 4}));
    REFUSED(TCC_ESHAPE, "conv_transpose: spatial dim 0 of the result would have too many elements: x is",
            tcc_conv_transpose(f->image, w, .stride = INT64_C(1) << 40));
    REFUSED(TCC_ESHAPE, "conv_transpose: spatial dim 0 of the result would have too many elements: x is",
            tcc_conv_transpose(f->image, w, .dilation = INT64_C(1) << 40));
    REFUSED(TCC_ESHAPE, "conv: dilation [1099511627776, 1099511627776] makes w f32[4,2,3,3] too large",
            tcc_conv(f->image, w, .dilation = INT64_C(1) << 40, .groups = 2, .same = true));
    REFUSED(TCC_ESHAPE, "conv_transpose \"t\": 2 groups do not divide 4 input and 5 output channels",
            tcc_conv_transpose_layer(f->image, "t", 5, 3, .groups = 2));
    REFUSED(TCC_ESHAPE, "parameter \"t.weight\": extents must be at least 1, not f32[4,5,3,0]",
            tcc_conv_transpose_layer(f->image, "t", 5, 0, .kernel_of = {3}));
    REFUSED(TCC_ESHAPE,
            "max_pool: the padding must be less than the window, but it is 1 and 2 of a window of 2 in spatial dim 1",
            tcc_max_pool(f->image, 2, .padding_before = {0, 1}, .padding_after = {0, 2}));
    REFUSED(TCC_ESHAPE,
            "avg_pool: the window does not fit: [4, 9] in x f32[2,4,9,5] with padding 0 + 0 in spatial dim 1",
            tcc_avg_pool(f->image, 9, .window_of = {4}));
    REFUSED(TCC_ESHAPE, "max_pool: the window does not fit", tcc_max_pool(f->image, 9, .stride = 3, .ceil_mode = true));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(layers_have_pytorchs_parameters, begin, end),
        cmocka_unit_test_setup_teardown(layers_begin_as_they_are_told, begin, end),
        cmocka_unit_test_setup_teardown(options_in_the_wrong_place_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(shapes_that_do_not_fit_are_refused, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
