/* SPDX-License-Identifier: MIT
 * Wrong values: rounding that was left out or added, numbers that are none, places read wrongly. */
#include "harness/field_cases.h"

#include <math.h>

#define CASE(function) .name = #function, .model = function

static double zero(int64_t e) { return (void)e, 0; }

static void difference_of_product(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_input(t, "x"),
               m = tcc_mul(tcc_div(FIELD_PARAM(t, "p", 11, 41), tcc_add_scalar(tcc_abs(x), 1)), x);
    tcc_tensor nothing = tcc_sub(m, m);
    tcc_output(t, "place", tcc_argmax(nothing, 1));
    tcc_output(t, "nothing", nothing);
    field_finish(t, m);
}

static void argmax_of_transposed(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_sin(tcc_scale(tcc_input(t, "x"), 2)), flat = tcc_reshape(field_transposed(x), TCC_DIMS(35));
    tcc_output(t, "place", tcc_argmax(flat, 0));
    field_finish(t, tcc_mul(x, FIELD_PARAM(t, "p", 5, 7)));
}

static void argmax_of_sum(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor a = field_transposed(tcc_input(t, "a")), sum = tcc_add(a, tcc_input(t, "b"));
    tcc_output(t, "place", tcc_argmax(sum, 1));
    tcc_output(t, "most", tcc_reduce_max(sum, TCC_DIMS(1)));
    field_finish(t, tcc_mul(sum, FIELD_PARAM(t, "p", 8, 8)));
}

static void argmax_of_pool(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor y = tcc_adaptive_avg_pool(tcc_input(t, "x"), TCC_DIMS(2));
    tcc_output(t, "place", tcc_argmax(tcc_reshape(y, TCC_DIMS(18)), 0));
    field_finish(t, tcc_mul(y, FIELD_PARAM(t, "p", 3, 3, 2)));
}

static void softmax_beside_concat(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor a = tcc_input(t, "x"), m = tcc_mul(a, FIELD_PARAM(t, "p", 34, 1, 17));
    tcc_tensor flat = tcc_reshape(m, TCC_DIMS(34, 17)), steps = tcc_ceil(tcc_scale(flat, 4));
    tcc_output(t, "all", tcc_concat(((tcc_tensor[]){a, a, m, m}), 4, 2));
    tcc_output(t, "s", tcc_softmax(steps, 0));
    field_finish(t, tcc_softmax(flat, 0));
}

static void numbers_that_are_none(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor p = FIELD_PARAM_OF(t, "p", 1, 19), none = tcc_log(tcc_neg(p)),
               one = tcc_constant(t, 1, TCC_F32, 0, NULL);
    tcc_tensor x = tcc_reshape(none, TCC_DIMS(19));
    tcc_tensor kept[] = {tcc_max(x, one), tcc_max(one, x), tcc_min(x, one), tcc_min(one, x), tcc_relu(x)};
    tcc_output(t, "kept", tcc_concat(kept, 5, 0));
    tcc_output(t, "most", tcc_reduce_max(tcc_concat(((tcc_tensor[]){p, x, p}), 3, 0), TCC_ALL));
    tcc_loss(t, tcc_sum(p, TCC_ALL));
}
static double none(int64_t e) { return (void)e, NAN; }

static void log_of_exp(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = FIELD_PARAM_OF(t, "x", 89, 5);
    tcc_output(t, "y", tcc_log(tcc_exp(x)));
    tcc_loss(t, tcc_sum(x, TCC_ALL));
}
static double infinite(int64_t e) { return (void)e, INFINITY; }

static void padding_alone(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = FIELD_PARAM(t, "x", 2, 5), padded = tcc_pad(x, 1, 0, 3, 2);
    tcc_output(t, "y", tcc_slice(padded, 1, 5, 8));
    tcc_loss(t, tcc_sum(tcc_slice(padded, 1, 4, 7), TCC_ALL));
}
static double two(int64_t e) { return (void)e, 2; }
static double last_of_five(int64_t e) { return e % 5 == 4; }

static void rounded_before_sum(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = FIELD_PARAM_OF(t, "x", 2049, 3, 64), half = tcc_cast(tcc_cast(x, TCC_F16), TCC_F32);
    tcc_output(t, "y", tcc_sum(half, TCC_DIMS(1)));
    tcc_output(t, "brain", tcc_sum(tcc_cast(tcc_cast(x, TCC_BF16), TCC_F32), TCC_DIMS(1)));
    tcc_loss(t, tcc_sum(half, TCC_ALL));
}
static double of_2048(int64_t e) { return (void)e, 64 * 2048; }

static void rows_without_keys(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor q = FIELD_PARAM(t, "q", 2, 9, 8), k = FIELD_PARAM(t, "k", 2, 9, 8), v = FIELD_PARAM(t, "v", 2, 9, 8);
    field_finish(t, tcc_attention(q, k, v, .mask = tcc_input(t, "mask")));
}

