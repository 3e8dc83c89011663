/* SPDX-License-Identifier: MIT
 * Tensors of a trace and the operations on them.
 *
 * A tcc_tensor is a small handle passed by value, so that expressions nest: tcc_relu(tcc_linear(x, "fc1", 128)). It
 * names a value in the graph that is being traced. Nothing is computed while tracing. The trace owns the value; there
 * is nothing to free.
 *
 * Errors. Operations check shapes (TCC_ESHAPE), element types (TCC_EDTYPE) and other arguments (TCC_EINVAL) at once.
 * The first error is kept with the user's file and line, and its operation returns a poisoned tensor. Later operations
 * on a poisoned tensor do nothing. The call that traces (tcc_model_train, tcc_model_evaluate, ...) returns the error,
 * so model code needs no checks.
 *
 * Operands of operations element by element broadcast as in numpy: aligned from the right, extents of 1 stretch. Their
 * element types must be equal; tcc_cast converts. A result has the element type of its operands unless said otherwise.
 * Axes may be negative: -1 is the last. At most TCC_MAX_RANK dims.
 *
 * Each operation is a function that ends in _at, which takes the user's place, and a macro that passes TCC_HERE. */
#ifndef TRAINCC_TENSOR_H
#define TRAINCC_TENSOR_H

#include "traincc/api.h"
#include "traincc/dtype_enum.h"
#include "traincc/loc.h"
#include "traincc/options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

TCC_API_BEGIN

typedef struct tcc_trace tcc_trace;

/* Valid within the call of the model function that made it. To use it later, as in the next trace, is an error. */
typedef struct tcc_tensor {
    tcc_trace *trace;
    struct tcc_node *node; /* NULL after an error */
    uint64_t trace_id;     /* tells the trace from a later one at the same address */
} tcc_tensor;

/* -- What a tensor is; usable while tracing -- */
TCC_API int tcc_rank(tcc_tensor x);              /* how many dims; 0 after an error */
TCC_API int64_t tcc_dim(tcc_tensor x, int axis); /* extent; 1 after an error */
TCC_API tcc_dtype tcc_get_dtype(tcc_tensor x);   /* element type; TCC_F32 after an error */

/* Records an error of your own layer: a format and values as printf takes them. As with any other, the first error
 * counts. Returns a poisoned tensor. */
