/* SPDX-License-Identifier: MIT
 * Right values with wrong gradients. */
#include "harness/field_cases.h"

#include <math.h>

#define CASE(function) .name = #function, .model = function

static double one(int64_t e) { return (void)e, 1; }

/* -- Parts of a value replaced -- */

static void diagonal_replaced(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor i = tcc_iota(t, 0, TCC_I32, TCC_DIMS(8, 8)), j = tcc_iota(t, 1, TCC_I32, TCC_DIMS(8, 8));
    tcc_tensor d = tcc_broadcast(FIELD_PARAM(t, "d", 8, 1), TCC_DIMS(8, 8));
    tcc_loss(t, tcc_sum(tcc_select(tcc_eq(i, j), d, FIELD_PARAM(t, "x", 8, 8)), TCC_ALL));
}
static double off_diagonal(int64_t e) { return e % 9 != 0; }

static void rows_replaced(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = FIELD_PARAM(t, "x", 6), y = FIELD_PARAM(t, "y", 3);
    tcc_loss(t, tcc_sum(tcc_concat(((tcc_tensor[]){tcc_slice(x, 0, 0, 1), y, tcc_slice(x, 0, 4, 6)}), 3, 0), TCC_ALL));
}
static double outside_1_to_4(int64_t e) { return e < 1 || e >= 4; }

static void columns_replaced(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = FIELD_PARAM(t, "x", 4, 13, 33), y = FIELD_PARAM(t, "y", 4, 6, 33);
    tcc_tensor both = tcc_concat(((tcc_tensor[]){y, tcc_slice(x, 1, 6, 13)}), 2, 1);
    tcc_loss(t, tcc_sum(tcc_sum(both, TCC_DIMS(1)), TCC_ALL));
}
static double from_6_on(int64_t e) { return e / 33 % 13 >= 6; }

static void column_added(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = FIELD_PARAM_OF(t, "x", -2, 2, 3), y = FIELD_PARAM(t, "y", 2, 3);
    tcc_tensor first = tcc_add(tcc_slice(y, 1, 0, 1), tcc_abs(tcc_slice(x, 1, 2, 3)));
    tcc_loss(t, tcc_sum(tcc_concat(((tcc_tensor[]){first, tcc_slice(y, 1, 1, 3)}), 2, 1), TCC_ALL));
}
static double minus_in_last(int64_t e) { return e % 3 == 2 ? -1 : 0; }

/* -- Windows -- */

static void interpolated_pools(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_mul(tcc_input(t, "x"), FIELD_PARAM(t, "p", 2, 3, 6, 8));
    tcc_tensor y = tcc_slice(tcc_slice(tcc_resize_bilinear(x, false, TCC_DIMS(9, 10)), 2, 1, 7), 3, 1, 8);
    tcc_tensor conv = tcc_conv_layer(y, "conv", 4, 3, .padding = 1);
    tcc_tensor pool = tcc_max_pool(conv, 3, .stride = 1, .padding = 1);
    tcc_tensor threshold = tcc_reshape(tcc_mean(pool, TCC_DIMS(2, 3)), TCC_DIMS(2, 4, 1, 1));
    tcc_output(t, "above", tcc_gt(conv, threshold));
    field_finish(t, tcc_select(tcc_input(t, "mask"), conv, pool));
}

static void average_at_the_edge(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = FIELD_PARAM(t, "x", 1, 1, 5);
    tcc_loss(t, tcc_sum(tcc_avg_pool(x, 3, .stride = 3, .padding = 1, .exclude_pad = true), TCC_ALL));
}
static double halves_and_thirds(int64_t e) { return e < 2 ? 1.0 / 2 : 1.0 / 3; }

static void pool_of_overlaps(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_mul(tcc_input(t, "x"), FIELD_PARAM(t, "p", 2, 3, 9, 11));
    field_finish(t, tcc_max_pool(x, 3, .stride = 2, .padding = 1));
}

static void windows_won(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_literal(t, ((double[]){5, 3, 1, 2, 5}), TCC_F32, TCC_DIMS(1, 1, 5));
    x = tcc_add(x, FIELD_PARAM_OF(t, "x", 0, 1, 1, 5));
    tcc_loss(t, tcc_sum(tcc_max_pool(x, 2, .stride = 1), TCC_ALL));
}
static double but_the_third(int64_t e) { return e != 2; }

/* -- Sums of gradients -- */

