/* SPDX-License-Identifier: MIT
 * Examples of functions.h. */
#include "examples.h"

TRACED(tcc_relu6) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_relu6(x)); /* 0, 2, 6 */
}

TRACED(tcc_hardswish) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_hardswish(x)); /* -0.3333, 1.667, 8 */
}

TRACED(tcc_mish) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_mish(x)); /* -0.3034, 1.944, 8 */
}

TRACED(tcc_elu) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_elu(x, 1)); /* -0.6321, 0, 2 */
}

TRACED(tcc_prelu) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_tensor slope = tcc_param(t, "slope", ((tcc_init){TCC_INIT_CONSTANT, 0.25, 0, 0}), TCC_DIMS(1));
    tcc_output(t, "y", tcc_prelu(x, slope)); /* -0.25, 0, 2 */
}

TRACED(tcc_glu) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 0, 0}), TCC_F32, TCC_DIMS(4));
    tcc_output(t, "y", tcc_glu(x, 0)); /* 0.5, 1 */
}

TRACED(tcc_clamp) {
    tcc_tensor x = tcc_literal(t, ((double[]){-2, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_clamp(x, -1, 1)); /* -1, 0, 1 */
}

TRACED(tcc_var) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4}), TCC_F32, TCC_DIMS(4));
    tcc_output(t, "y", tcc_var(x, 1, TCC_ALL)); /* 1.667 */
}

TRACED(tcc_std) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4}), TCC_F32, TCC_DIMS(4));
    tcc_output(t, "y", tcc_std(x, 0, TCC_ALL)); /* 1.118 */
}

TRACED(tcc_norm) {
    tcc_tensor x = tcc_literal(t, ((double[]){3, 4, 6, 8}), TCC_F32, TCC_DIMS(2, 2));
    tcc_output(t, "y", tcc_norm(x, 2, TCC_DIMS(1))); /* 5, 10 */
}

TRACED(tcc_logsumexp) {
    tcc_tensor x = tcc_literal(t, ((double[]){1000, 1000}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_logsumexp(x, TCC_ALL)); /* 1001 */
}

TRACED(tcc_argmin) {
    tcc_tensor x = tcc_literal(t, ((double[]){4, 1, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_argmin(x, 0)); /* 1 */
}

TRACED(tcc_expand_dims) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", tcc_expand_dims(x, TCC_DIMS(0, -1))); /* f32 [1, 2, 3, 1] */
}

TRACED(tcc_squeeze) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(2, 1, 3));
    tcc_output(t, "y", tcc_squeeze(x, TCC_DIMS(1))); /* f32 [2, 3] */
}

TRACED(tcc_stack) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){3, 4}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_stack(((tcc_tensor[]){a, b}), 2, 1)); /* 1, 3, 2, 4 */
}

TRACED(tcc_split) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor parts[2];
    tcc_split(x, 0, parts, TCC_DIMS(1, 2));
    tcc_output(t, "y", parts[1]); /* 2, 3 */
}

TRACED(tcc_chunk) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4}), TCC_F32, TCC_DIMS(4));
    tcc_tensor parts[2];
    tcc_chunk(x, 0, 2, parts);
    tcc_output(t, "y", parts[1]); /* 3, 4 */
}

TRACED(tcc_roll) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_roll(x, 0, 1)); /* 3, 1, 2 */
}

TRACED(tcc_repeat) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_repeat(x, TCC_DIMS(2, 2))); /* 1, 2, 1, 2, 1, 2, 1, 2 */
}

TRACED(tcc_tril) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4, 5, 6, 7, 8, 9}), TCC_F32, TCC_DIMS(3, 3));
    tcc_output(t, "y", tcc_tril(x, 0)); /* 1, 0, 0, 4, 5, 0, 7, 8, 9 */
}

TRACED(tcc_triu) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4, 5, 6, 7, 8, 9}), TCC_F32, TCC_DIMS(3, 3));
    tcc_output(t, "y", tcc_triu(x, 1)); /* 0, 2, 3, 0, 0, 6, 0, 0, 0 */
}

TRACED(tcc_pad_reflect) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_pad_reflect(x, 0, 2, 1)); /* 3, 2, 1, 2, 3, 2 */
}

TRACED(tcc_pad_replicate) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_pad_replicate(x, 0, 2, 1)); /* 1, 1, 1, 2, 3, 3 */
}

TRACED(tcc_pad_wrap) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_pad_wrap(x, 0, 2, 1)); /* 2, 3, 1, 2, 3, 1 */
}