TCC_API tcc_tensor tcc_fail_at(tcc_trace *t, tcc_loc at, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define tcc_fail(t, ...) tcc_fail_at(t, TCC_HERE, __VA_ARGS__)

/* -- Constants of shape `dims`. A value that the type cannot hold (0.5 in i32, 2 in bool) is an error. -- */
/* `value` in every element. */
TCC_API tcc_tensor tcc_constant_at(tcc_trace *t, double value, tcc_dtype dtype, int rank, const int64_t *dims,
                                   tcc_loc at);
/* `values` in row-major order, one for each element; copied. */
TCC_API tcc_tensor tcc_literal_at(tcc_trace *t, const double *values, tcc_dtype dtype, int rank, const int64_t *dims,
                                  tcc_loc at);
/* The index along `axis`: 0, 1, 2, ..., which the type must hold. Not of bool. */
TCC_API tcc_tensor tcc_iota_at(tcc_trace *t, int axis, tcc_dtype dtype, int rank, const int64_t *dims, tcc_loc at);
#define tcc_constant(t, value, dtype, ...) tcc_constant_at(t, value, dtype, __VA_ARGS__, TCC_HERE)
#define tcc_literal(t, values, dtype, ...) tcc_literal_at(t, values, dtype, __VA_ARGS__, TCC_HERE)
#define tcc_iota(t, axis, dtype, ...) tcc_iota_at(t, axis, dtype, __VA_ARGS__, TCC_HERE)

/* -- Element by element, one operand: x and the result have one shape -- */
/* Of floats and integers. */
TCC_API tcc_tensor tcc_neg_at(tcc_tensor x, tcc_loc at);  /* -x */
TCC_API tcc_tensor tcc_abs_at(tcc_tensor x, tcc_loc at);  /* |x| */
TCC_API tcc_tensor tcc_sign_at(tcc_tensor x, tcc_loc at); /* -1, 0 or 1; NaN stays */
/* Of floats. The largest error of f32 on a CPU, of all arguments, is told in units of the last place (ulp; all are in
 * tests/bench/functions/results.md), with the same bits at every vector width. */
TCC_API tcc_tensor tcc_exp_at(tcc_tensor x, tcc_loc at);      /* e^x; 1.02 ulp */
TCC_API tcc_tensor tcc_expm1_at(tcc_tensor x, tcc_loc at);    /* e^x - 1; 1.05 ulp */
TCC_API tcc_tensor tcc_log_at(tcc_tensor x, tcc_loc at);      /* natural logarithm; 0.87 ulp */
TCC_API tcc_tensor tcc_log1p_at(tcc_tensor x, tcc_loc at);    /* log(1 + x); 1.12 ulp */
TCC_API tcc_tensor tcc_sqrt_at(tcc_tensor x, tcc_loc at);     /* x^(1/2), NaN below 0; the nearest */
TCC_API tcc_tensor tcc_rsqrt_at(tcc_tensor x, tcc_loc at);    /* 1 / sqrt(x); 1.5 ulp */
TCC_API tcc_tensor tcc_sin_at(tcc_tensor x, tcc_loc at);      /* sine, of radians; 0.502 ulp */
TCC_API tcc_tensor tcc_cos_at(tcc_tensor x, tcc_loc at);      /* cosine, of radians; 0.502 ulp */
TCC_API tcc_tensor tcc_tanh_at(tcc_tensor x, tcc_loc at);     /* (e^x - e^-x) / (e^x + e^-x); 1.18 ulp */
TCC_API tcc_tensor tcc_sigmoid_at(tcc_tensor x, tcc_loc at);  /* 1 / (1 + e^-x); 2 ulp */
TCC_API tcc_tensor tcc_erf_at(tcc_tensor x, tcc_loc at);      /* the Gaussian error function; 1.09 ulp */
TCC_API tcc_tensor tcc_erfinv_at(tcc_tensor x, tcc_loc at);   /* its inverse: infinite at -1, 1; NaN beyond; 2.84 ulp */
TCC_API tcc_tensor tcc_floor_at(tcc_tensor x, tcc_loc at);    /* the largest integer not above x */
TCC_API tcc_tensor tcc_ceil_at(tcc_tensor x, tcc_loc at);     /* the smallest integer not below x */
TCC_API tcc_tensor tcc_round_at(tcc_tensor x, tcc_loc at);    /* to nearest, ties to even */
TCC_API tcc_tensor tcc_isfinite_at(tcc_tensor x, tcc_loc at); /* bool: neither infinite nor NaN */
/* Of bool: logical; of integers: bitwise. */
TCC_API tcc_tensor tcc_not_at(tcc_tensor x, tcc_loc at);
/* To another element type. Floats round to nearest, ties to even. A float becomes an integer by dropping its fraction,
 * and saturates; NaN gives 0. To bool: x != 0. */
TCC_API tcc_tensor tcc_cast_at(tcc_tensor x, tcc_dtype dtype, tcc_loc at);
/* Activations, of floats. */
TCC_API tcc_tensor tcc_relu_at(tcc_tensor x, tcc_loc at);                     /* x > 0 ? x : 0 */
TCC_API tcc_tensor tcc_leaky_relu_at(tcc_tensor x, double slope, tcc_loc at); /* x > 0 ? x : slope x */
TCC_API tcc_tensor tcc_gelu_at(tcc_tensor x, tcc_loc at);                     /* by erf */
TCC_API tcc_tensor tcc_gelu_tanh_at(tcc_tensor x, tcc_loc at);                /* the tanh form of GPT-2 */
TCC_API tcc_tensor tcc_silu_at(tcc_tensor x, tcc_loc at);                     /* x sigmoid(x) */
TCC_API tcc_tensor tcc_softplus_at(tcc_tensor x, tcc_loc at);                 /* log(1 + e^x) */
#define tcc_neg(x) tcc_neg_at(x, TCC_HERE)
#define tcc_abs(x) tcc_abs_at(x, TCC_HERE)
#define tcc_sign(x) tcc_sign_at(x, TCC_HERE)
#define tcc_exp(x) tcc_exp_at(x, TCC_HERE)
#define tcc_expm1(x) tcc_expm1_at(x, TCC_HERE)
#define tcc_log(x) tcc_log_at(x, TCC_HERE)
#define tcc_log1p(x) tcc_log1p_at(x, TCC_HERE)
#define tcc_sqrt(x) tcc_sqrt_at(x, TCC_HERE)
#define tcc_rsqrt(x) tcc_rsqrt_at(x, TCC_HERE)
#define tcc_sin(x) tcc_sin_at(x, TCC_HERE)
#define tcc_cos(x) tcc_cos_at(x, TCC_HERE)
#define tcc_tanh(x) tcc_tanh_at(x, TCC_HERE)
#define tcc_sigmoid(x) tcc_sigmoid_at(x, TCC_HERE)
#define tcc_erf(x) tcc_erf_at(x, TCC_HERE)
#define tcc_erfinv(x) tcc_erfinv_at(x, TCC_HERE)
#define tcc_floor(x) tcc_floor_at(x, TCC_HERE)
#define tcc_ceil(x) tcc_ceil_at(x, TCC_HERE)
#define tcc_round(x) tcc_round_at(x, TCC_HERE)
#define tcc_isfinite(x) tcc_isfinite_at(x, TCC_HERE)
#define tcc_not(x) tcc_not_at(x, TCC_HERE)
#define tcc_cast(x, dtype) tcc_cast_at(x, dtype, TCC_HERE)
#define tcc_relu(x) tcc_relu_at(x, TCC_HERE)
#define tcc_leaky_relu(x, slope) tcc_leaky_relu_at(x, slope, TCC_HERE)
#define tcc_gelu(x) tcc_gelu_at(x, TCC_HERE)
#define tcc_gelu_tanh(x) tcc_gelu_tanh_at(x, TCC_HERE)
#define tcc_silu(x) tcc_silu_at(x, TCC_HERE)
#define tcc_softplus(x) tcc_softplus_at(x, TCC_HERE)

/* -- Element by element, two operands or more, which broadcast -- */
/* Of floats and integers. */
TCC_API tcc_tensor tcc_add_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* a + b */
TCC_API tcc_tensor tcc_sub_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* a - b */
TCC_API tcc_tensor tcc_mul_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* a b, element by element */
TCC_API tcc_tensor tcc_div_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* of integers: towards zero; by 0: 0 */
TCC_API tcc_tensor tcc_rem_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* a's sign; of integers by 0: 0 */
TCC_API tcc_tensor tcc_pow_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* of floats; as C's pow */
TCC_API tcc_tensor tcc_max_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* NaN if either is */
TCC_API tcc_tensor tcc_min_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* NaN if either is */
/* Of bool: logical; of integers: bitwise. */
TCC_API tcc_tensor tcc_and_at(tcc_tensor a, tcc_tensor b, tcc_loc at);
TCC_API tcc_tensor tcc_or_at(tcc_tensor a, tcc_tensor b, tcc_loc at);
TCC_API tcc_tensor tcc_xor_at(tcc_tensor a, tcc_tensor b, tcc_loc at);
/* Of integers: a's bits shifted by b, towards the high bits with zeros in their place, or towards the low bits with
 * copies of the sign. Where b is below 0, or not below the number of bits of the type, a left shift gives 0, and a
 * right shift 0 for a >= 0, else -1. */
TCC_API tcc_tensor tcc_shift_left_at(tcc_tensor a, tcc_tensor b, tcc_loc at);
TCC_API tcc_tensor tcc_shift_right_at(tcc_tensor a, tcc_tensor b, tcc_loc at);
/* Comparisons, of any type; the result is bool. */
TCC_API tcc_tensor tcc_eq_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* a = b */
TCC_API tcc_tensor tcc_ne_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* a and b differ */
TCC_API tcc_tensor tcc_lt_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* a < b */
TCC_API tcc_tensor tcc_le_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* a <= b */
TCC_API tcc_tensor tcc_gt_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* a > b */
TCC_API tcc_tensor tcc_ge_at(tcc_tensor a, tcc_tensor b, tcc_loc at); /* a >= b */
/* c ? a : b. c is bool; a and b have one type. All three broadcast. */
TCC_API tcc_tensor tcc_select_at(tcc_tensor c, tcc_tensor a, tcc_tensor b, tcc_loc at);
/* x + c and c x. c takes the type of x, so it must be an integer where x is one. */
TCC_API tcc_tensor tcc_add_scalar_at(tcc_tensor x, double c, tcc_loc at);
TCC_API tcc_tensor tcc_scale_at(tcc_tensor x, double c, tcc_loc at);
/* c - x, PyTorch's rsub; c as above. */
TCC_API tcc_tensor tcc_rsub_scalar_at(tcc_tensor x, double c, tcc_loc at);
/* x = c, x and c differ, x < c, x <= c, x > c, x >= c: bool. c takes the type of x, which must hold it. */
TCC_API tcc_tensor tcc_eq_scalar_at(tcc_tensor x, double c, tcc_loc at);
TCC_API tcc_tensor tcc_ne_scalar_at(tcc_tensor x, double c, tcc_loc at);
TCC_API tcc_tensor tcc_lt_scalar_at(tcc_tensor x, double c, tcc_loc at);
TCC_API tcc_tensor tcc_le_scalar_at(tcc_tensor x, double c, tcc_loc at);
TCC_API tcc_tensor tcc_gt_scalar_at(tcc_tensor x, double c, tcc_loc at);
TCC_API tcc_tensor tcc_ge_scalar_at(tcc_tensor x, double c, tcc_loc at);
/* c ? x : value, of any type, which must hold the value. c and x broadcast. */
TCC_API tcc_tensor tcc_select_scalar_at(tcc_tensor c, tcc_tensor x, double value, tcc_loc at);
#define tcc_add(a, b) tcc_add_at(a, b, TCC_HERE)
#define tcc_sub(a, b) tcc_sub_at(a, b, TCC_HERE)
#define tcc_mul(a, b) tcc_mul_at(a, b, TCC_HERE)
#define tcc_div(a, b) tcc_div_at(a, b, TCC_HERE)
#define tcc_rem(a, b) tcc_rem_at(a, b, TCC_HERE)
#define tcc_pow(a, b) tcc_pow_at(a, b, TCC_HERE)
#define tcc_max(a, b) tcc_max_at(a, b, TCC_HERE)
#define tcc_min(a, b) tcc_min_at(a, b, TCC_HERE)
#define tcc_and(a, b) tcc_and_at(a, b, TCC_HERE)
#define tcc_or(a, b) tcc_or_at(a, b, TCC_HERE)
#define tcc_xor(a, b) tcc_xor_at(a, b, TCC_HERE)
#define tcc_shift_left(a, b) tcc_shift_left_at(a, b, TCC_HERE)
#define tcc_shift_right(a, b) tcc_shift_right_at(a, b, TCC_HERE)
#define tcc_eq(a, b) tcc_eq_at(a, b, TCC_HERE)
#define tcc_ne(a, b) tcc_ne_at(a, b, TCC_HERE)
#define tcc_lt(a, b) tcc_lt_at(a, b, TCC_HERE)
#define tcc_le(a, b) tcc_le_at(a, b, TCC_HERE)
#define tcc_gt(a, b) tcc_gt_at(a, b, TCC_HERE)
#define tcc_ge(a, b) tcc_ge_at(a, b, TCC_HERE)
#define tcc_select(c, a, b) tcc_select_at(c, a, b, TCC_HERE)
#define tcc_add_scalar(x, c) tcc_add_scalar_at(x, c, TCC_HERE)
#define tcc_scale(x, c) tcc_scale_at(x, c, TCC_HERE)
#define tcc_rsub_scalar(x, c) tcc_rsub_scalar_at(x, c, TCC_HERE)
#define tcc_eq_scalar(x, c) tcc_eq_scalar_at(x, c, TCC_HERE)
#define tcc_ne_scalar(x, c) tcc_ne_scalar_at(x, c, TCC_HERE)
#define tcc_lt_scalar(x, c) tcc_lt_scalar_at(x, c, TCC_HERE)
#define tcc_le_scalar(x, c) tcc_le_scalar_at(x, c, TCC_HERE)
#define tcc_gt_scalar(x, c) tcc_gt_scalar_at(x, c, TCC_HERE)
#define tcc_ge_scalar(x, c) tcc_ge_scalar_at(x, c, TCC_HERE)
#define tcc_select_scalar(c, x, value) tcc_select_scalar_at(c, x, value, TCC_HERE)

/* -- Shape; of any type -- */
/* The same elements in row-major order, as `dims`. One extent may be -1: it is what is left. */
TCC_API tcc_tensor tcc_reshape_at(tcc_tensor x, int rank, const int64_t *dims, tcc_loc at);
/* Dims from `first` on become one. */
TCC_API tcc_tensor tcc_flatten_at(tcc_tensor x, int first, tcc_loc at);
/* Dim i of the result is dim perm[i] of x; rank is x's. */
TCC_API tcc_tensor tcc_transpose_at(tcc_tensor x, int rank, const int64_t *perm, tcc_loc at);
/* To shape `dims`, aligned from the right; extents of 1 stretch. */
TCC_API tcc_tensor tcc_broadcast_at(tcc_tensor x, int rank, const int64_t *dims, tcc_loc at);
/* Elements start, start + stride, ... below limit along `axis`. A negative start or limit counts from the end. The
 * range must lie within x and hold an element; stride is 1 or more. */
TCC_API tcc_tensor tcc_slice_at(tcc_tensor x, int axis, int64_t start, int64_t limit, int64_t stride, tcc_loc at);
/* `value` before and after x along `axis`; neither number is negative. */
TCC_API tcc_tensor tcc_pad_at(tcc_tensor x, int axis, int64_t before, int64_t after, double value, tcc_loc at);
/* The same along several axes, as PyTorch's pad takes them: `count` numbers, before and after the last dim, then before
 * and after the one in front of it, and so on: tcc_pad_dims(x, 0, TCC_DIMS(left, right, top, bottom)). */
TCC_API tcc_tensor tcc_pad_dims_at(tcc_tensor x, double value, int count, const int64_t *sides, tcc_loc at);
/* `count` tensors, 1 or more, one after another along `axis`. They agree in type and in all other dims. */
TCC_API tcc_tensor tcc_concat_at(const tcc_tensor *xs, int count, int axis, tcc_loc at);
TCC_API tcc_tensor tcc_flip_at(tcc_tensor x, int axis, tcc_loc at); /* reversed along `axis` */
#define tcc_reshape(x, ...) tcc_reshape_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_flatten(x, first) tcc_flatten_at(x, first, TCC_HERE)
#define tcc_transpose(x, ...) tcc_transpose_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_broadcast(x, ...) tcc_broadcast_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_slice(x, axis, start, limit) tcc_slice_at(x, axis, start, limit, 1, TCC_HERE)
#define tcc_slice_strided(x, axis, start, limit, stride) tcc_slice_at(x, axis, start, limit, stride, TCC_HERE)
#define tcc_pad(x, axis, before, after, value) tcc_pad_at(x, axis, before, after, value, TCC_HERE)
#define tcc_pad_dims(x, value, ...) tcc_pad_dims_at(x, value, __VA_ARGS__, TCC_HERE)
#define tcc_concat(xs, ...) tcc_concat_at(xs, __VA_ARGS__, TCC_HERE)
#define tcc_flip(x, axis) tcc_flip_at(x, axis, TCC_HERE)

/* -- Indexing. Indices are i32 or i64; one out of range reads 0 and writes nothing. -- */
/* Whole slices of x along `axis`: x [a.., K, b..], indices [i..] -> [a.., i.., b..]. */
TCC_API tcc_tensor tcc_take_at(tcc_tensor x, tcc_tensor indices, int axis, tcc_loc at);
/* result[.., j, ..] = x[.., indices[.., j, ..], ..]: x and indices have one rank and agree in all dims but `axis`;
 * extents of 1 stretch. The result has the shape of the indices, once stretched. */
TCC_API tcc_tensor tcc_take_along_at(tcc_tensor x, tcc_tensor indices, int axis, tcc_loc at);
/* base plus slices of `updates`, each added where its index says: updates have the shape of tcc_take(base, indices,
 * axis), the result that of base. Updates of one place are added in ascending order of their position. Of numbers. */
TCC_API tcc_tensor tcc_scatter_add_at(tcc_tensor base, tcc_tensor indices, tcc_tensor updates, int axis, tcc_loc at);
#define tcc_take(x, indices, axis) tcc_take_at(x, indices, axis, TCC_HERE)
#define tcc_take_along(x, indices, axis) tcc_take_along_at(x, indices, axis, TCC_HERE)
#define tcc_scatter_add(base, indices, updates, axis) tcc_scatter_add_at(base, indices, updates, axis, TCC_HERE)

/* -- Reductions of floats and integers: over the listed axes, TCC_DIMS(1, 2), or over all with TCC_ALL. These dims
 * vanish. They stay as extents of 1 with TCC_KEEP(1, 2) and TCC_KEEP_ALL, PyTorch's keepdim:
 * tcc_div(x, tcc_sum(x, TCC_KEEP(-1))). Both are a count and a list; TCC_KEEP adds TCC_KEEP_DIMS
 * to the count. -- */
#define TCC_ALL 0, NULL
#define TCC_KEEP(...) TCC_KEEP_DIMS + TCC_DIMS(__VA_ARGS__)
#define TCC_KEEP_ALL TCC_KEEP_DIMS, NULL
enum { TCC_KEEP_DIMS = 1 << 16 };
TCC_API tcc_tensor tcc_sum_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at); /* of integers: wraps */
/* Of integers and bool: the sum in i64, which does not wrap, as PyTorch's. */
TCC_API tcc_tensor tcc_sum_i64_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at);
TCC_API tcc_tensor tcc_mean_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at);       /* of floats */
TCC_API tcc_tensor tcc_reduce_max_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at); /* NaN if any is */
TCC_API tcc_tensor tcc_reduce_min_at(tcc_tensor x, int count, const int64_t *axes, tcc_loc at); /* NaN if any is */
/* i32: the index of the first maximum along `axis`, which vanishes; of the first NaN if there is one. */
TCC_API tcc_tensor tcc_argmax_at(tcc_tensor x, int axis, tcc_loc at);
/* The running sum along `axis`, each element included; x's shape. Sums of integers are of their type and wrap: convert
 * i32 first where they may be beyond 2^31. */
