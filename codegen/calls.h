/* SPDX-License-Identifier: MIT
 * The calls of libraries that a program may hold, apart from the program's own format. calls.def has a row for each;
 * here is what its params are. A workspace is the last buffer, and not touched where params say 0 bytes.
 *
 * MATMUL: C = activation(op(A) op(B) + addend + bias), for each of `batch` matrices. `outer` such calls follow each
 * other, each further on in a, b, addend and c; where they all have one C, they add to it. Buffers: a, b, bias, aux,
 * addend, c, workspace. Bias, aux and addend are not touched where the params do not ask for them; addend may be c.
 *
 * CONV_FORWARD: y = conv(x, w), plus bias if `bias`, then max(0, y) if `relu`. Buffers: x, w, bias, y, workspace.
 * Without bias its buffer is not touched.
 * CONV_DATA_GRADIENT: dx, the gradient of conv with respect to x. Buffers: dy, w, dx, workspace.
 * CONV_FILTER_GRADIENT: dw, that with respect to w. Buffers: x, dy, dw, workspace.
 *
 * SDPA_FORWARD: o = softmax(scale q k^T) v for each head, sums in f32; and lse, the logarithms of the softmax
 * denominators, if `lse`. Buffers: q, k, v, o, lse, workspace.
 * SDPA_BACKWARD: dq, dk and dv from do, without atomics. Buffers: q, k, v, o, lse, do, dq, dk, dv, workspace.
 *
 * NORM_FORWARD: y = (x - mean) scale weight + bias, by the mean of each channel and scale = 1 / sqrt(variance + eps);
 * sums in f32. Buffers: x, weight, bias, y, mean, scale, workspace.
 * NORM_BACKWARD: dx, dweight, dbias from dy. Buffers: dy, x, mean, scale, weight, dx, dweight, dbias, workspace. */
#ifndef TCC_CODEGEN_CALLS_H
#define TCC_CODEGEN_CALLS_H

#include <stdint.h>

/* Of x = op(A) op(B) + addend + bias, or with GELU_GRADIENT x = op(A) op(B): max(0, x); gelu_tanh(x), which leaves x in
 * aux if `aux`; gelu_tanh_grad(aux, x); with RELU_GRADIENT, which has no bias either, x where its bit in aux is 1, else
 * 0. Bit i of a row is bit i % 8 of byte i / 8. */
typedef enum tcc_matmul_activation {
    TCC_MATMUL_LINEAR,
    TCC_MATMUL_RELU,
    TCC_MATMUL_GELU,
    TCC_MATMUL_GELU_GRADIENT,
    TCC_MATMUL_RELU_GRADIENT,
    TCC_MATMUL_ACTIVATIONS
} tcc_matmul_activation;

/* What the bias buffer is: nothing; added, one element a column of C; the sums over k of A, one a row of C; of B, one a
 * column. */
typedef enum tcc_matmul_bias {
    TCC_MATMUL_NO_BIAS,
    TCC_MATMUL_BIAS,
    TCC_MATMUL_SUMS_OF_A,
    TCC_MATMUL_SUMS_OF_B
} tcc_matmul_bias;

/* C is m x n, row-major, the sum runs over k: in f32, in f64 of f64. Leading dimensions and batch strides count
 * elements; a stride of 0 shares the operand between the matrices. */
typedef struct tcc_matmul_params {
    int64_t batch, m, n, k;
    int64_t transpose_a, transpose_b; /* 1: A is stored k x m, B is stored n x k */
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c;
    int64_t outer, outer_a, outer_b,
        outer_c;          /* calls, and elements from one's matrices to the next one's; outer_c 0: they add up */
    int64_t type, type_c; /* tcc_dtype of A and B, and of C, addend, bias and aux: F32, F16 or BF16, F64 only both and
                             with LINEAR or RELU */
    int64_t bias;         /* tcc_matmul_bias; the sums only of a single product */
    int64_t activation;   /* tcc_matmul_activation; LINEAR where calls add up */
    int64_t aux;          /* 0 or 1; 1 with the gradients, either with GELU, else 0; only of a single call */
    int64_t ld_aux, stride_aux; /* multiples of 8, of 128 with RELU_GRADIENT, where they count bits; aux is m x n */
    int64_t addend; /* 1: a matrix that lies as C does is added; only with LINEAR or RELU, where calls do not add up,
                       without sums */
    int64_t allow_tf32; /* 1: f32 elements may be rounded to 10 bits of fraction before they are multiplied */
    int64_t alignment; /* bytes, a power of two that the addresses of a, b, bias, aux, addend and c are multiples of; 16
                          or more with aux */
    int64_t workspace_bytes; /* that the call may use */
} tcc_matmul_params;