TRACED(tcc_pixel_shuffle) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(1, 8, 3, 3));
    tcc_output(t, "y", tcc_pixel_shuffle(x, 2)); /* f32 [1, 2, 6, 6] */
}

TRACED(tcc_pixel_unshuffle) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(1, 2, 6, 6));
    tcc_output(t, "y", tcc_pixel_unshuffle(x, 2)); /* f32 [1, 8, 3, 3] */
}

TRACED(tcc_unfold) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(1, 2, 6, 6));
    tcc_output(t, "y", tcc_unfold(x, 3, .padding = 1)); /* f32 [1, 18, 36] */
}

TRACED(tcc_one_hot) {
    tcc_tensor i = tcc_literal(t, ((double[]){2, 0}), TCC_I32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_one_hot(i, 3, TCC_F32)); /* 0, 0, 1, 1, 0, 0 */
}

TRACED(tcc_scatter) {
    tcc_tensor x = tcc_literal(t, ((double[]){10, 20, 30}), TCC_F32, TCC_DIMS(3));
    tcc_tensor i = tcc_literal(t, ((double[]){2}), TCC_I32, TCC_DIMS(1));
    tcc_output(t, "y", tcc_scatter(x, i, tcc_constant(t, 1, TCC_F32, TCC_DIMS(1)), 0)); /* 10, 20, 1 */
}

TRACED(tcc_sort) {
    tcc_tensor x = tcc_literal(t, ((double[]){3, 1, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_sort(x, 0, true)); /* 3, 2, 1 */
}

TRACED(tcc_argsort) {
    tcc_tensor x = tcc_literal(t, ((double[]){3, 1, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_argsort(x, 0, false)); /* 1, 2, 0 */
}

TRACED(tcc_top_k) {
    tcc_tensor x = tcc_literal(t, ((double[]){3, 1, 2}), TCC_F32, TCC_DIMS(3));
    tcc_tensor indices;
    tcc_output(t, "y", tcc_top_k(x, 2, 0, &indices)); /* 3, 2 */
}

TRACED(tcc_einsum) {
    tcc_tensor a = tcc_iota(t, -1, TCC_F32, TCC_DIMS(4, 2, 3));
    tcc_tensor b = tcc_iota(t, -1, TCC_F32, TCC_DIMS(4, 3, 5));
    tcc_output(t, "y", tcc_einsum("bij,bjk->bik", ((tcc_tensor[]){a, b}), 2)); /* f32 [4, 2, 5] */
}

TRACED(tcc_selu) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_selu(x)); /* -1.111, 0, 2.101 */
}

TRACED(tcc_hardsigmoid) {
    tcc_tensor x = tcc_literal(t, ((double[]){-4, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_hardsigmoid(x)); /* 0, 0.5, 0.8333 */
}

TRACED(tcc_log_sigmoid) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_log_sigmoid(x)); /* -1.313, -0.6931, -0.1269 */
}

TRACED(tcc_softsign) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 0, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_softsign(x)); /* -0.5, 0, 0.75 */
}

TRACED(tcc_tan) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_tan(x)); /* 0, 1.557 */
}

TRACED(tcc_asin) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 0.5, 1}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_asin(x)); /* 0, 0.5236, 1.571 */
}

TRACED(tcc_acos) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 0.5, 1}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_acos(x)); /* 1.571, 1.047, 0 */
}

TRACED(tcc_atan) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_atan(x)); /* 0, 0.7854 */
}

TRACED(tcc_sinh) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_sinh(x)); /* 0, 1.175 */
}

TRACED(tcc_cosh) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_cosh(x)); /* 1, 1.543 */
}

TRACED(tcc_atanh) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 0.5}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_atanh(x)); /* 0, 0.5493 */
}

TRACED(tcc_log2) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 8}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_log2(x)); /* 0, 1, 3 */
}

TRACED(tcc_log10) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 10, 1000}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_log10(x)); /* 0, 1, 3 */
}

TRACED(tcc_exp2) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 1, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_exp2(x)); /* 1, 2, 8 */
}

TRACED(tcc_reciprocal) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 4}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_reciprocal(x)); /* 1, 0.5, 0.25 */
}

TRACED(tcc_trunc) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1.7, 0.5, 2.9}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_trunc(x)); /* -1, 0, 2 */
}

TRACED(tcc_square) {
    tcc_tensor x = tcc_literal(t, ((double[]){-1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_square(x)); /* 1, 4, 9 */
}

TRACED(tcc_isnan) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, INFINITY, NAN}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_isnan(x)); /* 0, 0, 1 */
}