TCC_API tcc_tensor tcc_cumsum_at(tcc_tensor x, int axis, tcc_loc at);
/* The linear recurrence y[i] = a[i] y[i-1] + b[i] along `axis`, with 0 before the first; of floats and integers. a and
 * b broadcast: a running mean of x is one with a scalar a = d and b = (1 - d) x. To begin at y, add a[0] y to b[0]. */
TCC_API tcc_tensor tcc_linear_scan_at(tcc_tensor a, tcc_tensor b, int axis, tcc_loc at);
#define tcc_sum(x, ...) tcc_sum_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_sum_i64(x, ...) tcc_sum_i64_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_mean(x, ...) tcc_mean_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_reduce_max(x, ...) tcc_reduce_max_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_reduce_min(x, ...) tcc_reduce_min_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_argmax(x, axis) tcc_argmax_at(x, axis, TCC_HERE)
#define tcc_cumsum(x, axis) tcc_cumsum_at(x, axis, TCC_HERE)
#define tcc_linear_scan(a, b, axis) tcc_linear_scan_at(a, b, axis, TCC_HERE)

/* -- Contractions -- */
/* a [.., M, K] x b [.., K, N] -> [.., M, N], of floats; leading dims broadcast. 2 M N K flop a matrix. */
TCC_API tcc_tensor tcc_matmul_at(tcc_tensor a, tcc_tensor b, tcc_loc at);
#define tcc_matmul(a, b) tcc_matmul_at(a, b, TCC_HERE)

