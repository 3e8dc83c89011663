/* SPDX-License-Identifier: MIT
 * Examples of tensor.h. */
#include "examples.h"

TRACED(tcc_rank) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(2, 3));
    printf("%d dims\n", tcc_rank(x)); /* 2 dims */
}

TRACED(tcc_dim) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(2, 3));
    printf("%d columns\n", (int)tcc_dim(x, -1)); /* 3 columns */
}

TRACED(tcc_get_dtype) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(2, 3));
    printf("%s\n", tcc_get_dtype(x) == TCC_F32 ? "f32" : "another type"); /* f32 */
}

TRACED(tcc_fail) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(2, 3));
    if (tcc_rank(x) != 2) tcc_fail(t, "my layer: x has %d dims, not 2", tcc_rank(x));
}

TRACED(tcc_constant) {
    tcc_tensor half = tcc_constant(t, 0.5, TCC_F32, TCC_DIMS(2, 2));
    tcc_output(t, "y", half); /* 0.5, 0.5, 0.5, 0.5 */
}

TRACED(tcc_literal) {
    const double values[] = {1, 2, 3, 4};
    tcc_output(t, "y", tcc_literal(t, values, TCC_F32, TCC_DIMS(2, 2))); /* 1, 2, 3, 4 */
}

TRACED(tcc_iota) {
    tcc_tensor columns = tcc_iota(t, 1, TCC_I32, TCC_DIMS(2, 3));
    tcc_output(t, "y", columns); /* 0, 1, 2, 0, 1, 2 */
}

TRACED(tcc_neg) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_neg(x)); /* 1, 0, -2 */
}

TRACED(tcc_abs) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_abs(x)); /* 1, 0, 2 */
}

TRACED(tcc_sign) {
    tcc_tensor x = tcc_literal(t, ((double[]){-3, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_sign(x)); /* -1, 0, 1 */
}

TRACED(tcc_exp) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_exp(x)); /* 1, 2.718, 7.389 */
}

TRACED(tcc_expm1) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_expm1(x)); /* 0, 1.718, 6.389 */
}

TRACED(tcc_log) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 4}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_log(x)); /* 0, 0.6931, 1.386 */
}

TRACED(tcc_log1p) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_log1p(x)); /* 0, 0.6931, 1.386 */
}

TRACED(tcc_sqrt) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 4, 9}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_sqrt(x)); /* 1, 2, 3 */
}

TRACED(tcc_rsqrt) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 4, 16}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_rsqrt(x)); /* 1, 0.5, 0.25 */
}

TRACED(tcc_sin) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_sin(x)); /* 0, 0.8415, 0.9093 */
}

TRACED(tcc_cos) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_cos(x)); /* 1, 0.5403, -0.4161 */
}

TRACED(tcc_tanh) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_tanh(x)); /* -0.7616, 0, 0.964 */
}

TRACED(tcc_sigmoid) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_sigmoid(x)); /* 0.2689, 0.5, 0.8808 */
}

TRACED(tcc_erf) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_erf(x)); /* -0.8427, 0, 0.9953 */
}

TRACED(tcc_erfinv) {
    tcc_tensor x = tcc_literal(t, ((double[]){-0.5, 0, 0.9}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_erfinv(x)); /* -0.4769, 0, 1.163 */
}

TRACED(tcc_floor) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1.5, 0.5, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_floor(x)); /* -2, 0, 2 */
}

TRACED(tcc_ceil) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1.5, 0.5, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_ceil(x)); /* -1, 1, 2 */
}

TRACED(tcc_round) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1.5, 0.5, 2.6}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_round(x)); /* -2, 0, 3 */
}

TRACED(tcc_isfinite) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, INFINITY, NAN}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_isfinite(x)); /* 1, 0, 0 */
}

TRACED(tcc_not) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 0}), TCC_BOOL, TCC_DIMS(2));
    tcc_output(t, "y", tcc_not(x)); /* 0, 1 */
}

TRACED(tcc_cast) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1.7, 0.5, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_cast(x, TCC_I32)); /* -1, 0, 2 */
}

TRACED(tcc_relu) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_relu(x)); /* 0, 0, 2 */
}

TRACED(tcc_leaky_relu) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_leaky_relu(x, 0.1)); /* -0.1, 0, 2 */
}

TRACED(tcc_gelu) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_gelu(x)); /* -0.1587, 0, 1.954 */
}

TRACED(tcc_gelu_tanh) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_gelu_tanh(x)); /* -0.1588, 0, 1.955 */
}

