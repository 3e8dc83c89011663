/* SPDX-License-Identifier: MIT
 * Functions that are made of the operations of tensor.h: they fuse and have gradients as those do. Errors and operands
 * are as there; names and definitions are PyTorch's unless said otherwise. PyTorch's where is tcc_select, its gather is
 * tcc_take_along, its index_select is tcc_take and its index_add is tcc_scatter_add (tensor.h). */
#ifndef TRAINCC_FUNCTIONS_H
#define TRAINCC_FUNCTIONS_H

#include "traincc/comm.h"
#include "traincc/tensor.h"

TCC_API_BEGIN

/* -- Activations, of floats; x's shape -- */
TCC_API tcc_tensor tcc_relu6_at(tcc_tensor x, tcc_loc at);             /* min(max(x, 0), 6) */
TCC_API tcc_tensor tcc_hardswish_at(tcc_tensor x, tcc_loc at);         /* x relu6(x + 3) / 6 (Howard et al. 2019) */
TCC_API tcc_tensor tcc_mish_at(tcc_tensor x, tcc_loc at);              /* x tanh(softplus(x)) (Misra 2019) */
TCC_API tcc_tensor tcc_elu_at(tcc_tensor x, double alpha, tcc_loc at); /* x > 0 ? x : alpha (e^x - 1) */
/* x > 0 ? x : slope x. The slope is a tensor, as a rule a parameter: of one element, or [C] for x [N, C, ..]. */
TCC_API tcc_tensor tcc_prelu_at(tcc_tensor x, tcc_tensor slope, tcc_loc at);
/* The first half of x along `axis` times the sigmoid of the second, whose shape it has (Dauphin et al. 2017). */
TCC_API tcc_tensor tcc_glu_at(tcc_tensor x, int axis, tcc_loc at);
#define tcc_relu6(x) tcc_relu6_at(x, TCC_HERE)
#define tcc_hardswish(x) tcc_hardswish_at(x, TCC_HERE)
#define tcc_mish(x) tcc_mish_at(x, TCC_HERE)
#define tcc_elu(x, alpha) tcc_elu_at(x, alpha, TCC_HERE)
#define tcc_prelu(x, slope) tcc_prelu_at(x, slope, TCC_HERE)
#define tcc_glu(x, axis) tcc_glu_at(x, axis, TCC_HERE)

TCC_API tcc_tensor tcc_selu_at(tcc_tensor x, tcc_loc at);        /* Klambauer et al. 2017 */
TCC_API tcc_tensor tcc_hardsigmoid_at(tcc_tensor x, tcc_loc at); /* relu6(x + 3) / 6 */
TCC_API tcc_tensor tcc_log_sigmoid_at(tcc_tensor x, tcc_loc at); /* log(sigmoid(x)), which does not underflow */
TCC_API tcc_tensor tcc_softsign_at(tcc_tensor x, tcc_loc at);    /* x / (1 + |x|) */
#define tcc_selu(x) tcc_selu_at(x, TCC_HERE)
#define tcc_hardsigmoid(x) tcc_hardsigmoid_at(x, TCC_HERE)
#define tcc_log_sigmoid(x) tcc_log_sigmoid_at(x, TCC_HERE)
#define tcc_softsign(x) tcc_softsign_at(x, TCC_HERE)