/* dropout(softmax(scale q k^T + mask)) v: q [.., T, D], k [.., S, D], v [.., S, E] -> [.., T, E], of floats. Leading
 * dims of k and v are q's, or 1 where all of q's see the same; and of heads, dim -3 of 4 or more, they may have fewer,
 * a divisor of q's: each of theirs serves as many neighbouring ones of q (Ainslie et al. 2023). The T x S matrix is
 * never stored, nor is what dropout drew, nor k and v for each head of q. A query that sees no key gives 0. */
typedef struct tcc_attention_options {
    size_t size;              /* sizeof this struct, set by the macro */
    bool causal TCC_OR_ZERO;  /* query t sees keys up to t + S - T, the first T - S none */
    double scale TCC_OR_ZERO; /* 0: 1 / sqrt(D) */
    /* Broadcasts to [.., T, S]: bool, true where the query sees the key; or of q's type, added to the scaled scores.
     * Left out: none. */
    tcc_tensor mask TCC_OR_ZERO;
    double dropout TCC_OR_ZERO; /* of the probabilities, in [0, 1), as tcc_dropout; while training only */
} tcc_attention_options;
TCC_API tcc_tensor tcc_attention_at(tcc_tensor q, tcc_tensor k, tcc_tensor v, const tcc_attention_options *options,
                                    tcc_loc at);