static void modulated_norms(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor table = FIELD_PARAM(t, "table", 4, 40), h = tcc_matmul(tcc_input(t, "x"), FIELD_PARAM(t, "w", 16, 40));
    for (int i = 0; i < 2; i++) {
        tcc_tensor scale = tcc_slice(table, 0, 2 * i, 2 * i + 1), shift = tcc_slice(table, 0, 2 * i + 1, 2 * i + 2);
        tcc_tensor n = tcc_layer_norm(h, i ? "ln2" : "ln1", .no_affine = true);
        h = tcc_add(tcc_mul(n, tcc_add_scalar(scale, 1)), shift);
    }
    field_finish(t, h);
}

static void ties_in_half(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_cast(FIELD_PARAM_OF(t, "x", 0, 70000), TCC_F16);
    tcc_loss(t, tcc_scale(tcc_cast(tcc_reduce_max(x, TCC_ALL), TCC_F32), 700));
}
static double of_70000(int64_t e) { return (void)e, 0.01; }

static void broadcast_operands(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor a = FIELD_PARAM(t, "a", 5, 7), b = FIELD_PARAM(t, "b", 7), c = FIELD_PARAM(t, "c", 5, 1);
    tcc_loss(t, tcc_sum(tcc_sub(tcc_add(a, b), c), TCC_ALL));
}
static double five(int64_t e) { return (void)e, 5; }
static double minus_seven(int64_t e) { return (void)e, -7; }

static void grouped_queries(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor q = FIELD_PARAM(t, "q", 2, 2, 3, 6, 4), k = FIELD_PARAM(t, "k", 2, 2, 1, 6, 4);
    tcc_tensor v = FIELD_PARAM(t, "v", 2, 2, 1, 6, 5);
    tcc_tensor scores = tcc_mul(tcc_matmul(q, tcc_transpose(k, TCC_DIMS(0, 1, 2, 4, 3))), tcc_input(t, "x"));
    field_finish(t, tcc_matmul(tcc_softmax(scores, -1), v));
}

static void bias_of_transposed(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor y = field_transposed(tcc_matmul(tcc_input(t, "x"), FIELD_PARAM(t, "w", 9, 14)));
    tcc_tensor z = tcc_matmul(tcc_add(y, FIELD_PARAM(t, "b", 14, 1)), FIELD_PARAM(t, "v", 11, 5));
    field_finish(t, field_transposed(tcc_mul(z, FIELD_PARAM(t, "s", 5))));
}

static void mean_of_mean(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_transpose(FIELD_PARAM(t, "x", 3, 2, 5, 7), TCC_DIMS(2, 0, 3, 1));
    tcc_loss(t, tcc_sum(tcc_mean(tcc_mean(x, TCC_DIMS(3)), TCC_DIMS(2)), TCC_ALL));
}
static double of_fourteen(int64_t e) { return (void)e, 1.0 / 14; }

static void expanded_operand(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_broadcast(FIELD_PARAM(t, "x", 1, 6), TCC_DIMS(10, 6)), w = FIELD_PARAM(t, "w", 6, 6);
    tcc_tensor rows = tcc_matmul(tcc_matmul(tcc_input(t, "g"), field_transposed(x)), x);
    field_finish(t, tcc_add(tcc_matmul(x, w), rows));
}

static void one_gradient_for_all(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor logits = tcc_matmul(tcc_input(t, "x"), FIELD_PARAM(t, "w", 5, 9));
    tcc_tensor picked = tcc_take_along(tcc_log_softmax(logits, 1), tcc_reshape(tcc_input(t, "i"), TCC_DIMS(64, 1)), 1);
    tcc_loss(t, tcc_neg(tcc_sum(picked, TCC_ALL)));
}

static void norm_of_rank_4(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_mul(tcc_input(t, "x"), FIELD_PARAM(t, "p", 2, 3, 4, 10));
    field_finish(t, tcc_layer_norm(x, "ln"));
}

static void long_half_softmax(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_cast(FIELD_PARAM_OF(t, "x", 0.5, 70000), TCC_F16);
    tcc_tensor log = tcc_cast(tcc_log_softmax(x, 0), TCC_F32), p = tcc_cast(tcc_softmax(x, 0), TCC_F32);
    tcc_output(t, "y", tcc_slice(log, 0, 0, 9));
    tcc_tensor first = tcc_scale(tcc_sum(tcc_slice(p, 0, 0, 1), TCC_ALL), 700);
    tcc_loss(t, tcc_add(tcc_sum(log, TCC_ALL), first));
}
static double minus_log_70000(int64_t e) { return (void)e, -11.1562505; }
static double first_alone(int64_t e) { return e ? 0 : 0.01; } /* for the others -1.4e-7 */