/* -- Element by element, of floats; x's shape -- */
/* The largest error of f32 on a CPU, of all arguments, in units of the last place (ulp), as in tensor.h. */
TCC_API tcc_tensor tcc_tan_at(tcc_tensor x, tcc_loc at);        /* 1.98 ulp */
TCC_API tcc_tensor tcc_asin_at(tcc_tensor x, tcc_loc at);       /* 2.9 ulp */
TCC_API tcc_tensor tcc_acos_at(tcc_tensor x, tcc_loc at);       /* 2.98 ulp */
TCC_API tcc_tensor tcc_atan_at(tcc_tensor x, tcc_loc at);       /* 1.22 ulp */
TCC_API tcc_tensor tcc_sinh_at(tcc_tensor x, tcc_loc at);       /* 1.45 ulp */
TCC_API tcc_tensor tcc_cosh_at(tcc_tensor x, tcc_loc at);       /* 1.26 ulp */
TCC_API tcc_tensor tcc_atanh_at(tcc_tensor x, tcc_loc at);      /* 1.44 ulp */
TCC_API tcc_tensor tcc_log2_at(tcc_tensor x, tcc_loc at);       /* 1.88 ulp */
TCC_API tcc_tensor tcc_log10_at(tcc_tensor x, tcc_loc at);      /* 2.06 ulp */
TCC_API tcc_tensor tcc_exp2_at(tcc_tensor x, tcc_loc at);       /* 0.88 ulp */
TCC_API tcc_tensor tcc_reciprocal_at(tcc_tensor x, tcc_loc at); /* 1 / x */
TCC_API tcc_tensor tcc_trunc_at(tcc_tensor x, tcc_loc at);      /* rounded towards 0 */
TCC_API tcc_tensor tcc_isnan_at(tcc_tensor x, tcc_loc at);      /* bool */
TCC_API tcc_tensor tcc_square_at(tcc_tensor x, tcc_loc at);     /* also of integers */
#define tcc_tan(x) tcc_tan_at(x, TCC_HERE)
#define tcc_asin(x) tcc_asin_at(x, TCC_HERE)
#define tcc_acos(x) tcc_acos_at(x, TCC_HERE)
#define tcc_atan(x) tcc_atan_at(x, TCC_HERE)
#define tcc_sinh(x) tcc_sinh_at(x, TCC_HERE)
#define tcc_cosh(x) tcc_cosh_at(x, TCC_HERE)
#define tcc_atanh(x) tcc_atanh_at(x, TCC_HERE)
#define tcc_log2(x) tcc_log2_at(x, TCC_HERE)
#define tcc_log10(x) tcc_log10_at(x, TCC_HERE)
#define tcc_exp2(x) tcc_exp2_at(x, TCC_HERE)
#define tcc_reciprocal(x) tcc_reciprocal_at(x, TCC_HERE)
#define tcc_trunc(x) tcc_trunc_at(x, TCC_HERE)
#define tcc_isnan(x) tcc_isnan_at(x, TCC_HERE)
#define tcc_square(x) tcc_square_at(x, TCC_HERE)

/* Of two operands of floats, which broadcast: the angle of the point [x, y] in (-pi, pi], 0 with slopes of 0 at [0, 0];
 * log(e^a + e^b), which does not overflow; a + weight (b - a). */
TCC_API tcc_tensor tcc_atan2_at(tcc_tensor y, tcc_tensor x, tcc_loc at);
TCC_API tcc_tensor tcc_logaddexp_at(tcc_tensor a, tcc_tensor b, tcc_loc at);
TCC_API tcc_tensor tcc_lerp_at(tcc_tensor a, tcc_tensor b, double weight, tcc_loc at);
/* `value` where the mask, of bool, is true, else x; of any type. The mask broadcasts. */
TCC_API tcc_tensor tcc_masked_fill_at(tcc_tensor x, tcc_tensor mask, double value, tcc_loc at);
#define tcc_atan2(y, x) tcc_atan2_at(y, x, TCC_HERE)
#define tcc_logaddexp(a, b) tcc_logaddexp_at(a, b, TCC_HERE)
#define tcc_lerp(a, b, weight) tcc_lerp_at(a, b, weight, TCC_HERE)
#define tcc_masked_fill(x, mask, value) tcc_masked_fill_at(x, mask, value, TCC_HERE)

/* -- Constants -- */
/* `value` in x's shape and type. */
TCC_API tcc_tensor tcc_full_like_at(tcc_tensor x, double value, tcc_loc at);
/* start, start + step, ... below `limit` (above it, if step is negative): ceil((limit - start) / step) numbers, all of
 * which the type must hold. */
TCC_API tcc_tensor tcc_arange_at(tcc_trace *t, double start, double limit, double step, tcc_dtype dtype, tcc_loc at);
/* n floats from `start` to `end`, both included. */
TCC_API tcc_tensor tcc_linspace_at(tcc_trace *t, double start, double end, int64_t n, tcc_dtype dtype, tcc_loc at);
TCC_API tcc_tensor tcc_eye_at(tcc_trace *t, int64_t n, tcc_dtype dtype, tcc_loc at); /* [n, n]: 1 on the diagonal */
#define tcc_full_like(x, value) tcc_full_like_at(x, value, TCC_HERE)
#define tcc_arange(t, start, limit, step, dtype) tcc_arange_at(t, start, limit, step, dtype, TCC_HERE)
#define tcc_linspace(t, start, end, n, dtype) tcc_linspace_at(t, start, end, n, dtype, TCC_HERE)
#define tcc_eye(t, n, dtype) tcc_eye_at(t, n, dtype, TCC_HERE)