TRACED(tcc_silu) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_silu(x)); /* -0.2689, 0, 1.762 */
}

TRACED(tcc_softplus) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_softplus(x)); /* 0.3133, 0.6931, 2.127 */
}

TRACED(tcc_add) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){10, 20, 30}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_add(a, b)); /* 11, 22, 33 */
}

TRACED(tcc_sub) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){10, 20, 30}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_sub(a, b)); /* -9, -18, -27 */
}

TRACED(tcc_mul) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){10, 20, 30}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_mul(a, b)); /* 10, 40, 90 */
}

TRACED(tcc_div) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){2, 4, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_div(a, b)); /* 0.5, 0.5, 0.375 */
}

TRACED(tcc_rem) {
    tcc_tensor a = tcc_literal(t, ((double[]){7, -7}), TCC_F32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){3, 3}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_rem(a, b)); /* 1, -1 */
}

TRACED(tcc_pow) {
    tcc_tensor a = tcc_literal(t, ((double[]){2, 3}), TCC_F32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){3, 2}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_pow(a, b)); /* 8, 9 */
}

TRACED(tcc_max) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 5}), TCC_F32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){4, 2}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_max(a, b)); /* 4, 5 */
}

TRACED(tcc_min) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 5}), TCC_F32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){4, 2}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_min(a, b)); /* 1, 2 */
}

TRACED(tcc_and) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 1, 0}), TCC_BOOL, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){1, 0, 0}), TCC_BOOL, TCC_DIMS(3));
    tcc_output(t, "y", tcc_and(a, b)); /* 1, 0, 0 */
}

TRACED(tcc_or) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 1, 0}), TCC_BOOL, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){1, 0, 0}), TCC_BOOL, TCC_DIMS(3));
    tcc_output(t, "y", tcc_or(a, b)); /* 1, 1, 0 */
}

TRACED(tcc_xor) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 1, 0}), TCC_BOOL, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){1, 0, 0}), TCC_BOOL, TCC_DIMS(3));
    tcc_output(t, "y", tcc_xor(a, b)); /* 0, 1, 0 */
}

TRACED(tcc_eq) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){2, 2, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_eq(a, b)); /* 0, 1, 0 */
}

TRACED(tcc_ne) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){2, 2, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_ne(a, b)); /* 1, 0, 1 */
}

TRACED(tcc_lt) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){2, 2, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_lt(a, b)); /* 1, 0, 0 */
}

TRACED(tcc_le) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){2, 2, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_le(a, b)); /* 1, 1, 0 */
}

TRACED(tcc_gt) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){2, 2, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_gt(a, b)); /* 0, 0, 1 */
}

TRACED(tcc_ge) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){2, 2, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_ge(a, b)); /* 0, 1, 1 */
}

TRACED(tcc_select) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_select(tcc_gt(x, tcc_scale(x, 0)), x, tcc_neg(x))); /* 1, 0, 2 */
}

TRACED(tcc_add_scalar) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_add_scalar(x, 0.5)); /* 1.5, 2.5, 3.5 */
}

TRACED(tcc_scale) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_scale(x, 0.5)); /* 0.5, 1, 1.5 */
}

TRACED(tcc_reshape) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(6));
    tcc_output(t, "y", tcc_reshape(x, TCC_DIMS(2, -1))); /* f32 [2, 3] */
}

TRACED(tcc_flatten) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(2, 3, 4));
    tcc_output(t, "y", tcc_flatten(x, 1)); /* f32 [2, 12] */
}

TRACED(tcc_transpose) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4, 5, 6}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", tcc_transpose(x, TCC_DIMS(1, 0))); /* 1, 4, 2, 5, 3, 6 */
}

TRACED(tcc_broadcast) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_broadcast(x, TCC_DIMS(3, 2))); /* 1, 2, 1, 2, 1, 2 */
}

TRACED(tcc_slice) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4, 5, 6}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", tcc_slice(x, 1, 1, 3)); /* 2, 3, 5, 6 */
}

TRACED(tcc_slice_strided) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4, 5, 6}), TCC_F32, TCC_DIMS(6));
    tcc_output(t, "y", tcc_slice_strided(x, 0, 1, 6, 2)); /* 2, 4, 6 */
}

TRACED(tcc_pad) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_pad(x, 0, 1, 2, 0)); /* 0, 1, 2, 0, 0 */
}

TRACED(tcc_concat) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){3, 4, 5}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_concat(((tcc_tensor[]){a, b}), 2, 0)); /* 1, 2, 3, 4, 5 */
}