static void long_half_loss(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor rows = tcc_cast(FIELD_PARAM_OF(t, "rows", 0.5, 70000, 2), TCC_F16),
               classes = tcc_cast(FIELD_PARAM_OF(t, "classes", 0.5, 1, 70000), TCC_F16);
    tcc_tensor of_rows = tcc_cast(tcc_cross_entropy(rows, tcc_constant(t, 1, TCC_I32, TCC_DIMS(70000))), TCC_F32);
    tcc_tensor of_classes = tcc_cast(tcc_cross_entropy(classes, tcc_constant(t, 1, TCC_I32, TCC_DIMS(1))), TCC_F32);
    tcc_output(t, "y", tcc_add(of_rows, of_classes));
    tcc_loss(t, tcc_add(tcc_scale(of_rows, 7000), of_classes));
}
static double log_2_and_log_70000(int64_t e) { return (void)e, 0.693147181 + 11.1562505; }
static double half_of_a_tenth(int64_t e) { return e % 2 ? -0.05 : 0.05; }

static void half_rows_added(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor i = tcc_rem(tcc_iota(t, 0, TCC_I32, TCC_DIMS(20000)), tcc_constant(t, 4, TCC_I32, 0, NULL));
    tcc_tensor w = tcc_cast(FIELD_PARAM_OF(t, "w", 1, 4, 1), TCC_F16), y = tcc_cast(tcc_take(w, i, 0), TCC_F32);
    tcc_loss(t, tcc_scale(tcc_sum(y, TCC_ALL), 1.0 / 64));
}
static double of_5000(int64_t e) { return (void)e, 78.125; }

/* -- Functions -- */

static void slope_by_channel(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = tcc_mul(tcc_input(t, "x"), FIELD_PARAM(t, "p", 3, 4, 5, 6)),
               slope = FIELD_PARAM(t, "slope", 4, 1, 1);
    tcc_tensor zero = tcc_constant(t, 0, TCC_F32, 0, NULL);
    field_finish(t, tcc_select(tcc_gt(x, zero), x, tcc_mul(slope, x)));
}

static void remainder_of_one(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = FIELD_PARAM_OF(t, "x", 5, 1), y = FIELD_PARAM_OF(t, "y", 2, 2, 1);
    tcc_loss(t, tcc_sum(tcc_rem(x, y), TCC_ALL));
}
static double two(int64_t e) { return (void)e, 2; }
static double minus_two(int64_t e) { return (void)e, -2; }

static void gaussian_ring(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor where = tcc_literal(t, ((double[]){-1.5, 0}), TCC_F32, TCC_DIMS(2));
    tcc_tensor x = tcc_add(FIELD_PARAM_OF(t, "place", 0, 2), tcc_mul(FIELD_PARAM_OF(t, "scale", 1, 2), where));
    tcc_tensor norm = tcc_sqrt(tcc_sum(tcc_mul(x, x), TCC_DIMS(0)));
    tcc_tensor off = tcc_scale(tcc_add_scalar(norm, -2), 2.5),
               near = tcc_literal(t, ((double[]){-2, 2}), TCC_F32, TCC_DIMS(2));
    tcc_tensor z = tcc_scale(tcc_add(tcc_slice(x, 0, 0, 1), near), 1 / 0.6), terms = tcc_scale(tcc_mul(z, z), -0.5);
    tcc_tensor log_sum = tcc_log(tcc_sum(tcc_exp(terms), TCC_ALL));
    tcc_loss(t, tcc_sub(tcc_scale(tcc_mul(off, off), 0.5), log_sum));
}

static void product_with_zeros(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor x = FIELD_PARAM_OF(t, "x", 1, 1, 3), w = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3, 1));
    tcc_tensor d = tcc_sub(tcc_constant(t, 1, TCC_F32, TCC_DIMS(4096, 3)), x);
    tcc_tensor none = tcc_matmul(d, tcc_constant(t, 0, TCC_F32, TCC_DIMS(3, 3)));
    tcc_tensor y = tcc_add(tcc_reshape(tcc_matmul(d, w), TCC_DIMS(4096)), tcc_sum(tcc_mul(none, d), TCC_DIMS(1)));
    tcc_loss(t, tcc_mean(y, TCC_ALL));
}
static double minus_place(int64_t e) { return -1 - (double)e; }

