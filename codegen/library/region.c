/* SPDX-License-Identifier: MIT
 * The regions that calls of libraries touch, from their params. Workspaces are left out: all of one belongs to its
 * call. */
#include "codegen/library/region.h"
#include "codegen/program.h"

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

static void matmul(const tcc_matmul_params *p, int n, tcc_region *out) {
    enum { A, B, BIAS, AUX, ADDEND, C, BUFFERS };
    const int64_t bytes = bytes_of(p->type), bytes_c = bytes_of(p->type_c);
    if (n < BUFFERS) return;
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

static void conv(const char *entry, const tcc_cudnn_conv_params *params, int n, tcc_region *out) {
    const tcc_conv_params *p = &params->conv;
    const int64_t bytes = bytes_of(params->type);
    const tcc_region x = tensor(p->batch, p->in, p->x_size, p->x_stride, bytes),
                     y = tensor(p->batch, p->out, p->y_size, p->y_stride, bytes),
                     w = tensor(p->out, p->in / p->groups, p->kernel, p->w_stride, bytes);
    const bool forward = !strcmp(entry, "cudnn.conv_forward"), data = !strcmp(entry, "cudnn.conv_data_gradient");
    if (n < (forward ? 4 : 3)) return;
    out[0] = data ? y : x;
    out[1] = forward || data ? w : y;
    out[2] = forward ? dense(p->out, params->type) : data ? x : w;
    if (forward) out[3] = y;
}

static void norm(const char *entry, const tcc_norm_params *p, int n, tcc_region *out) {
    static const char forward[] = "r11r11", backward[] = "rr111r11"; /* rows x channels, or one a channel */
    const char *const which = strcmp(entry, "cudnn.batch_norm_forward") ? backward : forward;
    for (int i = 0; which[i] && i < n; i++)
        out[i] = which[i] == 'r' ? dense(p->rows * p->channels, p->type) : dense(p->channels, TCC_F32);
}

void tcc_library_regions(const char *entry, const int64_t *params, int n_buffers, tcc_region *out) {
    memset(out, 0, sizeof *out * (size_t)n_buffers);
    if (!strcmp(entry, "cublaslt.matmul")) matmul((const tcc_matmul_params *)params, n_buffers, out);
    else if (!strncmp(entry, "cudnn.conv", 10)) conv(entry, (const tcc_cudnn_conv_params *)params, n_buffers, out);
    else if (!strncmp(entry, "cudnn.batch_norm", 16)) norm(entry, (const tcc_norm_params *)params, n_buffers, out);
}