TRACED(tcc_flip) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_flip(x, 0)); /* 3, 2, 1 */
}

TRACED(tcc_take) {
    tcc_tensor x = tcc_literal(t, ((double[]){10, 20, 30}), TCC_F32, TCC_DIMS(3));
    tcc_tensor i = tcc_literal(t, ((double[]){2, 0, 2}), TCC_I32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_take(x, i, 0)); /* 30, 10, 30 */
}

TRACED(tcc_take_along) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4, 5, 6}), TCC_F32, TCC_DIMS(2, 3));
    tcc_tensor i = tcc_literal(t, ((double[]){2, 0}), TCC_I32, TCC_DIMS(2, 1));
    tcc_output(t, "y", tcc_take_along(x, i, 1)); /* 3, 4 */
}

TRACED(tcc_scatter_add) {
    tcc_tensor x = tcc_literal(t, ((double[]){10, 20, 30}), TCC_F32, TCC_DIMS(3));
    tcc_tensor i = tcc_literal(t, ((double[]){2, 0, 2}), TCC_I32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_scatter_add(x, i, tcc_constant(t, 1, TCC_F32, TCC_DIMS(3)), 0)); /* 11, 20, 32 */
}

TRACED(tcc_sum) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4, 5, 6}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "rows", tcc_sum(x, TCC_DIMS(1))); /* 6, 15 */
    tcc_output(t, "all", tcc_sum(x, TCC_ALL));      /* 21 */
}

TRACED(tcc_mean) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4, 5, 6}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "rows", tcc_mean(x, TCC_DIMS(1))); /* 2, 5 */
    tcc_output(t, "all", tcc_mean(x, TCC_ALL));      /* 3.5 */
}

TRACED(tcc_reduce_max) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4, 5, 6}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "rows", tcc_reduce_max(x, TCC_DIMS(1))); /* 3, 6 */
    tcc_output(t, "all", tcc_reduce_max(x, TCC_ALL));      /* 6 */
}

TRACED(tcc_reduce_min) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4, 5, 6}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "rows", tcc_reduce_min(x, TCC_DIMS(1))); /* 1, 4 */
    tcc_output(t, "all", tcc_reduce_min(x, TCC_ALL));      /* 1 */
}

TRACED(tcc_argmax) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 5, 3, 9, 2, 4}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", tcc_argmax(x, -1)); /* 1, 0 */
}

TRACED(tcc_cumsum) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_cumsum(x, 0)); /* 1, 3, 6 */
}

TRACED(tcc_linear_scan) {
    tcc_tensor a = tcc_literal(t, ((double[]){2, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor b = tcc_literal(t, ((double[]){1, 0, 1}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_linear_scan(a, b, 0)); /* 1, 2, 7 */
}

TRACED(tcc_matmul) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2, 3, 4}), TCC_F32, TCC_DIMS(2, 2));
    tcc_tensor b = tcc_literal(t, ((double[]){5, 6}), TCC_F32, TCC_DIMS(2, 1));
    tcc_output(t, "y", tcc_matmul(a, b)); /* 17, 39 */
}

TRACED(tcc_attention) {
    tcc_tensor q = tcc_iota(t, -1, TCC_F32, TCC_DIMS(2, 4, 5, 8));
    tcc_output(t, "y", tcc_attention(q, q, q, .causal = true)); /* f32 [2, 4, 5, 8] */
}

TRACED(tcc_conv) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4}), TCC_F32, TCC_DIMS(1, 1, 4));
    tcc_tensor w = tcc_literal(t, ((double[]){1, -1}), TCC_F32, TCC_DIMS(1, 1, 2));
    tcc_output(t, "y", tcc_conv(x, w)); /* -1, -1, -1 */
}

TRACED(tcc_conv_transpose) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(1, 1, 2));
    tcc_tensor w = tcc_literal(t, ((double[]){1, 10}), TCC_F32, TCC_DIMS(1, 1, 2));
    tcc_output(t, "y", tcc_conv_transpose(x, w, .stride = 2)); /* 1, 10, 2, 20 */
}

TRACED(tcc_max_pool) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 5, 2, 3}), TCC_F32, TCC_DIMS(1, 1, 4));
    tcc_output(t, "y", tcc_max_pool(x, 2)); /* 5, 3 */
}

TRACED(tcc_avg_pool) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 5, 2, 3}), TCC_F32, TCC_DIMS(1, 1, 4));
    tcc_output(t, "y", tcc_avg_pool(x, 2, .stride = 1)); /* 3, 3.5, 2.5 */
}