#define tcc_attention(q, k, ...) tcc_attention_at(q, k, TCC_WITH_OPTIONS(tcc_attention_options, __VA_ARGS__), TCC_HERE)

/* -- Convolutions over 1 to 3 spatial dims, of floats --
 * An option holds for all spatial dims: .stride = 2. The list beside it has one number for each, and where that is not
 * 0 it counts instead: .stride_of = {2, 1}. So do the lists of paddings on one side. Errors: TCC_EINVAL, an option out
 * of range or for a dim that x does not have; TCC_ESHAPE; TCC_EDTYPE. */
struct tcc_init;
typedef struct tcc_conv_options {
    size_t size;
    int64_t stride TCC_OR_ZERO;            /* 0: 1 */
    int64_t padding TCC_OR_ZERO;           /* zeros on both sides */
    int64_t dilation TCC_OR_ZERO;          /* 0: 1 */
    int64_t groups TCC_OR_ZERO;            /* 0: 1; divides the channels of x and of the result */
    bool no_bias TCC_OR_ZERO;              /* layers only */
    int64_t stride_of[3] TCC_OR_ZERO;      /* by spatial dim, as all that follow */
    int64_t padding_of[3] TCC_OR_ZERO;     /* on both sides */
    int64_t padding_before[3] TCC_OR_ZERO; /* on one side, instead of the above */
    int64_t padding_after[3] TCC_OR_ZERO;
    bool same TCC_OR_ZERO; /* not transposed: padding that gives ceil(spatial / stride); if odd, one more at the end */
    int64_t dilation_of[3] TCC_OR_ZERO;
    /* Transposed only: elements added at the result's end; below the stride or below the dilation. */
    int64_t output_padding TCC_OR_ZERO;
    int64_t output_padding_of[3] TCC_OR_ZERO;
    int64_t kernel_of[3] TCC_OR_ZERO;               /* layers only: the kernel's extents */
    const struct tcc_init *weight_init TCC_OR_ZERO; /* layers only; as nn.h says */
    const struct tcc_init *bias_init TCC_OR_ZERO;   /* layers only */
} tcc_conv_options;
/* Cross-correlation: x [N, C, spatial], w [O, C / groups, kernel] -> [N, O, spatial'], with
 * spatial' = (spatial + padding on both sides - dilation (kernel - 1) - 1) / stride + 1, rounded down. */