/* x between `low` and `high`, of floats and integers; -INFINITY and INFINITY are no bounds. The gradient is 1 within
 * and at the bounds, 0 outside; NaN stays. */
TCC_API tcc_tensor tcc_clamp_at(tcc_tensor x, double low, double high, tcc_loc at);
#define tcc_clamp(x, low, high) tcc_clamp_at(x, low, high, TCC_HERE)

/* -- Reductions, over axes as in tensor.h -- */
/* Of floats: the sum of squared differences from the mean, divided by their number less `correction`, which must be
 * above 0; and its square root, whose gradient is 0 where it is 0. */
TCC_API tcc_tensor tcc_var_at(tcc_tensor x, double correction, int count, const int64_t *axes, tcc_loc at);
TCC_API tcc_tensor tcc_std_at(tcc_tensor x, double correction, int count, const int64_t *axes, tcc_loc at);
/* Of floats: sum |x|, sqrt(sum x^2) or max |x| for p 1, 2 or INFINITY; the gradient of 0 is 0. */
TCC_API tcc_tensor tcc_norm_at(tcc_tensor x, double p, int count, const int64_t *axes, tcc_loc at);
/* Of floats: log(sum e^x), which does not overflow. */
TCC_API tcc_tensor tcc_logsumexp_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at);
/* i32: the index of the first minimum along `axis`, which vanishes; of the first NaN if there is one. */
TCC_API tcc_tensor tcc_argmin_at(tcc_tensor x, int axis, tcc_loc at);
/* The product of floats or integers. Gradients are right where factors are 0, too. */
TCC_API tcc_tensor tcc_prod_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at);
/* Of any type: i32: how many of at most 2^31 - 1 are not 0; bool: whether any is, whether all are. */
TCC_API tcc_tensor tcc_count_nonzero_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at);
TCC_API tcc_tensor tcc_any_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at);
TCC_API tcc_tensor tcc_all_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at);
/* Running product, maximum and minimum along `axis`, each element included; of floats and integers; x's shape.
 * *indices, unless NULL, becomes the i32 position of the extreme along `axis`, the last one of equal ones. NaN counts
 * as the extreme. */
TCC_API tcc_tensor tcc_cumprod_at(tcc_tensor x, int axis, tcc_loc at);
TCC_API tcc_tensor tcc_cummax_at(tcc_tensor x, int axis, tcc_tensor *indices, tcc_loc at);
TCC_API tcc_tensor tcc_cummin_at(tcc_tensor x, int axis, tcc_tensor *indices, tcc_loc at);
/* Element i + 1 less element i along `axis`, which becomes one shorter. */
TCC_API tcc_tensor tcc_diff_at(tcc_tensor x, int axis, tcc_loc at);
/* -- Lengths, of floats; the norm's p as above -- */
/* x divided by its norm along `axis`, which counts as 1e-12 at least. */
TCC_API tcc_tensor tcc_normalize_at(tcc_tensor x, double p, int axis, tcc_loc at);
/* Of a and b, of one shape: the cosine of the angle between them along `axis`, which vanishes. Lengths count as 1e-8 at
 * least, and slopes are those of that: of a row of zeros the other one's direction times 1e8. */
TCC_API tcc_tensor tcc_cosine_similarity_at(tcc_tensor a, tcc_tensor b, int axis, tcc_loc at);
/* a [.., M, D], b [.., N, D] -> [.., M, N]: the norm of each row of a less each of b; leading dims broadcast. The
 * gradient of equal rows is 0. */
TCC_API tcc_tensor tcc_cdist_at(tcc_tensor a, tcc_tensor b, double p, tcc_loc at);
#define tcc_prod(x, ...) tcc_prod_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_count_nonzero(x, ...) tcc_count_nonzero_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_any(x, ...) tcc_any_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_all(x, ...) tcc_all_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_cumprod(x, axis) tcc_cumprod_at(x, axis, TCC_HERE)
#define tcc_cummax(x, axis, indices) tcc_cummax_at(x, axis, indices, TCC_HERE)
#define tcc_cummin(x, axis, indices) tcc_cummin_at(x, axis, indices, TCC_HERE)
#define tcc_diff(x, axis) tcc_diff_at(x, axis, TCC_HERE)
/* g v / |v| (Salimans and Kingma 2016): |v| is the 2-norm over all dims but `axis`, and g, as a rule a parameter, has
 * v's shape with extents of 1 there. A layer's weight: tcc_conv(x, tcc_weight_norm(v, g, 0)). */