/* Absent spatial dimensions have size 1, kernel 1, stride 1, dilation 1 and padding 0, and
 * stand first: a 2-D convolution uses [1] and [2]. Strides count elements. */
typedef struct tcc_conv_params {
    int64_t batch, groups, in, out; /* channels, of all groups */
    int64_t x_size[3], y_size[3], kernel[3];
    int64_t stride[3], dilation[3], pad_low[3], pad_high[3];
    int64_t x_stride[5], y_stride[5]; /* batch, channel, spatial */
    int64_t w_stride[5];              /* out (groups follow each other), in, spatial */
    int64_t bias, relu;               /* forward: 0 or 1 */
} tcc_conv_params;

/* Sums are f32. Absent spatial dimensions have the strides that they would have if the present ones were their rows. */
typedef struct tcc_cudnn_conv_params {
    tcc_conv_params conv;
    int64_t type;            /* tcc_dtype of all tensors: F32, F16 or BF16 */
    int64_t allow_tf32;      /* as in tcc_matmul_params */
    int64_t alignment;       /* bytes, a power of two that the addresses of all tensors are multiples of */
    int64_t workspace_bytes; /* that the call may use */
} tcc_cudnn_conv_params;

/* q [batch, heads, queries, width], k [.., keys, width], v [.., keys, value_width], o and do [.., queries,
 * value_width]. Strides count elements, those of the last dim are 1; dq, dk and dv have their own. lse is f32 [batch,
 * heads, queries], dense. */
typedef struct tcc_sdpa_params {
    int64_t batch, heads, queries, keys, width, value_width;
    int64_t q_stride[3], k_stride[3], v_stride[3], o_stride[3];     /* batch, head, row */
    int64_t do_stride[3], dq_stride[3], dk_stride[3], dv_stride[3]; /* backward */
    int64_t scale_bits;                                             /* of the scores: the bits of an IEEE f32 */
    int64_t causal;          /* 1: key s is seen by query t if s <= t + keys - queries */
    int64_t lse;             /* forward: 1: lse is written; else its buffer is not touched */
    int64_t type;            /* tcc_dtype of all but lse: F16 or BF16 */
    int64_t alignment;       /* bytes, a power of two that the addresses of all tensors are multiples of */
    int64_t workspace_bytes; /* that the call may use */
} tcc_sdpa_params;

/* x, y, dx and dy are [rows, channels], dense; all else has one f32 a channel. */
typedef struct tcc_norm_params {
    int64_t rows, channels;
    int64_t eps_bits;        /* forward: the bits of an IEEE f32; else 0 */
    int64_t type;            /* tcc_dtype of x, y, dx, dy: F32, F16 or BF16 */
    int64_t workspace_bytes; /* that the call may use */
} tcc_norm_params;

typedef enum tcc_call {
#define TCC_CALL(id, text, params, buffers, regions) TCC_CALL_##id,
#include "codegen/calls.def"
#undef TCC_CALL
    TCC_CALLS
} tcc_call;

/* The counts of params as constants: TCC_MATMUL_PARAMS. */
enum {
#define TCC_CALL(id, text, params, buffers, regions) TCC_##id##_PARAMS = sizeof(params) / sizeof(int64_t),
#include "codegen/calls.def"
#undef TCC_CALL
};

typedef struct tcc_call_info {
    const char *name;
    int n_params, n_buffers;
} tcc_call_info;

static inline const tcc_call_info *tcc_call_get_info(tcc_call call) {
    static const tcc_call_info all[] = {
#define TCC_CALL(id, text, params, buffers, regions) {text, TCC_##id##_PARAMS, buffers},
#include "codegen/calls.def"
#undef TCC_CALL
    };
    return &all[call];
}

#endif
