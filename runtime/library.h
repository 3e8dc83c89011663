/* SPDX-License-Identifier: MIT
 * Libraries of others that are opened at run time, behind one table of entries. A program's library step names an entry; its
 * params and buffers are documented here, its results never depend on the number of threads.
 *
 * An entry's work is cut into slices by shape alone, and our pool runs the slices; the library itself runs on one thread in each
 * of ours. TCC_LIBRARIES (a list as in "openblas,onednn", or "none") restricts what is opened; TCC_OPENBLAS_PATH and
 * TCC_ONEDNN_PATH name a file to open instead of what the loader finds.
 *
 * cblas.sgemm      C = op(A) op(B) + beta C, f32, row-major, for each of `batch` matrices
 *   buffers        a, b, c
 *   params         tcc_sgemm_params
 *
 * Convolutions, f32, up to 3 spatial dimensions. A library may hold the weights in a layout of its own; it converts them in each
 * run, in the pool's shared scratch.
 * onednn.conv_forward          y = conv(x, w) [+ bias], then max(0, y) if `relu`; without bias, that buffer is any other again
 *   buffers                    x, w, bias, y
 * onednn.conv_data_gradient    dx = the gradient of conv with respect to x
 *   buffers                    dy, w, dx
 * onednn.conv_filter_gradient  dw = the gradient of conv with respect to w: partial sums over fixed slices of the batch, added in order
 *   buffers                    x, dy, dw
 *   params                     tcc_conv_params, for all three */
#ifndef TCC_RUNTIME_LIBRARY_H
#define TCC_RUNTIME_LIBRARY_H

#include "ir/support/context.h"
#include "pool.h"

/* The params of cblas.sgemm in order: an array of int64_t read as this struct. C is m x n, the sum runs over k. Leading
 * dimensions and batch strides count elements; a stride of 0 shares the operand between the matrices. */
typedef struct tcc_sgemm_params {
    int64_t batch, m, n, k;
    int64_t transpose_a, transpose_b; /* 1: A is stored k x m, B is stored n x k */
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c;
    int64_t accumulate; /* 1: add to C */
} tcc_sgemm_params;

/* The params of the convolutions in order. Absent spatial dimensions have size 1, kernel 1, stride 1, dilation 1 and padding 0, and
 * stand first: a 2-D convolution uses [1] and [2]. Strides count elements. */
typedef struct tcc_conv_params {
    int64_t batch, groups, in, out; /* channels, of all groups */
    int64_t x_size[3], y_size[3], kernel[3];
    int64_t stride[3], dilation[3], pad_low[3], pad_high[3];
    int64_t x_stride[5], y_stride[5]; /* batch, channel, spatial */
    int64_t w_stride[5];              /* out (groups follow each other), in, spatial */
    int64_t bias, relu;               /* forward: 0 or 1 */
} tcc_conv_params;

typedef struct tcc_libraries tcc_libraries;

typedef struct tcc_library_entry {
    const char *name; /* "cblas.sgemm" */
    int n_params, n_buffers;
    /* Prepare a call with these params for this pool, whose scratch it may enlarge; the pool must not be locked by the caller.
     * Errors: TCC_EUNSUPPORTED (the library refuses the shape), TCC_EFORMAT, TCC_ENOMEM. */
    tcc_status (*create)(const tcc_libraries *libraries, tcc_diag *d, tcc_pool *pool, const int64_t *params, void **call);
    void (*destroy)(void *call);
    /* The pool is locked. Errors: TCC_EDEVICE with the library's own words. */
    tcc_status (*run)(void *call, tcc_diag *d, tcc_pool *pool, void *const *buffers);
} tcc_library_entry;

/* Open what is there; a missing library is no error but logged (topic `library`). Errors: TCC_EINVAL for a malformed
 * TCC_LIBRARIES, TCC_ENOMEM. */
tcc_status tcc_libraries_open(tcc_context *cx, tcc_libraries **out);
void tcc_libraries_close(tcc_libraries *libraries); /* NULL is allowed */
/* The entry of that name; NULL if its library is missing or there is no such entry. */
const tcc_library_entry *tcc_libraries_find(const tcc_libraries *libraries, const char *name);
/* One line a library: version and file, or what is lost without it. */
void tcc_libraries_describe(const tcc_libraries *libraries, tcc_strbuf *out);

#endif