TCC_API tcc_tensor tcc_weight_norm_at(tcc_tensor v, tcc_tensor g, int axis, tcc_loc at);
#define tcc_weight_norm(v, g, axis) tcc_weight_norm_at(v, g, axis, TCC_HERE)
#define tcc_normalize(x, p, axis) tcc_normalize_at(x, p, axis, TCC_HERE)
#define tcc_cosine_similarity(a, b, axis) tcc_cosine_similarity_at(a, b, axis, TCC_HERE)
#define tcc_cdist(a, b, p) tcc_cdist_at(a, b, p, TCC_HERE)
#define tcc_var(x, correction, ...) tcc_var_at(x, correction, __VA_ARGS__, TCC_HERE)
#define tcc_std(x, correction, ...) tcc_std_at(x, correction, __VA_ARGS__, TCC_HERE)
#define tcc_norm(x, p, ...) tcc_norm_at(x, p, __VA_ARGS__, TCC_HERE)
#define tcc_logsumexp(x, ...) tcc_logsumexp_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_argmin(x, axis) tcc_argmin_at(x, axis, TCC_HERE)

/* -- Shape; of any type -- */
/* Extents of 1 at these axes of the result, which differ; negative ones count from its end. */
TCC_API tcc_tensor tcc_expand_dims_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at);
/* Without these dims of x, whose extents must be 1; TCC_ALL: without all extents of 1. */
TCC_API tcc_tensor tcc_squeeze_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at);
/* `count` tensors of one shape along a new dim, which is `axis` of the result. */
TCC_API tcc_tensor tcc_stack_at(const tcc_tensor *xs, int count, int axis, tcc_loc at);
/* Pieces of x along `axis`, one after another, into out[0], out[1], ...: of these extents, whose sum is x's; or `count`
 * equal ones, which must divide it. */
TCC_API void tcc_split_at(tcc_tensor x, int axis, tcc_tensor *out, int count, const int64_t *extents, tcc_loc at);
TCC_API void tcc_chunk_at(tcc_tensor x, int axis, int count, tcc_tensor *out, tcc_loc at);
/* Element i goes to i + shift along `axis`; what leaves at one end comes in at the other. */
TCC_API tcc_tensor tcc_roll_at(tcc_tensor x, int axis, int64_t shift, tcc_loc at);
/* x so many times along each dim, 1 or more; `rank` is at least x's, and counts are aligned from the right. */
TCC_API tcc_tensor tcc_repeat_at(tcc_tensor x, int rank, const int64_t *counts, tcc_loc at);
/* The last two dims' matrices with 0 above (tril) or below (triu) diagonal k: 0 is the main one, 1 the next above. */
TCC_API tcc_tensor tcc_tril_at(tcc_tensor x, int64_t k, tcc_loc at);
TCC_API tcc_tensor tcc_triu_at(tcc_tensor x, int64_t k, tcc_loc at);
TCC_API tcc_tensor tcc_swap_axes_at(tcc_tensor x, int a, int b, tcc_loc at); /* PyTorch's transpose(a, b) */
/* [.., R, C] -> [.., n]: diagonal k of the last two dims' matrices. [.., n] -> [.., n, n]: x on the main one, else
 * 0. */
TCC_API tcc_tensor tcc_diagonal_at(tcc_tensor x, int64_t k, tcc_loc at);
TCC_API tcc_tensor tcc_diag_embed_at(tcc_tensor x, tcc_loc at);
TCC_API tcc_tensor tcc_outer_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* [M], [N] -> [M, N]: all products */
/* `count` tensors [N0], [N1], .. -> out[i], each [N0, N1, ..], whose elements are those of xs[i] along dim i. */
TCC_API void tcc_meshgrid_at(const tcc_tensor *xs, int count, tcc_tensor *out, tcc_loc at);
/* More elements before and after x along `axis`: mirrored without the outermost, so less than x's extent each; the
 * outermost repeated; from the other end, at most x's extent each. */