TRACED(tcc_atan2) {
    tcc_tensor y = tcc_literal(t, ((double[]){1, -1}), TCC_F32, TCC_DIMS(2));
    tcc_tensor x = tcc_literal(t, ((double[]){1, -1}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_atan2(y, x)); /* 0.7854, -2.356 */
}

TRACED(tcc_logaddexp) {
    tcc_tensor a = tcc_literal(t, ((double[]){0, 1000}), TCC_F32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){0, 1000}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_logaddexp(a, b)); /* 0.6931, 1001 */
}

TRACED(tcc_lerp) {
    tcc_tensor a = tcc_literal(t, ((double[]){0, 10}), TCC_F32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){4, 20}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_lerp(a, b, 0.25)); /* 1, 12.5 */
}

TRACED(tcc_masked_fill) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor mask = tcc_literal(t, ((double[]){0, 1, 0}), TCC_BOOL, TCC_DIMS(3));
    tcc_output(t, "y", tcc_masked_fill(x, mask, -1)); /* 1, -1, 3 */
}

TRACED(tcc_full_like) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_full_like(x, 0.5)); /* 0.5, 0.5, 0.5 */
}

TRACED(tcc_arange) {
    tcc_tensor x = tcc_arange(t, 1, 7, 2, TCC_F32);
    tcc_output(t, "y", x); /* 1, 3, 5 */
}

TRACED(tcc_linspace) {
    tcc_tensor x = tcc_linspace(t, 0, 1, 5, TCC_F32);
    tcc_output(t, "y", x); /* 0, 0.25, 0.5, 0.75, 1 */
}

TRACED(tcc_eye) {
    tcc_tensor x = tcc_eye(t, 2, TCC_F32);
    tcc_output(t, "y", x); /* 1, 0, 0, 1 */
}

TRACED(tcc_prod) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4, 5, 6}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", tcc_prod(x, TCC_DIMS(1))); /* 6, 120 */
}

TRACED(tcc_count_nonzero) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 2, 3, 0, 0, 6}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", tcc_count_nonzero(x, TCC_DIMS(1))); /* 2, 1 */
}

TRACED(tcc_any) {
    tcc_tensor x = tcc_literal(t, ((double[]){0, 2, 3, 0, 0, 0}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", tcc_any(x, TCC_DIMS(1))); /* 1, 0 */
}

TRACED(tcc_all) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 0, 0, 6}), TCC_F32, TCC_DIMS(2, 3));
    tcc_output(t, "y", tcc_all(x, TCC_DIMS(1))); /* 1, 0 */
}

TRACED(tcc_cumprod) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_cumprod(x, 0)); /* 1, 2, 6 */
}

TRACED(tcc_cummax) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 3, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_cummax(x, 0, NULL)); /* 1, 3, 3 */
}

TRACED(tcc_cummin) {
    tcc_tensor x = tcc_literal(t, ((double[]){3, 1, 2}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_cummin(x, 0, NULL)); /* 3, 1, 1 */
}

TRACED(tcc_diff) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 4, 9}), TCC_F32, TCC_DIMS(3));
    tcc_output(t, "y", tcc_diff(x, 0)); /* 3, 5 */
}

TRACED(tcc_normalize) {
    tcc_tensor x = tcc_literal(t, ((double[]){3, 4}), TCC_F32, TCC_DIMS(1, 2));
    tcc_output(t, "y", tcc_normalize(x, 2, -1)); /* 0.6, 0.8 */
}

TRACED(tcc_cosine_similarity) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 0}), TCC_F32, TCC_DIMS(1, 2));
    tcc_tensor b = tcc_literal(t, ((double[]){3, 4}), TCC_F32, TCC_DIMS(1, 2));
    tcc_output(t, "y", tcc_cosine_similarity(a, b, -1)); /* 0.6 */
}

TRACED(tcc_cdist) {
    tcc_tensor a = tcc_literal(t, ((double[]){0, 0}), TCC_F32, TCC_DIMS(1, 2));
    tcc_tensor b = tcc_literal(t, ((double[]){3, 4, 6, 8}), TCC_F32, TCC_DIMS(2, 2));
    tcc_output(t, "y", tcc_cdist(a, b, 2)); /* 5, 10 */
}

TRACED(tcc_swap_axes) {
    tcc_tensor x = tcc_iota(t, -1, TCC_F32, TCC_DIMS(2, 3, 4));
    tcc_output(t, "y", tcc_swap_axes(x, 0, -1)); /* f32 [4, 3, 2] */
}

TRACED(tcc_diagonal) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3, 4}), TCC_F32, TCC_DIMS(2, 2));
    tcc_output(t, "y", tcc_diagonal(x, 0)); /* 1, 4 */
}