TCC_API tcc_tensor tcc_conv_at(tcc_tensor x, tcc_tensor w, const tcc_conv_options *options, tcc_loc at);
/* The transpose of that, which is the gradient of a convolution by its image: x [N, C, spatial],
 * w [C, O / groups, kernel] -> [N, O, spatial'], with spatial' = (spatial - 1) stride - padding on both sides
 * + dilation (kernel - 1) + output_padding + 1. Padding cuts the result off. */
TCC_API tcc_tensor tcc_conv_transpose_at(tcc_tensor x, tcc_tensor w, const tcc_conv_options *options, tcc_loc at);
#define tcc_conv(x, ...) tcc_conv_at(x, TCC_WITH_OPTIONS(tcc_conv_options, __VA_ARGS__), TCC_HERE)
#define tcc_conv_transpose(x, ...) tcc_conv_transpose_at(x, TCC_WITH_OPTIONS(tcc_conv_options, __VA_ARGS__), TCC_HERE)

/* -- Windows over the 1 to 3 spatial dims of x [N, C, spatial], of floats; N and C stay -- */
typedef struct tcc_pool_options {
    size_t size;
    int64_t stride TCC_OR_ZERO;       /* 0: the window */
    int64_t padding TCC_OR_ZERO;      /* on both sides; less than the window */
    bool exclude_pad TCC_OR_ZERO;     /* averages only: they leave padding out */
    int64_t window_of[3] TCC_OR_ZERO; /* by spatial dim, as all that follow; see tcc_conv_options */
    int64_t stride_of[3] TCC_OR_ZERO;
    int64_t padding_of[3] TCC_OR_ZERO;
    int64_t padding_before[3] TCC_OR_ZERO;
    int64_t padding_after[3] TCC_OR_ZERO;
    bool ceil_mode TCC_OR_ZERO; /* a last window may reach beyond the padding; averages leave that out */
} tcc_pool_options;
/* Windows of `window` elements along each spatial dim. Extents become (spatial + padding on both sides - window) /
 * stride + 1, rounded down, or up with ceil_mode; but no window begins behind x and the padding before it. */