TCC_API tcc_tensor tcc_pad_reflect_at(tcc_tensor x, int axis, int64_t before, int64_t after, tcc_loc at);
TCC_API tcc_tensor tcc_pad_replicate_at(tcc_tensor x, int axis, int64_t before, int64_t after, tcc_loc at);
TCC_API tcc_tensor tcc_pad_wrap_at(tcc_tensor x, int axis, int64_t before, int64_t after, tcc_loc at);
/* [.., C r r, H, W] -> [.., C, H r, W r] (Shi et al. 2016), and back. */
TCC_API tcc_tensor tcc_pixel_shuffle_at(tcc_tensor x, int64_t r, tcc_loc at);
TCC_API tcc_tensor tcc_pixel_unshuffle_at(tcc_tensor x, int64_t r, tcc_loc at);
#define tcc_expand_dims(x, ...) tcc_expand_dims_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_squeeze(x, ...) tcc_squeeze_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_stack(xs, ...) tcc_stack_at(xs, __VA_ARGS__, TCC_HERE)
#define tcc_split(x, axis, out, ...) tcc_split_at(x, axis, out, __VA_ARGS__, TCC_HERE)
#define tcc_chunk(x, axis, count, out) tcc_chunk_at(x, axis, count, out, TCC_HERE)
#define tcc_roll(x, axis, shift) tcc_roll_at(x, axis, shift, TCC_HERE)
#define tcc_repeat(x, ...) tcc_repeat_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_tril(x, k) tcc_tril_at(x, k, TCC_HERE)
#define tcc_triu(x, k) tcc_triu_at(x, k, TCC_HERE)
#define tcc_swap_axes(x, a, b) tcc_swap_axes_at(x, a, b, TCC_HERE)
#define tcc_diagonal(x, k) tcc_diagonal_at(x, k, TCC_HERE)
#define tcc_diag_embed(x) tcc_diag_embed_at(x, TCC_HERE)
#define tcc_outer(a, b) tcc_outer_at(a, b, TCC_HERE)
#define tcc_meshgrid(xs, count, out) tcc_meshgrid_at(xs, count, out, TCC_HERE)
#define tcc_pad_reflect(x, axis, before, after) tcc_pad_reflect_at(x, axis, before, after, TCC_HERE)
#define tcc_pad_replicate(x, axis, before, after) tcc_pad_replicate_at(x, axis, before, after, TCC_HERE)
#define tcc_pad_wrap(x, axis, before, after) tcc_pad_wrap_at(x, axis, before, after, TCC_HERE)
#define tcc_pixel_shuffle(x, r) tcc_pixel_shuffle_at(x, r, TCC_HERE)
#define tcc_pixel_unshuffle(x, r) tcc_pixel_unshuffle_at(x, r, TCC_HERE)

/* x [N, C, H, W] -> [N, C k k, L]: the window of k x k elements around each of the L places that a convolution visits,
 * of zeros outside of x. */
typedef struct tcc_unfold_options {
    size_t size;
    int64_t stride TCC_OR_ZERO; /* 0: 1 */
    int64_t padding TCC_OR_ZERO;
    int64_t dilation TCC_OR_ZERO; /* 0: 1 */
} tcc_unfold_options;
TCC_API tcc_tensor tcc_unfold_at(tcc_tensor x, int64_t k, const tcc_unfold_options *options, tcc_loc at);
#define tcc_unfold(x, ...) tcc_unfold_at(x, TCC_WITH_OPTIONS(tcc_unfold_options, __VA_ARGS__), TCC_HERE)

/* -- Indexing -- */
/* indices i32 or i64 [..] -> [.., classes]: 1 at the index, else 0; an index out of range gives zeros. */
TCC_API tcc_tensor tcc_one_hot_at(tcc_tensor indices, int64_t classes, tcc_dtype dtype, tcc_loc at);
/* base with slices replaced by those of `updates` where indices say so; operands as of tcc_scatter_add. Of updates of
 * one place the last counts. */
TCC_API tcc_tensor tcc_scatter_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at);
/* For each element of the base: the largest, or least, of it and of the updates that go there; of floats and integers.
 * Values equal to the result share its gradient equally, as in PyTorch's amax and amin. A NaN makes the result NaN. */
TCC_API tcc_tensor tcc_scatter_max_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at);
TCC_API tcc_tensor tcc_scatter_min_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at);
/* The same element by element: result[.., indices[.., j, ..], ..] is updates[.., j, ..], or is that much more. Updates
 * agree with the base in all dims but `axis`; indices are of their rank, where extents of 1 stretch to theirs. Of
 * updates of one place the last counts, or all are added in ascending order. PyTorch's scatter and scatter_add. */
TCC_API tcc_tensor tcc_scatter_along_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at);
TCC_API tcc_tensor tcc_scatter_add_along_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis,
                                            tcc_loc at);