TRACED(tcc_diag_embed) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_diag_embed(x)); /* 1, 0, 0, 2 */
}

TRACED(tcc_outer) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){3, 4}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_outer(a, b)); /* 3, 4, 6, 8 */
}

TRACED(tcc_meshgrid) {
    tcc_tensor a = tcc_literal(t, ((double[]){1, 2}), TCC_F32, TCC_DIMS(2));
    tcc_tensor b = tcc_literal(t, ((double[]){3, 4}), TCC_F32, TCC_DIMS(2));
    tcc_tensor out[2];
    tcc_meshgrid(((tcc_tensor[]){a, b}), 2, out);
    tcc_output(t, "y", out[0]); /* 1, 1, 2, 2 */
}

TRACED(tcc_scatter_max) {
    tcc_tensor x = tcc_literal(t, ((double[]){10, 20, 30}), TCC_F32, TCC_DIMS(3));
    tcc_tensor i = tcc_literal(t, ((double[]){0, 2}), TCC_I32, TCC_DIMS(2));
    tcc_tensor updates = tcc_literal(t, ((double[]){11, 7}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_scatter_max(x, i, updates, 0)); /* 11, 20, 30 */
}

TRACED(tcc_scatter_min) {
    tcc_tensor x = tcc_literal(t, ((double[]){10, 20, 30}), TCC_F32, TCC_DIMS(3));
    tcc_tensor i = tcc_literal(t, ((double[]){0, 2}), TCC_I32, TCC_DIMS(2));
    tcc_tensor updates = tcc_literal(t, ((double[]){11, 7}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_scatter_min(x, i, updates, 0)); /* 10, 20, 7 */
}

TRACED(tcc_searchsorted) {
    tcc_tensor sorted = tcc_literal(t, ((double[]){1, 3, 5}), TCC_F32, TCC_DIMS(3));
    tcc_tensor x = tcc_literal(t, ((double[]){3, 4}), TCC_F32, TCC_DIMS(2));
    tcc_output(t, "y", tcc_searchsorted(sorted, x, false)); /* 1, 2 */
}

TRACED(tcc_scatter_along) {
    tcc_tensor base = tcc_constant(t, 0, TCC_F32, TCC_DIMS(2, 3));
    tcc_tensor indices = tcc_literal(t, ((double[]){2, 0}), TCC_I32, TCC_DIMS(2, 1));
    tcc_tensor updates = tcc_literal(t, ((double[]){5, 7}), TCC_F32, TCC_DIMS(2, 1));
    tcc_output(t, "y", tcc_scatter_along(base, indices, updates, 1)); /* 0, 0, 5, 7, 0, 0 */
}

TRACED(tcc_scatter_add_along) {
    tcc_tensor base = tcc_constant(t, 1, TCC_F32, TCC_DIMS(2, 3));
    tcc_tensor indices = tcc_literal(t, ((double[]){2, 0}), TCC_I32, TCC_DIMS(2, 1));
    tcc_tensor updates = tcc_literal(t, ((double[]){5, 7}), TCC_F32, TCC_DIMS(2, 1));
    tcc_output(t, "y", tcc_scatter_add_along(base, indices, updates, 1)); /* 1, 1, 6, 8, 1, 1 */
}

TRACED(tcc_weight_norm) {
    tcc_tensor v = tcc_literal(t, ((double[]){3, 4, 6, 8}), TCC_F32, TCC_DIMS(2, 2));
    tcc_tensor g = tcc_literal(t, ((double[]){5, 1}), TCC_F32, TCC_DIMS(2, 1));
    tcc_output(t, "y", tcc_weight_norm(v, g, 0)); /* 3, 4, 0.6, 0.8 */
}

TRACED(tcc_all_reduce) {
    tcc_tensor x = tcc_literal(t, ((double[]){1, 2, 3}), TCC_F32, TCC_DIMS(3));
    tcc_tensor total = tcc_all_reduce(tcc_sum(x, TCC_ALL), TCC_COMM_SUM); /* of the samples of all ranks */
    tcc_output(t, "share", tcc_div(x, total));                            /* 0.1667, 0.3333, 0.5 */
}

TRACED(tcc_all_gather) {
    tcc_tensor z = tcc_literal(t, ((double[]){1, 2, 3, 4}), TCC_F32, TCC_DIMS(2, 2));
    tcc_tensor all = tcc_all_gather(z);                                           /* rows of all ranks, here of one */
    tcc_output(t, "likeness", tcc_matmul(z, tcc_transpose(all, TCC_DIMS(1, 0)))); /* 5, 11, 11, 25 */
}
