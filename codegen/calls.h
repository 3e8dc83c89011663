/* SPDX-License-Identifier: MIT
 * The calls of libraries that a program may hold, apart from the program's own format. calls.def has a row for each,
 * and the fields of its params. The structs here are made from these fields, and so are the checker and the printer.
 * The last buffer is a workspace, but of collectives; it is not touched where params say 0 bytes.
 *
 * MATMUL: C = activation(op(A) op(B) + addend + bias), for each of `batch` matrices. There are `outer` such calls, one
 * after another, each at further offsets in a, b, addend and c; if all have the same C, they add to it. Buffers: a, b,
 * bias, aux, addend, c, workspace. Bias, aux and addend are not touched where the params do not ask for them; addend
 * may be c.
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
 * NORM_BACKWARD: dx, dweight, dbias from dy. Buffers: dy, x, mean, scale, weight, dx, dweight, dbias, workspace.
 *
 * ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER: the collectives of ir/ops.def, by the program's communicator
 * (runtime/device.h). Buffers: x, result. Those of ALL_REDUCE may be the same memory. */
#ifndef TCC_CODEGEN_CALLS_H
#define TCC_CODEGEN_CALLS_H

#include "codegen/calls.def"
#include "ir/support/diag.h"
#include "ir/support/dtype.h"

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

/* tcc_matmul_params, tcc_conv_params, ...: calls.def says what the fields are. */
#define TCC_PARAM_FIELD(kind, name) int64_t name;
#define TCC_PARAM_ARRAY(kind, name, n) int64_t name[n];
#define TCC_PARAM_STRUCT(params, name) tcc_##params##_params name;
#define TCC_PARAMS(params)                                                      \
    typedef struct tcc_##params##_params {                                      \
        TCC_PARAMS_##params(TCC_PARAM_FIELD, TCC_PARAM_ARRAY, TCC_PARAM_STRUCT) \
    } tcc_##params##_params;
TCC_PARAM_LISTS(TCC_PARAMS)
#undef TCC_PARAM_FIELD
#undef TCC_PARAM_ARRAY
#undef TCC_PARAM_STRUCT
#undef TCC_PARAMS

#define TCC_CALL(id, text, params, buffers, check, regions) TCC_CALL_##id,
typedef enum tcc_call { TCC_EACH_CALL(TCC_CALL) TCC_CALLS } tcc_call;
#undef TCC_CALL

/* The counts of params as constants: TCC_MATMUL_PARAMS. */
enum {
#define TCC_CALL(id, text, params, buffers, check, regions) \
    TCC_##id##_PARAMS = sizeof(tcc_##params##_params) / sizeof(int64_t),
    TCC_EACH_CALL(TCC_CALL)
#undef TCC_CALL
};

typedef struct tcc_call_info {
    const char *name;
    int n_params, n_buffers;
} tcc_call_info;

const tcc_call_info *tcc_call_get_info(tcc_call call);
/* The call of that name; TCC_CALLS: there is none. */
tcc_call tcc_call_find(const char *name);
/* Whether it is one of ALL_REDUCE, REDUCE_SCATTER and ALL_GATHER. */
static inline bool tcc_call_is_collective(tcc_call call) {
    return call == TCC_CALL_ALL_REDUCE || call == TCC_CALL_REDUCE_SCATTER || call == TCC_CALL_ALL_GATHER;
}
/* Whether params, n_params of them, are what the call may have: each field by itself and all together. Params that pass
 * describe buffers that can be; whether the library computes the call is for it to say. Errors: TCC_EFORMAT, with the
 * field or the rule and all params; TCC_ENOMEM. */
tcc_status tcc_call_check(tcc_diag *d, tcc_call call, const int64_t *params);
/* Of params of that call, which algorithm it is to take; NULL: the library decides that by itself. */
tcc_algorithm_params *tcc_call_algorithm(tcc_call call, int64_t *params);
/* "{batch=1, m=64, n=64, k=32, transpose_b=1, ..., type=f32, activation=relu, alignment=64}"; numbers of 0 are left
 * out. Prints any params, those too that do not pass. */
void tcc_call_print_params(tcc_strbuf *out, tcc_call call, const int64_t *params);

#endif