TCC_API tcc_tensor tcc_max_pool_at(tcc_tensor x, int64_t window, const tcc_pool_options *options, tcc_loc at);
TCC_API tcc_tensor tcc_avg_pool_at(tcc_tensor x, int64_t window, const tcc_pool_options *options, tcc_loc at);
/* To spatial extents `spatial`; rank is their number. Result i of `out` along a dim of extent `in` is the mean over
 * elements floor(i in / out) to ceil((i + 1) in / out), that one excluded. */
TCC_API tcc_tensor tcc_adaptive_avg_pool_at(tcc_tensor x, int rank, const int64_t *spatial, tcc_loc at);
/* The largest of each such window. Its gradient goes to the first of equals. */
TCC_API tcc_tensor tcc_adaptive_max_pool_at(tcc_tensor x, int rank, const int64_t *spatial, tcc_loc at);
/* To spatial extents `spatial`, larger or smaller. align_corners: corners map to corners, as in PyTorch. bicubic: by
 * Keys' kernel with a = -3/4 (Keys 1981), whose results may lie outside the range of x. */
TCC_API tcc_tensor tcc_resize_nearest_at(tcc_tensor x, bool align_corners, int rank, const int64_t *spatial,
                                         tcc_loc at);
TCC_API tcc_tensor tcc_resize_bilinear_at(tcc_tensor x, bool align_corners, int rank, const int64_t *spatial,
                                          tcc_loc at);