/* i32 of x's shape: the index in `sorted` where each element of x could be inserted so that the numbers stay in order:
 * before its equals, or with `right` after them. NaN goes to the end. `sorted` ascends: [n] for all of x, or [.., n]
 * for x [.., m]. The time of an element grows with log(n). */
TCC_API tcc_tensor tcc_searchsorted_at(tcc_tensor sorted, tcc_tensor x, bool right, tcc_loc at);
/* x in order along `axis`, ascending or descending; equal elements stay in turn, NaN is the largest. argsort: i32,
 * where in x each stands. top_k: the k largest, descending, and where they stand in *indices, unless that is NULL. The
 * time of an order grows with n log(n)^2; more than 256 elements take a kernel or two for each doubling. A few of many
 * are found in about the time of reading them. */
TCC_API tcc_tensor tcc_sort_at(tcc_tensor x, int axis, bool descending, tcc_loc at);
TCC_API tcc_tensor tcc_argsort_at(tcc_tensor x, int axis, bool descending, tcc_loc at);
TCC_API tcc_tensor tcc_top_k_at(tcc_tensor x, int64_t k, int axis, tcc_tensor *indices, tcc_loc at);
#define tcc_one_hot(indices, classes, dtype) tcc_one_hot_at(indices, classes, dtype, TCC_HERE)
#define tcc_scatter(base, indices, updates, axis) tcc_scatter_at(base, indices, updates, axis, TCC_HERE)
#define tcc_scatter_max(base, indices, updates, axis) tcc_scatter_max_at(base, indices, updates, axis, TCC_HERE)
#define tcc_scatter_min(base, indices, updates, axis) tcc_scatter_min_at(base, indices, updates, axis, TCC_HERE)
#define tcc_scatter_along(base, indices, updates, axis) tcc_scatter_along_at(base, indices, updates, axis, TCC_HERE)
#define tcc_scatter_add_along(base, indices, updates, axis) \
    tcc_scatter_add_along_at(base, indices, updates, axis, TCC_HERE)
#define tcc_searchsorted(sorted, x, right) tcc_searchsorted_at(sorted, x, right, TCC_HERE)
#define tcc_sort(x, axis, descending) tcc_sort_at(x, axis, descending, TCC_HERE)
#define tcc_argsort(x, axis, descending) tcc_argsort_at(x, axis, descending, TCC_HERE)
#define tcc_top_k(x, k, axis, indices) tcc_top_k_at(x, k, axis, indices, TCC_HERE)

/* -- Contractions -- */
/* Sums of products, of floats, as in numpy: tcc_einsum("bij,bjk->bik", xs, 2). Each operand has a letter for each dim;
 * dims of one letter are equal, also within an operand (a diagonal). Letters that the result lacks are summed over.
 * Without "->" it has those that occur once, in alphabetical order. Operands are multiplied from left to right. */
TCC_API tcc_tensor tcc_einsum_at(const char *letters, const tcc_tensor *xs, int count, tcc_loc at);
#define tcc_einsum(letters, xs, ...) tcc_einsum_at(letters, xs, __VA_ARGS__, TCC_HERE)

/* -- Over the ranks that train together (options.comm); x itself for who trains alone, and where nothing is trained.
 * All ranks make these exchanges in one order, whatever passes do, and each as often as the model's function says. The
 * gradient is that of the sum of the losses of all ranks.
 *
 * The loss is that of the whole batch. So in it these functions mean what they mean to one rank that has the whole
 * batch: a sum over samples, or a mean over them, is this rank's share of that of all, and its sum over ranks is that
 * of all; what does not depend on samples stays as it is. Such a sum may go where a sum over the batch may not: into an
 * op that is not linear. A loss that reads another rank's values sample by sample is refused with the op's line. In
 * outputs and next values of buffers x is what this rank has, of its part of the batch. -- */
/* x of all ranks, combined element by element in the order of ranks. */
TCC_API tcc_tensor tcc_all_reduce_at(tcc_tensor x, tcc_comm_op reduction, tcc_loc at);
/* x [N, ..] of all ranks, one after another along dim 0. In the loss the samples of all ranks, which must be as many
 * on each: a loss that needs those of others, as a contrastive one, works on ranks, but not in micro-batches. */
TCC_API tcc_tensor tcc_all_gather_at(tcc_tensor x, tcc_loc at);
#define tcc_all_reduce(x, reduction) tcc_all_reduce_at(x, reduction, TCC_HERE)
#define tcc_all_gather(x) tcc_all_gather_at(x, TCC_HERE)

TCC_API_END
#endif