static void transposed_and_grouped(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_transpose(tcc_input(t, "x"), TCC_DIMS(0, 2, 1));
    field_finish(t, tcc_slice(tcc_conv_layer(x, "conv", 32, 3, .groups = 32, .padding = 2), 2, 0, 1));
}

static void integer_running_sum(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_add_scalar(tcc_scale(tcc_abs(tcc_input(t, "x")), 0.4), 0.5); /* below 1 */
    tcc_output(t, "sums", tcc_cumsum(tcc_cast(x, TCC_I32), 0));
    field_finish(t, tcc_cumsum(tcc_mul(x, FIELD_PARAM(t, "p", 31)), 0));
}

static void sum_of_five(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = FIELD_PARAM_OF(t, "x", -0.75, 3, 1, 3), y = x;
    for (int i = 0; i < 4; i++) y = tcc_add(y, x);
    tcc_output(t, "y", y);
    tcc_loss(t, tcc_sum(y, TCC_ALL));
}
static double five_times(int64_t e) { return (void)e, -3.75; }
static double five(int64_t e) { return (void)e, 5; }

static void stray_indices(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor i = tcc_add_scalar(tcc_rem(tcc_iota(t, 0, TCC_I32, TCC_DIMS(8)), tcc_constant(t, 8, TCC_I32, 0, NULL)),
                                  -4);
    tcc_tensor w = FIELD_PARAM_OF(t, "w", 3, 8, 1), y = tcc_take(w, i, 0);
    tcc_output(t, "y", y);
    tcc_loss(t, tcc_sum(y, TCC_ALL));
}
static double from_the_fifth(int64_t e) { return e < 4 ? 0 : 3; }
static double first_four(int64_t e) { return e < 4; }

const field_case field_cases_values[] = {
    {CASE(difference_of_product),
     .source = "pytorch 114229: x y - x y was not 0, its argmax any place, where one product was fused",
     .inputs = {FIELD_FLOATS("x", 2, 11, 41)},
     .facts = {{.output = "place", .value = zero}, {.output = "nothing", .value = zero}}},
    {CASE(argmax_of_transposed), .source = "pytorch 183082: places in a transposed value were those in its memory",
     .inputs = {FIELD_FLOATS("x", 2, 5, 7)}},
    {CASE(argmax_of_sum), .source = "pytorch 178964: places of maxima of a sum with a transposed operand were all 0",
     .inputs = {FIELD_FLOATS("a", 2, 8, 8), FIELD_FLOATS("b", 2, 8, 8)}},
    {CASE(argmax_of_pool), .source = "pytorch 113013: argmax behind an average pool",
     .inputs = {FIELD_FLOATS("x", 3, 3, 3, 3)}},
    {CASE(softmax_beside_concat),
     .source = "pytorch 114225: a softmax changed when a concat of its operand was shown too",
     .inputs = {FIELD_FLOATS("x", 3, 34, 1, 17)}},
    {CASE(numbers_that_are_none), .source = "pytorch 93784: max, min and clamp lost NaN",
     .facts = {{.output = "kept", .value = none}, {.output = "most", .value = none}}},
    {CASE(log_of_exp), .source = "jax 38097: log(exp(x)) became x, which hid the overflow",
     .facts = {{.output = "y", .value = infinite}}},
    {CASE(padding_alone), .source = "tinygrad 2194: reading only padding gave 0 instead of the padded value",
     .facts = {{.output = "y", .value = two}, {.output = "grad.x", .value = last_of_five}}},
    {CASE(rounded_before_sum), .source = "pytorch 182131: a cast to float16 was left out between a value and its sum",
     .facts = {{.output = "y", .value = of_2048}, {.output = "brain", .value = of_2048}}},
    {CASE(rows_without_keys), .source = "pytorch 100318: rows of attention that see no key became NaN when fused",
     .inputs = {FIELD_INPUT("mask", TCC_BOOL, USER_FILL_MASK, 0, 3, 2, 9, 9)}},
    {CASE(transposed_and_grouped), .source = "pytorch 158930: a grouped convolution of a transposed value",
     .inputs = {FIELD_FLOATS("x", 3, 4, 1, 32)}},
    {CASE(integer_running_sum),
     .source = "pytorch 117623: a running sum was rounded to integers after summing, not before",
     .inputs = {FIELD_FLOATS("x", 1, 31)}, .facts = {{.output = "sums", .value = zero}}},
    {CASE(sum_of_five), .source = "tvm 12305: a sum of one value five times was sixteen times that value",
     .facts = {{.output = "y", .value = five_times}, {.output = "grad.x", .value = five}}},
    {CASE(stray_indices), .source = "pytorch 151918: negative indices of an embedding counted from the end",
     .facts = {{.output = "y", .value = from_the_fifth}, {.output = "grad.w", .value = first_four}}},
    {0},
};
