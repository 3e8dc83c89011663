/* SPDX-License-Identifier: MIT
 * The regions of memory that library calls touch, from their params. Workspaces are not listed: a whole workspace
 * belongs to its call. */
#include "codegen/library/call.h"

#include <string.h>

static int64_t bytes_of(int64_t dtype) { return tcc_dtype_bytes((tcc_dtype)dtype); }

static tcc_region dense(int64_t count, int64_t dtype) { return tcc_region_whole(count * bytes_of(dtype)); }

/* Matrices of rows x columns elements, or columns x rows where transposed. */
static tcc_region matrices(const tcc_matmul_params *p, int64_t stride, int64_t outer, int64_t rows, int64_t columns,
                           bool transposed, int64_t ld, int64_t bytes) {
    tcc_region_dim dims[] = {{p->outer, outer * bytes},
                             {p->batch, stride * bytes},
                             {transposed ? columns : rows, ld * bytes},
                             {transposed ? rows : columns, bytes}};
    return tcc_region_of(0, bytes, dims, sizeof dims / sizeof dims[0]);
}

static void regions_of_matmul(const int64_t *params, tcc_region *out) {
    const tcc_matmul_params *p = (const tcc_matmul_params *)params;
    enum { A, B, BIAS, AUX, ADDEND, C };
    const int64_t bytes = bytes_of(p->type), bytes_c = bytes_of(p->type_c);
    out[A] = matrices(p, p->stride_a, p->outer_a, p->m, p->k, p->transpose_a, p->lda, bytes);
    out[B] = matrices(p, p->stride_b, p->outer_b, p->k, p->n, p->transpose_b, p->ldb, bytes);
    out[BIAS] = dense(p->bias == TCC_MATMUL_SUMS_OF_A ? p->m : p->n, p->type_c);
    out[C] = out[ADDEND] = matrices(p, p->stride_c, p->outer_c, p->m, p->n, false, p->ldc, bytes_c);
    if (!p->outer_c) { /* calls that add up */
        tcc_matmul_params one = *p;
        one.outer = 1;
        out[C] = matrices(&one, p->stride_c, 0, p->m, p->n, false, p->ldc, bytes_c);
    }
    if (p->activation == TCC_MATMUL_RELU_GRADIENT) { /* bits */
        tcc_region_dim dims[] = {{p->batch, p->stride_aux / 8}, {p->m, p->ld_aux / 8}, {(p->n + 7) / 8, 1}};
        out[AUX] = tcc_region_of(0, 1, dims, 3);
    } else {
        out[AUX] = matrices(p, p->stride_aux, 0, p->m, p->n, false, p->ld_aux, bytes_c);
    }
}

static tcc_region tensor(int64_t outer, int64_t inner, const int64_t *sizes, const int64_t *strides, int64_t bytes) {
    tcc_region_dim dims[5] = {{outer, strides[0] * bytes}, {inner, strides[1] * bytes}};
    for (int i = 0; i < 3; i++) dims[2 + i] = (tcc_region_dim){sizes[i], strides[2 + i] * bytes};
    return tcc_region_of(0, bytes, dims, 5);
}

static void regions_of_conv(const int64_t *params, tcc_call call, tcc_region *out) {
    const tcc_cudnn_conv_params *of = (const tcc_cudnn_conv_params *)params;
    const tcc_conv_params *p = &of->conv;
    const int64_t bytes = bytes_of(of->type);
    const tcc_region x = tensor(p->batch, p->in, p->x_size, p->x_stride, bytes),
                     y = tensor(p->batch, p->out, p->y_size, p->y_stride, bytes),
                     w = tensor(p->out, p->in / p->groups, p->kernel, p->w_stride, bytes);
    const bool forward = call == TCC_CALL_CONV_FORWARD, data = call == TCC_CALL_CONV_DATA_GRADIENT;
    out[0] = data ? y : x;
    out[1] = forward || data ? w : y;
    out[2] = forward ? dense(p->out, of->type) : data ? x : w;
    if (forward) out[3] = y;
}

static void regions_of_conv_forward(const int64_t *params, tcc_region *out) {
    regions_of_conv(params, TCC_CALL_CONV_FORWARD, out);
}

static void regions_of_conv_data_gradient(const int64_t *params, tcc_region *out) {
    regions_of_conv(params, TCC_CALL_CONV_DATA_GRADIENT, out);
}

static void regions_of_conv_filter_gradient(const int64_t *params, tcc_region *out) {
    regions_of_conv(params, TCC_CALL_CONV_FILTER_GRADIENT, out);
}

/* Attention says itself what it touches (tcc_attention_region). */
static void regions_of_sdpa(const int64_t *params, tcc_region *out) { (void)params, (void)out; }

/* `which`: a letter a buffer; r: rows x channels; 1: one a channel. */
static void regions_of_norm(const int64_t *params, const char *which, tcc_region *out) {
    const tcc_norm_params *p = (const tcc_norm_params *)params;
    for (int i = 0; which[i]; i++)
        out[i] = which[i] == 'r' ? dense(p->rows * p->channels, p->type) : dense(p->channels, TCC_F32);
}

static void regions_of_norm_forward(const int64_t *params, tcc_region *out) { regions_of_norm(params, "r11r11", out); }

static void regions_of_norm_backward(const int64_t *params, tcc_region *out) {
    regions_of_norm(params, "rr111r11", out);
}

static tcc_region parts(const tcc_collective_params *p, int64_t parts) {
    return tcc_region_whole(parts * p->count * bytes_of(p->type));
}

static void regions_of_all_reduce(const int64_t *params, tcc_region *out) {
    out[0] = out[1] = parts((const tcc_collective_params *)params, 1);
}

static void regions_of_reduce_scatter(const int64_t *params, tcc_region *out) {
    const tcc_collective_params *p = (const tcc_collective_params *)params;
    out[0] = parts(p, p->ranks);
    out[1] = parts(p, 1);
}

static void regions_of_all_gather(const int64_t *params, tcc_region *out) {
    const tcc_collective_params *p = (const tcc_collective_params *)params;
    out[0] = parts(p, 1);
    out[1] = parts(p, p->ranks);
}

static void (*const regions[])(const int64_t *params, tcc_region *out) = {
#define TCC_CALL(id, text, params, buffers, check, regions) regions_of_##regions,
    TCC_EACH_CALL(TCC_CALL)
#undef TCC_CALL
};

void tcc_library_regions(tcc_call call, const int64_t *params, tcc_region *out) {
    memset(out, 0, sizeof *out * (size_t)tcc_call_get_info(call)->n_buffers);
    regions[call](params, out);
}