const field_case field_cases_gradients[] = {
    {CASE(diagonal_replaced),
     .source = "pytorch 182012: the gradient of what a diagonal was written into was 0 everywhere",
     .facts = {{.output = "grad.x", .value = off_diagonal}, {.output = "grad.d", .value = one}}},
    {CASE(rows_replaced), .source = "pytorch 183898: the gradient reached the rows that had been replaced",
     .facts = {{.output = "grad.x", .value = outside_1_to_4}, {.output = "grad.y", .value = one}}},
    {CASE(columns_replaced), .source = "pytorch 180164: behind a sum, the gradient of the columns that were kept was 0",
     .facts = {{.output = "grad.x", .value = from_6_on}, {.output = "grad.y", .value = one}}},
    {CASE(column_added), .source = "pytorch 136662: the gradient by a column that is added to another was lost",
     .facts = {{.output = "grad.x", .value = minus_in_last}, {.output = "grad.y", .value = one}}},
    {CASE(interpolated_pools),
     .source = "pytorch 185509: gradients through interpolation, convolution, max pool and where",
     .inputs = {FIELD_FLOATS("x", 4, 2, 3, 6, 8), FIELD_INPUT("mask", TCC_BOOL, USER_FILL_MASK, 0, 4, 2, 4, 6, 7)}},
    {CASE(average_at_the_edge),
     .source = "pytorch 198119: averages at the edge were of fewer elements, their gradients of all",
     .facts = {{.output = "grad.x", .value = halves_and_thirds}}},
    {CASE(pool_of_overlaps), .source = "pytorch 131659: places of maxima in padded windows were wrong numbers",
     .inputs = {FIELD_FLOATS("x", 4, 2, 3, 9, 11)}},
    {CASE(windows_won), .source = "ocannl 512: of windows that overlap, only the last one's winner counted",
     .facts = {{.output = "grad.x", .value = but_the_third}}},
    {CASE(modulated_norms),
     .source = "pytorch 193061: row and column sums in one kernel; the latter were not written into their view",
     .inputs = {FIELD_FLOATS("x", 2, 48, 16)}},
    {CASE(ties_in_half), .source = "tinygrad 12296: the count of equal maxima overflowed float16, gradients were 0",
     .facts = {{.output = "grad.x", .value = of_70000, .half = true}}},
    {CASE(broadcast_operands), .source = "tvm 2465: gradients of broadcast operands were broadcast instead of summed",
     .facts = {{.output = "grad.b", .value = five}, {.output = "grad.c", .value = minus_seven}}},
    {CASE(grouped_queries), .source = "llama.cpp 11380: gradients of keys that several query heads share",
     .inputs = {FIELD_FLOATS("x", 2, 6, 6)}},
    {CASE(bias_of_transposed), .source = "llama.cpp 21467: sums over a gradient that is stored transposed",
     .inputs = {FIELD_FLOATS("x", 2, 11, 9)}},
    {CASE(mean_of_mean),
     .source = "torch/nn 345: a mean's gradient is not contiguous, the mean before took it as if it were",
     .facts = {{.output = "grad.x", .value = of_fourteen}}},
    {CASE(expanded_operand),
     .source = "pytorch 30303: a product with an operand whose rows are one row had a wrong gradient",
     .inputs = {FIELD_FLOATS("g", 2, 10, 6)}},
    {CASE(one_gradient_for_all),
     .source = "TransformerEngine 623: a gradient of one number for all rows was read row by row",
     .inputs = {FIELD_FLOATS("x", 2, 64, 5), FIELD_INPUT("i", TCC_I32, USER_FILL_INDEX, 9, 1, 64)}},
    {CASE(norm_of_rank_4), .source = "FlagGems 5392: the backward of layer norm took everything behind dim 0 for a row",
     .inputs = {FIELD_FLOATS("x", 4, 2, 3, 4, 10)}},
    {CASE(long_half_softmax), .source = "jax 40409: the gradient of log softmax of a long float16 row was NaN",
     .facts = {{.output = "y", .value = minus_log_70000, .half = true},
               {.output = "grad.x", .value = first_alone, .half = true}}},
    {CASE(long_half_loss), .source = "pytorch 85791: the mean of many float16 losses was infinite, as their sum was",
     .facts = {{.output = "y", .value = log_2_and_log_70000, .half = true},
               {.output = "grad.rows", .value = half_of_a_tenth, .half = true}}},
    {CASE(half_rows_added), .source = "mxnet 17703: float16 gradients of rows taken many times stopped growing",
     .facts = {{.output = "grad.w", .value = of_5000}}},
    {CASE(slope_by_channel), .source = "tvm 18598: slopes by channel of a leaky relu",
     .inputs = {FIELD_FLOATS("x", 4, 3, 4, 5, 6)}},
    {CASE(remainder_of_one),
     .source = "oneflow 8769: the gradient of a broadcast dividend of a remainder was not summed",
     .facts = {{.output = "grad.x", .value = two}, {.output = "grad.y", .value = minus_two}}},
    {CASE(gaussian_ring), .source = "jax 939: the compiled gradient was NaN where the one op by op is finite"},
    {CASE(product_with_zeros), .source = "xla 13054: a product with zeros changed the gradient",
     .facts = {{.output = "grad.x", .value = minus_place}}},
    {0},
};