TCC_API tcc_tensor tcc_resize_bicubic_at(tcc_tensor x, bool align_corners, int rank, const int64_t *spatial,
                                         tcc_loc at);
#define tcc_max_pool(x, ...) tcc_max_pool_at(x, TCC_WITH_OPTIONS(tcc_pool_options, __VA_ARGS__), TCC_HERE)
#define tcc_avg_pool(x, ...) tcc_avg_pool_at(x, TCC_WITH_OPTIONS(tcc_pool_options, __VA_ARGS__), TCC_HERE)
#define tcc_adaptive_avg_pool(x, ...) tcc_adaptive_avg_pool_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_adaptive_max_pool(x, ...) tcc_adaptive_max_pool_at(x, __VA_ARGS__, TCC_HERE)
#define tcc_resize_nearest(x, align_corners, ...) tcc_resize_nearest_at(x, align_corners, __VA_ARGS__, TCC_HERE)
#define tcc_resize_bilinear(x, align_corners, ...) tcc_resize_bilinear_at(x, align_corners, __VA_ARGS__, TCC_HERE)
#define tcc_resize_bicubic(x, align_corners, ...) tcc_resize_bicubic_at(x, align_corners, __VA_ARGS__, TCC_HERE)

/* -- Softmax, of floats: along `axis`; x's shape -- */
TCC_API tcc_tensor tcc_softmax_at(tcc_tensor x, int axis, tcc_loc at);
TCC_API tcc_tensor tcc_log_softmax_at(tcc_tensor x, int axis, tcc_loc at);
#define tcc_softmax(x, axis) tcc_softmax_at(x, axis, TCC_HERE)
#define tcc_log_softmax(x, axis) tcc_log_softmax_at(x, axis, TCC_HERE)

/* -- Gradients -- */
/* x as a constant: no gradient goes through it. */
TCC_API tcc_tensor tcc_stop_gradient_at(tcc_tensor x, tcc_loc at);
/* The gradients of y, a float scalar, by x[0 .. n), which may be any floats of the trace: inputs, parameters, results.
 * gradients[i] has x[i]'s shape and type, and is zeros where y does not depend on it. It is the whole derivative: also
 * what goes by way of others of x. Gradients are tensors like others; they may be differentiated again, by the loss
 * too. Of a y of more elements, the product of its Jacobian with v is the gradient of tcc_sum(tcc_mul(y, v), TCC_ALL).
 * Errors: TCC_ESHAPE, TCC_EDTYPE. */
TCC_API void tcc_gradients_at(tcc_tensor y, const tcc_tensor *x, int n, tcc_tensor *gradients, tcc_loc at);
/* The gradient by one. */
TCC_API tcc_tensor tcc_gradient_at(tcc_tensor y, tcc_tensor x, tcc_loc at);
#define tcc_stop_gradient(x) tcc_stop_gradient_at(x, TCC_HERE)
#define tcc_gradients(y, x, n, gradients) tcc_gradients_at(y, x, n, gradients, TCC_HERE)
#define tcc_gradient(y, x) tcc_gradient_at(y, x, TCC_HERE)

TCC_API_END
#endif