TRACED(tcc_adaptive_avg_pool) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 5, 2, 3}), TCC_F32, TCC_DIMS(1, 1, 4));
    tcc_output(t, "y", tcc_adaptive_avg_pool(x, TCC_DIMS(1))); /* 2.75 */
}

TRACED(tcc_resize_nearest) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(1, 1, 2));
    tcc_output(t, "y", tcc_resize_nearest(x, false, TCC_DIMS(4))); /* 1, 1, 2, 2 */
}

TRACED(tcc_resize_bilinear) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(1, 1, 1, 2));
    tcc_output(t, "y", tcc_resize_bilinear(x, true, TCC_DIMS(1, 3))); /* 1, 1.5, 2 */
}

TRACED(tcc_softmax) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_softmax(x, -1)); /* 0.09003, 0.2447, 0.6652 */
}

TRACED(tcc_log_softmax) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_log_softmax(x, -1)); /* -2.408, -1.408, -0.4076 */
}

TRACED(tcc_stop_gradient) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor y = tcc_sum(tcc_mul(x, tcc_stop_gradient(x)), TCC_ALL);
    tcc_output(t, "by x", tcc_gradient(y, x)); /* 1, 2, 3 */
}

TRACED(tcc_gradients) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){3, 4}), TCC_F32, TCC_DIMS(2));
    tcc_tensor by[2], ab[] = {a, b};
    tcc_gradients(tcc_sum(tcc_mul(a, b), TCC_ALL), ab, 2, by);
    tcc_output(t, "by a", by[0]); /* 3, 4 */
}

TRACED(tcc_gradient) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor y = tcc_sum(tcc_mul(x, x), TCC_ALL);
    tcc_output(t, "by x", tcc_gradient(y, x)); /* 2, 4, 6 */
}

TRACED(tcc_shift_left) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 3}), TCC_I32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){4, 1}), TCC_I32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_shift_left(a, b)); /* 16, 6 */
}

TRACED(tcc_shift_right) {
    tcc_tensor a = tcc_literal(t, ((double[]){16, -8}), TCC_I32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){4, 1}), TCC_I32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_shift_right(a, b)); /* 1, -4 */
}

TRACED(TCC_KEEP) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 3, 2, 2}), TCC_F32, TCC_DIMS(2, 2));
    tcc_output(t, "y", tcc_div(x, tcc_sum(x, TCC_KEEP(-1)))); /* 0.25, 0.75, 0.5, 0.5 */
}

TRACED(tcc_rsub_scalar) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_rsub_scalar(x, 1)); /* 2, -1, -7 */
}

TRACED(tcc_eq_scalar) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_eq_scalar(x, 2)); /* 0, 1, 0 */
}

TRACED(tcc_ne_scalar) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_ne_scalar(x, 2)); /* 1, 0, 1 */
}

TRACED(tcc_lt_scalar) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_lt_scalar(x, 2)); /* 1, 0, 0 */
}

TRACED(tcc_le_scalar) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_le_scalar(x, 2)); /* 1, 1, 0 */
}

TRACED(tcc_gt_scalar) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_gt_scalar(x, 2)); /* 0, 0, 1 */
}

TRACED(tcc_ge_scalar) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_ge_scalar(x, 2)); /* 0, 1, 1 */
}

TRACED(tcc_select_scalar) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_select_scalar(tcc_gt_scalar(x, 0), x, 0)); /* 0, 2, 8 */
}

TRACED(tcc_pad_dims) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4}), TCC_F32, TCC_DIMS(2, 2));
    tcc_output(t, "y", tcc_pad_dims(x, 0, TCC_DIMS(1, 0, 0, 1))); /* 0, 1, 2, 0, 3, 4, 0, 0, 0 */
}

TRACED(tcc_sum_i64) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_sum_i64(tcc_gt_scalar(x, 0), TCC_ALL)); /* 2 */
}

TRACED(tcc_adaptive_max_pool) {
    tcc_tensor x = tcc_iota(t, 3, TCC_F32, TCC_DIMS(1, 1, 1, 5));
    tcc_output(t, "y", tcc_adaptive_max_pool(x, TCC_DIMS(1, 2))); /* 2, 4 */
}

TRACED(tcc_resize_bicubic) {
    tcc_tensor x = tcc_iota(t, 3, TCC_F32, TCC_DIMS(1, 1, 1, 2));
    tcc_output(t, "y", tcc_resize_bicubic(x, true, TCC_DIMS(1, 3))); /* 0, 0.5, 1 */
}
